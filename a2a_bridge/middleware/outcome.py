"""How a call ended, as one name of a small set, and which task it was about: for logs, metrics and traces."""

from __future__ import annotations

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import TERMINAL, payload_of
from a2a_bridge.core.service import Event
from a2a_bridge.pb import lf_a2a_v1 as hub

OK = "OK"
#: characters of an id or a name that are kept
LONGEST = 64


def code_of(error: BaseException | None, last: Event | None = None) -> str:
    """OK, or the name of a `Reason`. Anything but an A2AError or the end of the caller is a defect.

    error: that ended the call; None for a response. last: the last event of a stream. A caller that leaves a
    stream after the end of its task has got everything.
    """
    if error is None:
        return OK
    if isinstance(error, A2AError):
        return error.reason.name  # its `name` may be one that a peer has chosen
    if isinstance(error, Exception):
        return Reason.INTERNAL_ERROR.name
    return OK if last is not None and _ends(last.message) else Reason.CANCELLED.name


def find_task(response: object) -> tuple[str, hub.TaskState] | None:
    """The id and the state of the task in a response or an event; None if it has none."""
    found = payload_of(response)
    if isinstance(found, hub.Task):
        return found.id, found.status.state
    return (found.task_id, found.status.state) if isinstance(found, hub.TaskStatusUpdateEvent) else None


def _ends(message: hub.StreamResponse) -> bool:
    """Whether no further event of a task can follow."""
    if message.HasField("message"):
        return True
    found = find_task(message)
    return found is not None and found[1] in TERMINAL
