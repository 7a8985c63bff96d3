"""Requests and tasks in the form for agents: without the content that dialects store in them for other
versions.

Stores and responses keep that content, so that a caller of an older version gets its own content back
unchanged.
"""

from __future__ import annotations

from a2a_bridge.codec.unknown import drop_members, holds_members
from a2a_bridge.dialects import unmapped
from a2a_bridge.pb import lf_a2a_v1 as hub

Request = hub.SendMessageRequest | hub.CancelTaskRequest


def for_agent(request: Request) -> Request:
    """The request without that content, and without unknown members of JSON: unchanged if it has neither."""
    if holds_members(request.SerializeToString()):
        known = type(request)()
        known.CopyFrom(request)  # type: ignore[arg-type]  # of the same type
        drop_members(known)
        request = known
    # Runs per message: one look at each place where the content could be, and no generator. A slice, because
    # protobuf's own iteration costs three times as much.
    if request.HasField("metadata"):
        return unmapped.strip_copy(request)
    if isinstance(request, hub.SendMessageRequest):
        message = request.message
        if message.HasField("metadata"):
            return unmapped.strip_copy(request)
        for part in message.parts[:]:
            if part.HasField("metadata"):
                return unmapped.strip_copy(request)
    return request


def task_for_agent(task: hub.Task) -> hub.Task:
    """The task without that content, changed in place."""
    if holds_members(task.SerializeToString()):
        drop_members(task)
    if unmapped.present(task):
        unmapped.strip(task)
    return task
