"""The streams of a gateway: each is a replay log of the agent's events about one task, with the reader that
fills it, in a registry by caller and task, within bounds. Other services decide which events callers see.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from itertools import count

from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import IN_PROCESS, LAST_EVENT_PARAMETER, Call, CallContext, ResponseParameters
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error
from a2a_bridge.core.event_log import LogReader
from a2a_bridge.core.messages import RUNNING, TERMINAL
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import is_gap, mark_gap, number_of
from a2a_bridge.core.service import Event, Events, Service, innermost
from a2a_bridge.dialects.annotation import FINAL_STATES, Finality
from a2a_bridge.gateway.replay_log import LostEventsError, ReplayLog, log_rules, unmark
from a2a_bridge.gateway.upstream import SILENCE
from a2a_bridge.pb import lf_a2a_v1 as hub

Key = tuple[Scope, str]

#: seconds for an agent to end the streams of a task itself, after it reported the task's end
_MOMENT = 2.0


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a stream begins."""

    #: the first event, with the agent's id; empty if the agent cannot resume after it
    first: Event
    #: the task before the first event, or in it; None if unknown
    task: hub.Task | None
    #: True if `task` is the task that a subscriber would get
    whole: bool = True
    #: a generated task that the caller gets before the first event
    shown: hub.Task | None = None


@dataclass(slots=True, eq=False)
class Stream:
    """A replay log and the reader that fills it."""

    #: None once it is no longer current
    key: Key | None
    log: ReplayLog
    reader: StreamReader
    #: when the agent last accepted a request of these callers about this task, on the loop's clock
    accepted: float
    #: the extensions that the agent confirmed to the caller that began the stream
    extensions: str = ""
    linger_timer: asyncio.TimerHandle | None = None
    size: int = 0


class StreamRegistry:
    """The streams of one agent.

    Rules:
    1. A task has one current stream. A newer stream replaces it; the older lives while it has readers.
    2. A stream without readers lingers. If the agent can resume it or it is over, only its log is kept; and
       not even that if its ids are those of the agent, which has the events itself.
    3. Streams without readers are evicted in LRU order. A stream with readers is never evicted: under
       pressure it keeps fewer events, and new streams are not kept at all.

    resumes: True if the agent resumes after its ids. is_final: see `StreamReader`.
    """

    def __init__(
        self,
        service: Service,
        options: ReplayOptions,
        memory: MemoryAccount,
        *,
        resumes: bool,
        is_final: Finality | None,
    ) -> None:
        self._service = service
        self._resumes = resumes
        self._is_final = is_final
        self._options = options
        self._rules = log_rules(options)
        self._epoch = f"g{secrets.token_hex(5)}"
        self._serial = count(1)
        self._streams: dict[Key, Stream] = {}
        #: all streams that are current or being read
        self._all: set[Stream] = set()
        #: the streams without readers, in LRU order
        self._idle: OrderedDict[Stream, None] = OrderedDict()
        self._held = 0
        self._memory = memory
        memory.holds(self)
        self._hanging_up: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._all)

    @property
    def held(self) -> int:
        """Approximate bytes of all streams."""
        return self._held

    @property
    def idle(self) -> int:
        """Approximate bytes of the streams without readers."""
        return sum(stream.size for stream in self._idle)

    @property
    def is_read(self) -> bool:
        """Whether a stream has readers, also while the agent's stream is interrupted."""
        return any(stream.log.readers for stream in self._all)

    def give_up(self, wanted: int, /) -> None:
        """Evicts streams without readers, in LRU order, to free that many bytes."""
        until = self._held - wanted
        while self._idle and self._held > until:
            self._discard(next(iter(self._idle)))

    def is_own_id(self, id_: str) -> bool:
        """True if this process generated the id."""
        return id_.startswith(self._epoch)

    def find(self, key: Key) -> Stream | None:
        """The current stream of a task, if it is usable."""
        stream = self._streams.get(key)
        if stream is not None and not stream.log.regular:
            self._supersede(stream)
            return None
        return stream

    def keep(
        self, key: Key, task_id: str, beginning: Beginning, context: CallContext, tenant: str
    ) -> Stream | None:
        """A new stream that is not being read yet; None if there is no room for it."""
        while len(self._all) >= self._options.tasks:
            if not self._idle:
                return None
            self._discard(next(iter(self._idle)))
        first = beginning.first
        # A stream that resumes after an id may begin with a task, too: there it is an event like all others.
        update = None if beginning.task is not None and first.message.HasField("task") else first.message
        epoch, _, _ = first.id.rpartition("-")
        number = number_of(first.id, epoch) if first.id else None
        agents_ids = number is not None
        if number is None:
            epoch, number = f"{self._epoch}{next(self._serial):x}", 0
        elif update is not None:
            number -= 1
        log = ReplayLog(
            self._rules,
            task_id,
            beginning.task,
            epoch=epoch,
            base=number,
            whole=beginning.whole,
            resumes=self._resumes,
            agents_ids=agents_ids,
            agent_id=first.id,
            most_task=self._options.task_size,
        )
        reader = StreamReader(self._service, log, context, tenant, self._options, self._is_final)
        stream = Stream(key, log, reader, asyncio.get_running_loop().time())
        log.on_growth = partial(self._weigh, stream)
        if update is not None:
            log.add(Event(update, first.id, is_gap(update)))
        before = self._streams.get(key)
        if before is not None:
            old = before.log
            if not old.ended and old.whole and not log.whole and old.regular:
                stream.key = None
            else:
                self._supersede(before)
        if stream.key is not None:
            self._streams[key] = stream
        self._all.add(stream)
        self._weigh(stream)
        return stream

    def join(self, stream: Stream, place: int) -> LogReader[Event]:
        """A reader of the events after a number."""
        if stream.linger_timer is not None:
            stream.linger_timer.cancel()
            stream.linger_timer = None
        self._idle.pop(stream, None)
        return stream.log.reader(place)

    def revive(self, stream: Stream, context: CallContext) -> None:
        """Continues a stream that the agent ended. Raises UNAVAILABLE after `aclose`: it would not end."""
        if stream not in self._all:
            raise _given_up_error()
        stream.reader.context = context
        stream.reader.start()

    def leave(self, stream: Stream, reader: LogReader[Event]) -> None:
        """Closes a reader. The last reader may end the stream."""
        log = stream.log
        reader.close()
        self._weigh(stream)
        if log.readers or stream not in self._all:
            return
        if stream.key is None or not log.regular or log.agents_ids:
            # The agent has all events, or the log cannot be used.
            self._discard(stream)
            return
        self._idle[stream] = None
        if log.ended:
            return
        if log.task_ended or log.agent_id or not self._options.linger:
            self._hang_up(stream)
        else:
            loop = asyncio.get_running_loop()
            stream.linger_timer = loop.call_later(self._options.linger, self._hang_up, stream)

    def over(self, task: hub.Task, tenant: str) -> None:
        """Ends the streams of a finished task with its status, unless the agent ends them in the meantime.
        tenant: of the task; another tenant may have a task with the same id.
        """
        if task.status.state not in TERMINAL:
            return
        later = asyncio.get_running_loop().call_later
        for stream in self._all:
            log = stream.log
            if log.task_id != task.id or stream.reader.tenant != tenant:
                continue
            # Ids of the agent identify its own events only; agents with ids end their streams.
            if not log.ended and not log.agents_ids:
                later(_MOMENT, self._conclude, stream, task)

    async def aclose(self) -> None:
        """Closes all streams."""
        for stream in list(self._all):
            self._discard(stream)
        self._memory.holds_no_more(self)
        if self._hanging_up:
            await asyncio.wait(self._hanging_up)

    # ------------------------------------------------------------------ bounds

    def _weigh(self, stream: Stream) -> None:
        if stream not in self._all:
            return  # it no longer counts
        self._resize(stream, stream.log.held)
        while self._held > self._options.total and self._idle:
            self._discard(next(iter(self._idle)))
        if self._held > self._options.total and stream in self._all:
            stream.log.forget_task()
            stream.log.drop_read()
            self._resize(stream, stream.log.held)

    def _resize(self, stream: Stream, size: int) -> None:
        change, stream.size = size - stream.size, size
        self._held += change
        self._memory.add(change)

    def _unkey(self, stream: Stream) -> None:
        """Makes the stream no longer the current one of its task."""
        if stream.key is not None:
            del self._streams[stream.key]
            stream.key = None

    def _supersede(self, stream: Stream) -> None:
        """Leaves a stream to its readers, if it has any."""
        self._unkey(stream)
        if not stream.log.readers:
            self._discard(stream)

    def _discard(self, stream: Stream) -> None:
        self._unkey(stream)
        self._all.discard(stream)
        self._idle.pop(stream, None)
        self._resize(stream, 0)
        self._hang_up(stream)

    def _conclude(self, stream: Stream, task: hub.Task) -> None:
        log = stream.log
        if log.ended or log.task_ended:
            return
        update = hub.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
        log.add(Event(hub.StreamResponse(status_update=update)))
        self._weigh(stream)
        log.stop()
        self._hang_up(stream)

    def _hang_up(self, stream: Stream) -> None:
        if stream.linger_timer is not None:
            stream.linger_timer.cancel()
            stream.linger_timer = None
        closing = stream.reader.cancel()
        if closing is not None:
            self._hanging_up.add(closing)
            closing.add_done_callback(self._hanging_up.discard)


logger = logging.getLogger("a2a_bridge.gateway.stream_reader")

#: seconds in which an agent without ids has to answer a new subscription with an event
_QUIET = 5.0
#: errors with which an agent may answer a subscription although it has the task
_REJECTIONS = (
    Reason.UNSUPPORTED_OPERATION,
    Reason.TASK_NOT_FOUND,
    Reason.METHOD_NOT_FOUND,
    Reason.INVALID_PARAMS,
)


def _given_up_error() -> A2AError:
    return A2AError(Reason.UNAVAILABLE, "the stream was given up", blame=Blame.SELF)


def ended_early_error() -> A2AError:
    """The error for a stream of 0.x that the agent closed while its task was working."""
    text = "the agent's stream ended before its task, without a final event; subscribe again, or get the task"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.PEER, retry_after=0.0)


def must_go_on(is_final: Finality, last: hub.StreamResponse, state: hub.TaskState) -> bool:
    """True if a stream of 0.x must not end after this event, in this state of its task."""
    working = state in RUNNING or state == hub.TASK_STATE_UNSPECIFIED
    return working and not (last.HasField("status_update") and is_final(last.status_update))


class StreamReader:
    """Reads the agent's stream of one task into a replay log, and subscribes again when the stream breaks.

    Rules:
    1. One asyncio task reads each stream, because the stream has to outlive the caller that began it, and a
       caller that leaves must not cancel a read of the agent. All callers read the log.
    2. A stream that the agent ended is over, and so is a stream that broke after the task had come to rest.
       Any other break is followed by a subscription: after the last event if the agent resumes; else its
       snapshot replaces the lost events, and is marked as a gap.
    3. Readers get an error only if all attempts failed, the agent rejects, or it skips ids.
    4. Only UNAVAILABLE, and DEADLINE_EXCEEDED because of the first caller's deadline, count as a break. So
       does a stream of 0.x that ends while the task works and no event was final.
    5. The agent may reject the subscription although it has the task (some forget the streams of a task).
       Then GetTask decides, and readers get the break, not the rejection.

    context: the context of the caller that began or last revived the stream, with the forwarded parameters
    only. tenant: of the request of that caller. is_final: which status event ends a stream of the agent's
    version; None for versions without such events.
    """

    def __init__(
        self,
        service: Service,
        log: ReplayLog,
        context: CallContext,
        tenant: str,
        options: ReplayOptions,
        is_final: Finality | None,
    ) -> None:
        self.context = context
        self.tenant = tenant
        self._service = service
        self._log = log
        self._options = options
        self._is_final = is_final
        self._attempts = 0
        #: the reason for the last new subscription; None for the first stream
        self._break: A2AError | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False

    def start(self, source: Events | None = None) -> None:
        """Starts to read a stream; the caller may have read its first event. None: subscribes anew."""
        self._log.reopen()
        self._attempts = 0
        self._break = None
        self._begun = False
        source = None if source is None else innermost(source)
        self._task = asyncio.create_task(self._run(source), name=f"a2a gateway stream {self._log.task_id}")

    def cancel(self) -> asyncio.Task[None] | None:
        """Stops reading. Returns the asyncio task that closes the agent's stream, if there is one."""
        task, self._task = self._task, None
        if task is None or task.done():
            return None
        if not self._log.ended:
            self._log.stop(_given_up_error())
        if self._begun:
            task.cancel()
        # A task that is cancelled before its first step would not close the stream. So it runs: `_run` sees
        # that the task is old, and closes the stream.
        return task

    async def has_moved(self) -> bool:
        """True if the task has left the state in which its stream ended; False if the agent does not tell."""
        log = self._log
        before = log.snapshot()
        try:
            now = (await self._get_task()).status
        except A2AError as failure:
            logger.debug("whether task %s has gone on is not known: %s", log.task_id, failure)
            return False
        if before is None:
            return now.state != log.state
        return (now.state, now.timestamp) != (before.status.state, before.status.timestamp)

    async def _run(self, source: Events | None) -> None:
        if self._task is not asyncio.current_task():
            if source is not None:
                await source.aclose()
            return
        self._begun = True
        error: A2AError | None = None
        try:
            if source is None:
                source = await self._open_continuation()
            while source is not None:
                failure = await self._read(source)
                source = await self._open_continuation() if await self._broke(failure) else None
        except A2AError as failure:
            error = failure
        except Exception:
            logger.exception("the stream of task %s failed", self._log.task_id)
            error = internal_error()
        self._log.stop(error)

    async def _read(self, source: Events) -> A2AError | None:
        """Reads a stream to its end, and closes it. Returns the error that ended it."""
        log = self._log
        try:
            await log.room()
            async for event in source:
                log.add(event)
                self._attempts = 0
                if log.crowded:
                    await log.room()
        except A2AError as failure:
            return failure
        finally:
            await source.aclose()
        return None

    # ------------------------------------------------------------------ after a break

    async def _broke(self, failure: A2AError | None) -> bool:
        """True if the end of the source is a break. Raises the failure if it is the agent's response."""
        log = self._log
        if failure is None:
            if self._has_ended_early():
                self._break = ended_early_error()
                return not await self._has_settled(self._break)
            resting = log.state in FINAL_STATES or not log.regular
            if self._break is not None and not resting and not log.agents_ids:
                await self._settle(self._break)
            return False
        if log.task_ended or (log.state in FINAL_STATES and not await self.has_moved()):
            logger.debug("a stream broke after the task had come to rest: %s", failure)
            return False
        if isinstance(failure, LostEventsError) or not log.regular or not self._is_break(failure):
            raise failure
        logger.debug("the stream of task %s broke: %s", log.task_id, failure)
        self._break = failure
        return True

    def _is_break(self, error: A2AError) -> bool:
        if error.reason is Reason.DEADLINE_EXCEEDED:
            return self.context.deadline is not None and error.metadata.get("phase") != SILENCE
        return error.reason is Reason.UNAVAILABLE

    def _has_ended_early(self) -> bool:
        """True if the agent closed its first stream without a final event, although its version has them."""
        log = self._log
        if self._is_final is None or self._break is not None or not log.regular:
            return False
        last = log.events[-1].message if log.events else hub.StreamResponse()
        return must_go_on(self._is_final, last, log.state)

    async def _open_continuation(self) -> Events | None:
        """A stream that continues after the log; None if the task is over. Raises the first error."""
        options = self._options
        while self._attempts < options.attempts:
            if self._attempts:
                pause = min(options.pause * 2 ** (self._attempts - 1), options.longest_pause)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  no secret
            self._attempts += 1
            try:
                return await self._subscribe()
            except A2AError as failure:
                if failure.reason is not Reason.UNAVAILABLE or isinstance(failure, LostEventsError):
                    raise
                logger.debug("task %s cannot be subscribed to: %s", self._log.task_id, failure)
                self._break = self._break or failure
        raise self._break or LostEventsError()

    async def _subscribe(self) -> Events | None:
        log = self._log
        after = log.agent_id
        parameters = dict(self.context.parameters)
        if after:
            parameters[LAST_EVENT_PARAMETER] = after
        # Without a version, so that streams of older agents get the newest form: a task comes first.
        context = self.context.replace(
            parameters=parameters, deadline=None, origin=IN_PROCESS, reply=ResponseParameters()
        )
        request = hub.SubscribeToTaskRequest(id=log.task_id, tenant=self.tenant)
        source = self._service.stream(Call(ops.SUBSCRIBE_TO_TASK, request, context))
        attempts = self._attempts
        try:
            # Some agents lose their subscribers when they fail, and never send another event.
            async with asyncio.timeout(None if after else _QUIET):
                first = await anext(source)
            await self._join(first, resumed=bool(after))
        except (TimeoutError, StopAsyncIteration) as ended:
            await source.aclose()
            # After an id, the end of a stream is the end of the task. Otherwise the task's state decides.
            if not after or isinstance(ended, TimeoutError):
                await self._settle(LostEventsError())
            return None
        except A2AError as failure:
            await source.aclose()
            if failure.reason not in _REJECTIONS:
                raise
            unsupported = failure.reason is Reason.UNSUPPORTED_OPERATION
            await self._settle(failure if unsupported else self._break or LostEventsError())
            return None
        except BaseException:
            await source.aclose()
            raise
        if not after:
            # The first event of each subscription is no progress.
            self._attempts = attempts
        if log.task_ended:
            await source.aclose()
            return None
        return innermost(source)

    async def _join(self, first: Event, *, resumed: bool) -> None:
        """Adds the first event of a new stream: the next event, or a snapshot in place of lost events."""
        log = self._log
        is_task = first.message.HasField("task") and first.message.task.id == log.task_id
        if not (resumed and not first.gap and (log.agents_ids or not is_task)):
            if log.agents_ids:
                log.regular = False
                raise LostEventsError
            self._add_gap(first.message.task if is_task else await self._get_task())
            if is_task:
                return
        log.add(first)
        self._attempts = 0

    def _add_gap(self, now: hub.Task) -> None:
        log = self._log
        snapshot = hub.StreamResponse(task=now)
        unmark(snapshot.task)
        if log.events and log.events[-1].gap and log.snapshot() == snapshot.task:
            return  # the same gap: no event arrived since
        id_ = log.id(log.last + 1)
        mark_gap(snapshot.task, log.id(log.last), id_)
        # Without an id of its own, unless the ids are the agent's: the agent cannot resume after it.
        log.add(Event(snapshot, id_ if log.agents_ids else "", gap=True))

    async def _has_settled(self, rejected: A2AError) -> bool:
        """True if the task has come to rest; then readers get it. Asks the agent once."""
        try:
            await self._settle(rejected)
        except A2AError as failure:
            if failure is not rejected:
                logger.debug("how task %s ended is not known: %s", self._log.task_id, failure)
            return False
        return True

    async def _settle(self, rejected: A2AError) -> None:
        """Passes a task at rest to readers. Raises `rejected` if it is not at rest, and errors of GetTask."""
        task = await self._get_task()
        if task.status.state not in FINAL_STATES:
            raise rejected
        self._add_gap(task)

    async def _get_task(self) -> hub.Task:
        """Raises the agent's error, and UNAVAILABLE after a timeout."""
        context = self.context.replace(deadline=None, origin=IN_PROCESS)
        begun = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(tenant=self.tenant), context)
        return await fetch_task(self._service, begun, self._log.task_id)
