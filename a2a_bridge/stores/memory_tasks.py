"""The tasks of one scope in memory, in list order. It knows neither events nor writers.

A task with a writer is its working copy. Any other is kept serialized: smaller than a live message, faster to
read than a copy, and immutable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from a2a_bridge.core.paging import PageTokens, TaskPageFiller
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, TaskPage, TaskQuery

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
    #: the working copy of its writer, if it is newer than `data`
    live: hub.Task | None = None
    #: True if the task may have a writer
    held: bool = True
    version: int = 0
    #: the number of its last event
    last: int = 0
    #: the bytes that are counted for it
    size: int = 0

    def read(self) -> hub.Task:
        """A copy of the task."""
        if self.live is None:
            return _parse(self.data)
        copy = hub.Task()
        copy.CopyFrom(self.live)
        return copy

    def rest(self) -> None:
        """Ends its lease."""
        if self.live is not None:
            self.look()
            # The order of maps matters to who parses it: see `live_task.begin_with`.
            self.data = self.live.SerializeToString(deterministic=True)
            self.live = None
        self.held = False

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
        #: new tasks and those with a new status since the last listing, in the order of these changes
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
        # The most frequent query, and the only one that need not check every task.
        unfiltered = not query.context_id and not query.state and query.since is None
        page = TaskPageFiller(artifacts=query.artifacts, history_length=query.history_length)
        last: Entry | None = None
        total = left = 0
        for entry in self._match(query):
            total += 1
            if after is not None and (entry.time, entry.task_id) >= after:
                continue
            if not left and len(page.tasks) < query.page_size and page.add(entry.read()):
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
