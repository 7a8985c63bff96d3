"""The work of a database for a store: read and write rows. `StoreBase` is the store above it.

Rules:
1. A driver knows rows: texts, numbers and bytes. It never parses a body, a segment or a response, and it
   decides nothing: leases, groups of writes, retries, readers, checksums and page tokens are the engine's.
2. `write` gets all changes of a group, and is called again only after it has returned or raised. Each change
   is stored whole or not at all; stored changes are durable when it returns. If it raises, nothing
   counts as stored, and it is called again with the same sequence until it succeeds.
3. A task is its body plus the events after `applied`, in order. A change without a body leaves the body as it
   is. Segments are never changed. A driver with `keeps_joined = True` also stores the messages that join the
   history, as it stores segments; other drivers get the whole body when a message joins.
4. Everything is by scope and key. Texts of callers may contain any character, NUL included.
5. Push configs and the outbox are no rows of this protocol: `StoreBase` keeps them in memory, unless it is
   given others, which write with the same groups (`sql/push.py`). The store in memory is no driver: with
   one caller at a time, rows and groups in a dict cost 1.4 times the CPU per task, and 2.7 times per event.
6. A driver for one process says `""` for each holder that it reads: nobody else holds anything. A driver
   for several processes names the live holder.
7. With several processes, a process that was declared dead must not begin with a task: others may have
   executed the call for which it does so. A change that creates a task (version 1), or only acquires its
   lease (a holder, neither segments nor body), is a CONFLICT if `by` is dead.
8. With several processes, a suspended process may hold the lock of a row. A change that `acquires` a task
   does not wait for it: it is a CONFLICT. Any other change waits for a limited time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.stores.ports import Remote, Scope, TaskQuery
from a2a_bridge.stores.row_format import Joined, Segment

#: the range of times in rows, in nanoseconds since the epoch
EARLIEST, LATEST = -(2**63), 2**63 - 1


class Place(NamedTuple):
    """The values by which a task is listed and counted."""

    context: str
    state: int
    #: of its status, in nanoseconds since the epoch, between EARLIEST and LATEST
    time: int


class TaskRow(NamedTuple):
    """One task as the database has it."""

    #: a task id exists in one scope only
    scope: Scope
    task_id: str
    place: Place
    #: each change adds 1
    version: int
    #: the number of the task's last event
    last: int
    #: the number of the last event that the body contains
    applied: int
    #: the process that works on the task; in a row that is read: see rule 6
    holder: str
    #: the serialized task after event `applied`; None in a change that leaves it as it is
    body: bytes | None
    #: of the body; None where it is None, and in rows of versions without checksums
    checksum: int | None
    #: only in rows that are read: the segments with the events after `applied`
    tail: Sequence[Segment] = ()
    #: when this change was made, in seconds since the epoch
    written: float = 0.0
    #: the number of the last message that joined the history and has a row, and of the last of them that the
    #: body contains; both 0 without `keeps_joined`
    joined: int = 0
    joined_applied: int = 0
    #: only in rows that are read: the messages after `joined_applied`
    joined_tail: Sequence[Joined] = ()

    @property
    def ended(self) -> bool:
        """True if no event follows: the task has a terminal state."""
        return self.place.state in TERMINAL


class TaskChange(NamedTuple):
    """One change of one task. It applies to version `row.version - 1` of the task; 0 means that there must be
    no task.
    """

    row: TaskRow
    #: the events that follow the events in the database
    segments: Sequence[Segment]
    #: the values by which the task was listed until now; None for a new task
    before: Place | None
    #: the same events one by one, serialized: for the outbox, and for readers elsewhere
    events: Sequence[bytes] = ()
    #: True if the events belong into the outbox
    notify: bool = False
    #: the process that makes the change
    by: str = ""
    #: True for the first change of a task that this process has acquired
    acquires: bool = False
    #: the messages that follow those in the database; empty without `keeps_joined`
    joined: Sequence[Joined] = ()


class SentRow(NamedTuple):
    """The result of a message."""

    digest: bytes
    task_id: str
    #: the serialized direct response; may be empty
    answer: bytes
    #: the process that works on it; in a row that is read: see rule 6
    holder: str
    checksum: int | None


class SentChange(NamedTuple):
    """One change of the register of messages. It applies if the database has `before`, holders aside, and no
    other live process holds it.
    """

    scope: Scope
    message_id: str
    #: None if the message must be new
    before: SentRow | None
    #: None to delete the row, whatever `before` is; with several processes only a row that this one holds
    after: SentRow | None


class Position(NamedTuple):
    """The end of a task's log."""

    last: int
    #: True if no event follows
    ended: bool


class Found(NamedTuple):
    """One page of a list."""

    #: in the order of the list
    rows: Sequence[TaskRow]
    #: the number of matching tasks on all pages
    total: int
    #: True if further rows follow
    more: bool


class Expiry(NamedTuple):
    """The data that may be deleted: everything that was written longer ago than so many seconds, by the clock
    that the rows have. Processes on several machines have several clocks.
    """

    #: messages
    sends: float
    #: the segments of ended tasks, since their last change
    events: float
    #: ended tasks; None to keep all
    tasks: float | None


class Records(Protocol):
    """A driver for one process. A driver for several processes also has the members of `SharedRecords`.
    Methods that read raise A2AError UNAVAILABLE, or OSError, if the database cannot be read.
    """

    async def read_tasks(self, tasks: Sequence[tuple[Scope, str]], /) -> Sequence[TaskRow | None]:
        """The rows of tasks with bodies and tails, in this order; None where the scope has no such task. May
        leave out the last rows, but not the first, when bodies are megabytes.
        """

    async def read_events(
        self, task_id: str, after: int, size: int, /
    ) -> tuple[Position | None, Sequence[Segment]]:
        """The end of the log (None if there is no task), and segments with events after a number, oldest
        first. size: bytes after which no further segment is needed.
        """

    async def find(self, scope: Scope, query: TaskQuery, after: tuple[int, str] | None, /) -> Found:
        """Rows of a scope by (time, id), the highest first, with bodies and tails.

        query: filters and the largest number of rows; its token is not for the driver. after: the (time, id)
        of the last row of the page before; None for the first page. May return fewer rows and say `more`
        when their bodies are megabytes.
        """

    async def held(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        """Tasks whose row names a holder that is dead or this process, the newest status first."""

    async def read_sent(self, scope: Scope, message_id: str, /) -> SentRow | None:
        """The row of a message; None if there is none."""

    async def write(self, changes: Sequence[Any], /) -> Sequence[Any]:
        """Stores TaskChange and SentChange. Returns one result for each of them, in their order.

        None: it is stored. CONFLICT: the database has another version, or another `before`. An exception:
        the database will never accept this change. Raises OSError or A2AError if nothing was stored (rule 2).
        """

    async def delete_expired(self, expiry: Expiry, write: Callable[[Any], Awaitable[Any]], /) -> None:
        """Deletes expired data. Called now and then, also while a group is written.

        write: writes a change of the driver's own with the next group and returns its result, for drivers
        that delete in portions between other writes.
        """

    async def close(self) -> None:
        """Releases the database. No other call follows."""


@runtime_checkable
class SharedRecords(Records, Protocol):
    """A driver for several processes on one database. It calls `StoreBase.heard` or `wake` for tasks that
    are read here and written elsewhere, `unreachable` and `let_go`.
    """

    @property
    def me(self) -> str:
        """The present name of this process as a holder."""

    @property
    def remote(self) -> Remote | None:
        """Calls to the other processes; None where there are none."""

    def on_orphans(self, callback: Callable[[], None], /) -> None:
        """Registers a callback for new orphans: called after a start and when another process has died."""

    def follow(self, task_id: str, /) -> None:
        """A task has readers here."""

    def unfollow(self, task_id: str, /) -> None:
        """A task has no readers here any more."""


class _Conflict:
    """The type of CONFLICT."""

    def __repr__(self) -> str:
        return "CONFLICT"


#: the result of a change that does not apply to what the database has
CONFLICT = _Conflict()
