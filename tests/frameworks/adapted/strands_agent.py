"""An agent of Strands with an offline model, for `a2a-bridge serve strands_agent.py:served`."""

import json
import uuid
from collections.abc import AsyncIterable
from typing import Any

from replies import done, replies
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.models import Model
from strands.types.tools import ToolContext


@tool
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


@tool(context=True)
def question(text: str, tool_context: ToolContext) -> str:
    """Asks the user."""
    return str(tool_context.interrupt("question", reason=text))


@tool
def report() -> dict[str, Any]:
    """Makes a file."""
    document = {"format": "csv", "name": "table", "source": {"bytes": b"a,b\n"}}
    return {"status": "success", "content": [{"text": "written"}, {"document": document}]}


def approve(event: BeforeToolCallEvent) -> None:
    """Asks before a file is deleted."""
    if event.tool_use["name"] == "delete" and event.interrupt("approval").lower() != "y":
        event.cancel_tool = "denied"


class Scripted(Model):
    """Does what the newest message says."""

    def update_config(self, **_: Any) -> None:
        """There is no configuration."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this model writes text only")

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterable[dict[str, Any]]:
        yield {"messageStart": {"role": "assistant"}}
        calls, speaks = False, False
        async for said in self._said(messages):
            if isinstance(said, str):
                if not speaks:
                    yield {"contentBlockStart": {"start": {}}}
                speaks = True
                yield {"contentBlockDelta": {"delta": {"text": said}}}
                continue
            calls = True
            start = {"toolUse": {"toolUseId": uuid.uuid4().hex, "name": said.name}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(said.arguments)}}}}
            yield {"contentBlockStop": {}}
        if speaks:
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

    async def _said(self, messages: Any) -> Any:
        newest = messages[-1]["content"]
        names = {
            block["toolUse"]["toolUseId"]: block["toolUse"]["name"]
            for message in messages
            for block in message["content"]
            if "toolUse" in block
        }
        results = [one["toolResult"] for one in newest if "toolResult" in one]
        answered = {
            one["toolResult"]["toolUseId"]
            for each in messages
            for one in each["content"]
            if "toolResult" in one
        }
        assert names.keys() == answered, "a call without a result"  # as real models do
        if results and len(results) == len(newest):
            yield done((names[one["toolUseId"]], one["content"][0]["text"]) for one in results)
            return
        if "image" in newest[-1]:
            yield f"image image/{newest[-1]['image']['format']}"
            return
        users = [
            one["text"]
            for message in messages
            if message["role"] == "user"
            for one in message["content"]
            if "text" in one
        ]
        async for said in replies(users[-1], users):
            yield said


served = Agent(
    name="scripted",
    model=Scripted(),
    tools=[delete, question, report],
    hooks=[approve],
    callback_handler=None,
)
