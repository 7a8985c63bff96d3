"""The newest events of tasks that other replicas hold, as the holders commit them. The log has these events,
too.

Rules:
1. A reader subscribes to the topic of its task, tells the holder that it reads, reads the log, and then
   follows the topic. At a jump of the number, a lower fencing number or a lost message it reads the log
   again. So a lost message costs time, and never an event.
2. A holder sends only while somebody elsewhere has said that it reads. Saying so lasts for a time.
3. A look into the database finds what no message said: seldom while the bus works, once a second without it,
   and sooner while tasks move on where no bus delivers events.
"""

import asyncio
import json
import logging
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

from a2a_bridge.cluster.bus import Bus, BusDownError, NobodyError
from a2a_bridge.cluster.calls import OVERHEAD, Frame, FrameKind
from a2a_bridge.core.errors import A2AError

log = logging.getLogger("a2a_bridge.hosting.cluster")

#: seconds between two looks into the database: with a working bus, and without one
SAFETY, POLL = 5.0, 1.0
#: the first pause after a task has moved on, where every event has to be looked for
_QUICK = 0.05
#: seconds after a reader has begun until it follows: streams of tasks that are begun here have no writer yet
_BEGIN = 0.01
#: seconds for which a holder sends, and after which a reader says again that it reads
_SENDS, _SAYS = 45.0, 15.0
#: seconds that a reader waits for the holder's word
_WORD = 2.0
#: maximum tasks of one request
_AT_ONCE = 1000

_HEADER = struct.Struct("!QQIB")
_SIZE = struct.Struct("!I")


class Committed(NamedTuple):
    """What one commit did to one task."""

    task_id: str
    #: the fencing number: the version of the task's row
    fence: int
    #: the number of the first event
    first: int
    #: the serialized events
    data: Sequence[bytes]
    #: True if the task has ended
    ended: bool
    #: True if this replica no longer holds the task
    released: bool


class Position(NamedTuple):
    """A task as the database has it."""

    last: int
    fence: int
    ended: bool
    #: the live replica that holds it; empty for none
    holder: str


class ClusterStore(Protocol):
    """The store of a replica, as the other replicas concern it. All methods run in its loop."""

    def is_holder(self, task_id: str, /) -> bool:
        """True if this replica holds the task: then its readers get the events without a bus."""

    def heard(self, task_id: str, first: int, data: Sequence[bytes], ended: bool, /) -> None:
        """Events that another replica has committed. Events that do not follow are looked for in the log."""

    def wake(self, task_ids: Sequence[str], /) -> None:
        """The log of these tasks may have further events."""

    async def positions(self, task_ids: Sequence[str], /) -> Mapping[str, Position]:
        """Tasks as the database has them now. Raises A2AError."""

    def unreachable(self) -> None:
        """The database does not answer."""

    def outbox_changed(self) -> None:
        """The outbox may have new entries."""

    def let_go(self) -> None:
        """All leases are lost, because this replica was declared dead and has a new name."""


@dataclass(slots=True, eq=False)
class _Followed:
    """A task that is read here."""

    #: ends the subscription; None while the task is written here
    leave: Callable[[], None] | None = None
    last: int = -1
    fence: int = 0
    ended: bool = False
    holder: str = ""
    #: when the holder was told
    said: float = float("-inf")


class Tails:
    """The tails of a replica."""

    #: set before the first `follow`
    store: ClusterStore

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._followed: dict[str, _Followed] = {}
        self._looking: asyncio.Task[None] | None = None
        self._now = asyncio.Event()
        #: tasks that others read, and until when
        self._read_elsewhere: dict[str, float] = {}

    # ------------------------------------------------------------------ for the store

    def follow(self, task_id: str) -> None:
        """A task has readers here."""
        self._followed[task_id] = _Followed()
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_on(), name="a2a cluster tails")
        else:
            asyncio.get_running_loop().call_later(_BEGIN, self._now.set)

    def unfollow(self, task_id: str) -> None:
        """A task has no readers here any more."""
        followed = self._followed.pop(task_id, None)
        if followed is not None and followed.leave is not None:
            followed.leave()

    def publish(self, commits: Iterable[Committed]) -> None:
        """Sends the commits of this replica."""
        if self._followed:
            for commit in commits:
                if commit.released and not commit.ended and commit.task_id in self._followed:
                    self._now.set()
        if not self._read_elsewhere:
            return
        time = now()
        for commit in commits:
            until = self._read_elsewhere.get(commit.task_id)
            if until is None:
                continue
            if until < time:
                del self._read_elsewhere[commit.task_id]
            else:
                self._bus.publish(topic(commit.task_id), _encode(commit, self._bus.most))

    def on_gap(self) -> None:
        """Any message may have been lost, or a holder may have changed."""
        for followed in self._followed.values():
            followed.said = float("-inf")
        self._now.set()

    def close(self) -> None:
        for task_id in list(self._followed):
            self.unfollow(task_id)
        if self._looking is not None:
            self._looking.cancel()

    # ------------------------------------------------------------------ for holders

    def told(self, frame: Frame) -> Frame:
        """Another replica reads tasks of this replica."""
        time = now()
        self._read_elsewhere |= dict.fromkeys(json.loads(frame.body), time + _SENDS)
        if len(self._read_elsewhere) > 10 * _AT_ONCE:
            self._read_elsewhere = {one: end for one, end in self._read_elsewhere.items() if end > time}
        return Frame(FrameKind.DONE, frame.call)

    # ------------------------------------------------------------------ for readers

    def _hear(self, task_id: str, data: bytes) -> None:
        followed = self._followed.get(task_id)
        if followed is None or self.store.is_holder(task_id):
            return
        fence, first, count, ended = _HEADER.unpack_from(data)
        if fence <= followed.fence and first + count - 1 <= followed.last:
            return  # the log has shown it already
        if fence <= followed.fence or (not count and not ended):
            # Of a holder before the present holder, or a reference.
            self.store.wake([task_id])
            return
        followed.fence = fence
        followed.last = max(followed.last, first + count - 1)
        followed.ended = bool(ended)
        self.store.heard(task_id, first, _events(data, count), bool(ended))

    async def _look_on(self) -> None:
        pause = _BEGIN
        while self._followed:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._now.wait()
            self._now.clear()
            wanted = self._list_subscribed()
            moved, told = False, True
            try:
                for start in range(0, len(wanted), _AT_ONCE):
                    moved = await self._look(wanted[start : start + _AT_ONCE]) or moved
                if self._bus.pushes:
                    told = await self._say()
            except A2AError:
                told = False  # the store says so elsewhere
            except Exception:
                log.exception("the events of other replicas cannot be read")
                told = False
            if self._bus.pushes:
                pause = SAFETY if told and self._bus.live else POLL
            else:
                pause = _QUICK if moved else min(POLL, pause * 2)
        self._looking = None

    def _list_subscribed(self) -> list[str]:
        """The tasks that others write, each with a subscription."""
        wanted = []
        for task_id, followed in self._followed.items():
            if self.store.is_holder(task_id):
                if followed.leave is not None:
                    followed.leave()
                    followed.leave = None
                continue
            if followed.ended:
                continue
            wanted.append(task_id)
            if followed.leave is None:
                followed.said = float("-inf")
                followed.leave = self._bus.subscribe(
                    topic(task_id),
                    lambda data, task_id=task_id: self._hear(task_id, data),  # type: ignore[misc]
                )
        return wanted

    async def _look(self, task_ids: Sequence[str]) -> bool:
        """Looks tasks up; wakes the readers of tasks that have moved on."""
        moved = []
        for task_id, position in (await self.store.positions(task_ids)).items():
            followed = self._followed.get(task_id)
            if followed is None:
                continue
            if position.last > followed.last or position.ended > followed.ended:
                moved.append(task_id)
            followed.last = max(followed.last, position.last)
            followed.fence = max(followed.fence, position.fence)
            followed.ended = followed.ended or position.ended
            if position.holder != followed.holder:
                followed.holder, followed.said = position.holder, float("-inf")
        if moved:
            self.store.wake(moved)
        return bool(moved)

    async def _say(self) -> bool:
        """Tells holders that their tasks are read here, and looks again. True if all of them know."""
        due = now() - _SAYS
        holders: dict[str, list[str]] = {}
        lacking = False
        for task_id, followed in self._followed.items():
            if followed.leave is None or followed.ended:
                continue
            if not followed.holder:
                lacking = True
            elif followed.said < due:
                holders.setdefault(followed.holder, []).append(task_id)
        if not holders:
            return not lacking
        all_told = await asyncio.gather(*(self._tell(holder, tasks) for holder, tasks in holders.items()))
        for told in all_told:
            # Finds events that were committed before the holder knew.
            await self._look([one for one in told if one in self._followed])
        return not lacking and all(all_told)

    async def _tell(self, holder: str, task_ids: list[str]) -> list[str]:
        """The tasks that their holder now knows to be read here."""
        told: list[str] = []
        size = self._bus.most - OVERHEAD
        for start in range(0, len(task_ids), _AT_ONCE):
            some = task_ids[start : start + _AT_ONCE]
            body = json.dumps(some).encode()
            if len(body) > size:
                continue
            try:
                await self._bus.request(holder, Frame(FrameKind.READS, bytes(16), body=body).encode(), _WORD)
            except (NobodyError, BusDownError, TimeoutError):
                return told
            for task_id in some:
                if (followed := self._followed.get(task_id)) is not None and followed.holder == holder:
                    followed.said = now()
            told += some
        return told


def topic(task_id: str) -> str:
    """The topic of a task: ids have any characters, and topics do not."""
    return blake2b(task_id.encode(), digest_size=15).hexdigest()


def _encode(commit: Committed, most: int) -> bytes:
    size = _HEADER.size + sum(_SIZE.size + len(one) for one in commit.data)
    if size > most:
        # A reference: the events are in the log.
        return _HEADER.pack(commit.fence, commit.first, 0, 0)
    parts = [_HEADER.pack(commit.fence, commit.first, len(commit.data), commit.ended)]
    for one in commit.data:
        parts += (_SIZE.pack(len(one)), one)
    return b"".join(parts)


def _events(data: bytes, count: int) -> list[bytes]:
    found, at = [], _HEADER.size
    for _ in range(count):
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        found.append(data[at : at + size])
        at += size
    return found


def now() -> float:
    """The time of the running loop, in seconds."""
    return asyncio.get_running_loop().time()
