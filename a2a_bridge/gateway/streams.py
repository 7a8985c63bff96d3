"""The streams of a gateway: each is a replay log of the agent's events about one task, with the reader that
fills it, in a registry by caller and task, within bounds. Other services decide which events callers see.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.event_log import LogReader
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import is_gap, number_of
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.dialects.annotation import Finality
from a2a_bridge.gateway.replay_log import ReplayLog, log_rules
from a2a_bridge.gateway.stream_reader import StreamReader, given_up_error
from a2a_bridge.pb import lf_a2a_v1 as hub

Key = tuple[Scope, str]


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
    """A replay log and the reading that fills it."""

    #: None once it is no longer current
    key: Key | None
    log: ReplayLog
    #: the tenant in the request that began it
    tenant: str
    #: when the agent last accepted a request of these callers about this task, on the loop's clock
    accepted: float
    #: the extensions that the agent confirmed to the caller that began the stream
    extensions: str = ""
    linger_timer: asyncio.TimerHandle | None = None
    size: int = 0
    #: the present run of reading the agent's stream, or the last one
    reading: StreamReader = field(init=False)


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
        self._resumes = resumes
        self._options = options
        self._reading = partial(StreamReader, service, options, is_final)
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
        self._tasks: set[asyncio.Task[None]] = set()

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

    def begin(
        self,
        key: Key,
        task_id: str,
        beginning: Beginning,
        source: Events,
        context: CallContext,
        tenant: str,
        extensions: str,
    ) -> tuple[Stream, LogReader[Event]] | None:
        """A new stream with a reader of the events after the first; None if there is no room for it."""
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
        made = Stream(key, log, tenant, asyncio.get_running_loop().time(), extensions)
        log.on_growth = partial(self._weigh, made)
        if update is not None:
            log.add(Event(update, first.id, is_gap(update)))
        reader = log.reader(log.last)
        before = self._streams.get(key)
        if before is not None:
            old = before.log
            if not old.ended and old.whole and not log.whole and old.regular:
                made.key = None
            else:
                self._supersede(before)
        if made.key is not None:
            self._streams[key] = made
        self._all.add(made)
        self._weigh(made)
        self._read(made, context, source)
        return made, reader

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
            raise given_up_error()
        self._read(stream, context)

    def _read(self, stream: Stream, context: CallContext, source: Events | None = None) -> None:
        on_end = partial(self._weigh, stream)
        stream.reading = self._reading(stream.log, context, stream.tenant, on_end, source)
        self._tasks.add(stream.reading.task)
        stream.reading.task.add_done_callback(self._tasks.discard)

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
        for stream in self._all:
            if stream.log.task_id == task.id and stream.tenant == tenant:
                stream.reading.end_with(task)

    async def aclose(self) -> None:
        """Closes all streams."""
        for stream in list(self._all):
            self._discard(stream)
        self._memory.holds_no_more(self)
        if self._tasks:
            await asyncio.wait(self._tasks)

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

    def _hang_up(self, stream: Stream) -> None:
        if stream.linger_timer is not None:
            stream.linger_timer.cancel()
            stream.linger_timer = None
        stream.reading.give_up()
