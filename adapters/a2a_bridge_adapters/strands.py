"""Strands Agents: an executor that runs an Agent. Importing it imports Strands.

Rules:
1. An Agent of Strands holds one conversation, and runs one turn at a time. Therefore the state of each
   conversation is a snapshot, which is loaded before a turn and taken after it; or `agent_factory` makes an
   agent for each conversation.
2. A turn that fails or is cancelled leaves nothing, unless the agent has a session manager.
3. A new turn gives results to the tool calls that an earlier turn left open. A call that the caller has
   answered keeps its result, also if its turn fails.
4. An interrupt before a call of a tool is an approval of that call; any other one is a question.
5. The answer is the text of the result, or its structured output. Text is held back if hooks, middleware or
   a guardrail of the model may change or discard it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from strands.hooks import AfterModelCallEvent, MessageAddedEvent

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.card_members import members
from a2a_bridge_adapters.content import (
    Answer,
    bare_media_type_of,
    data_text,
    file_part,
    json_text,
    jsonable,
    media_type_of,
    url_part,
)
from a2a_bridge_adapters.conversations import MOST, ConversationKey, Conversations
from a2a_bridge_adapters.executor import ConversationExecutor, awaited
from a2a_bridge_adapters.questions import ABANDONED, DECISIONS, Approval, OpenCall, ask, interrupted

Block = dict[str, Any]

#: the kinds of blocks and their formats, by media type
_FORMATS = {
    **{f"image/{one}": ("image", one) for one in ("png", "jpeg", "gif", "webp")},
    **{f"video/{one}": ("video", one) for one in ("mp4", "webm", "mpeg")},
    "video/quicktime": ("video", "mov"),
    "video/x-matroska": ("video", "mkv"),
    "application/pdf": ("document", "pdf"),
    "text/csv": ("document", "csv"),
    "text/html": ("document", "html"),
    "text/markdown": ("document", "md"),
    "text/plain": ("document", "txt"),
    "application/msword": ("document", "doc"),
    "application/vnd.ms-excel": ("document", "xls"),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ("document", "docx"),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ("document", "xlsx"),
}
_MEDIA_TYPES = {found: media_type for media_type, found in _FORMATS.items()}
#: what models do not take in the name of a document
_NO_NAME = re.compile(r"[^A-Za-z0-9 ()\[\]-]+")

#: the state of interrupts of an agent that waits for nothing
_AT_REST: Block = {"interrupts": {}, "context": {}, "activated": False}
#: callbacks after the model that change no text
_OWN = tuple(f"strands.{one}." for one in ("agent", "event_loop", "memory", "models", "session"))
#: by agent that all conversations share: held by its turn, also if several executors have the agent
_TURNS: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()
#: the name of an agent that has none
_UNNAMED = "Strands Agents"


@dataclass(frozen=True, slots=True)
class _History:
    """A conversation between two turns. task_id: the task with the open calls; empty if it is not known."""

    agent: Any
    snapshot: Any
    task_id: str = ""

    @property
    def waits(self) -> bool:
        """True if calls are open."""
        return bool(self.snapshot.data["interrupt_state"]["activated"])


class StrandsExecutor(ConversationExecutor[_History]):
    """Runs an Agent of Strands.

    agent_factory: makes the agent of a conversation, of which it gets the name: 64 hexadecimal digits, as the
    id of a session. It may be a coroutine function. Without it all conversations take turns with `agent`.
    invocation_state: makes that of the tools and hooks from a run; it may be a coroutine function. questions:
    the names of interrupts that are questions, although they come before a call. stream: see
    ConversationExecutor. conversations: the conversations that are kept. Raises TypeError for an object that
    is no Agent, ValueError for an agent with a session manager: its session would be that of all callers.
    """

    def __init__(
        self,
        agent: Any,
        *,
        agent_factory: Callable[[str], Any] | None = None,
        invocation_state: Callable[[Run], Any] | None = None,
        questions: Collection[str] = (),
        stream: bool | None = None,
        conversations: int = MOST,
    ) -> None:
        if not hasattr(agent, "stream_async") or not hasattr(agent, "take_snapshot"):
            raise TypeError(f"a {type(agent).__name__} is no Agent of Strands")
        if agent_factory is None and _has_session(agent):
            raise ValueError(
                "the agent has a session manager, whose session would be that of all callers: give"
                " agent_factory=, which makes an agent with a session for each conversation"
            )
        super().__init__(Conversations(conversations), stream=stream)
        self._agent, self._factory, self._invocation_state = agent, agent_factory, invocation_state
        self._questions = frozenset({questions} if isinstance(questions, str) else questions)
        self._initial = None if agent_factory is not None else _snapshot(agent)
        self._turn: AbstractAsyncContextManager[Any] = (
            nullcontext() if agent_factory is not None else _TURNS.setdefault(agent, asyncio.Lock())
        )

    def read(self, run: Run) -> Any:
        if all(part.HasField("text") for part in run.parts):
            return run.text
        return [content_of(part) for part in run.parts]

    async def open_calls(self, key: ConversationKey, run: Run) -> Sequence[OpenCall]:
        history = await self._history(key)
        return self._calls_of(history.snapshot) if history.task_id in ("", run.task_id) else ()

    async def begin(
        self, key: ConversationKey, run: Run, answer: Answer, given: Any
    ) -> AsyncGenerator[Event, None]:
        history = await self._history(key)
        if history.waits:
            # Kept at once: the calls stay denied if this turn fails.
            history = self._close(key, history)
        async with aclosing(self._work(key, run, answer, history, given)) as events:
            async for event in events:
                yield event

    async def go_on(
        self, key: ConversationKey, run: Run, answer: Answer, given: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        history = await self._history(key)
        before, uses = self.conversations.get(key), tool_uses(history.snapshot)
        came: list[Block] = []
        known: dict[str, Any] = {}
        responses = []
        for call_id, value in given.items():
            if (use := _use_of(call_id, uses)) is not None:
                known[use["toolUseId"]] = interrupted(value)
            match value:
                case Approval(approved=True):
                    response = "y"
                case Approval(reason=reason):
                    response = reason or "n"
                case _:
                    response = value
            responses.append({"interruptResponse": {"interruptId": call_id, "response": response}})
        try:
            async with aclosing(self._work(key, run, answer, history, responses, came)) as events:
                async for event in events:
                    yield event
        finally:
            if self.conversations.get(key) is before:
                # It failed, and may have run the tools: the answer counts once, and so do their results.
                self._close(key, history, known, came)

    async def _history(self, key: ConversationKey) -> _History:
        found = self.conversations.get(key)
        if found is None:
            if self._factory is None:
                return _History(self._agent, self._initial)
            agent = await awaited(self._factory(key.digest))
            found = _History(agent, _snapshot(agent))
            self.conversations.keep(key, found)
        elif _has_session(found.agent):
            # What a failed turn has left in the session counts.
            found = replace(found, snapshot=_snapshot(found.agent))
        return found

    def _close(
        self,
        key: ConversationKey,
        history: _History,
        known: Mapping[str, Any] = MappingProxyType({}),
        came: Sequence[Block] = (),
    ) -> _History:
        """Keeps a conversation whose open calls have results. came: the messages with results of tools."""
        agent, snapshot = history.agent, history.snapshot
        if in_session := _has_session(agent):
            snapshot = _snapshot(agent)
        snapshot = closed(snapshot, known, came)
        if in_session:
            agent.load_snapshot(snapshot)
        history = _History(agent, snapshot)
        self.conversations.keep(key, history)
        return history

    def _calls_of(self, snapshot: Any) -> list[OpenCall]:
        """The open calls of a conversation."""
        state, uses = snapshot.data["interrupt_state"], tool_uses(snapshot)
        if not state["activated"]:
            return []
        interrupts = [one for one in state["interrupts"].values() if one.get("response") is None]
        return [call_of(one, uses, self._questions) for one in interrupts]

    async def _work(
        self,
        key: ConversationKey,
        run: Run,
        answer: Answer,
        history: _History,
        prompt: Any,
        came: list[Block] | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The events of one run of the agent, until it ends or asks. came: gets the results of tools."""
        state = {} if self._invocation_state is None else await awaited(self._invocation_state(run))
        agent, result, messages = history.agent, None, 0
        async with self._turn:
            if not _has_session(agent):
                agent.load_snapshot(history.snapshot)
            guarded = is_guarded(agent)
            try:
                async with aclosing(_events(agent, prompt, state)) as events:
                    async for event in events:
                        result = event.get("result", result)
                        messages += "messageStart" in (event.get("event") or ())
                        if text := event.get("data"):
                            for chunk in answer.text(str(messages), text, guarded=guarded):
                                yield chunk
                        if message := event.get("message"):
                            if came is not None and message["role"] == "user":
                                came.append(message)
                            for part in files_of(message):
                                yield answer.part(part)
                if result is None or result.stop_reason == "checkpoint":
                    raise RuntimeError("the agent ended without a result; checkpoints cannot be served")
                history = _History(agent, _snapshot(agent), run.task_id)
            finally:
                if self._initial is not None:
                    # The agent is an object of the user, and of other executors: no conversation stays in it.
                    agent.load_snapshot(self._initial)
        self.conversations.keep(key, history)
        if result.stop_reason == "interrupt":
            yield ask(run, self._calls_of(history.snapshot))
            return
        output = result.structured_output
        for told in answer.settle(str(result).removesuffix("\n") if output is None else output):
            yield told
        yield run.status(hub.TASK_STATE_COMPLETED)


async def _events(agent: Any, prompt: Any, invocation_state: Any) -> AsyncGenerator[Block, None]:
    """The events of a turn, which is a task of its own: a cancellation reaches the call of the model or the
    tool that it waits for, and has ended it when the generator is closed.
    """
    queue: asyncio.Queue[Block | None] = asyncio.Queue()

    async def turn() -> None:
        try:
            async for event in agent.stream_async(prompt, invocation_state=invocation_state):
                queue.put_nowait(event)
        finally:
            queue.put_nowait(None)

    task = asyncio.create_task(turn())
    try:
        while (event := await queue.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


def is_guarded(agent: Any) -> bool:
    """True if hooks, middleware or a guardrail of the model may change or discard the text of the model."""
    # Nothing public names the middleware and the configuration of all models.
    stages = agent._middleware_registry._handlers  # noqa: SLF001
    if any(handlers and stage.name != "executeTool" for stage, handlers in stages.items()):
        return True
    config = getattr(agent.model, "config", None)
    if isinstance(config, dict) and config.get("guardrail_id"):
        return True
    events = (AfterModelCallEvent(agent=agent), MessageAddedEvent(agent=agent, message={}))
    callbacks = (one for event in events for one in agent.hooks.get_callbacks_for(event))
    return not all((getattr(one, "__module__", None) or "").startswith(_OWN) for one in callbacks)


def _has_session(agent: Any) -> bool:
    return getattr(agent, "_session_manager", None) is not None


def _snapshot(agent: Any) -> Any:
    return agent.take_snapshot(preset="session")


def tool_uses(snapshot: Any) -> list[Block]:
    """The calls of tools in the newest message, which have no result."""
    messages = snapshot.data["messages"]
    return [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block] if messages else []


def _use_of(interrupt_id: str, uses: Sequence[Block]) -> Block | None:
    """The call of a tool that an interrupt is about."""
    return next((one for one in uses if f":{one['toolUseId']}:" in interrupt_id), None)


def call_of(interrupt: Block, uses: Sequence[Block], questions: frozenset[str]) -> OpenCall:
    """An interrupt as an open call. uses: the calls of tools that wait."""
    call_id, reason = interrupt["id"], jsonable(interrupt.get("reason"))
    use = _use_of(call_id, uses)
    if use is None or interrupt["name"] in questions or not call_id.startswith("v1:before_tool_call:"):
        return OpenCall(call_id, interrupt["name"] if reason is None else reason)
    hint = "" if reason is None else json_text(reason)
    only = DECISIONS - {"edit"}
    return OpenCall(call_id, jsonable(use["input"]), use["name"], approval=True, decisions=only, hint=hint)


def closed(snapshot: Any, known: Mapping[str, Any], came: Sequence[Block]) -> Any:
    """A snapshot whose open calls have results. known: texts by the ids of calls; came: see `_close`."""
    state, messages = snapshot.data["interrupt_state"], snapshot.data["messages"]
    pending = state.get("pending_tool_execution") or {}
    done = pending.get("completed_tool_results") or state["context"].get("tool_results") or ()
    results = {one["toolUseId"]: one for one in done}
    content = []
    for use in tool_uses(snapshot):
        use_id = use["toolUseId"]
        text = json_text(known.get(use_id, ABANDONED))
        unknown = {"toolUseId": use_id, "status": "error", "content": [{"text": text}]}
        content.append({"toolResult": results.get(use_id, unknown)})
    if content:
        messages = [*messages, came[0] if came else {"role": "user", "content": content}]
    return replace(snapshot, data={**snapshot.data, "messages": messages, "interrupt_state": _AT_REST})


def content_of(part: hub.Part) -> Block:
    """A part as a block of content. Raises A2AError for a file that Strands has no block for."""
    match part.WhichOneof("content"):
        case "text":
            return {"text": part.text}
        case "data":
            return {"text": data_text(part)}
    media_type = bare_media_type_of(part)
    if media_type not in _FORMATS:
        raise A2AError(
            Reason.CONTENT_TYPE_NOT_SUPPORTED,
            f"the agent takes no file of type {media_type[:100]}; it takes {', '.join(sorted(_FORMATS))}",
        )
    kind, form = _FORMATS[media_type]
    source: Block = {"bytes": part.raw}
    if part.HasField("url"):
        if not part.url.startswith("s3://"):
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED, "the agent takes files as bytes, or at s3:// URLs"
            )
        source = {"location": {"type": "s3", "uri": part.url}}
    block = {"format": form, "source": source}
    if kind == "document":
        stem = part.filename.rpartition(".")[0] or part.filename
        block["name"] = " ".join(_NO_NAME.sub(" ", stem).split()) or "document"
    return {kind: block}


def files_of(message: Block) -> Iterator[hub.Part]:
    """The files in a message of the model, or in the results of its tools."""
    for block in message["content"]:
        result = block.get("toolResult")
        yield from _files(result.get("content", ()) if result else [block])


def _files(blocks: Sequence[Block]) -> Iterator[hub.Part]:
    for block in blocks:
        for kind in ("image", "video", "document"):
            if not (file := block.get(kind)):
                continue
            form, source = file.get("format", ""), file.get("source") or {}
            media_type = _MEDIA_TYPES.get((kind, form), "")
            name = f"{file['name']}.{form}" if file.get("name") else ""
            if (raw := source.get("bytes")) is not None:
                made = file_part(raw, media_type, name)
            elif uri := (source.get("location") or {}).get("uri"):
                made = url_part(uri, media_type, name)
            else:
                continue
            made.media_type = media_type_of(made)
            yield made


def members_of(agent: Any) -> dict[str, Any]:
    """The members of a card that an agent has."""
    specs = agent.tool_registry.get_all_tools_config().values()
    tools = [SimpleNamespace(name=one["name"], description=one.get("description", "")) for one in specs]
    name = None if agent.name == _UNNAMED else agent.name
    return members(name, description=agent.description, instructions=agent.system_prompt, tools=tools)


EXECUTOR = StrandsExecutor
