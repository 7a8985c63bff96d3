"""The streams of a gateway by caller and task, within bounds. It does not decide what callers see.

Rules:
1. A task has one current stream. A newer one replaces it; the older one lives as long as it has readers.
2. A stream without readers lingers, unless the agent can resume it or it is over; then only its log is
   kept.
3. Streams without readers are evicted in LRU order. A stream with readers is never evicted: under pressure it
   keeps fewer events, and new streams are not kept at all.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from itertools import count

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.event_log import LogReader
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.resume import is_gap, number_of
from a2a_bridge.core.service import Event, Service
from a2a_bridge.dialects.annotation import Finality
from a2a_bridge.gateway.replay_log import ReplayLog, ReplayOptions
from a2a_bridge.gateway.stream_reader import StreamReader
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


class Stream:
    """A replay log and the reader that fills it."""

    __slots__ = ("accepted", "extensions", "key", "linger_timer", "log", "reader", "size")

    def __init__(self, key: Key, log: ReplayLog, reader: StreamReader) -> None:
        #: None once it is no longer current
        self.key: Key | None = key
        self.log = log
        self.reader = reader
        #: the extensions that the agent confirmed to the caller that began the stream
        self.extensions = ""
        #: when the agent last accepted a request of these callers about this task; seconds on the loop's
        #: clock
        self.accepted = asyncio.get_running_loop().time()
        self.linger_timer: asyncio.TimerHandle | None = None
        self.size = 0


class StreamRegistry:
    """The streams of one agent. resumes: True if the agent resumes after its ids. is_final: see
    `StreamReader`.
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
        self._rules = options.log_rules()
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
        """Whether a stream has readers."""
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
        """A new stream that is not being read yet; None if there is no room for one."""
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
        stream = Stream(key, log, reader)
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

    def leave(self, stream: Stream, reader: LogReader[Event]) -> None:
        """Closes a reader. The last one may end the stream."""
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
        Another tenant may have a task with the same id.
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
