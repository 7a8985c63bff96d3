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
class DirectExecutor(Protocol):
    """An executor that always answers with a Message, at once: the engine spends no task of the loop on it."""

    async def reply(self, run: Run, /) -> hub.Message:
        """The answer. It is cancelled when the caller goes away."""
        ...
