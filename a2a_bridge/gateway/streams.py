"""The streams of a gateway: each is a replay log of the agent's events about one task, with the reading that
fills it, in a registry by caller and task, within bounds. Other services decide which events callers see.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from typing import Any

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import IllegalStateError
from a2a_bridge.core.event_log import LogReader
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import is_gap, number_of
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.dialects.annotation import Finality
from a2a_bridge.gateway.replay_log import AGENT, MAPPED, OURS, ReplayLog, log_rules
from a2a_bridge.gateway.stream_reader import StreamReader, given_up_error
from a2a_bridge.gateway.stream_states import DETACHED, GONE, LINGERING, LIVES, PARKED, READ, Life
from a2a_bridge.pb import lf_a2a_v1 as hub

#: of the callers, and the id of their task
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

    key: Key
    log: ReplayLog
    #: the tenant in the request that began it
    tenant: str
    #: when the agent last accepted a request of these callers about this task, on the loop's clock
    accepted: float
    #: the extensions that the agent confirmed to the caller that began the stream
    extensions: str
    #: changed by `StreamRegistry._move` only
    life: Life
    #: ends LINGERING
    timer: asyncio.TimerHandle | None = None
    size: int = 0
    #: the present run of reading the agent's stream, or the last one
    reading: StreamReader = field(init=False)

    @property
    def place(self) -> object:
        """Its key in the collection for its life: more than one of a task may be detached."""
        return self if self.life is DETACHED else self.key


class StreamRegistry:
    """The streams of one agent.

    Rules:
    1. A task has at most one stream that callers may join. A newer stream replaces it, unless only the older
       has the task that a subscriber gets.
    2. Without readers, the agent's stream ends: at once if the agent can resume it, else after a while. Only
       the log is kept then; and not even that if its ids are those of the agent, which has the events itself.
    3. Streams without readers are evicted in LRU order. A stream with readers is never evicted: under
       pressure it keeps fewer events, and new streams are not kept at all.
    4. `stream_states` has the lives of a stream. Each life has one collection, and one method moves streams.

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
        self._start = partial(StreamReader, service, options, is_final)
        self._rules = log_rules(options)
        self._epoch = f"g{secrets.token_hex(5)}"
        self._serial = count(1)
        self._read: dict[Key, Stream] = {}
        self._detached: dict[Stream, Stream] = {}
        #: those that linger and those that are parked, in LRU order
        self._idle: dict[Key, Stream] = {}
        self._kept: dict[Life, dict[Any, Stream]] = {
            READ: self._read,
            DETACHED: self._detached,
            LINGERING: self._idle,
            PARKED: self._idle,
        }
        self._held = 0
        self._memory = memory
        memory.holds(self)
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._read) + len(self._detached) + len(self._idle)

    def __iter__(self) -> Iterator[Stream]:
        return chain(self._read.values(), self._detached, self._idle.values())

    @property
    def held(self) -> int:
        """Approximate bytes of all streams."""
        return self._held

    @property
    def idle(self) -> int:
        """Approximate bytes of the streams without readers."""
        return sum(stream.size for stream in self._idle.values())

    @property
    def is_read(self) -> bool:
        """Whether a stream has readers, also while the agent's stream is interrupted."""
        return bool(self._read or self._detached)

    def give_up(self, wanted: int, /) -> None:
        """Evicts streams without readers, in LRU order, to free that many bytes."""
        self._shrink(self._held - wanted)

    def is_own_id(self, id_: str) -> bool:
        """True if this process generated the id."""
        return id_.startswith(self._epoch)

    def find(self, key: Key) -> Stream | None:
        """The stream of a task that callers may join."""
        return self._read.get(key) or self._idle.get(key)

    def begin(
        self,
        key: Key,
        beginning: Beginning,
        source: Events,
        context: CallContext,
        tenant: str,
        extensions: str,
    ) -> tuple[Stream, LogReader[Event]] | None:
        """A new stream with a reader of the events after the first; None if there is no room for it, and
        after `aclose`.
        """
        while len(self) >= self._options.tasks:
            if not self._idle:
                return None
            self._evict()
        if self._closed:
            return None
        log = self._log(key[1], beginning)
        before = self.find(key)
        life = READ
        if before is not None:
            if not before.log.ended and before.log.whole and not log.whole:
                life = DETACHED
            else:
                self._detach(before)
        stream = Stream(key, log, tenant, asyncio.get_running_loop().time(), extensions, life)
        self._kept[life][stream.place] = stream
        reader = log.reader(log.last)
        log.on_change = partial(self._weigh, stream)
        self._weigh(stream)
        self._read_from(stream, context, source)
        return stream, reader

    def join(self, stream: Stream, place: int) -> LogReader[Event]:
        """A reader of the events after a number."""
        if stream.life is not READ:
            self._move(stream, READ)
        return stream.log.reader(place)

    def revive(self, stream: Stream, context: CallContext) -> None:
        """Continues a stream that the agent ended. Raises UNAVAILABLE after `aclose`: it would not end."""
        if stream.life is GONE:
            raise given_up_error()
        self._read_from(stream, context)

    def leave(self, stream: Stream, reader: LogReader[Event]) -> None:
        """Closes a reader. The last reader may end the stream."""
        log = stream.log
        reader.close()
        self._weigh(stream)
        if log.readers or stream.life is GONE:
            return
        if stream.life is DETACHED or log.ids is AGENT:
            self._move(stream, GONE)
        elif log.ended or log.task_ended or log.agent_id or not self._options.linger:
            self._move(stream, PARKED)
        else:
            self._move(stream, LINGERING)

    def over(self, task: hub.Task, tenant: str) -> None:
        """Ends the streams of a finished task with its status, unless the agent ends them in the meantime.
        tenant: of the task; another tenant may have a task with the same id.
        """
        if task.status.state not in TERMINAL:
            return
        for stream in self:
            if stream.log.task_id == task.id and stream.tenant == tenant:
                stream.reading.end_with(task)

    async def aclose(self) -> None:
        """Closes all streams. No other begins."""
        self._closed = True
        while (stream := next(iter(self), None)) is not None:
            self._move(stream, GONE)
        self._memory.holds_no_more(self)
        if self._tasks:
            await asyncio.wait(self._tasks)

    # ------------------------------------------------------------------ lives

    def _move(self, stream: Stream, life: Life) -> None:
        """Raises IllegalStateError for a transition that the table does not have."""
        if life not in LIVES[stream.life]:
            raise IllegalStateError("a stream", stream.life, life)
        if stream.timer is not None:
            stream.timer.cancel()
            stream.timer = None
        # From LINGERING to PARKED it keeps its place in the order.
        stays = self._kept.get(life) is self._kept[stream.life]
        if not stays:
            del self._kept[stream.life][stream.place]
        stream.life = life
        if not stays and life is not GONE:
            self._kept[life][stream.place] = stream
        if life is LINGERING:
            later = asyncio.get_running_loop().call_later
            stream.timer = later(self._options.linger, self._move, stream, PARKED)
        elif life is PARKED or life is GONE:
            stream.reading.give_up()
        if life is GONE:
            self._resize(stream, 0)

    def _detach(self, stream: Stream) -> None:
        """Leaves a stream to its readers, if it has any."""
        self._move(stream, DETACHED if stream.life is READ else GONE)

    def _read_from(self, stream: Stream, context: CallContext, source: Events | None = None) -> None:
        """Starts to read a stream of the agent. None: a new subscription."""
        on_end = partial(self._ended, stream)
        stream.reading = self._start(stream.log, context, stream.tenant, on_end, source)
        self._tasks.add(stream.reading.task)
        stream.reading.task.add_done_callback(self._tasks.discard)

    def _ended(self, stream: Stream) -> None:
        self._weigh(stream)
        if stream.life is LINGERING:
            self._move(stream, PARKED)

    # ------------------------------------------------------------------ bounds

    def _log(self, task_id: str, beginning: Beginning) -> ReplayLog:
        """The log of a new stream. Its first event decides whose ids count."""
        first = beginning.first
        # A stream that resumes after an id may begin with a task, too: there it is an event like all others.
        update = None if beginning.task is not None and first.message.HasField("task") else first.message
        epoch, _, _ = first.id.rpartition("-")
        number = number_of(first.id, epoch) if first.id else None
        if number is not None:
            ids, base = AGENT, number if update is None else number - 1
        else:
            ids, base = MAPPED if self._resumes else OURS, 0
            epoch = f"{self._epoch}{next(self._serial):x}"
        log = ReplayLog(
            self._rules,
            task_id,
            beginning.task,
            ids=ids,
            epoch=epoch,
            base=base,
            whole=beginning.whole,
            agent_id=first.id,
            most_task=self._options.task_size,
        )
        if update is not None:
            log.add(Event(update, first.id, is_gap(update)))
        return log

    def _weigh(self, stream: Stream) -> None:
        """Notes the size of a stream, and whether it has events of this task only."""
        if not stream.log.regular and stream.life not in (DETACHED, GONE):
            self._detach(stream)
        if stream.life is GONE:
            return  # it no longer counts
        self._resize(stream, stream.log.held)
        most = self._options.total
        if self._held > most:
            self._shrink(most)
        if self._held > most and stream.life is not GONE:
            stream.log.forget_task()
            stream.log.drop_read()
            self._resize(stream, stream.log.held)

    def _shrink(self, most: int) -> None:
        """Evicts streams without readers until so many bytes are held."""
        while self._held > most and self._idle:
            self._evict()

    def _evict(self) -> None:
        self._move(next(iter(self._idle.values())), GONE)

    def _resize(self, stream: Stream, size: int) -> None:
        change, stream.size = size - stream.size, size
        self._held += change
        self._memory.add(change)
