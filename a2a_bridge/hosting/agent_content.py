"""Content on its way to an executor, and from it.

Rules:
1. Requests and tasks go to an executor without content that dialects store in them for other versions. Stores
   and responses keep it, so that callers of an older version get their own content back unchanged.
2. Events of an executor get the ids and times that they lack. Foreign ids are rejected. Each function changes
   its event in place, which is the engine's own copy, and applies nothing.
"""

from google.protobuf.message import Message

from a2a_bridge.codec.free_json import SHALLOW, may_be_deep, too_deep
from a2a_bridge.codec.unknown import FIRST, drop_members, holds_members
from a2a_bridge.dialects import unmapped
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Clock

Request = hub.SendMessageRequest | hub.CancelTaskRequest
_Update = hub.TaskStatusUpdateEvent | hub.TaskArtifactUpdateEvent


def for_agent(request: Request) -> Request:
    """The request without that content, and without unknown members of JSON: unchanged if it has neither."""
    # Once per message: a look at the bytes finds both, wherever they are.
    wire = request.SerializeToString()
    if wire.find(FIRST) >= 0 and holds_members(wire):
        known = type(request)()
        known.CopyFrom(request)  # type: ignore[arg-type]  # of the same type
        drop_members(known)
        request = known
    return unmapped.strip_copy(request) if wire.find(unmapped.KEY_BYTES) >= 0 else request


def task_for_agent(task: hub.Task) -> hub.Task:
    """The task without that content, changed in place."""
    wire = task.SerializeToString()  # once, as in `for_agent`
    if wire.find(FIRST) >= 0 and holds_members(wire):
        drop_members(task)
    if wire.find(unmapped.KEY_BYTES) >= 0:
        unmapped.strip(task)
    return task


class ExecutorError(ValueError):
    """An executor violated the protocol. The text contains none of its data."""


def direct_answer(message: hub.Message, task_id: str, context_id: str) -> hub.SendMessageResponse:
    """The response with a direct message. It has no task id, because there is no task (spec 3.1.1)."""
    response = hub.SendMessageResponse()
    own = response.message
    own.CopyFrom(message)
    named = own.task_id
    if named:
        if named != task_id:
            raise ExecutorError("a direct message names a task")
        own.ClearField("task_id")
    if own.context_id != context_id:
        _own_context(own, context_id)
    if not own.message_id or own.role == hub.ROLE_UNSPECIFIED:
        _own_message(own)
    if not own.parts:
        raise ExecutorError("a message has no parts")
    if (wire := own.SerializeToString()).count(b"\n") > SHALLOW:
        _check_depth(own, wire)
    return response


def own_status(update: hub.TaskStatusUpdateEvent, task_id: str, context_id: str, clock: Clock) -> None:
    """A status update of this task, with a time."""
    if update.task_id != task_id or update.context_id != context_id:
        _own_ids(update, task_id, context_id)
    # Most have neither a message nor metadata, and so no free JSON.
    free = _complete_status(update.status, task_id, context_id, clock) or update.HasField("metadata")
    if free and (wire := update.SerializeToString()).count(b"\n") > SHALLOW:
        _check_depth(update, wire)


def own_artifact(update: hub.TaskArtifactUpdateEvent, task_id: str, context_id: str) -> None:
    """An artifact update of this task, with an artifact id."""
    if update.task_id != task_id or update.context_id != context_id:
        _own_ids(update, task_id, context_id)
    artifact = update.artifact
    if not artifact.artifact_id:
        if update.append:
            raise ExecutorError("a piece of an artifact does not say of which")
        artifact.artifact_id = new_id()
    if (wire := update.SerializeToString()).count(b"\n") > SHALLOW:
        _check_depth(update, wire)


def own_task(task: hub.Task, task_id: str, context_id: str, clock: Clock) -> hub.TaskState:
    """A snapshot of this task with a state (SUBMITTED if it lacks one) and a time. Returns the state."""
    if task.id != task_id:
        if task.id:
            raise ExecutorError("the task has another id than the run's")
        task.id = task_id
    if task.context_id != context_id:
        _own_context(task, context_id)
    status = task.status
    state = status.state
    if state == hub.TASK_STATE_UNSPECIFIED:
        state = status.state = hub.TASK_STATE_SUBMITTED
    _complete_status(status, task_id, context_id, clock)
    for artifact in task.artifacts[:]:
        artifact.artifact_id = artifact.artifact_id or new_id()
    if (wire := task.SerializeToString()).count(b"\n") > SHALLOW:
        _check_depth(task, wire)
    return state


def _complete_status(status: hub.TaskStatus, task_id: str, context_id: str, clock: Clock) -> bool:
    """Gives a status the time and the ids that it lacks. Returns whether it has a message."""
    if not status.HasField("timestamp"):
        stamp = status.timestamp
        # In microseconds: the precision of common date types.
        stamp.seconds, microseconds = divmod(clock.now() // 1000, 1_000_000)
        stamp.nanos = microseconds * 1000
    if status.HasField("message"):
        _own_message(status.message)
        _own_ids(status.message, task_id, context_id)
        return True
    return False


def _check_depth(event: Message, wire: bytes) -> None:
    """Rejects free JSON that is nested too deeply: otherwise the task, and lists with it, would be
    unreadable. Needed only if the serialized event has more line feeds than SHALLOW.
    """
    if may_be_deep(wire) and (deep := too_deep(event)):
        raise ExecutorError(f"an event is nested too deeply, at {deep[0][:200]}")


def _own_message(message: hub.Message) -> None:
    if not message.message_id:
        message.message_id = new_id()
    if message.role == hub.ROLE_UNSPECIFIED:
        message.role = hub.ROLE_AGENT


def _own_ids(event: _Update | hub.Message, task_id: str, context_id: str) -> None:
    if event.task_id != task_id:
        if event.task_id:
            raise ExecutorError("an event names another task than the run's")
        event.task_id = task_id
    _own_context(event, context_id)


def _own_context(thing: hub.Task | hub.Message | _Update, context_id: str) -> None:
    if thing.context_id != context_id:
        if thing.context_id:
            raise ExecutorError("an event names another context than the run's")
        thing.context_id = context_id
