"""An agent of Strands with an offline model, by StrandsA2AExecutor."""

import json
import uuid
from collections.abc import AsyncIterable
from typing import Any

from replies import Call, replies
from strands import Agent, tool
from strands.models import Model
from strands.multiagent.a2a.executor import StrandsA2AExecutor
from strands.types.tools import ToolContext

import a2a_bridge


@tool(context=True)
def delete(path: str, tool_context: ToolContext) -> str:
    """Deletes a file."""
    answer = tool_context.interrupt("delete", reason={"path": path})
    return f"deleted {path}" if answer in (True, "yes") else "denied"


@tool(context=True)
def question(text: str, tool_context: ToolContext) -> str:
    """Asks the user."""
    return f"got {tool_context.interrupt('question', reason=text)}"


@tool
def report() -> dict[str, Any]:
    """Makes a file."""
    document = {"format": "csv", "name": "table", "source": {"bytes": b"a,b\n"}}
    return {"status": "success", "content": [{"text": "written"}, {"document": document}]}


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
        calls = False
        async for said in self._said(messages):
            start: dict[str, Any] = {}
            delta: dict[str, Any] = {"text": said}
            if isinstance(said, Call):
                calls = True
                start = {"toolUse": {"toolUseId": uuid.uuid4().hex, "name": said.name}}
                delta = {"toolUse": {"input": json.dumps(said.arguments)}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

    async def _said(self, messages: Any) -> Any:
        newest = messages[-1]["content"]
        results = [one["toolResult"] for one in newest if "toolResult" in one]
        if results:
            yield "done: " + ", ".join(one["content"][0]["text"] for one in results)
            return
        if "image" in newest[0]:
            yield f"image image/{newest[0]['image']['format']}"
            return
        users = [
            one["text"].strip()
            for message in messages
            if message["role"] == "user"
            for one in message["content"]
            if "text" in one
        ]
        async for said in replies(users[-1], users):
            yield said


def made(_: str) -> Agent:
    """The agent of a context."""
    return Agent(name="scripted", model=Scripted(), tools=[delete, question, report], callback_handler=None)


executor = StrandsA2AExecutor(agent_factory=made, enable_a2a_compliant_streaming=True)
served = a2a_bridge.Agent(executor, name="scripted")
