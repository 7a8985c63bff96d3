"""What a snapshot has told of the events that follow it. It calls nobody.

An agent without ids begins to collect events for a new subscriber before it looks at the task, so that nothing is
missed; what happens in between is in the snapshot, and comes as an event once more. Rules:
1. Such events come first and in their order. With the first one that the snapshot cannot have told, it is over.
2. A status is known by its message or its time. Pieces of an artifact have no names: a piece that is the same as one
   just told may be new. Whoever asks looks at the task again to tell, and once more after a moment where it is still
   as it was, since some agents show an event before they save it. When in doubt it is new: a piece that comes twice
   can be seen, and one that is dropped cannot.
"""

from __future__ import annotations

from collections.abc import Iterable

from a2a_bridge.core.messages import RUNNING
from a2a_bridge.pb import lf_a2a_v1 as hub


class Overlap:
    """told: what a snapshot was told as (see `differences`). snapshot: the task that it held."""

    def __init__(self, told: Iterable[hub.StreamResponse], snapshot: hub.Task) -> None:
        self._statuses = [one.status_update.status for one in told if one.HasField("status_update")]
        self._pieces = {
            one.artifact_update.artifact.artifact_id: _Pieces(one.artifact_update)
            for one in told
            if one.HasField("artifact_update")
        }
        self._snapshot = snapshot

    def may_tell(self, event: hub.StreamResponse) -> bool:
        """Whether the snapshot has told what looks like this event."""
        if event.HasField("status_update"):
            update, known = event.status_update, self._snapshot.metadata.fields
            new = any(
                name not in known or known[name] != value for name, value in update.metadata.fields.items()
            )
            return not new and self._holds(update.status)
        if event.HasField("artifact_update"):
            pieces = self._pieces.get(event.artifact_update.artifact.artifact_id)
            return pieces is not None and pieces.may_hold(event.artifact_update)
        return False

    def _holds(self, status: hub.TaskStatus) -> bool:
        now = self._snapshot.status
        if status.message.message_id:
            # Where it was told from the history, the state is a guess.
            return any(
                status.message == one.message and (status.state == one.state or one.message != now.message)
                for one in self._statuses
            )
        if status in self._statuses:
            return True
        # One that was followed by another before the task was looked at. Never an end, in case clocks differ.
        dated = status.HasField("timestamp") and now.HasField("timestamp")
        return status.state in RUNNING and dated and _time(status) < _time(now)

    def as_it_was(self, piece: hub.TaskArtifactUpdateEvent, now: hub.Task) -> bool:
        """Whether the artifact of a piece is now what it was in the snapshot, so that the piece may not be saved yet."""
        before, after = (_artifact(task, piece.artifact.artifact_id) for task in (self._snapshot, now))
        return before is not None and after is not None and list(before.parts) == list(after.parts)

    def tells(self, event: hub.StreamResponse, now: hub.Task | None) -> bool:
        """Whether an event that it may tell is told by it. now: the task after the event, for a piece of an artifact."""
        if not event.HasField("artifact_update"):
            # Each was told once; the next one like it is new.
            said = event.status_update.status
            self._statuses = [
                one
                for one in self._statuses
                if one != said and not (said.message.message_id and one.message == said.message)
            ]
            return True
        update = event.artifact_update
        before = _artifact(self._snapshot, update.artifact.artifact_id)
        after = None if now is None else _artifact(now, update.artifact.artifact_id)
        if before is None or after is None:
            return False
        count = len(before.parts)
        if list(after.parts[:count]) != list(before.parts):
            return False
        parts = list(update.artifact.parts)
        if update.append and list(after.parts[count : count + len(parts)]) == parts:
            return False  # it stands behind the snapshot's
        self._pieces[update.artifact.artifact_id].step(update)
        return True


class _Pieces:
    """The parts of one artifact that were told, and where among them the next event may stand."""

    def __init__(self, told: hub.TaskArtifactUpdateEvent) -> None:
        self._parts = list(told.artifact.parts)
        self._whole = not told.append
        self._places = set(range(len(self._parts)))

    def may_hold(self, update: hub.TaskArtifactUpdateEvent) -> bool:
        return bool(self._after(update))

    def step(self, update: hub.TaskArtifactUpdateEvent) -> None:
        self._places = self._after(update)

    def _after(self, update: hub.TaskArtifactUpdateEvent) -> set[int]:
        parts = list(update.artifact.parts)
        if not parts:
            return set()
        places = self._places if update.append else self._places & {0} if self._whole else set()
        return {place + len(parts) for place in places if self._parts[place : place + len(parts)] == parts}


def _time(status: hub.TaskStatus) -> tuple[int, int]:
    return status.timestamp.seconds, status.timestamp.nanos


def _artifact(task: hub.Task, artifact_id: str) -> hub.Artifact | None:
    return next((one for one in task.artifacts if one.artifact_id == artifact_id), None)
