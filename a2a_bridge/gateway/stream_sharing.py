"""Shares and resumes a gateway's streams: one stream of the agent per task and caller, with many readers.

It is the last service before the agent. Rules:
1. A stream is shared by callers with the same tenant, principal and forwarded credentials only. A caller that
   joins later than `revalidate` seconds after the agent accepted a request of these callers about the task
   waits until the agent accepts another request: the credentials may have been revoked. First subscribers at
   the same time open a stream each; later callers join the newest stream.
2. A stream of a message, of a task that has ended, or of anything but one task passes unchanged.
3. A caller that leaves does not end the agent's stream for others. When the last caller leaves, the stream
   ends: at once if the agent can resume it, else after a time in which the caller may come back.
4. Event ids are the agent's if its card offers to resume after them; events that are not in the log are then
   requested from the agent. Else ids are generated here, and an unknown id is a gap: a marked snapshot
   replaces the lost events. (Some agents number the events of each connection from the beginning; such ids
   are ignored.)
5. A break is a gap too if the agent cannot resume. Events sent meanwhile are not reconstructed.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from a2a_bridge.bindings.binding import IMPERSONAL
from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import (
    EXTENSIONS_PARAMETER,
    IN_PROCESS,
    LAST_EVENT_PARAMETER,
    Call,
    CallContext,
    ResponseParameters,
)
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.event_log import GapError, LogReader
from a2a_bridge.core.messages import RUNNING, TERMINAL, state_of, task_id_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import RESUME_URI, count_on, gap_of, mark_gap, resume_id
from a2a_bridge.core.service import Event, Events, Service, reject, reject_stream
from a2a_bridge.dialects import is_older
from a2a_bridge.dialects.annotation import (
    BEGINNING,
    CLOSING,
    SNAPSHOT,
    SYNTHESISED,
    Finality,
    synthesise,
    synthetic_kind,
)
from a2a_bridge.gateway.polyfill import task_before
from a2a_bridge.gateway.replay_log import AGENT, unmark
from a2a_bridge.gateway.stream_reader import ended_early_error, must_go_on
from a2a_bridge.gateway.stream_states import ENDED
from a2a_bridge.gateway.streams import Beginning, Key, Stream, StreamRegistry
from a2a_bridge.gateway.tasks import given_entries, visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(slots=True, eq=False)
class _Opened:
    """A caller's stream after the decision how to serve it."""

    #: the events to yield first
    first: list[Event] = field(default_factory=list)
    #: the agent's stream, to be passed on unchanged
    source: Events | None = None
    stream: Stream | None = None
    #: a position in a stored stream
    reader: LogReader[Event] | None = None
    #: the id after which it continues an earlier stream; empty if it does not
    after: str = ""


class StreamSharing:
    """Shares and resumes the streams of tasks. Implements Service.

    forward: names of the forwarded parameters. is_final: which status event ends a stream, for an agent of a
    version whose streams mark it and need not begin with a task; None for 1.0. resumes: True if the agent's
    card offers to resume after its ids. memory: the account for the bytes; when it is full, new messages are
    rejected.
    """

    def __init__(
        self,
        service: Service,
        options: ReplayOptions,
        *,
        forward: Iterable[str] = (),
        is_final: Finality | None = None,
        resumes: bool = False,
        memory: MemoryAccount | None = None,
    ) -> None:
        self._memory = memory or MemoryAccount()
        self._service = service
        self._forward = tuple(forward)
        self._personal = tuple(sorted(set(self._forward) - IMPERSONAL))
        self._is_final = is_final
        self._older = is_final is not None
        self._resumes = resumes
        self._revalidate = options.revalidate
        self.streams = StreamRegistry(service, options, self._memory, resumes=resumes, is_final=is_final)

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        if call.operation is ops.SEND_MESSAGE and (full := self._memory.rejection()) is not None:
            return reject(full)
        return self._cancel(call) if call.operation is ops.CANCEL_TASK else self._service.unary(call)

    async def _cancel(self, call: Call[Any, Any]) -> Any:
        response = await self._service.unary(call)
        if isinstance(response, hub.Task):
            self.streams.over(response, call.request.tenant)
        return response

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            if (full := self._memory.rejection()) is not None:
                return reject_stream(full)
            return self._follow(cast("Any", call), self._sent)
        if call.operation is ops.SUBSCRIBE_TO_TASK:
            return self._follow(cast("Any", call), self._subscribe)
        return self._service.stream(call)

    # ------------------------------------------------------------------ reading

    async def _follow(
        self, call: Call[Any, Any], opening: Callable[[Call[Any, Any]], Awaitable[_Opened]]
    ) -> Events:
        opened = await opening(call)
        stream, reader = opened.stream, opened.reader
        try:
            for event in opened.first:
                yield event
            if opened.source is not None:
                last = opened.first[-1].message
                async for event in opened.source:
                    message = event.message
                    last = message if task_id_of(message) else last
                    yield event if self._resumes or not event.id else Event(message, gap=event.gap)
                if self._has_ended_early(last):
                    yield await self._final_snapshot(call, task_id_of(last))
            if stream is None or reader is None:
                return
            closes = self._older and not is_older(call.context.origin.version)
            while True:
                events = await reader.take()
                for event in events:
                    if closes and synthetic_kind(event.message.status_update) == CLOSING:
                        return
                    yield event
                if not events and not await self._may_continue(call, opened, stream):
                    return
        except GapError:
            text = "the events of the task were read too slowly; subscribe again"
            raise A2AError(Reason.UNAVAILABLE, text, retry_after=0.0) from None
        finally:
            if opened.source is not None:
                await opened.source.aclose()
            if stream is not None and reader is not None:
                self.streams.leave(stream, reader)

    async def _may_continue(self, call: Call[Any, Any], opened: _Opened, stream: Stream) -> bool:
        """True if a stream that the agent ended goes on for a resuming caller: the task may have moved."""
        log = stream.log
        if log.ended:
            after, opened.after = opened.after, ""
            if not after or log.task_ended:
                return False
            if (
                stream.reading.state is ENDED
                and after != log.id(log.last)
                and not await stream.reading.has_moved()
            ):
                return False
        if log.ended:  # still: no other caller has revived it meanwhile
            self.streams.revive(stream, self._upstream_context(call.context))
        return True

    def _has_ended_early(self, last: hub.StreamResponse) -> bool:
        """True if a stream passed on unchanged was closed too early; see rule 4 of `StreamReader`."""
        if self._is_final is None or last.HasField("message") or not task_id_of(last):
            return False
        return must_go_on(self._is_final, last, state_of(last))

    async def _final_snapshot(self, call: Call[Any, Any], task_id: str) -> Event:
        """The finished task, in place of its lost last events. Raises UNAVAILABLE if it has not ended."""
        try:
            task = await fetch_task(self._service, call, task_id, seconds=None)
        except A2AError as error:
            raise ended_early_error() from error
        if task.status.state in RUNNING:
            raise ended_early_error()
        return Event(hub.StreamResponse(task=task))

    # ------------------------------------------------------------------ opening

    async def _sent(self, call: Call[Any, Any]) -> _Opened:
        request: hub.SendMessageRequest = call.request
        first, source, reply = await self._first(call, call.context)
        if first is None:
            return _Opened()
        message = first.message
        task_id = task_id_of(message)
        if not task_id or message.HasField("message") or state_of(message) in TERMINAL:
            return _Opened([first], source)
        if message.HasField("task"):
            # A caller with a short history must not limit the history of others.
            complete = not request.configuration.HasField("history_length")
            beginning = Beginning(first, message.task, whole=complete)
        else:
            beginning = await self._begun_by_update(call, first, source, new=not request.message.task_id)
        return self._shareable(call, task_id, beginning, source, reply)

    async def _subscribe(self, call: Call[Any, Any]) -> _Opened:
        context = call.context
        task_id = call.request.id
        after = resume_id(context)
        key = self._scope_of(call), task_id
        stream = self.streams.find(key)
        if stream is not None:
            await self._accept(call, stream)
        joined = self._find_stored(call, key, after)
        return await self._subscribe_again(call, task_id, after) if joined is None else joined

    def _find_stored(self, call: Call[Any, Any], key: Key, after: str) -> _Opened | None:
        """A position in a stored stream, if that has the requested events."""
        stream = self.streams.find(key)
        if stream is None:
            return None
        log = stream.log
        place = log.place(after) if after else None
        if place is not None and (not log.ended or log.task_ended or log.ids is not AGENT):
            return self._join(call, stream, place, _Opened(after=after))
        wanted = not after or self._is_unknown_to_agent(after)
        # Only where a subscriber would get the same from this stream as from the agent.
        joinable = log.whole and not log.ended and not log.task_ended
        snapshot = log.snapshot() if wanted and joinable else None
        if snapshot is None:
            return None
        id_ = log.id(log.last)
        if after:
            mark_gap(snapshot, after, id_)
        elif self._older:
            synthesise(snapshot, SNAPSHOT)
        first = Event(hub.StreamResponse(task=snapshot), id_, gap=bool(after))
        return self._join(call, stream, log.last, _Opened([first]))

    async def _accept(self, call: Call[Any, Any], stream: Stream) -> None:
        """Has the agent accept a request of this caller, unless it did recently. Raises its rejection."""
        now = asyncio.get_running_loop().time
        if now() - stream.accepted < self._revalidate:
            return
        await fetch_task(self._service, call, call.request.id, seconds=None, history_length=0)
        stream.accepted = now()

    async def _subscribe_again(self, call: Call[Any, Any], task_id: str, after: str) -> _Opened:
        """A new subscription at the agent."""
        context = agent_context = call.context
        made_here = bool(after) and self._is_unknown_to_agent(after)
        if after:
            parameters = dict(context.parameters.items())
            parameters.pop(LAST_EVENT_PARAMETER, None)
            if not made_here:
                parameters[LAST_EVENT_PARAMETER] = after
            # After a gap a stream begins with a task, which callers of older versions would not get.
            origin = IN_PROCESS if self._older else context.origin
            agent_context = context.replace(parameters=parameters, origin=origin)
        try:
            first, source, reply = await self._first(call, agent_context)
        except A2AError as error:
            if not after or error.reason is not Reason.UNSUPPORTED_OPERATION:
                raise
            return await self._read_ended(call, after, error)
        if first is None:
            return _Opened()
        message = first.message
        if task_id_of(message) != task_id or message.HasField("message"):
            return _Opened([first], source)
        if after and not made_here and first.id and first.id == _next_id(after) and not first.gap:
            return self._shareable(call, task_id, Beginning(first, None, whole=False), source, reply)
        if not message.HasField("task"):
            beginning = await self._begun_by_update(call, first, source)
            known = beginning.shown
            opened = self._shareable(call, task_id, beginning, source, reply)
        else:
            known = _unmark(message.task)
            if state_of(message) in TERMINAL:
                opened = _Opened([Event(message, first.id)], source)
            else:
                opened = self._shareable(call, task_id, Beginning(first, known), source, reply)
        if after:
            # The first event replaces the lost events. On the wire, only the head of a stream tells of a gap.
            head = opened.first[0]
            shown = head.message if known is None else _mark(head.message, known, after, head.id)
            opened.first[0] = Event(shown, head.id, gap=True)
        return opened

    async def _read_ended(self, call: Call[Any, Any], after: str, rejected: A2AError) -> _Opened:
        """The task in place of its lost last events. Raises `rejected` if the task has not ended."""
        task = await fetch_task(self._service, call, call.request.id, seconds=None)
        if task.status.state not in TERMINAL:
            raise rejected
        shown = hub.StreamResponse(task=task)
        mark_gap(shown.task, after, after)
        return _Opened([Event(shown, gap=True)])

    async def _first(
        self, call: Call[Any, Any], context: CallContext
    ) -> tuple[Event | None, Events, ResponseParameters]:
        """The first event of the agent's stream, the rest, and the parameters with it; None if the stream is
        empty. The event has no id if the agent cannot resume after it.
        """
        reply = ResponseParameters()
        source = self._service.stream(Call(call.operation, call.request, context.replace(reply=reply)))
        try:
            first = await anext(source)
        except StopAsyncIteration:
            return None, source, reply
        except BaseException:
            await source.aclose()
            raise
        finally:
            _answer(call.context, reply)
        if first.id and not self._resumes:
            first = Event(first.message, gap=first.gap)
        return first, source, reply

    async def _begun_by_update(
        self, call: Call[Any, Any], first: Event, source: Events, *, new: bool = False
    ) -> Beginning:
        """The beginning of a stream that does not begin with the task. Agents of 1.0 are asked for the task,
        but not after a message to a task, which the caller knows: SDKs begin its stream with an update. new:
        the call began the task. Closes the stream on an error.
        """
        request = call.request
        known = isinstance(request, hub.SendMessageRequest) and bool(request.message.task_id)
        if self._older or known:
            return Beginning(first, _empty(first.message), whole=new)
        try:
            task = await task_before(self._service, call, first.message, BEGINNING)
        except BaseException:
            await source.aclose()
            raise
        return Beginning(first, task, shown=task)

    def _is_unknown_to_agent(self, id_: str) -> bool:
        """True if the agent cannot resume after an id."""
        return not self._resumes or self.streams.is_own_id(id_)

    def _shareable(
        self,
        call: Call[Any, Any],
        task_id: str,
        beginning: Beginning,
        source: Events,
        reply: ResponseParameters,
    ) -> _Opened:
        """A stream that others may join, if there is room for it."""
        key = self._scope_of(call), task_id
        events = [Event(beginning.first.message, beginning.first.id)]
        if beginning.shown is not None:
            events.insert(0, Event(hub.StreamResponse(task=beginning.shown)))
        begun = self.streams.begin(
            key,
            beginning,
            source,
            self._upstream_context(call.context),
            call.request.tenant,
            reply.get(EXTENSIONS_PARAMETER, ""),
        )
        if begun is None:
            return _Opened(events, source)
        stream, reader = begun
        log = stream.log
        events[-1].id = log.id(log.last)
        if beginning.shown is not None:
            events[0].id = log.id(log.base)
        return _Opened(events, None, stream, reader)

    def _join(self, call: Call[Any, Any], stream: Stream, place: int, opened: _Opened) -> _Opened:
        context = call.context
        declared = context.extensions
        confirmed = [one for one in stream.extensions.split(",") if one.strip() in declared]
        joined = ResponseParameters()
        if confirmed:
            joined[EXTENSIONS_PARAMETER] = ",".join(confirmed)
        _answer(context, joined)
        opened.stream = stream
        opened.reader = self.streams.join(stream, place)
        return opened

    # ------------------------------------------------------------------ callers and their parameters

    def _scope_of(self, call: Call[Any, Any]) -> Scope:
        context = call.context
        scope = visible_to(call.request, context)
        # Without a principal, the scope is made of the authorization already.
        is_known = context.principal is not None
        names = [name for name in self._personal if is_known or name != "authorization"]
        given = given_entries(names, context.parameters)
        if not given:
            return scope
        digest = hashlib.blake2b(repr(given).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        return Scope(scope.tenant, f"{scope.owner} {digest}")

    def _upstream_context(self, context: CallContext) -> CallContext:
        """The context without the parameters for the gateway alone, which would be stored with it."""
        received = context.parameters
        parameters = {name: value for name in self._forward if (value := received.get(name)) is not None}
        return context.replace(parameters=parameters, side_channel="", reply=ResponseParameters())


def _answer(context: CallContext, reply: ResponseParameters) -> None:
    """Passes on the agent's response parameters. Ids are sent with the events."""
    parameters = context.reply
    # Middleware confirmed them in the agent's name; the agent itself says which extensions it activates.
    parameters.pop(EXTENSIONS_PARAMETER, None)
    parameters.merge(reply)
    if context.parameters and RESUME_URI in context.extensions:
        confirmed = parameters.get(EXTENSIONS_PARAMETER, "")
        if RESUME_URI not in confirmed:
            parameters[EXTENSIONS_PARAMETER] = f"{confirmed},{RESUME_URI}" if confirmed else RESUME_URI


def _next_id(id_: str) -> str:
    ids = count_on(id_)
    next(ids, "")
    return next(ids, "")


def _empty(first: hub.StreamResponse) -> hub.Task:
    """The task before an update that came first, without content."""
    update: Any = first.status_update if first.HasField("status_update") else first.artifact_update
    return hub.Task(id=update.task_id, context_id=update.context_id)


def _unmark(task: hub.Task) -> hub.Task:
    """The task without the marks for a single caller; a copy if it has any."""
    if not task.HasField("metadata") or not {RESUME_URI, SYNTHESISED} & set(task.metadata.fields):
        return task
    made = hub.Task()
    made.CopyFrom(task)
    unmark(made)
    return made


def _mark(first: hub.StreamResponse, known: hub.Task, after: str, id_: str) -> hub.StreamResponse:
    """The snapshot with the mark of a gap: the agent's own mark if it sent one."""
    if gap_of(first) is not None:
        return first
    made = hub.StreamResponse(task=known)
    mark_gap(made.task, after, id_)
    return made
