"""The recent events of an agent's stream about one task, for readers that join or resume. It calls no agent.

Rules:
1. It is an `EventLog`; its fastest reader sets the pace. A reader that is behind by more than the log holds
   is dropped, and may subscribe again.
2. Events that no longer fit are folded into the task as it was before the log begins, so that log and task
   together are complete. A task that grows beyond its bound is dropped; the log stays.
3. Whose ids count is decided when the log is made; see `Ids`.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.event_log import EventLog, LogRules, Pace
from a2a_bridge.core.lifecycle import ArtifactIndex, IllegalTransitionError, fold
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import RESUME_URI, event_id, number_of
from a2a_bridge.core.service import Event
from a2a_bridge.dialects.annotation import SYNTHESISED
from a2a_bridge.pb import lf_a2a_v1 as hub


class Ids(Enum):
    """Whose ids the events of a log have."""

    #: the agent's, which resumes after them: they mean the same through any gateway
    AGENT = "agent"
    #: ours; the agent resumes after its own, but its first event had none, or one that does not count on
    MAPPED = "mapped"
    #: ours; the agent resumes after none
    OURS = "ours"


AGENT, MAPPED, OURS = Ids  # to read a member of an Enum takes Python 3.11 long

#: approximate overhead of an event in memory, in bytes
_OVERHEAD = 512
#: bytes after which the size is reported again: some events, or a large one
_REPORT = 16 * _OVERHEAD


def log_rules(options: ReplayOptions) -> LogRules:
    """The bounds of each log."""
    return LogRules(
        options.events,
        options.size,
        Pace.FASTEST,
        waiter=asyncio.Future,
        lead=options.window,
        lead_size=options.window_size,
    )


class LostEventsError(A2AError):
    """Events are missing. A reader that subscribes again gets a gap."""

    def __init__(self) -> None:
        text = "events of the task were lost on the way; subscribe again"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.PEER, retry_after=0.0)


class ReplayLog(EventLog[Event]):
    """The events of one task from one stream, numbered from `base` + 1.

    epoch: prefix of the ids; empty for numbers alone. task: the task as of `base`; None if unknown. whole:
    True if it is the task that a subscriber would get. agent_id: the agent's id of the newest event, after
    which it resumes; empty without an id. regular: all events are of this task, and none is missing.
    on_change: called when the size has changed by some events, and when `regular` has changed.
    """

    __slots__ = (
        "_index",
        "_most_task",
        "_owned",
        "_reported",
        "agent_id",
        "epoch",
        "ids",
        "on_change",
        "prefix",
        "regular",
        "state",
        "task",
        "task_id",
        "task_size",
        "whole",
    )

    def __init__(
        self,
        rules: LogRules,
        task_id: str,
        task: hub.Task | None,
        *,
        ids: Ids = OURS,
        epoch: str,
        base: int = 0,
        whole: bool = True,
        agent_id: str = "",
        most_task: int,
    ) -> None:
        super().__init__(rules, base)
        self.task_id = task_id
        self.task = task
        self.task_size = 0 if task is None else task.ByteSize()
        self.epoch = epoch
        self.prefix = f"{epoch}-" if epoch else ""
        self.whole = whole and task is not None
        self.state = hub.TASK_STATE_UNSPECIFIED if task is None else task.status.state
        self.ids = ids
        self.agent_id = agent_id
        self.regular = True
        self.on_change: Callable[[], None] = lambda: None
        self._most_task = most_task
        #: of `task`, which is changed here only
        self._index = ArtifactIndex()
        #: False while `task` is shared with a reader; it is copied before the first change
        self._owned = False
        #: the bytes of all events when the size was last reported
        self._reported = 0

    @property
    def task_ended(self) -> bool:
        """True if the task has ended, so that no event follows."""
        return self.state in TERMINAL

    @property
    def held(self) -> int:
        """Approximate size in memory, in bytes."""
        return self.size + self.task_size

    def id(self, number: int) -> str:
        """The id of an event, or of a snapshot of all events up to it; empty before the first event."""
        return event_id(number, self.epoch) if number >= 0 else ""

    def place(self, id_: str) -> int | None:
        """The number of an id if its successors are in the log; else None."""
        number = number_of(id_, self.epoch)
        return number if number is not None and self.base <= number <= self.last else None

    def snapshot(self) -> hub.Task | None:
        """The task with all events applied, a copy; None if it is unknown."""
        if self.task is None:
            return None
        task = hub.Task()
        task.CopyFrom(self.task)
        try:
            index = ArtifactIndex()
            for event in self.events:
                task = _fold(task, event, index)
        except IllegalTransitionError:
            self.forget_task()
            return None
        return task

    def add(self, event: Event) -> None:
        """Adds the next event, with its id here. Raises LostEventsError if the agent has skipped ids."""
        id_ = f"{self.prefix}{self.last + 1}"
        if self.ids is AGENT:
            if event.id != id_:
                self.mark_irregular()
                raise LostEventsError
            self.agent_id = id_
        else:
            if event.id and self.ids is MAPPED:
                self.agent_id = event.id
            event = Event(event.message, id_, event.gap)
        message = event.message
        which = message.WhichOneof("payload")
        if which == "artifact_update":
            task_id = message.artifact_update.task_id
        elif which == "status_update":
            update = message.status_update
            task_id = update.task_id
            self.state = update.status.state
        elif which == "task":
            task_id = message.task.id
            self.state = message.task.status.state
        else:
            task_id = self.task_id if which is None else ""
        if task_id != self.task_id:
            self.forget_task()
            self.mark_irregular()
        self.append(event, message.ByteSize() + _OVERHEAD)
        if self._total - self._reported >= _REPORT:
            self._reported = self._total
            self.on_change()

    def mark_irregular(self) -> None:
        """Notes that an event is of another task, or missing."""
        self.regular = False
        self.on_change()

    def forget_task(self) -> None:
        """Drops the copy of the task."""
        self.task = None
        self.task_size = 0
        self.whole = False

    def on_drop(self, events: Sequence[Event], size: int, /) -> None:
        if self.task is None:
            return
        if not self._owned:
            own = hub.Task()
            own.CopyFrom(self.task)
            self.task = own
            self._owned = True
        try:
            for event in events:
                self.task = _fold(self.task, event, self._index)
        except IllegalTransitionError:
            self.forget_task()
            return
        self.task_size += size
        if self.task_size > self._most_task:
            # The sum also counts replaced content.
            self.task_size = self.task.ByteSize()
        if self.task_size > self._most_task:
            self.forget_task()


def unmark(task: hub.Task) -> None:
    """Removes the marks of a snapshot in place; they are valid for the readers of one event only."""
    if not task.HasField("metadata"):
        return
    for mark in (RESUME_URI, SYNTHESISED):
        task.metadata.fields.pop(mark, None)
    if not task.metadata.fields:
        task.ClearField("metadata")


def _fold(task: hub.Task, event: Event, index: ArtifactIndex) -> hub.Task:
    """The task after an event, as `fold` makes it. Raises IllegalTransitionError."""
    message = event.message
    task = fold(task, message, index)
    which = message.WhichOneof("payload")
    if which == "task":
        unmark(task)
    elif which in ("status_update", "artifact_update"):
        # Only the agent counts: if this event has no number, the task has none either.
        task.generation = getattr(message, which).generation
    return task
