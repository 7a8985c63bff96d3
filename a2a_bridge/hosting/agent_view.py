"""Requests and tasks in the form for agents: without the content that dialects store in them for other
versions.

Stores and answers keep that content, so that a caller of an older version gets back exactly what it sent.
"""

from __future__ import annotations

from a2a_bridge.dialects import unmapped
from a2a_bridge.pb import lf_a2a_v1 as hub

_KEY = unmapped.KEY.encode()
_SMALL = 4096

Request = hub.SendMessageRequest | hub.CancelTaskRequest


def for_agent(request: Request) -> Request:
    """The request without that content: unchanged if it has none."""
    # Runs per message. Up to some size it is faster to search the serialized key than to visit each part.
    if request.ByteSize() < _SMALL:
        if _KEY not in request.SerializeToString():
            return request
    elif not any(unit.HasField("metadata") for unit in unmapped.units(request)):
        return request
    return unmapped.stripped(request)


def task_for_agent(task: hub.Task) -> hub.Task:
    """A copy of the task without that content."""
    if unmapped.present(task):
        unmapped.strip(task)
    return task
