"""Where a gateway keeps its streams: by caller and task, within bounds. It decides nothing about what callers see.

Rules:
1. One stream stands for a task. A newer one takes its place; the older lives as long as it has readers.
2. A stream that nobody reads lingers, unless the agent can resume it or it is over; then its log stays as it is.
3. Of what nobody reads, what was left longest ago goes first when there is too much. What is read is never thrown
   away: it keeps less, and new streams are not kept at all.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.resume import number_of
from a2a_bridge.core.scope import Scope
from a2a_bridge.core.service import Service
from a2a_bridge.dialects.marks import Finality
from a2a_bridge.gateway.feed import Feed
from a2a_bridge.gateway.replay import Log, Reader, ReplayOptions
from a2a_bridge.memory import MemoryAccount
from a2a_bridge.pb import lf_a2a_v1 as hub

Key = tuple[Scope, str]

#: seconds in which an agent may end the streams of a task itself that it has told to be over
_MOMENT = 2.0


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a stream begins. task: what is known before its first event; None for nothing. id: the agent's, of that
    event, or of the task if that came first; empty when it gives none. event: the first one, unless it was the task.
    """

    task: hub.Task | None
    id: str
    event: hub.StreamResponse | None = None
    whole: bool = True
    history: bool = True


class Stream:
    """A log and what feeds it. accepted: when the agent last accepted a request about this task from those whose it is,
    seconds on the loop's clock. key: None once it stands for nothing. theirs: its ids are the agent's.
    extensions: what the agent confirmed to the caller that began it.
    """

    __slots__ = ("accepted", "extensions", "feed", "key", "lingering", "log", "size", "theirs")

    def __init__(self, key: Key, log: Log, *, theirs: bool) -> None:
        self.key: Key | None = key
        self.log = log
        self.theirs = theirs
        self.extensions = ""
        self.accepted = asyncio.get_running_loop().time()
        self.feed: Feed
        self.lingering: asyncio.TimerHandle | None = None
        self.size = 0


class Shelf:
    """The streams of one agent. resumes: whether it can go on after its ids. is_final: see `Feed`."""

    def __init__(
        self,
        service: Service,
        options: ReplayOptions,
        memory: MemoryAccount,
        *,
        resumes: bool,
        is_final: Finality | None = None,
    ) -> None:
        self._service = service
        self._resumes = resumes
        self._is_final = is_final
        self._options = options
        self._epoch = f"g{secrets.token_hex(5)}"
        self._serial = count(1)
        self._streams: dict[Key, Stream] = {}
        #: all that are fed or stand for a task
        self._all: set[Stream] = set()
        #: those that nobody reads, the one left longest ago first
        self._idle: OrderedDict[Stream, None] = OrderedDict()
        self._held = 0
        self._memory = memory
        memory.holds(self)
        self._hanging_up: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._all)

    @property
    def held(self) -> int:
        """Bytes that all of them take, roughly."""
        return self._held

    @property
    def idle(self) -> int:
        """Bytes of those that nobody reads."""
        return sum(stream.size for stream in self._idle)

    def give_up(self, wanted: int, /) -> None:
        """Forgets streams that nobody reads, the one left longest ago first."""
        until = self._held - wanted
        while self._idle and self._held > until:
            self._discard(next(iter(self._idle)))

    def ours(self, id_: str) -> bool:
        """Whether an id was given by this process."""
        return id_.startswith(self._epoch)

    def find(self, key: Key) -> Stream | None:
        """The stream that stands for a task, if what it holds is of use."""
        stream = self._streams.get(key)
        if stream is not None and not stream.log.regular:
            self._unkey(stream)
            return None
        return stream

    def keep(
        self, key: Key, task_id: str, beginning: Beginning, context: CallContext, tenant: str
    ) -> Stream | None:
        """A new stream, not fed yet; None when there is no room for one."""
        while len(self._all) >= self._options.tasks:
            if not self._idle:
                return None
            self._discard(next(iter(self._idle)))
        epoch, _, _ = beginning.id.rpartition("-")
        number = number_of(beginning.id, epoch) if beginning.id else None
        theirs = number is not None
        if number is None:
            epoch, number = f"{self._epoch}{next(self._serial):x}", 0
        elif beginning.event is not None:
            number -= 1
        log = Log(
            task_id,
            beginning.task,
            self._options,
            epoch=epoch,
            base=number,
            whole=beginning.whole,
            history=beginning.history,
        )
        stream = Stream(key, log, theirs=theirs)
        stream.feed = Feed(
            self._service,
            log,
            context,
            tenant,
            self._options,
            resumes=self._resumes,
            theirs=theirs,
            heard=beginning.id,
            is_final=self._is_final,
            on_growth=lambda: self._weigh(stream),
        )
        if beginning.event is not None:
            log.append(beginning.event)
        before = self._streams.get(key)
        if before is not None:
            if before.log.live and before.log.whole and not log.whole and before.log.regular:
                stream.key = None
            else:
                self._unkey(before)
        if stream.key is not None:
            self._streams[key] = stream
        self._all.add(stream)
        self._weigh(stream)
        return stream

    def join(self, stream: Stream, place: int) -> Reader:
        """A reader of what follows a number."""
        if stream.lingering is not None:
            stream.lingering.cancel()
            stream.lingering = None
        self._idle.pop(stream, None)
        return stream.log.reader(place)

    def leave(self, stream: Stream, reader: Reader) -> None:
        """A reader has gone. Whoever was the last may end the stream."""
        log = stream.log
        log.leave(reader)
        self._weigh(stream)
        if log.readers or stream not in self._all:
            return
        if stream.key is None or not log.regular or stream.theirs:
            # The agent has all of it, or it is of no use.
            self._discard(stream)
            return
        self._idle[stream] = None
        if not log.live:
            return
        if log.ended or stream.feed.heard or not self._options.linger:
            self._hang_up(stream)
        else:
            loop = asyncio.get_running_loop()
            stream.lingering = loop.call_later(self._options.linger, self._hang_up, stream)

    def over(self, task: hub.Task) -> None:
        """Has the streams of a task that is over end with its status, unless the agent ends them in the meantime."""
        if task.status.state not in TERMINAL:
            return
        later = asyncio.get_running_loop().call_later
        for stream in self._all:
            # Ids of the agent's are for its events alone; agents that give any end their streams.
            if stream.log.task_id == task.id and stream.log.live and not stream.theirs:
                later(_MOMENT, self._conclude, stream, task)

    async def aclose(self) -> None:
        """Hangs up on all of them."""
        for stream in list(self._all):
            self._discard(stream)
        if self._hanging_up:
            await asyncio.wait(self._hanging_up)

    # ------------------------------------------------------------------ bounds

    def _weigh(self, stream: Stream) -> None:
        self._resize(stream, stream.log.size)
        if self._held <= self._options.total or stream not in self._all:
            return
        while self._held > self._options.total and self._idle:
            self._discard(next(iter(self._idle)))
        if self._held > self._options.total and stream in self._all:
            stream.log.shrink()
            self._resize(stream, stream.log.size)

    def _resize(self, stream: Stream, size: int) -> None:
        change, stream.size = size - stream.size, size
        self._held += change
        self._memory.add(change)

    def _unkey(self, stream: Stream) -> None:
        """It stands for its task no longer."""
        if stream.key is not None:
            if self._streams.get(stream.key) is stream:
                del self._streams[stream.key]
            stream.key = None
        if not stream.log.readers:
            self._discard(stream)

    def _discard(self, stream: Stream) -> None:
        if stream.key is not None and self._streams.get(stream.key) is stream:
            del self._streams[stream.key]
        stream.key = None
        self._all.discard(stream)
        self._idle.pop(stream, None)
        self._resize(stream, 0)
        self._hang_up(stream)

    def _conclude(self, stream: Stream, task: hub.Task) -> None:
        log = stream.log
        if not log.live or log.ended:
            return
        update = hub.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
        log.append(hub.StreamResponse(status_update=update))
        self._weigh(stream)
        log.stop()
        self._hang_up(stream)

    def _hang_up(self, stream: Stream) -> None:
        if stream.lingering is not None:
            stream.lingering.cancel()
            stream.lingering = None
        going = stream.feed.cancel()
        if going is not None:
            self._hanging_up.add(going)
            going.add_done_callback(self._hanging_up.discard)
