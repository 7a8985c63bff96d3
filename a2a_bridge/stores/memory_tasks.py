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

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
            # The order of maps matters to who parses it: see `pending_send.begin_with`.
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


#: the time and the id of a task: its position in every list of its scope
_Key = tuple[int, str]
#: a context and a state, empty and 0 for all; each has a list of its tasks
_Filter = tuple[str, int]

#: the tasks of a context that are looked through for a state; more of them have a list for each state
_FEW = 256
#: changes of one list that are made one by one, instead of making the list anew
_SINGLE = 16


class _Listed(NamedTuple):
    """A task as of the last listing."""

    entry: Entry
    time: int
    state: int


class TaskTable:
    """The tasks of one scope as of the last listing: for each filter the positions of its tasks, in order. A
    page, and the number of all tasks that match, are found by bisection.

    A listing first moves the tasks whose status has changed since. A status is nearly always newer than all
    before it.
    """

    __slots__ = ("_gone", "_listed", "_lists", "moved")

    def __init__(self) -> None:
        self._listed: dict[str, _Listed] = {}
        self._lists: dict[_Filter, list[_Key]] = {}
        #: tasks that were removed since the last listing, and that the lists still have
        self._gone: list[_Listed] = []
        #: new tasks and tasks with a new status since the last listing, in the order of these changes
        self.moved: dict[str, Entry] = {}

    def remove(self, task_id: str) -> bool:
        """Removes a task. True if none is left."""
        listed = self._listed.pop(task_id, None)
        if listed is not None:
            self._gone.append(listed)
        self.moved.pop(task_id, None)
        return not self._listed and not self.moved

    def _put_in_order(self) -> None:
        listed, gone = self._listed, self._gone
        removed: defaultdict[_Filter, list[_Key]] = defaultdict(list)
        added: defaultdict[_Filter, list[_Key]] = defaultdict(list)
        for task_id, entry in self.moved.items():
            entry.look()
            before = listed.get(task_id)
            if before is not None:
                gone.append(before)
            now = listed[task_id] = _Listed(entry, entry.time, entry.state)
            self._note(added, now)
        for before in gone:
            self._note(removed, before)
        self.moved.clear()
        gone.clear()
        for which in removed.keys() | added.keys():
            self._change(which, removed[which], added[which])

    def _note(self, changes: defaultdict[_Filter, list[_Key]], one: _Listed) -> None:
        """Adds a task to the changes of each list that it is in."""
        key, context, state = (one.time, one.entry.task_id), one.entry.context_id, one.state
        changes["", 0].append(key)
        if state:
            changes["", state].append(key)
        if context:
            changes[context, 0].append(key)
            # Only a large context has lists of its states, which the first question makes.
            if state and (context, state) in self._lists:
                changes[context, state].append(key)

    def _change(self, which: _Filter, removed: list[_Key], added: list[_Key]) -> None:
        keys = self._lists.setdefault(which, [])
        if len(removed) <= _SINGLE:
            for key in removed:
                del keys[bisect_left(keys, key)]
        else:
            without = set(removed)
            keys[:] = [key for key in keys if key not in without]
        if len(added) <= _SINGLE:
            for key in added:
                insort(keys, key)
        else:
            keys += added
            keys.sort()
        if not keys:
            del self._lists[which]

    def _matching(self, context: str, state: int) -> list[_Key]:
        """The positions of the tasks that match a filter."""
        found = self._lists.get((context, state))
        if found is not None or not (context and state):
            return found or []
        found = [key for key in self._lists.get((context, 0), ()) if self._listed[key[1]].state == state]
        if len(self._lists.get((context, 0), ())) > _FEW and found:
            self._lists[context, state] = found
        return found

    def page(self, scope: Scope, query: TaskQuery, tokens: PageTokens) -> TaskPage:
        """Implements `Store.list`."""
        self._put_in_order()
        after = tokens.after(scope, query)
        keys = self._matching(query.context_id, int(query.state))
        oldest = 0 if query.since is None else bisect_left(keys, (query.since, ""))
        end = len(keys) if after is None else bisect_left(keys, after)
        page = TaskPageFiller(artifacts=query.artifacts, history_length=query.history_length)
        place = end
        while place > oldest and len(page.tasks) < query.page_size:
            entry = self._listed[keys[place - 1][1]].entry
            if not page.add(entry.read(query.history_length)):
                break
            place -= 1
        token = ""
        if oldest < place < end:
            token = tokens.next_token(scope, query, keys[place])
        return TaskPage(page.tasks, token, len(keys) - oldest)


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
