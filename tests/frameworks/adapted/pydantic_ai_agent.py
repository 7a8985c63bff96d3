"""An agent of Pydantic AI with an offline model, for `a2a-bridge serve pydantic_ai_agent.py:agent`."""

import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent, BinaryContent, CallDeferred, DeferredToolRequests, ToolReturn
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from replies import done, replies

from a2a_bridge.ext import hub


def prompts(messages: list[ModelMessage]) -> list[Any]:
    return [
        part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


async def said(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    """Does what the newest message says."""
    newest = messages[-1].parts
    prompt = next((part.content for part in newest if isinstance(part, UserPromptPart)), None)
    if prompt is None:
        yield done((part.tool_name, part.content) for part in newest if isinstance(part, ToolReturnPart))
        return
    if not isinstance(prompt, str):
        for one in prompt:
            if isinstance(one, BinaryContent):
                yield f"image {one.media_type}"
        return
    place = 0
    async for one in replies(prompt, [str(one) for one in prompts(messages)]):
        if isinstance(one, str):
            yield one
        else:
            call = DeltaToolCall(one.name, json.dumps(one.arguments), tool_call_id=f"call-{place}")
            yield {place: call}
            place += 1


agent = Agent(FunctionModel(stream_function=said), name="scripted", output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


@agent.tool_plain
def question(text: str) -> str:
    """Asks the user."""
    raise CallDeferred(kind="question")


@agent.tool_plain
def report() -> ToolReturn:
    """Makes a file."""
    return ToolReturn("written", metadata=hub.Part(raw=b"a,b\n", media_type="text/csv", filename="table.csv"))
