"""The interface between the engine and the user's agent code: async generators that yield events.

Rules:
1. An executor yields; it never writes to a store, a queue or a socket.
2. A single Message is a direct response. Anything else makes a task, which the engine keeps.
3. The engine takes a copy of a yielded event; later changes to it have no effect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from a2a_bridge.hosting.run import Run
from a2a_bridge.pb import lf_a2a_v1 as hub

Event = hub.Task | hub.Message | hub.TaskStatusUpdateEvent | hub.TaskArtifactUpdateEvent


class AgentExecutor(Protocol):
    """An agent. Subclass it, or write a class with an `execute` of the same shape.

    `cancel`, `resume` and `reply` are optional: see the protocols below.
    """

    def execute(self, run: Run, /) -> AsyncIterator[Event]:
        """Answers a message: an async generator of events.

        Raise A2AError to reject before anything was yielded, or to fail the task after that. Any other
        exception fails the task, or the call when there is no task, without its text.
        """
        ...


@runtime_checkable
class CancellingExecutor(Protocol):
    """An executor that cleans up, or rejects, when a caller cancels a task. Other executors are stopped."""

    def cancel(self, run: Run, /) -> AsyncIterator[Event]:
        """An async generator of events, often of none.

        It runs beside `execute`, which is cancelled after it. If the task has not ended then, the engine sets
        it to CANCELED. Raise A2AError TASK_NOT_CANCELABLE to reject.
        """
        ...


@runtime_checkable
class ResumingExecutor(Protocol):
    """An executor that can continue a task whose process was killed or stopped, if the store outlives the
    process.

    Other executors' tasks fail with a text that gives the reason.
    """

    def resume(self, run: Run, /) -> AsyncIterator[Event]:
        """Continues `run.task`: an async generator of the remaining events.

        run.task: the task with everything that clients have seen; events from the last moments before its
        process died may be missing. run.message: the newest message of the user, which may be unread if the
        task waits for input. run.context: has the tenant and the caller's name, and nothing else of the call.

        It is called for tasks that are working or waiting for authentication, and for those with an unread
        message.
        """
        ...


@runtime_checkable
class DirectExecutor(Protocol):
    """An executor that always answers with a Message, at once: the engine uses no asyncio task for it."""

    async def reply(self, run: Run, /) -> hub.Message:
        """The response. It is cancelled when the caller leaves."""
        ...
