"""The content of a store in memory: the tasks of a scope, the events of a task, and ids of sent messages.

Rules:
1. A task with a writer is its working copy. Any other task is kept serialized: smaller than a live message,
   faster to read than a copy, and immutable. But of large tasks that have not ended the last ones stay
   working copies, with which the next turn of a conversation goes on.
2. The writer of a log waits for the slowest reader. A log has notes: the task after a change that is no
   event, such as a message that joined its history. With a note, and the events after it, earlier states are
   known exactly. Notes go with the events before them, and beyond a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from a2a_bridge.bindings.memory import MemoryAccount, Table, Tables, size_of
from a2a_bridge.core.event_log import EventLog, LogRules
from a2a_bridge.core.messages import copy_shown
from a2a_bridge.core.paging import PageTokens, TaskPageFiller
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, Sent, TaskPage, TaskQuery

#: bytes of all ids of messages and of their responses
_MOST_BYTES = 256 << 20

_parse = hub.Task.FromString


@dataclass(slots=True, eq=False)
class Entry:
    """One task."""

    scope: Scope
    task_id: str
    context_id: str
    state: hub.TaskState = hub.TASK_STATE_UNSPECIFIED
    time: int = 0
    data: bytes = b""
    #: the working copy of its writer, or the one that its last writer left, if it is newer than `data`
    live: hub.Task | None = None
    #: True if the task may have a writer
    held: bool = True
    version: int = 0
    #: the number of its last event
    last: int = 0
    #: the bytes that are counted for it
    size: int = 0
    #: the same when its working copy was measured last
    measured: int = 0

    def read(self, limit: int | None = None) -> hub.Task:
        """A copy of the task. limit: the newest messages of the history that are needed; None for all."""
        if self.live is None:
            return _parse(self.data)
        copy = hub.Task()
        copy_shown(copy, self.live, limit)
        return copy

    def rest(self) -> int:
        """Ends its lease, and serializes it. Returns the bytes by which it counts for more."""
        if self.live is not None:
            self.look()
            # The order of maps matters to who parses it: see `live_task.begin_with`.
            self.data = self.live.SerializeToString(deterministic=True)
            self.live = None
        self.held = False
        before, self.size = self.size, len(self.data)
        return self.size - before

    def measure(self) -> int:
        """Measures the working copy, if it has grown by its size. Returns the bytes that it was larger."""
        if self.live is None or self.size < 2 * self.measured:
            return 0
        before, self.size = self.size, self.live.ByteSize()
        self.measured = self.size
        return self.size - before

    def look(self) -> None:
        """Reads state and time from the working copy, if there is one."""
        if self.live is not None:
            status = self.live.status
            stamp = status.timestamp
            self.time = stamp.seconds * 1_000_000_000 + stamp.nanos
            self.state = status.state


class TaskTable:
    """The tasks of one scope in the order of (time, id), as of the last listing.

    A listing first moves the tasks whose status has changed since. A status is nearly always newer than all
    before it, so appending keeps the order; otherwise the table is sorted.
    """

    __slots__ = ("_entries", "_newest", "moved")

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._newest = (0, "")
        #: new tasks and tasks with a new status since the last listing, in the order of these changes
        self.moved: dict[str, Entry] = {}

    def remove(self, task_id: str) -> bool:
        """Removes a task. True if none is left."""
        self._entries.pop(task_id, None)
        self.moved.pop(task_id, None)
        return not self._entries and not self.moved

    def _put_in_order(self) -> None:
        entries, newest, ordered = self._entries, self._newest, True
        for task_id, entry in self.moved.items():
            entry.look()
            entries.pop(task_id, None)
            entries[task_id] = entry
            key = (entry.time, task_id)
            if key < newest:
                ordered = False
            else:
                newest = key
        self._newest = newest
        self.moved.clear()
        if not ordered:
            in_order = sorted(entries.values(), key=lambda entry: (entry.time, entry.task_id))
            self._entries = {entry.task_id: entry for entry in in_order}

    def page(self, scope: Scope, query: TaskQuery, tokens: PageTokens) -> TaskPage:
        """Implements `Store.list`."""
        self._put_in_order()
        after = tokens.after(scope, query)
        # The most frequent query, and the only query that need not check every task.
        unfiltered = not query.context_id and not query.state and query.since is None
        page = TaskPageFiller(artifacts=query.artifacts, history_length=query.history_length)
        last: Entry | None = None
        total = left = 0
        for entry in self._match(query):
            total += 1
            if after is not None and (entry.time, entry.task_id) >= after:
                continue
            if not left and len(page.tasks) < query.page_size and page.add(entry.read(query.history_length)):
                last = entry
                continue
            left += 1
            if unfiltered:
                total = len(self._entries)
                break
        token = ""
        if last is not None and left:
            token = tokens.next_token(scope, query, (last.time, last.task_id))
        return TaskPage(page.tasks, token, total)

    def _match(self, query: TaskQuery) -> Iterator[Entry]:
        for entry in reversed(self._entries.values()):
            if query.since is not None and entry.time < query.since:
                return
            if query.context_id and entry.context_id != query.context_id:
                continue
            if query.state and entry.state != query.state:
                continue
            yield entry


#: the number of an event and the task after it, serialized; empty before the first
Note = tuple[int, bytes]


class MemoryLog(EventLog[hub.StreamResponse]):
    """The newest events of one task. memory: the account, from which the bytes of dropped events and notes
    are subtracted. on_quiet: called when the last reader has left.
    """

    # Most logs have no notes: the first note makes the member for them.
    __slots__ = ("_dropped_notes", "_memory", "_noted", "_notes", "_on_quiet", "task_id")

    def __init__(
        self,
        rules: LogRules,
        task_id: str,
        last: int,
        memory: MemoryAccount,
        on_quiet: Callable[[MemoryLog], None],
    ) -> None:
        super().__init__(rules, last)
        self.task_id = task_id
        self._memory = memory
        self._on_quiet = on_quiet
        #: the task after changes that are not events; their bytes; whether any were dropped
        self._notes: deque[Note] | None = None
        self._noted = 0
        self._dropped_notes = False

    @property
    def bytes(self) -> int:
        """The bytes of everything stored here."""
        return self._noted + self._total - self._dropped

    def forget(self) -> None:
        """Drops the content: it is no longer needed."""
        self._memory.add(-self.bytes)

    def note(self, task: hub.Task) -> None:
        """Stores the task after a change that is not an event."""
        data = task.SerializeToString()
        if self._notes is None:
            self._notes = deque()
        notes = self._notes
        if notes and notes[-1][0] == self.last:
            self._drop_note(notes.pop())  # no event lies between the two: nobody can request the older one
        notes.append((self.last, data))
        self._noted += len(data)
        self._memory.add(len(data))
        while self._noted > self.rules.size and len(notes) > 1:
            self._drop_note(notes.popleft())
            self._dropped_notes = True

    def skip_note(self) -> None:
        """Notes nothing of a change that is not an event: states before it are forgotten."""
        if self._notes is not None:
            while self._notes:
                self._drop_note(self._notes.popleft())
        self._dropped_notes = True

    def start(self, sequence: int) -> Note | None:
        """The state from which events lead to the task after event `sequence`; None if it is forgotten."""
        for note in reversed(self._notes or ()):
            if note[0] < sequence:
                return note
        return None if self.base or self._dropped_notes else (0, b"")

    def after(self, position: int, most: int) -> list[hub.StreamResponse]:
        """Stored events after a position."""
        start = position - self.base
        return self.events[start : start + most]

    def on_drop(self, _: Sequence[hub.StreamResponse], size: int, /) -> None:
        self._memory.add(-size)
        while self._notes and self._notes[0][0] < self.base:
            self._drop_note(self._notes.popleft())

    def left(self) -> None:
        self._on_quiet(self)

    def _drop_note(self, note: Note) -> None:
        self._noted -= len(note[1])
        self._memory.add(-len(note[1]))


class MemorySends:
    """Implements SendRegister. memory: the account; None for one of its own. most: remembered messages;
    beyond that, and when memory is short, the oldest are evicted.
    """

    def __init__(self, memory: MemoryAccount | None = None, most: int = 100_000) -> None:
        self._sent: Table[tuple[Scope, str], Sent] = Table(most, Tables.of(memory), most_bytes=_MOST_BYTES)

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        known = self._sent.get((scope, message_id))
        if known is not None and known != instead:
            return known
        self._put(scope, message_id, Sent(digest, task_id))
        return None

    async def store_response(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        known = self._sent.get((scope, message_id))
        if known is not None:
            self._put(scope, message_id, known._replace(answer=answer))

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        self._sent.pop((scope, message_id))

    def _put(self, scope: Scope, message_id: str, sent: Sent) -> None:
        size = size_of(scope, message_id, sent.task_id) + len(sent.digest) + len(sent.answer)
        self._sent.put((scope, message_id), sent, size)
