"""Errors of the engine that more than one module of hosting raises."""

from __future__ import annotations

from a2a_bridge.core.errors import A2AError, Blame, Reason


def already_ended(task_id: str) -> A2AError:
    """The response to a message to a task that has ended (spec 3.1.1)."""
    text = "the task has ended and takes no more messages"
    return A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": task_id})


def not_cancelable(task_id: str) -> A2AError:
    """The response to a cancellation of a task that has ended (spec 3.1.5)."""
    return A2AError(Reason.TASK_NOT_CANCELABLE, metadata={"taskId": task_id})


def broken_protocol_error(text: str) -> A2AError:
    """The response if the agent broke the protocol."""
    return A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.SELF)


def too_many_tasks(most: int, where: str = "") -> A2AError:
    """The response if a caller, or a tenant, has too many working tasks. where: added to the text."""
    text = f"more than {most} tasks are being worked on{where}"
    return A2AError(Reason.RESOURCE_EXHAUSTED, text, retry_after=1.0)


def too_many_waiting() -> A2AError:
    """The response if too many messages wait for a task's run to end."""
    return A2AError(Reason.RESOURCE_EXHAUSTED, "too many messages wait for this task", retry_after=1.0)


def history_full(most: int) -> A2AError:
    """The response to a message to a task with a full history. Waiting does not help, so no retry time is
    given.
    """
    text = f"the task has {most} messages or more and takes no further ones; begin a new one in its context"
    return A2AError(Reason.RESOURCE_EXHAUSTED, text)
