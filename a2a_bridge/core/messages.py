"""Constructors and predicates for hub messages. For rules about them see `lifecycle`."""

import json
import mimetypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from a2a_bridge.codec import DecodeError, decoder
from a2a_bridge.codec.unknown import copy_unknown
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Timestamp, Value

TERMINAL = frozenset(
    {
        hub.TASK_STATE_COMPLETED,
        hub.TASK_STATE_FAILED,
        hub.TASK_STATE_CANCELED,
        hub.TASK_STATE_REJECTED,
    }
)
INTERRUPTED = frozenset({hub.TASK_STATE_INPUT_REQUIRED, hub.TASK_STATE_AUTH_REQUIRED})
#: states in which nothing happens without the caller
AT_REST = TERMINAL | INTERRUPTED
RUNNING = frozenset({hub.TASK_STATE_SUBMITTED, hub.TASK_STATE_WORKING})

_decode_value = decoder(Value)
_BYTES = (bytes, bytearray, memoryview)


def cut_history(task: hub.Task, limit: int | None) -> None:
    """Leaves the newest `limit` messages (spec 3.2.4); all if None, or if it is negative."""
    if limit is not None and 0 <= limit < len(task.history):
        del task.history[: len(task.history) - limit]


def shortened(task: hub.Task, limit: int | None) -> hub.Task:
    """The task with its newest `limit` messages (see `cut_history`): a copy, which never holds the others, or
    the task itself if it has no more.
    """
    if limit is None or not 0 <= limit < len(task.history):
        return task
    made = hub.Task()
    copy_shown(made, task, limit)
    return made


def copy_shown(made: hub.Task, task: hub.Task, limit: int | None) -> None:
    """Copies a task with its newest `limit` messages into an empty one. The others are not even copied."""
    history = task.history
    if limit is None or not 0 <= limit < len(history):
        made.CopyFrom(task)
        return
    made.history.extend(history[len(history) - limit :])
    for field, value in task.ListFields():
        if field.name == "history":
            continue
        if hasattr(value, "MergeFrom"):  # a message or a repeated member
            getattr(made, field.name).MergeFrom(value)
        else:
            setattr(made, field.name, value)
    copy_unknown(made, task)


def text_part(text: str, **members: Any) -> hub.Part:
    """A part with text; `members` are further fields of Part, such as `media_type`."""
    return hub.Part(text=text, **members)


def raw_part(raw: bytes, *, filename: str = "", media_type: str = "") -> hub.Part:
    """A part with bytes."""
    return hub.Part(raw=raw, filename=filename, media_type=media_type)


def data_part(data: Any, **members: Any) -> hub.Part:
    """A part with JSON: all that `json.dumps` accepts, also tuples, enums of str or int, subclasses of dict.
    Raises codec.DecodeError for anything else.
    """
    try:
        value = _decode_value(data)
    except (DecodeError, AttributeError, TypeError) as problem:
        # The decoder reads exactly the types that a parser makes. An object with a key that is no text is an
        # AttributeError or a TypeError there.
        try:
            plain = json.loads(json.dumps(data))
        except (TypeError, ValueError, RecursionError):
            if isinstance(problem, DecodeError):
                raise problem from None
            raise DecodeError("", "is not a JSON value") from None
        value = _decode_value(plain)
    return hub.Part(data=value, **members)


def part_of(content: Any) -> hub.Part:
    """A part from a Part, str (text), bytes, bytearray or memoryview (raw), or any JSON value (data)."""
    if isinstance(content, hub.Part):
        return content
    if isinstance(content, str):
        return hub.Part(text=content)
    if isinstance(content, _BYTES):
        return hub.Part(raw=bytes(content))
    try:
        return data_part(content)
    except DecodeError as problem:
        if problem.path:
            raise
        kind = type(content).__name__
        text = f"{kind} is no content: give text, bytes, JSON, a Part, a list of Parts, or a Message"
        raise DecodeError("", text) from None


def parts_of(content: Any, name: str = "") -> list[hub.Part]:
    """The parts of a Python value: one for each item of a list with Parts, which cannot be JSON; else one.
    name: of a file; bytes get its media type.
    """
    if isinstance(content, (list, tuple)) and any(isinstance(one, hub.Part) for one in content):
        return [part for one in content for part in parts_of(one, name)]
    part = part_of(content)
    if name and isinstance(content, _BYTES):
        part.media_type = _media_type_of(name)
    return [part]


def _media_type_of(name: str) -> str:
    """The media type of files with such a name; empty if unknown."""
    media_type, encoding = mimetypes.guess_type(name)
    if encoding is not None:  # the type is that of the content within
        return "application/gzip" if encoding == "gzip" else ""
    return media_type or ""


def message(
    role: hub.Role,
    parts: Iterable[hub.Part],
    *,
    message_id: str,
    context_id: str = "",
    task_id: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> hub.Message:
    """A message. The caller supplies the ids: this module has no source of randomness."""
    made = hub.Message(role=role, parts=parts, message_id=message_id, context_id=context_id, task_id=task_id)
    if metadata is not None:
        made.metadata.update(metadata)
    return made


def text_of(source: hub.Message | hub.Artifact | hub.Task | Iterable[hub.Part]) -> str:
    """The joined text parts. Of a task: the text of its artifacts, or of its status message if the task has
    no artifacts.
    """
    if isinstance(source, hub.Task):
        if source.artifacts:
            return "".join(text_of(artifact) for artifact in source.artifacts)
        return text_of(source.status.message)
    parts = source.parts if isinstance(source, (hub.Message, hub.Artifact)) else source
    return "".join([part.text for part in parts if part.WhichOneof("content") == "text"])


def timestamp(nanoseconds: int) -> Timestamp:
    """A Timestamp from nanoseconds since the epoch, as returned by `time.time_ns()`."""
    seconds, nanos = divmod(nanoseconds, 1_000_000_000)
    return Timestamp(seconds=seconds, nanos=nanos)


def is_terminal(state: hub.TaskState) -> bool:
    """Whether a task in this state has ended (spec 4.1.3)."""
    return state in TERMINAL


def is_interrupted(state: hub.TaskState) -> bool:
    """Whether a task in this state waits for the caller (spec 4.1.3)."""
    return state in INTERRUPTED


def payload_of(response: Any) -> Any:
    """The task, message or update in a response or event; a task itself. None for an empty response, and for
    responses of other operations.
    """
    if isinstance(response, (hub.SendMessageResponse, hub.StreamResponse)):
        which = response.WhichOneof("payload")
        return None if which is None else getattr(response, which)
    return response if isinstance(response, hub.Task) else None


def task_id_of(response: Any) -> str:
    """The id of the task of a response or an event; empty without one."""
    found = payload_of(response)
    if found is None:
        return ""
    return str(found.id if isinstance(found, hub.Task) else found.task_id)


def context_id_of(response: Any) -> str:
    """The id of the context of a response or an event; empty without one."""
    found = payload_of(response)
    return "" if found is None else str(found.context_id)


def rename(message: Any, tasks: Callable[[str], str] = str, contexts: Callable[[str], str] = str) -> None:
    """Gives the tasks and contexts in a response, an event or a push notification config other names, in
    place. tasks, contexts: the new name for a name; a message without a task or a
    context stays without it.
    """
    if isinstance(message, hub.TaskPushNotificationConfig):
        message.task_id = tasks(message.task_id)
        return
    found = payload_of(message)
    messages: list[hub.Message] = []
    if isinstance(found, hub.Message):
        messages.append(found)
    elif found is not None:
        found.context_id = contexts(found.context_id)
        if isinstance(found, hub.Task):
            found.id = tasks(found.id)
            messages += found.history
        else:
            found.task_id = tasks(found.task_id)
        if not isinstance(found, hub.TaskArtifactUpdateEvent) and found.status.HasField("message"):
            messages.append(found.status.message)
    for one in messages:
        if one.task_id:
            one.task_id = tasks(one.task_id)
        if one.context_id:
            one.context_id = contexts(one.context_id)
        for place, task_id in enumerate(one.reference_task_ids):
            one.reference_task_ids[place] = tasks(task_id)


def state_of(event: hub.StreamResponse) -> hub.TaskState:
    """The state in which an event leaves its task; UNSPECIFIED for an event without a state."""
    which = event.WhichOneof("payload")
    if which == "status_update":
        return event.status_update.status.state
    return event.task.status.state if which == "task" else hub.TASK_STATE_UNSPECIFIED


def read_task_id(request: Any) -> str:
    """The id of the task that a request names; empty if it names none. Callers choose it."""
    if isinstance(request, hub.SendMessageRequest):
        return request.message.task_id
    if isinstance(request, (hub.GetTaskRequest, hub.CancelTaskRequest, hub.SubscribeToTaskRequest)):
        return request.id
    return str(getattr(request, "task_id", ""))
