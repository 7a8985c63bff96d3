"""Requests and tasks in the form for agents: without the content that dialects store in them for other
versions.

Stores and answers keep that content, so that a caller of an older version gets back exactly what it sent.
"""

from __future__ import annotations

from a2a_bridge.dialects import unmapped
from a2a_bridge.pb import lf_a2a_v1 as hub

Request = hub.SendMessageRequest | hub.CancelTaskRequest


def for_agent(request: Request) -> Request:
    """The request without that content: unchanged if it has none."""
    # Runs per message: one look at each place where the content could be, and no generator. A slice, because
    # protobuf's own iteration costs three times as much.
    if request.HasField("metadata"):
        return unmapped.stripped(request)
    if isinstance(request, hub.SendMessageRequest):
        message = request.message
        if message.HasField("metadata"):
            return unmapped.stripped(request)
        for part in message.parts[:]:
            if part.HasField("metadata"):
                return unmapped.stripped(request)
    return request


def task_for_agent(task: hub.Task) -> hub.Task:
    """A copy of the task without that content."""
    if unmapped.present(task):
        unmapped.strip(task)
    return task
