"""The OpenAI Agents SDK: an executor that runs an Agent. Importing it imports that SDK.

Rules:
1. The history of a conversation is that of its completed turns, and of a turn that asks. A turn that fails or
   is cancelled leaves none. The agent that spoke last, after a handoff, gets the next turn.
2. A new turn gives results to the tool calls that an earlier turn left open: models reject a history with
   open calls. A call that the caller has answered keeps its result, also if its turn fails.
3. The answer is the final output of the run. Text is held back while guardrails may stop it.
4. The SDK compares an approved call with the call that the model made. Therefore an approval with other
   arguments is refused.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import Context, ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agents import (
    AgentOutputSchemaBase,
    AgentUpdatedStreamEvent,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    RawResponsesStreamEvent,
    RunConfig,
    Runner,
    RunState,
    ToolCallOutputItem,
)

from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.card_members import members
from a2a_bridge_adapters.content import Answer, data_text, file_part, media_type_of, url_part
from a2a_bridge_adapters.conversations import MOST, ConversationKey, Conversations
from a2a_bridge_adapters.executor import ConversationExecutor, awaited
from a2a_bridge_adapters.questions import ABANDONED, DECISIONS, Approval, OpenCall, ask, interrupted

Item = dict[str, Any]

#: in the context of all tasks of a run: the run
_MARK: ContextVar[object] = ContextVar("a2a_bridge_run", default=None)

#: the text for a message that a guardrail stops
REJECTED = "A guardrail of the agent rejected the message."

#: audio as the SDK names it
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3"}


@dataclass(frozen=True, slots=True)
class _History:
    """A conversation between two turns. agent: the agent that spoke last.

    state: the run that waits for the open calls of a task; None if there are none.
    """

    agent: Any
    items: Sequence[Any] = ()
    task_id: str = ""
    open_calls: tuple[OpenCall, ...] = ()
    state: Any = None


class OpenAIAgentExecutor(ConversationExecutor[_History]):
    """Runs an Agent of the OpenAI Agents SDK.

    context: makes the context of the tools from a run; it may be a coroutine function. questions: the names
    of tools that ask the caller. They have `needs_approval=True`; the answer of the caller is their result,
    and their functions are not called. run_config, max_turns: those of Runner; None for its own. stream: see
    ConversationExecutor. conversations: the histories that are kept. Raises TypeError for an object that is
    no Agent.
    """

    def __init__(
        self,
        agent: Any,
        *,
        context: Callable[[Run], Any] | None = None,
        questions: Collection[str] = (),
        run_config: RunConfig | None = None,
        max_turns: int | None = None,
        stream: bool | None = None,
        conversations: int = MOST,
    ) -> None:
        if not hasattr(agent, "handoffs") or not hasattr(agent, "output_type"):
            raise TypeError(f"a {type(agent).__name__} is no Agent of the OpenAI Agents SDK")
        super().__init__(Conversations(conversations), stream=stream)
        self._agent, self._context = agent, context
        self._questions = frozenset({questions} if isinstance(questions, str) else questions)
        self._options: dict[str, Any] = {"run_config": run_config}
        if max_turns is not None:
            self._options["max_turns"] = max_turns

    def read(self, run: Run) -> Any:
        if all(part.HasField("text") for part in run.parts):
            return run.text
        contents = [content_of(part) for part in run.parts]
        texts = [one["text"] for one in contents if one["type"] == "input_text"]
        return texts[0] if len(contents) == len(texts) == 1 else contents

    async def open_calls(self, key: ConversationKey, run: Run) -> Sequence[OpenCall]:
        history = self._history(key)
        return history.open_calls if history.task_id == run.task_id else ()

    async def begin(
        self, key: ConversationKey, run: Run, answer: Answer, given: Any
    ) -> AsyncGenerator[Event, None]:
        history = self._history(key)
        if history.state is not None:
            # Kept at once: the calls stay denied if this turn fails.
            history = _History(history.agent, [*history.items, *denials(history.items)])
            self.conversations.keep(key, history)
        items = [*history.items, {"role": "user", "content": given}]
        async with aclosing(self._work(key, run, answer, history.agent, items)) as events:
            async for event in events:
                yield event

    async def go_on(
        self, key: ConversationKey, run: Run, answer: Answer, given: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        history = self._history(key)
        state: RunState[Any, Any] = history.state
        for item in state.get_interruptions():
            value = given[_call_id(item)]
            match value:
                case Approval(approved=True):
                    state.approve(item)
                case Approval(reason=reason):
                    state.reject(item, rejection_message=reason or None)
                case _:
                    state.reject(item, rejection_message=_text(value))
        known = {call_id: _text(interrupted(value)) for call_id, value in given.items()}
        came: list[Any] = []
        try:
            async with aclosing(self._work(key, run, answer, history.agent, state, came)) as events:
                async for event in events:
                    yield event
        finally:
            if self._history(key) is history:
                # It failed, and may have run the tools: the answer counts once, and so do their results.
                known |= {one["call_id"]: one for one in came if one.get("call_id") in known}
                items = [*history.items, *denials(history.items, known)]
                self.conversations.keep(key, _History(history.agent, items))

    def _history(self, key: ConversationKey) -> _History:
        return self.conversations.get(key) or _History(self._agent)

    async def _work(
        self, key: ConversationKey, run: Run, answer: Answer, agent: Any, given: Any, came: Any = None
    ) -> AsyncGenerator[Event, None]:
        """The events of one run of the agent, until it ends or asks. came: gets the results of tools."""
        context = None if self._context is None else await awaited(self._context(run))
        mark = object()
        token = _MARK.set(mark)
        result = Runner.run_streamed(agent, given, context=context, **self._options)
        _MARK.reset(token)
        spoken, guards, ended = _Spoken(agent), _Guards(agent, self._options["run_config"]), False
        try:
            async for event in result.stream_events():
                if text := spoken.text(event):
                    for chunk in answer.text(
                        spoken.name(event), text, guarded=guards.pending(spoken.agent, result)
                    ):
                        yield chunk
                for part in _files_of(event):
                    yield answer.part(part)
            ended = True
        except (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered):
            for event in answer.settle():
                yield event
            yield run.status(hub.TASK_STATE_REJECTED, REJECTED)
            return
        finally:
            if came is not None:
                results = (one for one in result.new_items if isinstance(one, ToolCallOutputItem))
                came += [one.to_input_item() for one in results]
            # The run is a task of its own, which must have ended before the next turn begins.
            if not ended:
                result.cancel()
            if result.run_loop_task is not None:
                await asyncio.wait([result.run_loop_task])
            if not ended:
                await _cancelled_tools(mark)
        items, agent = result.to_input_list(), result.last_agent
        if result.interruptions:
            calls = tuple(self._calls_of(result.interruptions))
            self.conversations.keep(key, _History(agent, items, run.task_id, calls, result.to_state()))
            yield ask(run, calls)
            return
        self.conversations.keep(key, _History(agent, items))
        output = result.final_output
        for event in answer.settle(*([] if output is None else [output])):
            yield event
        yield run.status(hub.TASK_STATE_COMPLETED)

    def _calls_of(self, interruptions: Sequence[Any]) -> Iterator[OpenCall]:
        for item in interruptions:
            name, value = item.name or "", _arguments(item)
            if name in self._questions:
                yield OpenCall(_call_id(item), _question(value))
            else:
                only = DECISIONS - {"edit"}
                yield OpenCall(_call_id(item), value, name or "a tool", approval=True, decisions=only)


async def _cancelled_tools(mark: object) -> None:
    """Waits for the tools of a run that were cancelled: the run itself does not wait for their end.

    Only for cancelled tasks: a tool may have begun others that outlive it, such as those of a pool.
    """
    while waiting := [
        one for one in asyncio.all_tasks() if one.cancelling() and _context_of(one).get(_MARK) is mark
    ]:
        await asyncio.wait(waiting)
        await asyncio.sleep(0)  # the end of one task is the reason to cancel another one


def _context_of(task: asyncio.Task[Any]) -> Context:
    if sys.version_info >= (3, 12):
        return task.get_context()
    # A task of 3.11 does not tell its context, but refers to it until its end.
    return next((one for one in gc.get_referents(task) if isinstance(one, Context)), Context())


class _Spoken:
    """The text of the models of a run, as it streams.

    agent: the one that speaks. Text is not told while it has a structured output: it is the JSON of that.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self._responses = 0

    def name(self, event: Any) -> str:
        """The name of the message of an event with text."""
        return f"{self._responses} {event.data.output_index}"

    def text(self, event: Any) -> str:
        """The new text of an event."""
        if isinstance(event, AgentUpdatedStreamEvent):
            self.agent = event.new_agent
        if not isinstance(event, RawResponsesStreamEvent):
            return ""
        self._responses += event.data.type == "response.completed"
        if event.data.type != "response.output_text.delta" or not _is_text(self.agent):
            return ""
        return str(event.data.delta)


class _Guards:
    """The guardrails of a run."""

    def __init__(self, agent: Any, run_config: Any) -> None:
        self._config = run_config
        self._inputs = len(self._of(agent, "input_guardrails"))

    def pending(self, agent: Any, result: Any) -> bool:
        """True if a guardrail may still stop the text: those of the input run beside the model."""
        return bool(
            self._of(agent, "output_guardrails") or len(result.input_guardrail_results) < self._inputs
        )

    def _of(self, agent: Any, kind: str) -> list[Any]:
        return [*getattr(agent, kind, ()), *(getattr(self._config, kind, None) or ())]


def _is_text(agent: Any) -> bool:
    """True if the output of an agent is text."""
    kind = agent.output_type
    return kind in (None, str) or (isinstance(kind, AgentOutputSchemaBase) and kind.is_plain_text())


def content_of(part: hub.Part) -> Item:
    """A part as content of a message of the user."""
    match part.WhichOneof("content"):
        case "text":
            return {"type": "input_text", "text": part.text}
        case "data":
            return {"type": "input_text", "text": data_text(part)}
    media_type = media_type_of(part)
    if part.HasField("url"):
        url = part.url
    elif media_type in _AUDIO:
        audio = {"data": base64.b64encode(part.raw).decode(), "format": _AUDIO[media_type]}
        return {"type": "input_audio", "input_audio": audio}
    else:
        url = f"data:{media_type};base64,{base64.b64encode(part.raw).decode()}"
    if media_type.startswith("image/"):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    made = {"type": "input_file", "file_url" if part.HasField("url") else "file_data": url}
    return {**made, "filename": part.filename} if part.filename else made


def _files_of(event: Any) -> Iterator[hub.Part]:
    """The files and images in the output of a tool, and the images of the model."""
    item = getattr(event, "item", None)
    if isinstance(item, ToolCallOutputItem):
        output = item.output
        for one in output if isinstance(output, (list, tuple)) else (output,):
            part = file_of(one.model_dump() if hasattr(one, "model_dump") else one)
            if part is not None:
                yield part
        return
    made = getattr(item, "raw_item", None)
    if getattr(made, "type", "") == "image_generation_call" and (encoded := getattr(made, "result", None)):
        yield file_part(base64.b64decode(encoded), "image/png")


def file_of(output: Any) -> hub.Part | None:
    """An output of a tool as a part; None if it is no image and no file."""
    if not isinstance(output, dict):
        return None
    match output.get("type"):
        case "image":
            place = output.get("image_url")
        case "file":
            place = output.get("file_data") or output.get("file_url")
            if not place and output.get("file_data") is not None:
                place = "data:;base64,"  # an empty file
        case _:
            return None
    if not isinstance(place, str) or not place:
        return None  # it is a file id of the provider
    made = url_part(place, filename=str(output.get("filename") or ""))
    if made.url and made.url == output.get("file_data"):
        made.raw = base64.b64decode(place)
    made.media_type = media_type_of(made)
    return made


def denials(items: Sequence[Any], known: Mapping[str, Any] = MappingProxyType({})) -> list[Item]:
    """Results for the calls of a history that have none. known: texts and results by the ids of calls."""
    done = {one.get("call_id") or one.get("approval_request_id") for one in items if _is_result(one)}
    made: list[Item] = []
    for one in items:
        call_id = one.get("call_id") or one.get("id")
        if call_id in done:
            continue
        told = known.get(call_id, ABANDONED)
        if isinstance(told, dict):
            made.append(told)
            continue
        match one.get("type"):
            case "function_call" | "custom_tool_call" as kind:
                made.append({"type": f"{kind}_output", "call_id": call_id, "output": told})
            case "apply_patch_call":
                failed = {"status": "failed", "output": told}
                made.append({"type": "apply_patch_call_output", "call_id": call_id, **failed})
            case "shell_call":
                ended = {"stdout": "", "stderr": told, "outcome": {"type": "exit", "exit_code": 1}}
                made.append({"type": "shell_call_output", "call_id": call_id, "output": [ended]})
            case "mcp_approval_request":
                verdict = {"approval_request_id": call_id, "approve": False, "reason": told}
                made.append({"type": "mcp_approval_response", **verdict})
    return made


def _is_result(item: Mapping[str, Any]) -> bool:
    return str(item.get("type", "")).endswith(("_call_output", "_approval_response"))


def _call_id(item: Any) -> str:
    return str(item.call_id)


def _arguments(item: Any) -> Any:
    """The arguments of a call: JSON, or the text of the model if that is none."""
    text = item.arguments or "{}"
    try:
        return json.loads(text)
    except ValueError:
        return text


def _question(arguments: Any) -> Any:
    """The question in the arguments of a tool: the only argument, or all of them."""
    if isinstance(arguments, dict) and len(arguments) == 1:
        return next(iter(arguments.values()))
    return arguments


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def members_of(agent: Any) -> dict[str, Any]:
    """The members of a card that an agent has."""
    return members(
        agent.name,
        description=agent.handoff_description,
        instructions=getattr(agent, "instructions", ""),
        tools=getattr(agent, "tools", ()),
    )


EXECUTOR = OpenAIAgentExecutor
