"""Pydantic AI: an executor that runs an Agent. Importing it imports Pydantic AI.

Rules:
1. The history of a conversation is that of its completed turns, and of a turn that asks. A turn that fails or
   is cancelled leaves none.
2. A new turn gives results to the tool calls that an earlier turn left open: the framework rejects a prompt
   after open calls. A call that the caller has answered keeps its result, also if its turn fails.
3. The answer is the output of the run. Text of the model is held back if validators, output functions or
   hooks may change or reject it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

from pydantic_ai import (
    AgentRunResultEvent,
    AudioUrl,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    DocumentUrl,
    FunctionToolResultEvent,
    ImageUrl,
    NativeOutput,
    PartDeltaEvent,
    PartStartEvent,
    PromptedOutput,
    TextOutput,
    ToolApproved,
    ToolDenied,
    VideoUrl,
)
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import (
    FilePart,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    TextPartDelta,
    ToolReturnPart,
)

from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.card_members import members
from a2a_bridge_adapters.content import Answer, data_text, file_part, jsonable, media_type_of
from a2a_bridge_adapters.conversations import MOST, ConversationKey, Conversations
from a2a_bridge_adapters.executor import ConversationExecutor, awaited
from a2a_bridge_adapters.questions import (
    ABANDONED,
    DECISIONS,
    Approval,
    OpenCall,
    ask,
    decisions_of,
    interrupted,
)

#: methods of capabilities that may change the output
_HOOKS = frozenset(
    f"{when}_{what}"
    for when, what in product(
        ("before", "after", "wrap"), ("output_process", "output_validate", "model_request", "node_run", "run")
    )
    if when != "before" or what.startswith("output")
)

_URLS = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}


@dataclass(frozen=True, slots=True)
class _History:
    """A conversation between two turns. task_id: the task with the open calls."""

    messages: Sequence[Any] = ()
    task_id: str = ""
    open_calls: tuple[OpenCall, ...] = field(default=())


_NEW = _History()


class PydanticAgentExecutor(ConversationExecutor[_History]):
    """Runs an Agent of Pydantic AI.

    deps: makes the dependencies of the agent from a run; it may be a coroutine function. stream: see
    ConversationExecutor. allowed_decisions: what a caller may decide about a tool that needs an approval, see
    `questions.DECISIONS`. conversations: the histories that are kept. Raises TypeError for an object that is
    no Agent, ValueError for a decision that does not exist.
    """

    def __init__(
        self,
        agent: Any,
        *,
        deps: Callable[[Run], Any] | None = None,
        stream: bool | None = None,
        allowed_decisions: Collection[str] = DECISIONS,
        conversations: int = MOST,
    ) -> None:
        if not hasattr(agent, "run_stream_events"):
            raise TypeError(f"a {type(agent).__name__} is no Agent of Pydantic AI")
        super().__init__(Conversations(conversations), stream=stream)
        self._agent, self._deps = agent, deps
        self._decisions = decisions_of(allowed_decisions)
        #: False if the text of the model is the JSON of a structured output
        self._streams = not any(
            isinstance(one, (NativeOutput, PromptedOutput)) for one in _members(agent.output_type)
        )

    def read(self, run: Run) -> Any:
        contents = [content_of(part) for part in run.parts]
        if all(part.HasField("text") for part in run.parts):
            return run.text
        return contents[0] if len(contents) == 1 and isinstance(contents[0], str) else contents

    async def open_calls(self, key: ConversationKey, run: Run) -> Sequence[OpenCall]:
        history = self.conversations.get(key) or _NEW
        return history.open_calls if history.task_id == run.task_id else ()

    async def begin(
        self, key: ConversationKey, run: Run, answer: Answer, given: Any
    ) -> AsyncGenerator[Event, None]:
        messages = (self.conversations.get(key) or _NEW).messages
        denied = denials(messages)
        if denied:
            messages = [*messages, ModelRequest(parts=denied)]
            # Kept at once: the calls stay denied if this turn fails.
            self.conversations.keep(key, _History(messages))
        async with aclosing(self._work(key, run, answer, given, message_history=messages)) as events:
            async for event in events:
                yield event

    async def go_on(
        self, key: ConversationKey, run: Run, answer: Answer, given: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        history = self.conversations.get(key) or _NEW
        results = DeferredToolResults()
        known: dict[str, Any] = {}
        for call in history.open_calls:
            value = given[call.call_id]
            known[call.call_id] = interrupted(value)
            if isinstance(value, Approval):
                results.approvals[call.call_id] = _verdict(value)
            else:
                results.calls[call.call_id] = value
        # A turn that fails from here on may have run the tools: the answer counts once.
        self._keep_results(key, history.messages, known)
        options = {"message_history": history.messages, "deferred_tool_results": results}
        async with aclosing(self._work(key, run, answer, None, known, **options)) as events:
            async for event in events:
                yield event

    def _keep_results(self, key: ConversationKey, messages: Sequence[Any], known: Mapping[str, Any]) -> None:
        """Keeps a history whose open calls have results."""
        self.conversations.keep(key, _History([*messages, ModelRequest(parts=denials(messages, known))]))

    async def _work(
        self,
        key: ConversationKey,
        run: Run,
        answer: Answer,
        prompt: Any,
        known: dict[str, Any] | None = None,
        **options: Any,
    ) -> AsyncGenerator[Event, None]:
        """The events of one run of the agent, until it ends or asks.

        known: the results of the calls that an answer of the caller goes on with.
        """
        if self._deps is not None:
            options["deps"] = await awaited(self._deps(run))
        spoken, result = _Spoken(), None
        guarded = is_guarded(self._agent)
        async with self._agent.run_stream_events(prompt, **options) as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    result = event.result
                elif isinstance(event, FunctionToolResultEvent):
                    if known and event.part.tool_call_id in known:
                        known[event.part.tool_call_id] = event.part.content
                        self._keep_results(key, options["message_history"], known)
                    for part in _parts(event.part):
                        yield answer.part(part)
                else:
                    text = spoken.text(event)
                    if text and self._streams:
                        for chunk in answer.text(spoken.name, text, guarded=guarded):
                            yield chunk
                    if isinstance(event, PartStartEvent) and isinstance(event.part, FilePart):
                        yield answer.part(_file(event.part.content))
        if result is None:
            raise RuntimeError("the run of the agent ended without a result")
        output, messages = result.output, result.all_messages()
        if isinstance(output, DeferredToolRequests):
            calls = tuple(calls_of(output, self._decisions))
            self.conversations.keep(key, _History(messages, run.task_id, calls))
            yield ask(run, calls)
            return
        self.conversations.keep(key, _History(messages))
        contents = [] if output is None else [output]
        if isinstance(output, BinaryContent):
            contents = [] if any(output == one.content for one in _files(messages)) else [_file(output)]
        for event in answer.settle(*contents):
            yield event
        yield run.status(hub.TASK_STATE_COMPLETED)


class _Spoken:
    """The text of the newest response of the model."""

    def __init__(self) -> None:
        self._responses = 0

    @property
    def name(self) -> str:
        """The name of the response."""
        return str(self._responses)

    def text(self, event: Any) -> str:
        """The new text of an event; empty for an event of another kind."""
        if isinstance(event, PartStartEvent):
            self._responses += event.index == 0
            return event.part.content if isinstance(event.part, TextPart) else ""
        if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            return str(event.delta.content_delta)
        return ""


def is_guarded(agent: Any) -> bool:
    """True if validators, output functions or hooks may change or reject the text of the model."""
    while (inner := getattr(agent, "wrapped", None)) is not None:
        agent = inner
    outputs = _members(agent.output_type)
    if any(isinstance(one, TextOutput) or (callable(one) and not isinstance(one, type)) for one in outputs):
        return True
    capabilities: list[Any] = []
    root = getattr(agent, "root_capability", None)
    if root is not None:
        root.apply(capabilities.append)
    return bool(getattr(agent, "_output_validators", ())) or any(map(_changes_output, capabilities))


def _changes_output(capability: Any) -> bool:
    """True for a capability of a user with a hook that may change the output."""
    if isinstance(capability, Hooks):
        return not _HOOKS.isdisjoint(capability._registry)  # noqa: SLF001  nothing else names its hooks
    return any(not getattr(type(capability), name).__module__.startswith("pydantic_ai.") for name in _HOOKS)


def _members(output_type: Any) -> Sequence[Any]:
    return output_type if isinstance(output_type, (list, tuple)) else (output_type,)


def content_of(part: hub.Part) -> Any:
    """A part as content of a prompt."""
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return data_text(part)
    media_type = media_type_of(part)
    if part.HasField("raw"):
        return BinaryContent(part.raw, media_type=media_type, identifier=part.filename or None)
    return _URLS.get(media_type.partition("/")[0], DocumentUrl)(part.url, media_type=media_type)


def _file(content: Any) -> hub.Part:
    return file_part(content.data, content.media_type)


def _files(messages: Sequence[Any]) -> Iterator[Any]:
    """The files that the model has given in its newest response."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            yield from (part for part in message.parts if isinstance(part, FilePart))
            return


def _parts(returned: Any) -> Iterator[hub.Part]:
    """The Parts in the metadata of a result of a tool, which the model does not see."""
    metadata = getattr(returned, "metadata", None)
    for one in metadata if isinstance(metadata, (list, tuple)) else (metadata,):
        if isinstance(one, hub.Part):
            yield one


def calls_of(requests: Any, decisions: frozenset[str]) -> Iterator[OpenCall]:
    """The open calls of a run. decisions: what the caller may decide about tools."""
    for call in requests.approvals:
        arguments = jsonable(call.args_as_dict())
        yield OpenCall(call.tool_call_id, arguments, call.tool_name, approval=True, decisions=decisions)
    for call in requests.calls:
        question = requests.kind(call.tool_call_id) == "question"
        name = "" if question else call.tool_name
        yield OpenCall(call.tool_call_id, jsonable(call.args_as_dict()), name)


def _verdict(given: Approval) -> Any:
    if given.approved:
        return ToolApproved(override_args=None if given.arguments is None else dict(given.arguments))
    return ToolDenied(given.reason) if given.reason else ToolDenied()


def denials(messages: Sequence[Any], known: Mapping[str, Any] = MappingProxyType({})) -> list[Any]:
    """Results for the tool calls at the end of a history that have none. known: by the ids of calls."""
    done = set()
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            return [
                ToolReturnPart(
                    tool_name=part.tool_name,
                    content=known.get(part.tool_call_id, ABANDONED),
                    tool_call_id=part.tool_call_id,
                )
                for part in message.tool_calls
                if part.tool_call_id not in done
            ]
        done |= {
            part.tool_call_id for part in message.parts if isinstance(part, (ToolReturnPart, RetryPromptPart))
        }
    return []


def members_of(agent: Any) -> dict[str, Any]:
    """The members of a card that an agent has."""
    tools = [tool for one in getattr(agent, "toolsets", ()) for tool in getattr(one, "tools", {}).values()]
    return members(agent.name, description=getattr(agent, "description", None), tools=tools)


EXECUTOR = PydanticAgentExecutor
