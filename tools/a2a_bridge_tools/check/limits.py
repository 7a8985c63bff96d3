"""Limits that callers run into: the size of a request, and the time of a response."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import uuid4

from a2a_bridge.app.peer import request_of
from a2a_bridge.core.errors import A2AError, Reason, cause_of
from a2a_bridge_tools.check.inspection import Dialled, Finding, Inspection
from a2a_bridge_tools.check.messages import connect_to, context

#: characters of a message that is a little larger than 1 MiB, which many proxies have as their limit
_LARGE = 1_100_000
#: the part of the time limit after which a response to a question for a task is slow
_SLOW = 0.5


async def size(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Sends a message of more than 1 MiB to a task that nobody has: it is rejected before any work begins."""
    if not inspection.text:
        return
    arrived = []
    for one in inspection.answered:
        if one.error is None or one.error.reason is not Reason.TASK_NOT_FOUND:
            continue
        finding = await _large(inspection, one)
        if finding is None:
            arrived.append(one)
        else:
            yield finding
    if arrived:
        yield Finding("size", True, f"a message of 1 MiB arrives {inspection.over(arrived)}")


async def time_limits(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether a response that needs no work takes long."""
    slow = [one for one in inspection.working if one.seconds > inspection.limit * _SLOW]
    for one in slow:
        yield Finding(
            f"time {one.name}",
            True,
            f"{one.seconds:.1f} s for the answer that there is no such task",
            "look for what makes it wait: callers give up after 5 to 60 s",
        )


async def _large(inspection: Inspection, one: Dialled) -> Finding | None:
    """None if the message arrives."""
    name = f"size {one.name}"
    async with connect_to(inspection, one) as peer:
        request = request_of(("x" * _LARGE,), task=str(uuid4()))
        try:
            await peer.send_message(request, context(inspection))
        except A2AError as error:
            if error.reason is Reason.TASK_NOT_FOUND:
                return None
            if hasattr(error, "__notes__") or error.reason in (Reason.UNAVAILABLE, Reason.INTERNAL_ERROR):
                fix = "raise the limit of the proxy in front of the agent (nginx: client_max_body_size)"
                return Finding(name, False, f"a message of 1 MiB fails: {cause_of(error)}", fix)
            if error.reason in (Reason.REQUEST_TOO_LARGE, Reason.RESOURCE_EXHAUSTED):
                advice = "raise the limit of the agent, if callers send files"
                return Finding(name, True, f"a message of 1 MiB is rejected: {cause_of(error)}", advice)
            return None
    fix = "answer TaskNotFoundError for a message to a task that does not exist; never start another one"
    return Finding(name, False, "a message to a task that nobody has is taken", fix)
