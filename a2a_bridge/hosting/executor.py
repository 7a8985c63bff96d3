"""What the user's agent code is to the engine: a protocol of async generators that yield events.

Rules:
1. An executor yields; it never writes to a store, a queue or a socket.
2. One Message and nothing else is a direct answer. Anything else makes a task, which the engine keeps.
3. A yielded event belongs to the engine's caller; change it afterwards and nobody sees it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from a2a_bridge.hosting.run import Run
from a2a_bridge.pb import lf_a2a_v1 as hub

Event = hub.Task | hub.Message | hub.TaskStatusUpdateEvent | hub.TaskArtifactUpdateEvent


class AgentExecutor(Protocol):
    """An agent. Subclass it, or write a class with an `execute` of the same shape."""

    def execute(self, run: Run, /) -> AsyncIterator[Event]:
        """Answers a message: an async generator of events.

        Raise A2AError to refuse before anything was yielded, or to fail the task after that. Any other
        exception fails the task, or the call when there is no task, without its text.
        """
        ...

    async def cancel(self, run: Run, /) -> AsyncIterator[Event]:  # noqa: ARG002  for those who override
        """Cleans up when somebody cancels the task: an async generator of events, often of none.

        It runs beside `execute`, which is cancelled after it. If the task has not ended then, the engine sets
        it to CANCELED. Raise A2AError TASK_NOT_CANCELABLE to refuse. A class may do without this method.
        """
        none: tuple[Event, ...] = ()
        for event in none:
            yield event


@runtime_checkable
class ResumingExecutor(Protocol):
    """An executor that can go on with a task whose process has ended, killed or stopped, where the store
    outlives it.

    Without it such tasks fail with a text that says why.
    """

    def resume(self, run: Run, /) -> AsyncIterator[Event]:
        """Goes on with `run.task`: an async generator of the events that are still missing.

        run.task: the task with all that was ever shown of it; what the executor yielded in the last moments
        before its process died may lack. run.message: the newest message of the user, which may be unread if
        the task waits for input. run.context: knows the tenant and the caller's name, and nothing else of the
        call.

        It is called for tasks at work or waiting for a sign-in, and for those that have an unread message.
        """
        ...


@runtime_checkable
class DirectExecutor(Protocol):
    """An executor that always answers with a Message, at once: the engine spends no task of the loop on
    it.
    """

    async def reply(self, run: Run, /) -> hub.Message:
        """The answer. It is cancelled when the caller goes away."""
        ...
