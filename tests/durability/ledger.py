"""The promises to callers (acknowledged tasks, seen events and ends), compared with a log, event by event.

Only data that reached a caller counts. A snapshot is the sum of a beginning of the log. Differences are lines
of text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from google.protobuf import text_format

from a2a_bridge.core.lifecycle import IllegalTransitionError, advance
from a2a_bridge.core.messages import INTERRUPTED, TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability.callers import Shown


@dataclass
class Sent:
    """A message that was sent. task_id: of the task that answered it, once known. direct: its direct answer."""

    text: str
    message_id: str
    webhook: str = ""
    task_id: str = ""
    direct: str = ""

    @property
    def verb(self) -> str:
        return self.text.split()[0]

    @property
    def mark(self) -> str:
        return self.text.split()[-1]


@dataclass
class Seen:
    """The events of one task that callers saw. runs: events without numbers, in the order of one stream."""

    events: dict[int, hub.StreamResponse] = field(default_factory=dict)
    snapshots: list[tuple[hub.Task, int]] = field(default_factory=list)
    runs: list[list[hub.StreamResponse]] = field(default_factory=list)
    #: the task as a caller saw it after it had ended
    end: hub.Task | None = None
    pushed: int = 0


class Ledger:
    """The promises so far, and the faults that were found on the way."""

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.seen: defaultdict[str, Seen] = defaultdict(Seen)
        self.wrong: list[str] = []

    @property
    def events(self) -> int:
        """The number of different events that were seen with their numbers."""
        return sum(len(seen.events) for seen in self.seen.values())

    def acknowledged(self, task: hub.Task) -> None:
        """Notes a task in the answer of a unary call."""
        self._snapshot(task, 0)

    def stream(self, task_id: str, after: int | None = None) -> Stream:
        """Notes the items of one stream.

        task_id: empty until the first item names it. after: the number of the event after which it resumes,
        if it does.
        """
        return Stream(self, task_id, after)

    def _snapshot(self, task: hub.Task, number: int) -> None:
        seen = self.seen[task.id]
        seen.snapshots.append((task, number))
        if task.status.state not in TERMINAL:
            return
        if seen.end is None:
            seen.end = task
        elif outline(seen.end) != outline(task):
            self.wrong.append(f"{task.id} ended twice: {state(seen.end)}, then {state(task)}")

    def _event(self, task_id: str, shown: Shown) -> None:
        known = self.seen[task_id].events.setdefault(shown.number, shown.event)
        if known != shown.event:
            self.wrong.append(f"event {shown.number} of {task_id} was shown as two different ones")


class Stream:
    """One stream as a caller saw it."""

    def __init__(self, ledger: Ledger, task_id: str, after: int | None) -> None:
        self._ledger, self.task_id, self._before = ledger, task_id, after
        self._begins = after is None
        self._run: list[hub.StreamResponse] | None = None

    @property
    def position(self) -> int:
        """The number of the last seen event; 0 without numbers."""
        return self._before or 0

    def show(self, shown: Shown) -> None:
        """Notes an item."""
        event, number = shown
        which = event.WhichOneof("payload")
        if which == "message":
            return
        if not self.task_id:
            self.task_id = event.task.id if which == "task" else getattr(event, which or "").task_id
        begins, self._begins = self._begins, False
        if begins and which == "task":
            # The task at the time of the request, which may be later than its first event.
            self._ledger._snapshot(event.task, number)
            self._before = number or None
            return
        if not number:
            if self._run is None:
                self._run = []
                self._ledger.seen[self.task_id].runs.append(self._run)
            self._run.append(event)
            return
        if self._before is not None and number != self._before + 1:
            self._ledger.wrong.append(f"{self.task_id}: event {number} followed {self._before}")
        self._before = number
        self._ledger._event(self.task_id, shown)


def state(task: hub.Task) -> str:
    return hub.TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


def outline(task: hub.Task) -> bytes:
    """The part of a task that events determine: its status without the message, and its artifacts."""
    kept = hub.Task(id=task.id, artifacts=task.artifacts)
    kept.status.CopyFrom(task.status)
    kept.status.ClearField("message")
    return kept.SerializeToString(deterministic=True)


def folds(log: Sequence[hub.StreamResponse]) -> Iterable[hub.Task]:
    """The sum of each beginning of a log, from the first event on: always the same task, changed in between."""
    task = hub.Task()
    for event in log:
        match event.WhichOneof("payload"):
            case "task":
                task.CopyFrom(event.task)
            case "status_update":
                advance(task, event.status_update)
            case "artifact_update":
                advance(task, event.artifact_update)
        yield task


def missing(task_id: str, seen: Seen, log: Sequence[hub.StreamResponse]) -> list[str]:
    """Events that callers saw of a task and that are missing in its log."""
    wrong = [
        f"event {number} of {task_id} was shown as {_short(event)}, and the log has "
        + (_short(log[number - 1]) if number <= len(log) else "none")
        for number, event in sorted(seen.events.items())
        if number > len(log) or log[number - 1] != event
    ]
    if seen.snapshots:
        known = [outline(task) for task in folds(log)]
        for task, number in seen.snapshots:
            found = outline(task)
            if number and (number > len(known) or known[number - 1] != found):
                wrong.append(
                    f"the snapshot of {task_id} at {number} ({state(task)}) is not what the log adds up to"
                )
            elif not number and found not in known:
                wrong.append(
                    f"{task_id} was shown {state(task)}, which no beginning of its log of {len(log)} is"
                )
    wrong += [
        f"{len(run)} events of {task_id} shown in a row are not in its log so: {names(run)}, it has {names(log)}"
        for run in seen.runs
        if not _contains(log, run)
    ]
    return wrong


def _contains(log: Sequence[hub.StreamResponse], run: Sequence[hub.StreamResponse]) -> bool:
    """Whether a log has these events in a row."""
    return any(list(log[start : start + len(run)]) == list(run) for start in range(len(log) - len(run) + 1))


def illogical(task_id: str, log: Sequence[hub.StreamResponse], now: hub.Task) -> list[str]:
    """The faults of a log by itself, and of the task beside it."""
    if not log or log[0].WhichOneof("payload") != "task":
        return [f"the log of {task_id} does not begin with the task"]
    wrong = []
    try:
        *_, last = folds(log)
    except IllegalTransitionError as error:
        return [f"the log of {task_id} makes no sense: {error}"]
    ends = [number for number, task in enumerate(folds(log), 1) if task.status.state in TERMINAL]
    if ends and ends[0] != len(log):
        wrong.append(f"{task_id} ends at event {ends[0]} of {len(log)}")
    if outline(last) != outline(now):
        wrong.append(f"{task_id} is {state(now)}, its log adds up to {state(last)}")
    return wrong


def names(events: Sequence[hub.StreamResponse]) -> str:
    """Events in short, for reports."""
    short = []
    for event in events:
        match event.WhichOneof("payload"):
            case "task":
                short.append(f"task/{state(event.task)}")
            case "status_update":
                short.append(hub.TaskState.Name(event.status_update.status.state).removeprefix("TASK_STATE_"))
            case "artifact_update":
                part = event.artifact_update.artifact.parts[0]
                short.append(part.text.partition(":")[2] or part.text[:20])
    return " ".join(short)


def _short(event: hub.StreamResponse) -> str:
    return text_format.MessageToString(event, as_one_line=True)


def resting(task: hub.Task) -> bool:
    """Whether a task does not change until a message arrives."""
    return task.status.state in TERMINAL | INTERRUPTED
