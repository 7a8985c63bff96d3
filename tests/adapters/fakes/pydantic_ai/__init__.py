"""A stand-in for pydantic-ai 2.68: an agent with tools, whose model does what the newest message says.

It has the interface that the adapter uses, and its rules: the caller keeps the history, an open call needs
its result before the next prompt, a part's first text is in its start. `make frameworks` has the real
package.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.ext import hub
from pydantic_ai.capabilities import CombinedCapability
from pydantic_ai.messages import (
    FilePart,
    ModelRequest,
    ModelResponse,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from tests.frameworks.adapted.replies import Call, done, replies


class UserError(RuntimeError): ...


class NativeOutput: ...


class PromptedOutput: ...


@dataclass
class TextOutput:
    output_function: Any


@dataclass
class BinaryContent:
    data: bytes
    media_type: str
    identifier: str | None = None


@dataclass
class FileUrl:
    url: str
    media_type: str | None = None


class ImageUrl(FileUrl): ...


class AudioUrl(FileUrl): ...


class VideoUrl(FileUrl): ...


class DocumentUrl(FileUrl): ...


@dataclass
class ToolApproved:
    override_args: dict[str, Any] | None = None


@dataclass
class ToolDenied:
    message: str = "The tool call was denied."


@dataclass
class DeferredToolRequests:
    calls: list[Any] = field(default_factory=list)
    approvals: list[Any] = field(default_factory=list)

    def kind(self, tool_call_id: str) -> str:
        assert any(call.tool_call_id == tool_call_id for call in self.calls)
        return "question"


@dataclass
class DeferredToolResults:
    calls: dict[str, Any] = field(default_factory=dict)
    approvals: dict[str, Any] = field(default_factory=dict)


@dataclass
class PartStartEvent:
    index: int
    part: Any


@dataclass
class PartDeltaEvent:
    index: int
    delta: Any


@dataclass
class FunctionToolResultEvent:
    part: Any


@dataclass
class AgentRunResultEvent:
    result: Any


@dataclass
class AgentRunResult:
    output: Any
    messages: list[Any]

    def all_messages(self) -> list[Any]:
        return list(self.messages)


class Agent:
    __module__ = "pydantic_ai.agent"

    def __init__(self, *, output_type: Any = str, outputs: dict[str, Any] | None = None) -> None:
        self.name = "scripted"
        self.output_type = output_type
        self.outputs = outputs or {}
        self.deps: list[Any] = []
        self._output_validators: list[Any] = []
        self.root_capability = CombinedCapability()

    @asynccontextmanager
    async def run_stream_events(
        self,
        prompt: Any = None,
        *,
        message_history: Any = (),
        deferred_tool_results: DeferredToolResults | None = None,
        deps: Any = None,
    ) -> AsyncIterator[AsyncIterator[Any]]:
        self.deps.append(deps)
        events = self._events(list(message_history), prompt, deferred_tool_results)
        try:
            yield events
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    async def _events(
        self, history: list[Any], prompt: Any, results: DeferredToolResults | None
    ) -> AsyncIterator[Any]:
        open_calls = _open_calls(history)
        if results is not None:
            assert {*results.calls, *results.approvals} == {call.tool_call_id for call in open_calls}
            made = [_result(call, results) for call in open_calls]
            history.append(ModelRequest(made))
            for one in made:
                yield FunctionToolResultEvent(one)
        elif open_calls:
            raise UserError("a prompt after unprocessed tool calls")
        else:
            history.append(ModelRequest([UserPromptPart(prompt)]))
        while True:
            response = ModelResponse()
            async for part in self._said(history):
                if not isinstance(part, TextPart):
                    response.parts.append(part)
                    yield PartStartEvent(len(response.parts) - 1, part)
                elif not response.parts:
                    response.parts.append(TextPart(part.content))
                    yield PartStartEvent(0, part)
                else:
                    response.parts[0].content += part.content
                    yield PartDeltaEvent(0, TextPartDelta(part.content))
            history.append(response)
            calls = response.tool_calls
            if not calls:
                text = "".join(one.content for one in response.parts if isinstance(one, TextPart))
                yield AgentRunResultEvent(AgentRunResult(self.outputs.get(text, text), history))
                return
            if calls[0].tool_name == "report":
                made = ToolReturnPart("report", "written", calls[0].tool_call_id)
                made.metadata = hub.Part(raw=b"a,b\n", media_type="text/csv", filename="table.csv")
                yield FunctionToolResultEvent(made)
                history.append(ModelRequest([made]))
                continue
            asked = calls[0].tool_name == "question"
            requests = DeferredToolRequests(calls if asked else [], [] if asked else calls)
            yield AgentRunResultEvent(AgentRunResult(requests, history))
            return

    async def _said(self, history: list[Any]) -> AsyncIterator[Any]:
        newest = history[-1].parts
        prompt = next((part.content for part in newest if isinstance(part, UserPromptPart)), None)
        if prompt is None:
            yield TextPart(done((one.tool_name, one.content) for one in newest))
            return
        if not isinstance(prompt, str):
            for one in prompt:
                yield TextPart(f"image {one.media_type}" if isinstance(one, BinaryContent) else str(one))
            return
        if prompt == "picture":
            yield FilePart(BinaryContent(b"\x89PNG", "image/png"))
            return
        parts = [part for one in history if isinstance(one, ModelRequest) for part in one.parts]
        users = [part.content for part in parts if isinstance(part, UserPromptPart)]
        async for said in replies(prompt, users):
            if isinstance(said, Call):
                yield ToolCallPart(said.name, said.arguments, f"call-{said.arguments.get('path', '')}")
            else:
                yield TextPart(said)


def _open_calls(history: list[Any]) -> list[ToolCallPart]:
    if not history or not isinstance(history[-1], ModelResponse):
        return []
    return history[-1].tool_calls


def _result(call: ToolCallPart, results: DeferredToolResults) -> ToolReturnPart:
    made = ToolReturnPart(call.tool_name, "", call.tool_call_id)
    if call.tool_name == "question":
        made.content = results.calls[call.tool_call_id]
        return made
    match results.approvals[call.tool_call_id]:
        case ToolApproved(override_args):
            made.content = f"deleted {(override_args or call.args)['path']}"
        case ToolDenied(message):
            made.content = message
        case verdict:
            raise TypeError(verdict)
    return made
