"""The task state machine: the allowed transitions, and the effect of an event on a task.

Rules:
1. Everything about transitions is in TRANSITIONS; docs and tests read the same table.
2. Terminal states are final (spec 4.1.3); nothing returns to SUBMITTED; everything else is allowed.
3. `advance` changes the task in place. Callers that need the previous state keep a copy.
4. Protobuf frees the memory of replaced content with the whole message only. A task that lives long is copied
   when its replaced content takes more memory than the rest (`renewed`); a snapshot makes a new task.
"""

from __future__ import annotations

from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub

_AFTER_START = frozenset(
    {
        hub.TASK_STATE_WORKING,
        hub.TASK_STATE_INPUT_REQUIRED,
        hub.TASK_STATE_AUTH_REQUIRED,
        hub.TASK_STATE_COMPLETED,
        hub.TASK_STATE_FAILED,
        hub.TASK_STATE_CANCELED,
        hub.TASK_STATE_REJECTED,
    }
)

#: state -> the states that may follow it. A state may be repeated (new message, same state) unless terminal.
TRANSITIONS: dict[hub.TaskState, frozenset[hub.TaskState]] = {
    hub.TASK_STATE_UNSPECIFIED: _AFTER_START | {hub.TASK_STATE_SUBMITTED},
    hub.TASK_STATE_SUBMITTED: _AFTER_START | {hub.TASK_STATE_SUBMITTED},
    hub.TASK_STATE_WORKING: _AFTER_START,
    hub.TASK_STATE_INPUT_REQUIRED: _AFTER_START,
    hub.TASK_STATE_AUTH_REQUIRED: _AFTER_START,
    **{state: frozenset() for state in TERMINAL},
}


_NONE: frozenset[hub.TaskState] = frozenset()


class IllegalTransitionError(ValueError):
    """The state of the task does not allow the event. The text names both and holds no user data."""


def check_transition(before: hub.TaskState, after: hub.TaskState) -> None:
    """Raises IllegalTransitionError unless `after` may follow `before`."""
    if after not in TRANSITIONS.get(before, _NONE):
        raise IllegalTransitionError(f"a task cannot go from {state_name(before)} to {state_name(after)}")


#: artifacts that are looked through without an index
_FEW = 8


#: bytes of replaced content for which no task is copied
_REPLACED = 1 << 20


class ArtifactIndex:
    """The places of the artifacts of one task by id, and how much content of it has been replaced. Added
    artifacts are found without a call; after any other change of the list, call `forget`.
    """

    # Most tasks have few artifacts and need neither: no call makes them.
    #: by id; None while a task has few
    _places: dict[str, int] | None = None
    #: artifacts that the index has
    _count = 0
    #: bytes of content that may be replaced until the task needs to be `renewed`; negative: it needs to
    left = _REPLACED

    def forget(self) -> None:
        """Forgets all places: the list of artifacts was replaced."""
        self._places = None
        self._count = 0
        self.left = _REPLACED

    def find(self, task: hub.Task, artifact_id: str) -> hub.Artifact | None:
        """The artifact of an id, the newest if there are several; None if there is none."""
        artifacts = task.artifacts
        count = len(artifacts)
        if count <= _FEW:
            return next((one for one in reversed(artifacts) if one.artifact_id == artifact_id), None)
        places = self._places
        if places is None:
            places = self._places = {}
        for place in range(self._count, count):
            places[artifacts[place].artifact_id] = place
        self._count = count
        found = places.get(artifact_id)
        return None if found is None else artifacts[found]

    def renewed(self, task: hub.Task) -> hub.Task:
        """A copy of the task without the replaced content, to be used in its place."""
        copy = hub.Task()
        copy.CopyFrom(task)
        self.left = max(_REPLACED, copy.ByteSize())
        return copy


def advance(
    task: hub.Task,
    event: hub.TaskStatusUpdateEvent | hub.TaskArtifactUpdateEvent,
    index: ArtifactIndex | None = None,
) -> hub.TaskState:
    """Applies an event to `task` in place (spec 4.2). Returns the state after it.

    A status message that the new status replaces moves to the history. An artifact with a known id is
    replaced, or extended if the event is marked `append`; appending to an unknown id starts an artifact.

    Raises IllegalTransitionError if the task's state does not allow the event; the task is unchanged then.
    """
    if isinstance(event, hub.TaskStatusUpdateEvent):
        status, after = task.status, event.status
        state = after.state
        if state not in TRANSITIONS.get(status.state, _NONE):
            check_transition(status.state, state)
        if status.HasField("message"):
            task.history.append(status.message)
        status.CopyFrom(after)
        if event.HasField("metadata"):
            task.metadata.MergeFrom(event.metadata)
        return state
    state = task.status.state
    if state in TERMINAL:
        raise IllegalTransitionError(f"a task in {state_name(state)} takes no more artifacts")
    add_artifact(task, event, index)
    return state


def fold(task: hub.Task, event: hub.StreamResponse, index: ArtifactIndex | None = None) -> hub.Task:
    """The task after an event of a log: `task`, which is changed in place, or another one in its place. A
    snapshot replaces it. index: of the task, if more events follow. Raises IllegalTransitionError.
    """
    which = event.WhichOneof("payload")
    if which == "task":
        task = hub.Task()
        task.CopyFrom(event.task)
        if index is not None:
            index.forget()
    elif which == "status_update":
        advance(task, event.status_update)
    elif which == "artifact_update":
        advance(task, event.artifact_update, index)
        if index is not None and index.left < 0:
            return index.renewed(task)
    return task


def join(task: hub.Task, message: hub.Message) -> None:
    """Adds a further message of the caller to the history of `task`, with the ids of the task. The agent's
    status message is moved to the history first, because the new message answers it. Raises
    IllegalTransitionError if the task has ended; the task is unchanged then.
    """
    if task.status.state in TERMINAL:
        raise IllegalTransitionError(f"a task in {state_name(task.status.state)} takes no more messages")
    own = add_message(task, message)
    own.task_id, own.context_id = task.id, task.context_id


def add_message(task: hub.Task, message: hub.Message) -> hub.Message:
    """Adds a message to the history of `task` as `join` does, in any state. Returns it."""
    if task.status.HasField("message"):
        task.history.append(task.status.message)
        task.status.ClearField("message")
    own = task.history.add()
    own.CopyFrom(message)
    return own


def add_artifact(
    task: hub.Task, event: hub.TaskArtifactUpdateEvent, index: ArtifactIndex | None = None
) -> None:
    """Applies an artifact event to `task` in place, in any state."""
    incoming = event.artifact
    artifacts, artifact_id = task.artifacts, incoming.artifact_id
    count = len(artifacts)
    present: hub.Artifact | None = artifacts[count - 1] if count else None
    # Chunks nearly always extend the newest artifact.
    if present is not None and present.artifact_id != artifact_id:
        present = (index or ArtifactIndex()).find(task, artifact_id)
    if present is None:
        artifacts.append(incoming)
        return
    if not event.append:
        if index is not None:
            index.left -= present.ByteSize()
        present.CopyFrom(incoming)
        return
    # One call into protobuf: copying member by member costs three times as much, for every chunk.
    present.MergeFrom(incoming)
    if incoming.extensions:
        present.extensions[:] = dict.fromkeys(present.extensions)


#: members of a task that `advance_to` does not just merge; the ids are equal already
_OWN_RULE = frozenset({"id", "context_id", "status", "artifacts", "history"})


def advance_to(task: hub.Task, snapshot: hub.Task, index: ArtifactIndex | None = None) -> hub.TaskState:
    """Applies an executor's snapshot of its own task in place. Returns the state after it.

    Its status replaces the status, its artifacts replace those with the same ids, messages missing from the
    history are added, and every other member is merged: a snapshot only adds and removes nothing.

    Raises IllegalTransitionError if the task's state does not allow the snapshot's state; the task is
    unchanged then.
    """
    check_transition(task.status.state, snapshot.status.state)
    known = {message.message_id for message in task.history}
    replaced = task.status.message.message_id
    if replaced and replaced not in known and replaced != snapshot.status.message.message_id:
        task.history.append(task.status.message)
        known.add(replaced)
    task.history.extend([one for one in snapshot.history if one.message_id not in known])
    task.status.CopyFrom(snapshot.status)
    index = index or ArtifactIndex()
    for artifact in snapshot.artifacts:
        add_artifact(task, hub.TaskArtifactUpdateEvent(artifact=artifact), index)
    for field, value in snapshot.ListFields():
        if field.name in _OWN_RULE:
            continue
        if hasattr(value, "MergeFrom"):  # a message, a repeated member or a map
            getattr(task, field.name).MergeFrom(value)
        else:
            setattr(task, field.name, value)
    return snapshot.status.state


def state_name(state: int) -> str:
    """The name of a state, such as `INPUT_REQUIRED`; the number of one that this version does not have."""
    try:
        return hub.TaskState.Name(state).removeprefix("TASK_STATE_")
    except ValueError:
        return str(int(state))
