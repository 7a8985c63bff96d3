"""Requests and tasks in the form for agents: without the content that dialects store in them for other
versions.

Stores and responses keep that content, so that a caller of an older version gets its own content back
unchanged.
"""

from __future__ import annotations

from a2a_bridge.codec.unknown import FIRST, drop_members, holds_members
from a2a_bridge.dialects import unmapped
from a2a_bridge.pb import lf_a2a_v1 as hub

Request = hub.SendMessageRequest | hub.CancelTaskRequest


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
    if holds_members(task.SerializeToString()):
        drop_members(task)
    if unmapped.present(task):
        unmapped.strip(task)
    return task
