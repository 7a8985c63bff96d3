"""Messages, parts, tasks and events of 0.3 as models (spec 0.3.0, 6 and 7.2). Cards and envelopes are elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import RootModel

from a2a_bridge.dialects.v0_3.models_shape import A2ABaseModel, Flag, Text, by, has, tag


class Role(StrEnum):
    """Who speaks (spec 6.4)."""

    agent = "agent"
    user = "user"


class TaskState(StrEnum):
    """Where a task stands (spec 6.3)."""

    submitted = "submitted"
    working = "working"
    input_required = "input-required"
    completed = "completed"
    canceled = "canceled"
    failed = "failed"
    rejected = "rejected"
    auth_required = "auth-required"
    unknown = "unknown"


# Parts (spec 6.5, 6.6)


class FileBase(A2ABaseModel):
    """What both kinds of file say."""

    mime_type: Text | None = None
    name: Text | None = None


class FileWithBytes(FileBase):
    """A file that travels as base64."""

    bytes: Text


class FileWithUri(FileBase):
    """A file that is to be fetched."""

    uri: Text


class PartBase(A2ABaseModel):
    """What all parts may say."""

    metadata: dict[str, Any] | None = None


class TextPart(PartBase):
    """A piece of text."""

    kind: Literal["text"] = "text"
    text: Text


def _file(tree: Mapping[str, Any]) -> str:
    if has(tree, "bytes"):
        return "FileWithBytes"
    return "FileWithUri" if has(tree, "uri") else ""


class FilePart(PartBase):
    """A file. One with both `bytes` and `uri` is a FileWithBytes whose `uri` is an undeclared member."""

    file: Annotated[
        Annotated[FileWithBytes, tag("FileWithBytes")] | Annotated[FileWithUri, tag("FileWithUri")],
        by(_file, "needs either bytes or uri"),
    ]
    kind: Literal["file"] = "file"


class DataPart(PartBase):
    """Structured data."""

    data: dict[str, Any]
    kind: Literal["data"] = "data"


_PARTS = {"text": "TextPart", "file": "FilePart", "data": "DataPart"}


def _part(tree: Mapping[str, Any]) -> str:
    # Examples of the specification write `type`, or nothing at all.
    kind = tree.get("kind")
    if kind is None:
        kind = tree.get("type")
    if kind is None:
        kind = next((name for name in _PARTS if name in tree), None)
    return _PARTS.get(kind, "") if isinstance(kind, str) else ""


class Part(
    RootModel[
        Annotated[
            Annotated[TextPart, tag("TextPart")]
            | Annotated[FilePart, tag("FilePart")]
            | Annotated[DataPart, tag("DataPart")],
            by(_part, "needs one of text, file and data", "kind", _PARTS),
        ]
    ]
):
    """One of the three parts, in `root`."""


# Messages and tasks (spec 6.1, 6.2, 6.4, 6.7)


class Message(A2ABaseModel):
    """One turn of a conversation."""

    context_id: Text | None = None
    extensions: list[Text] | None = None
    kind: Literal["message"] = "message"
    message_id: Text
    metadata: dict[str, Any] | None = None
    parts: list[Part]
    reference_task_ids: list[Text] | None = None
    role: Role
    task_id: Text | None = None


class TaskStatus(A2ABaseModel):
    """The state of a task, since when, and what the agent says about it."""

    message: Message | None = None
    state: TaskState
    timestamp: Text | None = None


class Artifact(A2ABaseModel):
    """A result of a task."""

    artifact_id: Text
    description: Text | None = None
    extensions: list[Text] | None = None
    metadata: dict[str, Any] | None = None
    name: Text | None = None
    parts: list[Part]


class Task(A2ABaseModel):
    """A piece of work and all that came of it so far."""

    artifacts: list[Artifact] | None = None
    context_id: Text
    history: list[Message] | None = None
    id: Text
    kind: Literal["task"] = "task"
    metadata: dict[str, Any] | None = None
    status: TaskStatus


# Events (spec 7.2.2, 7.2.3)


class TaskStatusUpdateEvent(A2ABaseModel):
    """A task has a new status. `final` says that the stream ends after it."""

    context_id: Text
    final: Flag = False
    kind: Literal["status-update"] = "status-update"
    metadata: dict[str, Any] | None = None
    status: TaskStatus
    task_id: Text


class TaskArtifactUpdateEvent(A2ABaseModel):
    """A task has an artifact, or more of one."""

    append: Flag | None = None
    artifact: Artifact
    context_id: Text
    kind: Literal["artifact-update"] = "artifact-update"
    last_chunk: Flag | None = None
    metadata: dict[str, Any] | None = None
    task_id: Text


# What methods answer with

_RESULTS = {"task": "Task", "message": "Message"}
_EVENTS = _RESULTS | {"status-update": "TaskStatusUpdateEvent", "artifact-update": "TaskArtifactUpdateEvent"}


def kind_of(tree: Mapping[str, Any]) -> str:
    """The `kind` of a result; without one, what its members look like; "" when they look like nothing."""
    kind = tree.get("kind")
    if kind is not None:
        return kind if isinstance(kind, str) else ""
    if has(tree, "status", "contextId", "id"):
        return "task"
    if has(tree, "role", "parts"):
        return "message"
    if has(tree, "artifact", "taskId"):
        return "artifact-update"
    return "status-update" if has(tree, "status", "taskId") else ""


SendResult: TypeAlias = Annotated[
    Annotated[Task, tag("Task")] | Annotated[Message, tag("Message")],
    by(lambda tree: _RESULTS.get(kind_of(tree), ""), "is neither a task nor a message", "kind", _RESULTS),
]

StreamResult: TypeAlias = Annotated[
    Annotated[Task, tag("Task")]
    | Annotated[Message, tag("Message")]
    | Annotated[TaskStatusUpdateEvent, tag("TaskStatusUpdateEvent")]
    | Annotated[TaskArtifactUpdateEvent, tag("TaskArtifactUpdateEvent")],
    by(lambda tree: _EVENTS.get(kind_of(tree), ""), "is no task, message or event", "kind", _EVENTS),
]


class A2A(RootModel[Any]):
    """Any JSON of the protocol: the root of the specification's schema, which says no more than that."""
