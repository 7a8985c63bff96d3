"""An agent of Google ADK with an offline model, for `a2a-bridge serve google_adk.py:root_agent`."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import LongRunningFunctionTool, ToolContext
from google.genai import types


def delete(path: str, tool_context: ToolContext) -> str:
    """Deletes a file. The caller may name another one."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(hint="Files are gone for good.", payload={"path": path})
        tool_context.actions.skip_summarization = True
        return "asked"
    return f"deleted {confirmation.payload['path']}" if confirmation.confirmed else "denied"


def question() -> None:
    """Asks the user; the answer is its result."""


async def report(tool_context: ToolContext) -> str:
    """Makes a file."""
    made = types.Part.from_bytes(data=b"a,b\n", mime_type="text/csv")
    await tool_context.save_artifact("table.csv", made)
    return "written"


def call(name: str, **arguments: Any) -> types.Part:
    return types.Part.from_function_call(name=name, args=arguments)


class Scripted(BaseLlm):
    """Does what the newest message says."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        assert stream
        _check(llm_request.contents)
        parts: list[types.Part] = []
        text = ""
        async for said in self._said(llm_request.contents):
            if isinstance(said, str):
                text += said
                content = types.Content(role="model", parts=[types.Part(text=said)])
                yield LlmResponse(content=content, partial=True)
            else:
                parts.append(said)
        if text:
            parts.insert(0, types.Part(text=text))
        yield LlmResponse(content=types.Content(role="model", parts=parts), partial=False)

    async def _said(self, contents: list[types.Content]) -> AsyncGenerator[str | types.Part, None]:
        last = contents[-1].parts or []
        if done := [part.function_response for part in last if part.function_response]:
            yield "done: " + ", ".join(
                f"{'got ' if one.name == 'question' else ''}{(one.response or {}).get('result')}"
                for one in done
            )
            return
        blob = next((part.inline_data for part in last if part.inline_data), None)
        if blob is not None:
            yield f"image {blob.mime_type}"
            return
        match "".join(part.text or "" for part in last):
            case "chunks":
                for word in ("one ", "two ", "three"):
                    yield word
            case "recall":
                parts = [part for one in contents if one.role == "user" for part in one.parts or []]
                yield ",".join(part.text for part in parts if part.text)
            case "slow":
                yield "begun"
                await asyncio.Event().wait()
            case "crash":
                raise RuntimeError("a secret of the framework")
            case "approve":
                yield call("delete", path="x")
            case "both":
                yield call("delete", path="x")
                yield call("delete", path="y")
            case "question":
                yield call("question")
            case "file":
                yield call("report")
            case text:
                yield f"data {text}" if text.startswith("{") else f"heard {text}"


def _check(contents: list[types.Content]) -> None:
    """As real models do: each call has a result at once after it."""
    for one, following in zip(contents, [*contents[1:], types.Content()], strict=True):
        calls = [part.function_call.name for part in one.parts or [] if part.function_call]
        results = [part.function_response.name for part in following.parts or [] if part.function_response]
        assert calls == results, f"{calls} got {results}"


root_agent = LlmAgent(
    name="scripted",
    model=Scripted(model="scripted"),
    tools=[delete, LongRunningFunctionTool(question), report],
)
