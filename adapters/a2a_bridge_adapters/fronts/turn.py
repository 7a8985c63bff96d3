"""One turn with an agent: a message goes there, and updates come back until its task ends or waits.

Rules:
1. Fronts do not know whether an agent streams: the task of one that does not, and a task whose stream ends
   early, is asked for until it rests. A task without artifacts takes none back that events brought before:
   some agents end a stream with the bare task.
2. A front that leaves a turn before its end cancels the task. The agent may not have named the task by then,
   so the events are read on in the background until it does. `Upstream.close` waits for that.
3. A continued task has artifacts of earlier turns. `shown` says how many of their parts the caller has, and a
   turn yields none of these again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from sys import getsizeof
from types import TracebackType
from typing import Any, Self

from a2a_bridge.app.peer import Peer
from a2a_bridge.bindings.memory import MemoryAccount, Tables
from a2a_bridge.bindings.unknown_events import known_only
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Kind, Reason, internal_error
from a2a_bridge.core.lifecycle import ArtifactIndex, IllegalTransitionError, fold, state_name
from a2a_bridge.core.messages import (
    AT_REST,
    INTERRUPTED,
    context_id_of,
    is_interrupted,
    state_of,
    task_id_of,
    text_of,
)
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub

_log = logging.getLogger("a2a_bridge.fronts")

#: seconds for an agent to name its task, and then to cancel it, after the caller has left
LEAVING = 10.0
#: updates that a slow caller has not taken yet; then the agent is read no further
_PENDING = 64
#: seconds between two looks at a task: the first pause, and the longest
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0

#: bytes of the answer to one message
LARGEST = 64 << 20
#: members of a task, without its artifacts
_BESIDE_ARTIFACTS = tuple(one.name for one in hub.Task.DESCRIPTOR.fields if one.name != "artifacts")

#: the number of known parts by the id of an artifact
Shown = Mapping[str, int]
_NOTHING: Shown = {}


def size_of_shown(shown: Shown) -> int:
    """Bytes."""
    return getsizeof(shown) + sum(map(getsizeof, shown)) + _NUMBER * len(shown) if shown else 0


#: bytes of a number
_NUMBER = 32


class Background:
    """Work that goes on after its request, and what is kept for callers. memory: the account."""

    def __init__(self, memory: MemoryAccount | None = None) -> None:
        self._background: set[asyncio.Task[None]] = set()
        #: of what a front keeps for its callers
        self.tables = Tables.of(memory)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs bounded work that goes on after its turn."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self, grace: float = 2 * LEAVING) -> None:
        """Waits for the work in the background for `grace` seconds, and ends the rest."""
        waiting = set(self._background)
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=grace)
            if late:
                _log.warning("the agent has not cancelled all tasks of callers that have left")
            for one in late:
                one.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class Upstream(Background):
    """The agent of a front, and the work in the background that belongs to turns. service: the agent behind
    middleware; None for the service of the peer.
    """

    def __init__(self, peer: Peer, service: Service | None = None) -> None:
        super().__init__(peer.memory)
        self._peer = peer
        self.service = peer.service if service is None else service

    @property
    def card(self) -> hub.AgentCard:
        """The card of the agent, which can change."""
        return self._peer.card

    async def task(self, task_id: str, context: CallContext) -> hub.Task:
        """The task with an id. Raises A2AError."""
        return await self.service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id=task_id), context))

    async def deny(self, context: CallContext) -> None:
        """Has the access rules reject a call, so that it counts as one. It has no message for an agent."""
        call: Call[Any, Any] = Call(ops.SEND_STREAMING_MESSAGE, hub.SendMessageRequest(), context)
        try:
            async with aclosing(self.service.stream(call)) as events:
                async for _ in events:
                    return
        except A2AError as error:
            _log.debug("a caller may not use the agent: %s", error)

    async def cancel(self, task_id: str, context: CallContext) -> None:
        """Cancels a task within LEAVING seconds. An agent that cannot is mentioned in the log."""
        try:
            async with asyncio.timeout(LEAVING):
                await self.service.unary(Call(ops.CANCEL_TASK, hub.CancelTaskRequest(id=task_id), context))
        except TimeoutError:
            _log.warning("the agent did not cancel a task of a caller that has left within %g s", LEAVING)
        except A2AError as error:
            if error.reason not in (Reason.TASK_NOT_CANCELABLE, Reason.TASK_NOT_FOUND):
                _log.warning("a task of a caller that has left is not cancelled: %s", error.name)


@dataclass(frozen=True, slots=True)
class Update:
    """News of a turn."""

    #: new content
    parts: tuple[hub.Part, ...] = ()
    #: what the agent says about its work
    progress: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a turn."""

    #: of the task; UNSPECIFIED for a direct message
    state: hub.TaskState
    #: the content of this turn: of a direct message, or of artifacts
    parts: tuple[hub.Part, ...]
    #: the text of the status: a question, the reason of a failure, or a note
    note: str = ""
    #: the other parts of the status
    note_parts: tuple[hub.Part, ...] = ()
    task_id: str = ""
    context_id: str = ""
    #: the parts that the caller has now
    shown: Shown = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether the task waits for the caller."""
        return is_interrupted(self.state)

    @property
    def word(self) -> str:
        """The state as A2A's documents write it, such as `input-required`."""
        return state_name(self.state).lower().replace("_", "-")

    @property
    def failed(self) -> bool:
        """Whether the task ended without a result."""
        return self.state in (hub.TASK_STATE_FAILED, hub.TASK_STATE_REJECTED, hub.TASK_STATE_CANCELED)


def answer_of(task: hub.Task, earlier: Shown = _NOTHING) -> Answer:
    """What a task says. earlier: the number of parts of artifacts to leave out."""
    named = list(_named(task.artifacts))
    parts = [part for name, one in named for part in one.parts[earlier.get(name, 0) :]]
    status = task.status.message
    others = tuple(part for part in status.parts if part.WhichOneof("content") != "text")
    shown = {name: len(one.parts) for name, one in named}
    return Answer(
        task.status.state, tuple(parts), text_of(status), others, task.id, task.context_id, shown=shown
    )


def _named(artifacts: Iterable[hub.Artifact]) -> Iterator[tuple[str, hub.Artifact]]:
    """Artifacts with names that differ: those of agents that give several the same id, or none, have numbers.
    An update is about the newest.
    """
    seen: Counter[str] = Counter()
    for one in artifacts:
        number = seen[one.artifact_id]
        seen[one.artifact_id] += 1
        yield f"{one.artifact_id}\0{number}" if number else one.artifact_id, one


class Turn:
    """Sends a message; `next` gives what comes back; see above. An asynchronous context manager: a turn that
    is left before its end is given up.
    """

    def __init__(
        self,
        upstream: Upstream,
        message: hub.Message,
        context: CallContext,
        shown: Shown = _NOTHING,
    ) -> None:
        self._upstream = upstream
        self._message = message
        self._context = context
        self._shown = shown
        self._task = hub.Task()
        self._index = ArtifactIndex()
        self._direct: hub.Message | None = None
        #: parts of artifacts that have been passed on, and the first of them that belong to earlier turns
        self._passed: dict[str, int] = {}
        self._earlier: dict[str, int] = {}
        #: the names of the newest artifacts of ids that several have
        self._newest: dict[str, str] = {}
        self._pending: asyncio.Queue[Update | A2AError | None] = asyncio.Queue(_PENDING)
        self._reader: asyncio.Task[None] | None = None
        self._named = asyncio.Event()
        self._size = 0
        #: the id of the task; empty before the agent has named it, and for a direct message
        self.task_id = message.task_id
        self.context_id = ""
        self._ended = False
        self._left = False

    async def __aenter__(self) -> Self:
        if self.task_id:
            self._named.set()
        self._reader = self._upstream.spawn(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended and not self._left:
            self.leave()

    def leave(self, *, cancels: bool = True) -> None:
        """Ends the turn for its caller. cancels: whether the task is cancelled; else it goes on without a
        reader, if the agent lets it.
        """
        self._left = True
        while not self._pending.empty():  # the reader may wait for room
            self._pending.get_nowait()
        if cancels:
            self._upstream.spawn(self._give_up())
        elif self._reader is not None:
            self._reader.cancel()

    async def _give_up(self) -> None:
        """Cancels the task as soon as its name is known."""
        assert self._reader is not None  # noqa: S101  for the type checker
        try:
            async with asyncio.timeout(LEAVING):
                await self._named.wait()
        except TimeoutError:
            _log.warning("the agent has named no task within %g s after the caller left", LEAVING)
        if self.task_id and self._task.status.state not in AT_REST - INTERRUPTED:
            await self._upstream.cancel(self.task_id, self._context)
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def next(self) -> Update | None:
        """The next news of the turn; None at its end. Raises A2AError. May be cancelled and called again."""
        found = await self._pending.get()
        if isinstance(found, Update):
            return found
        self._ended = True
        if found is not None:
            raise found
        return None

    async def next_until(self, late: float) -> Update | None:
        """The same until a time of the event loop, or, if the agent has named no task by then, until it does:
        a task without a name cannot be asked for later. Raises TimeoutError, also if there is news: an agent
        that always has some does not keep its caller.
        """
        if self._has_task() and asyncio.get_running_loop().time() >= late:
            raise TimeoutError
        try:
            async with asyncio.timeout_at(late):
                return await self.next()
        except TimeoutError:
            if self._has_task():
                raise
        coming, named = asyncio.ensure_future(self.next()), asyncio.ensure_future(self._named.wait())
        try:
            await asyncio.wait({coming, named}, return_when=asyncio.FIRST_COMPLETED)
            if self._has_task() and not coming.done():
                raise TimeoutError
            return await coming
        finally:
            coming.cancel()
            named.cancel()

    def _has_task(self) -> bool:
        return bool(self.task_id)

    @property
    def answer(self) -> Answer:
        """The result, after the last update; before it, the result so far."""
        if self._direct is not None:
            direct = self._direct
            return Answer(
                hub.TASK_STATE_UNSPECIFIED, tuple(direct.parts), context_id=self.context_id, shown=_NOTHING
            )
        found = answer_of(self._task, self._earlier)
        return replace(
            found,
            task_id=self.task_id,
            context_id=self.context_id,
            shown={**self._shown, **found.shown},
        )

    async def _read(self) -> None:
        """Reads the events of the agent until the turn has ended."""
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    update = self._take(event)
                    if update is not None and not self._left:
                        await self._pending.put(update)
            await self._end(None)
        except A2AError as error:
            await self._end(error)
        except IllegalTransitionError as error:
            await self._end(A2AError(Reason.INVALID_AGENT_RESPONSE, str(error), blame=Blame.PEER))
        except Exception:  # noqa: BLE001  the caller gets an error without its text
            _log.exception("a turn with the agent failed")
            await self._end(internal_error())
        finally:
            self._named.set()

    async def _end(self, error: A2AError | None) -> None:
        if not self._left:
            await self._pending.put(error)

    async def _events(self) -> AsyncGenerator[hub.StreamResponse, None]:
        """The events of the agent until the task rests. Raises A2AError."""
        card = self._upstream.card
        sending = self._streamed if card.capabilities.streaming or not card.name else self._sent
        async with aclosing(sending()) as events:
            async for event in events:
                yield event
        if self._direct is not None:
            return
        if not self.task_id:
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, "neither a task nor a message", blame=Blame.PEER)
        pause = _FIRST_PAUSE
        while self._task.status.state not in AT_REST:
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, 1.5 * pause)
            yield hub.StreamResponse(task=await self._upstream.task(self.task_id, self._context))

    async def _streamed(self) -> AsyncGenerator[hub.StreamResponse, None]:
        """The events of SendStreamingMessage; of SendMessage if the agent turns out not to stream."""
        request = hub.SendMessageRequest(message=self._message)
        call: Call[Any, Any] = Call(ops.SEND_STREAMING_MESSAGE, request, self._context)
        first = True
        try:
            async with aclosing(known_only(self._upstream.service.stream(call))) as events:
                async for event in events:
                    message = event.message
                    # The first event of a continued task shows it as it was before the message.
                    is_before = first and bool(self._message.task_id) and message.HasField("task")
                    first = False
                    yield message
                    if state_of(message) in AT_REST and not is_before:
                        return
        except A2AError as error:
            if not first or error.reason.kind is not Kind.LACKING:
                raise
        if first:
            async with aclosing(self._sent()) as events_of_send:
                async for message in events_of_send:
                    yield message

    async def _sent(self) -> AsyncGenerator[hub.StreamResponse, None]:
        """The response to SendMessage as an event."""
        request = hub.SendMessageRequest(message=self._message)
        request.configuration.return_immediately = True
        response = await self._upstream.service.unary(Call(ops.SEND_MESSAGE, request, self._context))
        if response.HasField("task"):
            yield hub.StreamResponse(task=response.task)
        elif response.HasField("message"):
            yield hub.StreamResponse(message=response.message)

    def _take(self, event: hub.StreamResponse) -> Update | None:
        """Takes an event over. Returns its news. Raises IllegalTransitionError, and INVALID_AGENT_RESPONSE
        for an answer that is too large.
        """
        self.task_id = task_id_of(event) or self.task_id
        self.context_id = context_id_of(event) or self.context_id
        which = event.WhichOneof("payload")
        bare = which == "task" and not event.task.artifacts and bool(self._task.artifacts)
        self._size = event.ByteSize() + (0 if which == "task" and not bare else self._size)
        if self._size > LARGEST:
            if self.task_id:
                self._upstream.spawn(self._upstream.cancel(self.task_id, self._context))
            text = f"the answer is larger than {LARGEST} bytes"
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        if which == "message":
            self._direct = event.message
            self._named.set()
            return Update(tuple(event.message.parts))
        if self.task_id:
            self._named.set()
        before = text_of(self._task.status.message)
        if which == "task":
            parts = () if bare else self._snapshot(event.task)
            if bare:
                self._keep_artifacts(event.task)
            else:
                self._task = fold(self._task, event, self._index)
            text = self._progress()
            return Update(parts, text) if parts or text not in ("", before) else None
        if which == "artifact_update":
            parts = self._artifact(event.artifact_update)
            self._task = fold(self._task, event, self._index)
            return Update(parts) if parts else None
        self._task = fold(self._task, event)
        text = self._progress()
        return Update(progress=text) if text else None

    def _progress(self) -> str:
        """What the agent says about its work."""
        status = self._task.status
        return text_of(status.message) if status.state not in AT_REST else ""

    def _keep_artifacts(self, task: hub.Task) -> None:
        """Takes a task without artifacts over, in place: it costs the task, not the artifacts before it."""
        for name in _BESIDE_ARTIFACTS:
            self._task.ClearField(name)
        self._task.MergeFrom(task)

    def _snapshot(self, task: hub.Task) -> tuple[hub.Part, ...]:
        """The parts of a task that the caller does not have."""
        new: list[hub.Part] = []
        self._newest = {}
        for name, one in _named(task.artifacts):
            count = len(one.parts)
            if name != one.artifact_id:
                self._newest[one.artifact_id] = name
            if name not in self._passed:
                self._passed[name] = self._earlier[name] = min(self._shown.get(name, 0), count)
            new += one.parts[self._passed[name] :]
            self._passed[name] = count
        return tuple(new)

    def _artifact(self, update: hub.TaskArtifactUpdateEvent) -> tuple[hub.Part, ...]:
        """The parts of an update that the caller does not have."""
        artifact = update.artifact
        name, parts = self._newest.get(artifact.artifact_id, artifact.artifact_id), tuple(artifact.parts)
        known = self._index.find(self._task, artifact.artifact_id)
        if update.append or known is None:
            self._passed[name] = self._passed.get(name, 0) + len(parts)
            return parts
        before = tuple(known.parts)
        self._passed[name] = len(parts)
        if parts[: len(before)] == before:
            return parts[len(before) :]
        self._earlier[name] = 0
        # An agent that repeats the whole text with each update.
        old, text = text_of(known), text_of(artifact)
        if old and text.startswith(old) and all(one.WhichOneof("content") == "text" for one in parts):
            rest = text[len(old) :]
            return (hub.Part(text=rest),) if rest else ()
        return parts
