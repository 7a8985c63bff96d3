"""The caller's view of a task: the length of its history, and the end of its event stream.

It makes no decisions about the task and keeps no state.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import NamedTuple, Protocol

from a2a_bridge.core.messages import TERMINAL, cut_history, state_of
from a2a_bridge.core.service import Event, Events
from a2a_bridge.pb import lf_a2a_v1 as hub


class TaskSnapshot(NamedTuple):
    """A copy of a task for callers, and the number of the last event that it contains."""

    task: hub.Task
    last: int


class QueuePosition(Protocol):
    """The position of a message in the queue of its task."""

    def begun_before(self, number: int, /) -> bool:
        """True if its run had begun before the event of this number."""
        ...


def rests(event: hub.StreamResponse, number: int, ticket: QueuePosition | None) -> bool:
    """True if a stream ends with an event: it ends the task, or asks for input after this caller's run had
    begun.
    """
    state = state_of(event)
    if state in TERMINAL:
        return True
    return state == hub.TASK_STATE_INPUT_REQUIRED and (ticket is None or ticket.begun_before(number))


async def histories_cut(events: Events, limit: int) -> Events:
    """A stream with less history: in copies, because subscribers share events."""
    async with aclosing(events):
        async for event in events:
            if not event.message.HasField("task"):
                yield event
                continue
            copy = hub.StreamResponse()
            copy.CopyFrom(event.message)
            cut_history(copy.task, limit)
            yield Event(copy, event.id, event.gap)
