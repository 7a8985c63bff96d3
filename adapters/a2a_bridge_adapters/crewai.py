"""CrewAI: an executor that runs a Crew or a Flow. Importing it imports CrewAI.

Rules:
1. Each turn runs a copy of the crew, or a new flow with a copy of the state of the conversation. A turn
   changes the history when it asks and when it is done: one that fails or is cancelled leaves nothing since
   its last question. With a persistence, the state of a flow is there instead.
2. A turn has a thread with an event loop of its own: crews and flows block, also in `async` methods.
3. `human_input` of a task, `ask` and `human_feedback` of a flow are questions, and the turn waits for their
   answers.
4. A caller sets no input but those that the tasks name: other inputs are the state of a flow.
5. The answer is the output of the crew or the flow: its model, its JSON, or its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from crewai import Crew, Flow
from crewai.core.providers.human_input import set_provider
from crewai.events.utils.console_formatter import set_suppress_console_output
from crewai.flow.async_feedback import ConsoleProvider, HumanFeedbackPending
from crewai.flow.flow_config import flow_config
from crewai.hooks import get_after_llm_call_hooks

from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.hosting.executor import Run
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.card_members import members
from a2a_bridge_adapters.content import data_text, is_parts, json_of, json_text, jsonable
from a2a_bridge_adapters.conversations import MOST, ConversationKey, Conversations
from a2a_bridge_adapters.executor import awaited
from a2a_bridge_adapters.live_turns import AbandonedError, LiveTurn, LiveTurnExecutor, Said
from a2a_bridge_adapters.own_loop import in_own_loop
from a2a_bridge_adapters.questions import OpenCall, is_yes

#: the inputs that each turn has: the text of the message, and the turns before it
MESSAGE, HISTORY = "message", "history"

_FEEDBACK = "Answer yes if this is right, or else with what to change."


@dataclass(frozen=True, slots=True)
class _History:
    """A conversation between two turns. said: of a crew. state: of a flow."""

    said: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Caller:
    """The way from the thread of a turn to its caller.

    keep: keeps the history of the conversation, in the loop. history: a copy of it as it is now.
    """

    turn: LiveTurn
    loop: asyncio.AbstractEventLoop
    keep: Callable[[_History], None]
    history: Callable[[], _History]

    def tell(self, output: Said) -> None:
        """Streams text."""
        self.loop.call_soon_threadsafe(self.turn.tell, output)

    def ask(self, question: str, result: Any = None, **more: Any) -> str:
        """The answer as text. result: what the question is about, before the question in its text.

        It blocks. Raises asyncio.CancelledError, which flows do not catch, if nobody will answer.
        """
        if result is not None:
            told = jsonable(result)
            question = f"{json_text(told)}\n\n{question}"
            more["result"] = told
        call = OpenCall(new_id(), {"question": question, **jsonable(more)})
        asking = self._asking(call, self.history())
        try:
            given = asyncio.run_coroutine_threadsafe(asking, self.loop).result()
        except (AbandonedError, CancelledError):
            raise asyncio.CancelledError from None
        except RuntimeError:  # the loop is closed
            asking.close()
            raise asyncio.CancelledError from None
        return given if isinstance(given, str) else str(given)

    async def _asking(self, call: OpenCall, now: _History) -> Any:
        """The answer. A turn that was cancelled, and runs on, keeps no history: a newer one may have."""
        if not self.turn.abandoned:
            self.keep(now)
        return await self.turn.ask(call)


#: in the context of a turn
_CALLER: ContextVar[_Caller | None] = ContextVar("a2a_bridge_caller", default=None)


class CrewAIExecutor(LiveTurnExecutor[_History]):
    """Runs a Crew or a Flow.

    inputs: makes the inputs of a turn from its run; it may be a coroutine function. flow_factory: makes the
    flow of a turn; without it that is another object of its class, with the same fields. stream: True to tell
    the text of the models of a flow; see ConversationExecutor. conversations: those that are kept. Raises
    TypeError for another object, and for a flow that needs a factory.
    """

    def __init__(
        self,
        thing: Any,
        *,
        inputs: Callable[[Run], Any] | None = None,
        flow_factory: Callable[[], Any] | None = None,
        stream: bool | None = None,
        conversations: int = MOST,
    ) -> None:
        super().__init__(Conversations(conversations), stream=stream)
        self._crew: Crew | None = None
        if isinstance(thing, Flow):
            self._make = flow_factory or _again(thing)
        elif isinstance(thing, Crew):
            self._crew = thing
        else:
            raise TypeError(f"a {type(thing).__name__} cannot be served: give a Crew or a Flow")
        self._inputs = inputs
        self._names = frozenset() if self._crew is None else names_of(self._crew)
        # CrewAI finds who is asked here, also for flows within flows.
        flow_config.input_provider = flow_config.input_provider or _ASKS
        flow_config.hitl_provider = flow_config.hitl_provider or _ASKS

    async def read(self, run: Run) -> dict[str, Any]:
        if self._inputs is not None:
            found = dict(await awaited(self._inputs(run)))
        else:
            found = inputs_of(run.parts, self._names)
        if missing := self._names - found.keys():
            raise invalid_params(
                "message.parts", f"the agent needs {', '.join(sorted(missing))}: send them as members of data"
            )
        return found

    async def work(self, key: ConversationKey, run: Run, given: Any, turn: LiveTurn) -> Sequence[Any]:
        history = self.conversations.get(key) or _History()
        heard = _History((*history.said, f"User: {run.text}"))
        loop = asyncio.get_running_loop()
        caller = _Caller(turn, loop, lambda now: self.conversations.keep(key, now), lambda: heard)
        if self._crew is not None:
            inputs = {HISTORY: "\n".join(history.said), **given}
            output = await in_own_loop(lambda: _crew(self._crew, inputs, caller))
            left = _History((*heard.said, f"Agent: {output.raw}"))
        else:
            inputs = {**deepcopy(history.state), **given}
            output, left = await in_own_loop(lambda: _flow(self._make, key, inputs, caller))
        self.conversations.keep(key, left)
        return contents_of(output)


def _begin(caller: _Caller) -> None:
    """Sets the context of a turn: who is asked, and that nothing is printed on the stdout of the server."""
    _CALLER.set(caller)
    set_provider(_ASKS)
    set_suppress_console_output(True)


async def _crew(crew: Any, inputs: dict[str, Any], caller: _Caller) -> Any:
    """Runs a copy of a crew: its output."""
    _begin(caller)
    copy = crew.copy()
    copy.stream = True
    last, alone = copy.tasks[-1], len(copy.tasks) == 1
    told = last.output_json is None and last.output_pydantic is None
    guarded = is_guarded(copy)
    async with await copy.akickoff(inputs=inputs) as stream:
        async for chunk in stream:
            if told and chunk.chunk_type.value == "text" and (alone or chunk.task_id == str(last.id)):
                caller.tell(Said(chunk.task_id, chunk.content, guarded))
    return stream.result


async def _flow(
    make: Callable[[], Any], key: ConversationKey, inputs: dict[str, Any], caller: _Caller
) -> tuple[Any, _History]:
    """Runs a new flow: its output, and its state."""
    _begin(caller)
    flow = make()
    caller.history = lambda: _History(state=_state_of(flow))
    # The id is that of the state in a persistence: none of the caller counts.
    async with flow.astream(inputs={**inputs, "id": key.digest}) as stream:
        async for frame in stream:
            if frame.type == "llm_stream_chunk" and frame.content:
                # Any model of a flow may speak, and only the flow knows whether that is its answer.
                message = frame.data.get("response_id") or frame.data.get("call_id")
                caller.tell(Said(str(message), frame.content, guarded=True))
    if isinstance(stream.result, HumanFeedbackPending):
        raise RuntimeError("a provider of the flow has paused it: the caller is asked without a provider")  # noqa: TRY004
    return stream.result, caller.history()


def _state_of(flow: Any) -> Mapping[str, Any]:
    """A copy of the state of a flow that has no persistence; else it finds the state there."""
    if flow.persistence is not None:
        return {}
    return deepcopy(flow.state if isinstance(flow.state, dict) else flow.state.model_dump())


class _Asks:
    """The provider of all questions: asks the caller of the turn, and the console outside of one."""

    def request_input(self, message: str, flow: Any, metadata: dict[str, Any] | None = None) -> Any:
        """The answer to `ask` of a flow."""
        caller = _CALLER.get()
        if caller is None:
            return ConsoleProvider().request_input(message, flow, metadata)
        return caller.ask(message)

    def request_feedback(self, context: Any, flow: Any) -> Any:
        """The feedback to a method with `human_feedback`."""
        caller = _CALLER.get()
        if caller is None:
            return ConsoleProvider().request_feedback(context, flow)
        more = {"outcomes": context.emit} if context.emit else {}
        return caller.ask(context.message, context.method_output, **more)

    # The four functions of a HumanInputProvider, for tasks with `human_input`.

    def setup_messages(self, context: Any) -> bool:  # noqa: ARG002  the interface of CrewAI
        """False: the messages are those of CrewAI."""
        return False

    def post_setup_messages(self, context: Any) -> None:
        """Nothing."""

    def handle_feedback(self, formatted_answer: Any, context: Any) -> Any:
        """The answer with which the caller is content, of a crew that runs in a thread."""
        answer = formatted_answer
        while (feedback := _feedback(answer)) is not None:
            context.messages.append(context._format_feedback_message(feedback))  # noqa: SLF001  of the interface
            answer = context._invoke_loop()  # noqa: SLF001  of the interface
        context.ask_for_human_input = False
        return answer

    async def handle_feedback_async(self, formatted_answer: Any, context: Any) -> Any:
        """The answer with which the caller is content."""
        answer = formatted_answer
        while (feedback := await asyncio.to_thread(_feedback, answer)) is not None:
            context.messages.append(context._format_feedback_message(feedback))  # noqa: SLF001  of the interface
            answer = await context._ainvoke_loop()  # noqa: SLF001  of the interface
        context.ask_for_human_input = False
        return answer


_ASKS = _Asks()


def _feedback(answer: Any) -> str | None:
    """What the caller wants changed; None if nothing."""
    caller = _CALLER.get()
    if caller is None:
        raise RuntimeError("a task with human_input has no caller")
    given = caller.ask(_FEEDBACK, answer.output)
    return None if not given.strip() or is_yes(given) else given


def _again(flow: Any) -> Callable[[], Any]:
    """A function that makes objects like a flow. Raises TypeError if its class cannot be called that way."""
    fields = {name: getattr(flow, name) for name in flow.model_fields_set}

    def make() -> Any:
        # CrewAI copies the outermost level of the state only. The memory is not copied: it has a database.
        own = {name: deepcopy(one) if name == "initial_state" else one for name, one in fields.items()}
        return type(flow)(**own)

    try:
        make()
    except Exception as error:
        raise TypeError(
            f"each turn needs a {type(flow).__name__} of its own: give flow_factory=, which makes one"
        ) from error
    return make


def is_guarded(crew: Any) -> bool:
    """True if the text of the last task may still be rejected or changed."""
    last = crew.tasks[-1]
    checks = (last.guardrail, last.guardrails, last.human_input, crew.after_kickoff_callbacks)
    return any(checks) or bool(get_after_llm_call_hooks())


def names_of(crew: Any) -> frozenset[str]:
    """The inputs that the tasks and agents of a crew name, and callers may set."""
    return frozenset(name for name in crew.fetch_inputs() if name.isidentifier() and name != HISTORY)


def inputs_of(parts: Sequence[hub.Part], names: frozenset[str]) -> dict[str, Any]:
    """The inputs of a message. names: those that members of data give. Raises A2AError for a file."""
    texts: list[str] = []
    found: dict[str, Any] = {}
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                told = json_of(part)
                members = told if isinstance(told, dict) else {}
                found |= {name: value for name, value in members.items() if name in names}
                if not members.keys() & names:
                    texts.append(data_text(part))
            case _:
                raise A2AError(
                    Reason.CONTENT_TYPE_NOT_SUPPORTED, "the agent takes text and data, and no files"
                )
    text = "".join(texts)
    found = {MESSAGE: text, **found}
    # The only input that a crew has is the message, by any name.
    if len(missing := names - found.keys()) == 1 and text and MESSAGE not in names:
        found |= dict.fromkeys(missing, text)
    return found


def contents_of(output: Any) -> Sequence[Any]:
    """The contents of an answer: of the output of a crew, an agent or a flow."""
    if hasattr(output, "raw") and hasattr(output, "pydantic"):
        if output.pydantic is not None:
            return [output.pydantic]
        return [output.raw if getattr(output, "json_dict", None) is None else output.json_dict]
    if output is None:
        return []
    if is_parts(output):
        return output  # type: ignore[no-any-return]
    return [output]


def members_of(thing: Any) -> dict[str, Any]:
    """The members of a card that a crew or a flow has."""
    if isinstance(thing, Flow):
        return members(thing.name or type(thing).__name__, instructions=type(thing).__doc__)
    agents = [SimpleNamespace(name=one.role, description=one.goal) for one in thing.agents]
    return members(None if thing.name == "crew" else thing.name, tools=agents)


EXECUTOR = CrewAIExecutor
