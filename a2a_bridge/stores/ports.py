"""The protocols of a store, which is everything that the engine keeps; errors of stores; and the clock.

Rules:
1. Every method is scoped: data of another scope looks exactly like data that does not exist.
2. Stores keep and return copies, so changes to a message outside have no effect inside. Events are the
   exception: they are shared and must not be changed.
3. The log of a task is the source of truth: events are numbered from 1 without gaps; the task is their sum.
4. Readers and waiters get only durable data.
5. A task has one writer at a time, the holder of its lease. Another process may take it over only from a dead
   process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import Scope, scope_of
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.event_log import GapError, Timer
from a2a_bridge.core.paging import TaskQuery
from a2a_bridge.core.service import Event, Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Delivery, Outbox, OutboxEntry, PushConfigStore, Registered

__all__ = [
    "Clock",
    "Delivery",
    "GapError",
    "Outbox",
    "OutboxEntry",
    "PushConfigStore",
    "Registered",
    "Remote",
    "Replica",
    "Scope",
    "SendRegister",
    "Sent",
    "Store",
    "Stored",
    "Subscription",
    "TaskPage",
    "TaskQuery",
    "TaskWriter",
    "VersionConflictError",
    "WriteTotals",
    "scope_of",
    "unavailable",
]


class Stored(NamedTuple):
    """A task as stored."""

    task: hub.Task
    #: the version that `Store.open` expects
    version: int
    #: the number of the task's last event
    last: int = 0
    #: the live replica that holds the lease, if it is another replica; otherwise empty
    holder: str = ""
    #: for the store: the number of the last event in the stored body
    applied: int = 0
    #: for the store: the bytes of the task, about; 0 if they are not known
    size: int = 0
    #: for the store: the bytes of them that are not in the stored body
    behind: int = 0
    #: for the store: the numbers of the last message that joined, and of the last one in the stored body
    joined: tuple[int, int] = (0, 0)


class VersionConflictError(Exception):
    """The task was changed, taken over or created by another process in the meantime."""


def unavailable() -> A2AError:
    """The error for callers while the store does not work."""
    text = "the agent's store is not available; try again"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)


class TaskPage(NamedTuple):
    """One page of a list."""

    tasks: list[hub.Task]
    #: empty on the last page
    next_page_token: str
    #: the number of matching tasks on all pages
    total: int
    #: the number of tasks of this page that are missing because they cannot be read
    left_out: int = 0


#: called with None once the changes are durable, or with VersionConflictError or A2AError UNAVAILABLE
Synced = Callable[[Exception | None], None]


def ignore_loss() -> None:
    """The `on_lost` of an unused lease, which is not acquired yet or has ended."""


class TaskWriter(Protocol):
    """The lease on one task, and the only way to write it. Calls return before the change is durable. Once
    the lease is lost (another process took over or created the task), `on_lost` has been called, and further
    changes are dropped.
    """

    @property
    def last(self) -> int:
        """The number of the last appended event; once the lease is lost, of the last durable one."""

    @property
    def stored(self) -> int:
        """The number of the last durable event."""

    @property
    def pending(self) -> bool:
        """True if any change is not durable yet. Always False in stores that are not durable."""

    def append(self, event: hub.StreamResponse, task: hub.Task, /) -> int:
        """Adds an event and returns its number. The first event creates the task. task: the working copy
        after the event. The writer may read it again until it is durable, so the caller must change it only
        together with a call of `append` or `amend`.
        """

    def amend(self, task: hub.Task, joined: hub.Message | None = None, /) -> None:
        """Notes a change of the task that is not an event. joined: the message of its history, if the change
        is `lifecycle.join`; None for any other change.
        """

    def when_synced(self, callback: Synced, /) -> None:
        """Calls `callback` once all changes so far are durable; now if they are. The store commits soon."""

    async def sync(self) -> None:
        """Waits until all changes so far are durable. Raises VersionConflictError, A2AError UNAVAILABLE."""

    @property
    def crowded(self) -> bool:
        """True if `room` would wait. Asked after each event."""

    async def room(self) -> None:
        """Back-pressure: returns when the store, and the readers that it depends on, can take more events."""

    def release(self) -> None:
        """Releases the lease after all changes so far are written. Then any process can open the task."""


class Subscription(Protocol):
    """One reader of a task's events, in the order of their numbers."""

    @property
    def position(self) -> int:
        """The number of the event before the first event of the last `take`."""

    async def take(self) -> Sequence[hub.StreamResponse]:
        """The next events, at least one; empty after the last. They are shared: treat them as immutable.
        Raises GapError, and A2AError after `Store.end` or when this reader was too slow.
        """

    def close(self) -> None:
        """Stops reading. May be called twice."""


class Sent(NamedTuple):
    """A message that was sent before."""

    #: the digest of its content
    digest: bytes
    #: the id of the task that the message belongs to or creates
    task_id: str
    #: the serialized SendMessageResponse, if the response was a direct message; otherwise empty
    answer: bytes = b""
    #: the live replica that works on the message, if it is another replica; otherwise empty
    holder: str = ""


class SendRegister(Protocol):
    """Keeps the ids of messages for a bounded time, so that a repeated message has one run only."""

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        """Reserves the id of a new message durably and returns None; or returns the first use of the id.
        instead: an earlier result that led to no task; it is replaced if it is still stored.
        """

    async def store_response(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        """Stores the direct response to a message durably. Raises VersionConflictError if another process has
        taken the message over, A2AError UNAVAILABLE.
        """

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        """Deletes an id: the message was rejected and may be sent again."""


class Replica(Protocol):
    """Another replica. A call about a task that it holds is a call of a Service. All methods raise
    OwnerLostError if it is dead or does not hold the task, A2AError UNAVAILABLE if it does not answer in
    time.
    """

    async def unary(self, call: Call[Any, Any], /) -> Any:
        """Executes a unary call there."""

    async def begin(self, call: Call[Any, Any], /) -> tuple[Event, bytes]:
        """Begins a stream there: its first event, and a key for `continues_after`. The log has the others."""

    async def continues_after(self, key: bytes, number: int, /) -> bool:
        """True if a stream goes on after an event; False if it ends there, or if nobody knows."""

    def leave(self, key: bytes, /) -> None:
        """A stream is not read any more."""


class Remote(Protocol):
    """The other replicas on the same store."""

    def replica(self, holder: str, /) -> Replica:
        """The replica of that name."""

    def serve(self, service: Service, /) -> None:
        """Answers the calls of other replicas with a service that does not forward them."""

    def lock(self, name: str, /) -> AbstractAsyncContextManager[None]:
        """The lock of a name, which one caller on all replicas holds while its context is open.

        Entering waits until the lock is free, also through an outage of the store. A dead replica holds none.
        """

    def takes(self, task_id: str, /) -> bool:
        """True if this replica takes over an orphaned task first. Another replica may do so, too."""

    async def stop(self) -> None:
        """Ends the streams of other replicas here."""


class WriteTotals(NamedTuple):
    """The writes of a store since it was opened."""

    #: transactions
    commits: int
    #: seconds that they have taken
    seconds: float
    #: tasks and other entries that they have changed
    changes: int
    #: bytes of events that wait to be written now
    queued: int


class Store(Protocol):
    """The store of an engine: see the rules above. `StoreBase` implements it on the rows of a driver."""

    #: True if the data outlives this process
    durable: bool
    push_configs: PushConfigStore
    outbox: Outbox
    sends: SendRegister
    #: the other replicas on this store; None where there can be none
    remote: Remote | None
    #: counts the memory that the store uses; above its limit the engine rejects new work
    memory: MemoryAccount

    def rejection(self) -> A2AError | None:
        """UNAVAILABLE, with a retry time, while the store cannot take new work; otherwise None."""

    def create(
        self, scope: Scope, task_id: str, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> TaskWriter:
        """A writer for a new task, which exists once its first event is durable. on_lost: called once if
        another process gets the task. push: True to put its events into the outbox.
        """

    async def open(
        self,
        scope: Scope,
        stored: Stored,
        on_lost: Callable[[], None],
        /,
        *,
        push: bool = False,
        wait: bool = True,
    ) -> TaskWriter:
        """Acquires the lease on a stored task that no live process holds. Returns when the lease is durable.

        wait: False to acquire it with the first write, so that both are one change; if another process was
        faster, `on_lost` is called. Raises VersionConflictError when the task has another version or is held.
        """

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        """The task with all its events, None when this scope has no such task."""

    async def working_copy(self, scope: Scope, task_id: str, /) -> Stored | None:
        """As `get`, for a caller that opens the task next, and alone. The task may be the copy that the last
        writer has left, which is changed only after `open`, and in which no message of the history is changed
        or removed: earlier readers of the history may still have it.
        """

    async def get_many(self, tasks: Sequence[tuple[Scope, str]], /) -> Sequence[Stored | None]:
        """The same for each of several tasks. None also for a task that cannot be read."""

    async def list(self, scope: Scope, query: TaskQuery, /) -> TaskPage:
        """Tasks by the time of their status, newest first, ties by id. Raises A2AError INVALID_PARAMS naming
        pageToken for a token that no page of the same query gave.
        """

    async def task_at(self, scope: Scope, task_id: str, sequence: int, /) -> hub.Task | None:
        """The task after an event, if that state is still known; otherwise the present task."""

    def subscribe(self, task_id: str, after: int, /) -> Subscription:
        """Reads the events after a number, the existing ones first. The task need not exist yet. The engine
        has checked that the caller may see it. A task that another replica has deleted is a gap.
        """

    def end(self, task_id: str, error: A2AError, /) -> None:
        """Ends this process's subscriptions of a task with an error."""

    async def orphans(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        """Tasks whose holder is dead, the task with the newest status first."""

    def on_orphans(self, callback: Callable[[], None], /) -> None:
        """Registers a callback for new orphans: called after a start, and whenever a replica has died."""


class Clock:
    """The machine's wall clock, and timers. Tests replace it."""

    #: nanoseconds since the epoch. Timestamps are cut to microseconds where they are made
    now = staticmethod(time.time_ns)

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        """Calls `callback` on the running loop after that many seconds."""
        return asyncio.get_running_loop().call_later(seconds, callback)


class StoreOpenError(Exception):
    """The store of a URL cannot be opened."""

    def __init__(self, text: str, remedy: str = "", *, unreachable: bool = False) -> None:
        super().__init__(f"{text}; try {remedy}" if remedy else text)
        #: the reason, for people
        self.text = text
        #: what to do: a command line or an option; may be empty
        self.remedy = remedy
        #: the database server does not answer or rejects the login: trying again may help
        self.unreachable = unreachable
