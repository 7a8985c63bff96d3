"""An agent of Google ADK with an offline model, for `a2a-bridge serve google_adk.py:root_agent`."""

from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import LongRunningFunctionTool, ToolContext
from google.genai import types
from replies import Call, done, replies


def delete(path: str, tool_context: ToolContext) -> str:
    """Deletes a file. The caller may name another one."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(hint="Files are gone for good.", payload={"path": path})
        tool_context.actions.skip_summarization = True
        return "asked"
    return f"deleted {confirmation.payload['path']}" if confirmation.confirmed else "denied"


def question(text: str) -> None:
    """Asks the user; the answer is its result."""


async def report(tool_context: ToolContext) -> str:
    """Makes a file."""
    made = types.Part.from_bytes(data=b"a,b\n", mime_type="text/csv")
    await tool_context.save_artifact("table.csv", made)
    return "written"


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
                parts.append(types.Part.from_function_call(name=said.name, args=said.arguments))
        if text:
            parts.insert(0, types.Part(text=text))
        yield LlmResponse(content=types.Content(role="model", parts=parts), partial=False)

    async def _said(self, contents: list[types.Content]) -> AsyncGenerator[str | Call, None]:
        last = contents[-1].parts or []
        if results := [part.function_response for part in last if part.function_response]:
            yield done((str(one.name), (one.response or {}).get("result")) for one in results)
            return
        blob = next((part.inline_data for part in last if part.inline_data), None)
        if blob is not None:
            yield f"image {blob.mime_type}"
            return
        users = [part.text for one in contents if one.role == "user" for part in one.parts or [] if part.text]
        async for said in replies("".join(part.text or "" for part in last), users):
            yield said


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
