"""The event: one step of a stream, as it passes through services. Not how it travels."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(slots=True)
class Event:
    """One event of a stream. Treat it as immutable: several readers may share it."""

    #: the payload
    message: hub.StreamResponse
    #: the id to resume after (see `core.resume`); empty for an event that has none
    id: str = ""
    #: events before this one are lost, and `message` is a snapshot of the task that replaces them
    gap: bool = False


#: what `Service.stream` returns
Events = AsyncGenerator[Event, None]


async def messages_of(events: Events) -> AsyncGenerator[hub.StreamResponse, None]:
    """The payloads of a stream. Closing it closes the stream."""
    async with aclosing(events):
        async for event in events:
            yield event.message
