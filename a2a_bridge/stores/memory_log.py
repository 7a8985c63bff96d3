"""The events of one task in memory: a log whose writer waits for the slowest reader, with notes of the task.

A note is the task after a change that is no event, such as a message that joined its history: with it, and
the events after it, earlier states are known exactly. Notes go with the events before them, and beyond a
bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.event_log import EventLog, LogRules
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the number of an event and the task after it, serialized; empty before the first
Note = tuple[int, bytes]


class MemoryLog(EventLog[hub.StreamResponse]):
    """The newest events of one task.

    memory: from it the bytes of dropped events and notes are subtracted. on_quiet: called when the last
    reader has left.
    """

    # Most logs have no notes: the first one makes the member for them.
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

    def start(self, sequence: int) -> Note | None:
        """The state from which events lead to the task after event `sequence`; None if it is no
        longer known.
        """
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
