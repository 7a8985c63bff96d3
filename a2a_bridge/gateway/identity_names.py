"""Converts answers and events for a caller of 0.1: its names, its indices, its kinds of event. It makes no
calls.

Rules:
1. The input is never changed: events of a stream have several readers.
2. Streams of 0.1 contain updates only: a task becomes its status and its artifacts, a message a completed
   status, with a mark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.core.callers import Scope
from a2a_bridge.core.messages import context_id_of, payload_of, task_id_of
from a2a_bridge.dialects.annotation import FINAL_STATES
from a2a_bridge.dialects.v0_1.messages import INDEX, MARK, MESSAGE, index_of
from a2a_bridge.gateway.identity_table import IdentityTable, Name
from a2a_bridge.pb import lf_a2a_v1 as hub

M = TypeVar("M", bound=Message)
S = TypeVar("S", hub.Task, hub.TaskStatusUpdateEvent)


class Naming:
    """Translates with a table, and adds new artifacts to it."""

    def __init__(self, table: IdentityTable) -> None:
        self._table = table

    def as_known(self, scope: Scope, event: hub.StreamResponse) -> hub.StreamResponse:
        """An event with the names of a scope, for delivery outside of a call."""
        task_id = task_id_of(event)
        name = self._table.find(scope, self._table.name_of(scope, task_id))
        if name is None:
            begun = hub.Task(id=task_id, context_id=context_id_of(event))
            task = event.task if event.HasField("task") else begun
            name = self._table.guess(scope, task)
        return self.rename(scope, name or Name(task_id, task_id), event)

    def for_caller(self, scope: Scope, name: Name, event: hub.StreamResponse) -> Iterable[hub.StreamResponse]:
        """An event as a series of updates."""
        event = self.rename(scope, name, event)
        which = event.WhichOneof("payload")
        if which == "message":
            update = hub.TaskStatusUpdateEvent(task_id=name.given)
            update.context_id = event.message.context_id or name.session
            yield hub.StreamResponse(status_update=wrap(update, event.message))
        elif which == "task":
            yield from _split(event.task)
        else:
            yield event

    def rename(self, scope: Scope, name: Name, response: M) -> M:
        """A copy of a response or event with the caller's names."""
        made = type(response)()
        made.CopyFrom(response)
        if isinstance(made, hub.Task):
            self._name_task(scope, name, made)
        elif isinstance(made, hub.TaskPushNotificationConfig):
            made.task_id = self._callers_id(scope, name, made.task_id)
        else:
            self._name_payload(scope, name, made)
        if name.task_id and name is self._table.find(scope, name.given):
            self._table.keep(scope, name)
        return made

    def _name_payload(self, scope: Scope, name: Name, response: Any) -> None:
        payload = payload_of(response)
        if isinstance(payload, hub.Task):
            self._name_task(scope, name, payload)
        elif isinstance(payload, hub.Message):
            self._name_message(scope, name, payload)
        elif isinstance(payload, (hub.TaskStatusUpdateEvent, hub.TaskArtifactUpdateEvent)):
            payload.task_id = self._callers_id(scope, name, payload.task_id)
            payload.context_id = _session(name, payload.context_id)
            if isinstance(payload, hub.TaskArtifactUpdateEvent):
                _number(name, payload.artifact)
            elif payload.status.HasField("message"):
                self._name_message(scope, name, payload.status.message)

    def _name_task(self, scope: Scope, name: Name, task: hub.Task) -> None:
        task.id = self._callers_id(scope, name, task.id)
        task.context_id = _session(name, task.context_id)
        if task.status.HasField("message"):
            self._name_message(scope, name, task.status.message)
        for message in task.history:
            self._name_message(scope, name, message)
        # Ids that contain their index come first, so that no other artifact gets it.
        for artifact in sorted(task.artifacts, key=lambda one: index_of(one.artifact_id) is None):
            name.index(artifact.artifact_id)
        for artifact in task.artifacts:
            _number(name, artifact)

    def _name_message(self, scope: Scope, name: Name, message: hub.Message) -> None:
        if message.task_id:
            message.task_id = self._callers_id(scope, name, message.task_id)
        if message.context_id:
            message.context_id = _session(name, message.context_id)
        for place, task_id in enumerate(message.reference_task_ids):
            message.reference_task_ids[place] = self._callers_id(scope, name, task_id)

    def _callers_id(self, scope: Scope, name: Name, task_id: str) -> str:
        return name.given if task_id == name.task_id else self._table.name_of(scope, task_id)


def _session(name: Name, context_id: str) -> str:
    return name.session if name.session and context_id == name.context_id else context_id


def _number(name: Name, artifact: hub.Artifact) -> None:
    """Notes the index of an artifact whose id does not contain it, for the version's row to write."""
    if index_of(artifact.artifact_id) is None and MARK not in artifact.metadata.fields:
        artifact.metadata.update({MARK: {INDEX: name.index(artifact.artifact_id)}})


def wrap(made: S, message: hub.Message) -> S:
    """A task or event that represents a message."""
    made.status.state = hub.TASK_STATE_COMPLETED
    made.status.message.CopyFrom(message)
    made.metadata.update({MARK: {MESSAGE: True}})
    return made


def _split(task: hub.Task) -> list[hub.StreamResponse]:
    """A task as updates. A status that ends the stream comes last, because clients stop reading after it."""
    update = hub.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
    if task.HasField("metadata"):
        update.metadata.CopyFrom(task.metadata)
    made = [
        hub.StreamResponse(
            artifact_update=hub.TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=True
            )
        )
        for artifact in task.artifacts
    ]
    status = hub.StreamResponse(status_update=update)
    return [*made, status] if task.status.state in FINAL_STATES else [status, *made]
