"""The limits within which an engine works: limits of time and of the event loop, and their errors.

Rules of RunTimer:
1. Both limits of time are off by default. Each run has its own, and they start anew with the next message.
2. Silence counts only while the engine waits for the executor: not while the store is slow, nor while the
   task waits for input.

Rules of Turns:
1. A run begins in a turn of the loop in which the runs before it have left time. Otherwise it waits for its
   place in a queue, which one run leaves in each turn: hundreds that begin together, each with long work
   before its first wait, would delay probes, signals and all other calls by the sum of it.
2. A run that has begun is not held up.

Rules of RunLocks:
1. A name is free again when its run leaves the block, for whatever reason.
2. Runs of this process wait for each other first, so that one of them at a time asks the store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from time import monotonic

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.event_log import Timer
from a2a_bridge.core.messages import INTERRUPTED
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Clock, Remote

#: a share: seconds of one turn in which further runs may begin
_SHARE = 0.005
#: artifacts of one task
MOST_ARTIFACTS = 10_000
TOO_LONG = "the agent did not finish within {:g} seconds"
SILENT = "the agent said nothing for {:g} seconds"


class RunTimer:
    """Measures one run. on_expired: called when a limit has passed."""

    _silent: Timer | None = None
    _whole: Timer | None = None
    _is_silent = _is_late = False

    def __init__(self, clock: Clock, options: EngineOptions, on_expired: Callable[[RunTimer], None]) -> None:
        self._clock = clock
        self._options = options
        self._on_expired = on_expired
        if options.run_timeout > 0:
            self._whole = clock.call_later(options.run_timeout, self._expire_whole)

    @property
    def expired(self) -> str:
        """The text for the caller if a limit has passed and the run has not gone on since; else empty."""
        if self._is_late:
            return TOO_LONG.format(self._options.run_timeout)
        return SILENT.format(self._options.silence_timeout) if self._is_silent else ""

    def ask(self, task: hub.Task | None) -> None:
        """The engine waits for the next event of the executor."""
        limit = self._options.silence_timeout
        if limit > 0 and (task is None or task.status.state not in INTERRUPTED):
            self._silent = self._clock.call_later(limit, self._expire_silent)

    def on_event(self) -> None:
        """The executor has yielded an event."""
        self._is_silent = False
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def close(self) -> None:
        """The run is over."""
        self.on_event()
        self._is_late = False
        if self._whole is not None:
            self._whole.cancel()
            self._whole = None

    def _expire_whole(self) -> None:
        self._is_late = True
        self._on_expired(self)

    def _expire_silent(self) -> None:
        self._is_silent = True
        self._on_expired(self)


def too_late(text: str) -> A2AError:
    """The response if there is no task that could fail."""
    return A2AError(Reason.DEADLINE_EXCEEDED, text, blame=Blame.SELF)


class Turns:
    """The turns of the running loop, as one engine uses them."""

    __slots__ = ("_began", "_ending", "_queue")

    def __init__(self) -> None:
        #: when the present share began
        self._began = 0.0
        #: True until the end of the turn in which it began
        self._ending = False
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def spent(self) -> bool:
        """True if the next run has to wait in `next`. To be asked at the begin of each run. The end of a turn
        is watched once for each share, and not for each run, which would cost seven frames. So a share that
        began in an earlier turn can pass, and a turn has two shares at most.
        """
        if monotonic() - self._began > _SHARE:
            if self._ending:
                return True
            self._begin()
        return bool(self._queue)

    async def next(self) -> None:
        """Waits for a turn in which the caller may begin."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        if not self._ending:
            self._begin()
        await place

    def _begin(self) -> None:
        self._ending = True
        self._began = monotonic()
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._ending = False
        queue = self._queue
        while queue:
            place = queue.popleft()
            if not place.done():  # else its caller has left
                place.set_result(None)
                break
        if queue:
            self._begin()  # and so its end comes after the run that leaves now


class RunLocks:
    """Locks by name that the runs of an agent share. remote: the other replicas; None if there are none."""

    def __init__(self, remote: Remote | None) -> None:
        self._remote = remote
        #: the lock of a name, and the number of runs that hold it or wait for it
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, name: str, /) -> AsyncIterator[None]:
        """Holds the lock of a name while the context is open; waits until no other run holds it."""
        lock, count = self._locks.get(name) or (asyncio.Lock(), 0)
        self._locks[name] = lock, count + 1
        try:
            async with lock, nullcontext() if self._remote is None else self._remote.lock(name):
                yield
        finally:
            _, count = self._locks[name]
            if count == 1:
                del self._locks[name]
            else:
                self._locks[name] = lock, count - 1


def already_ended(task_id: str) -> A2AError:
    """The response to a message to a task that has ended (spec 3.1.1)."""
    text = "the task has ended and takes no more messages"
    return A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": task_id})


def not_cancelable(task_id: str) -> A2AError:
    """The response to a cancellation of a task that has ended (spec 3.1.5)."""
    return A2AError(Reason.TASK_NOT_CANCELABLE, metadata={"taskId": task_id})


def broken_protocol_error(text: str) -> A2AError:
    """The response if the agent broke the protocol."""
    return A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.SELF)


def too_many_artifacts() -> A2AError:
    """What fails a run that makes more artifacts than a task may have."""
    text = (
        f"the task has more than {MOST_ARTIFACTS} artifacts: pieces of one artifact have the same artifactId"
    )
    return A2AError(Reason.RESOURCE_EXHAUSTED, text, blame=Blame.SELF)


def too_many_tasks(most: int, where: str = "") -> A2AError:
    """The response if a caller, or a tenant, has too many working tasks. where: added to the text."""
    text = f"more than {most} tasks are being worked on{where}"
    return A2AError(Reason.RESOURCE_EXHAUSTED, text, retry_after=1.0)
