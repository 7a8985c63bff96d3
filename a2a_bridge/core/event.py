"""The event: one step of a stream, as services pass it on. Not its transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(slots=True)
class Event:
    """One event of a stream. Treat it as immutable: several readers may share it."""

    #: the payload
    message: hub.StreamResponse
    #: the id to resume after (see `core.resume`); empty for an event without one
    id: str = ""
    #: events before this one are lost, and `message` is a snapshot of the task that replaces them
    gap: bool = False


#: the return type of `Service.stream`
Events = AsyncGenerator[Event, None]


async def messages_of(events: Events) -> AsyncGenerator[hub.StreamResponse, None]:
    """The payloads of a stream. Closing it closes the stream."""
    async with aclosing(events):
        async for event in events:
            yield event.message


async def no_events() -> Events:
    """A stream that has ended."""
    return
    yield  # type: ignore[unreachable]  # this makes it a generator


#: opens a stream: its first event and the rest; None if it is empty
Opening = Callable[[], Awaitable[tuple[Event, Events] | None]]


class HandedOver(AsyncGenerator[Event, None]):
    """A stream of a service that has work to do only before the first event. After it the inner stream is
    read directly, without a frame in between.
    """

    __slots__ = ("__weakref__", "_opening", "inner")

    def __init__(self, opening: Opening) -> None:
        self._opening: Opening | None = opening
        #: the rest of the stream; None before the first event
        self.inner: Events | None = None

    def __anext__(self) -> Any:
        inner = self.inner
        return self._first() if inner is None else inner.__anext__()

    async def _first(self) -> Event:
        opening, self._opening = self._opening, None
        opened = None if opening is None else await opening()
        if opened is None:
            raise StopAsyncIteration
        event, inner = opened
        self.inner = innermost(inner)
        return event

    def asend(self, _value: None, /) -> Any:
        return self.__anext__()

    def athrow(self, *arguments: Any) -> Any:
        return (no_events() if self.inner is None else self.inner).athrow(*arguments)

    async def aclose(self) -> None:
        self._opening = None
        if self.inner is not None:
            await self.inner.aclose()


def innermost(events: Events) -> Events:
    """The stream to read after the first event of a stream has been read."""
    while isinstance(events, HandedOver) and events.inner is not None:
        events = events.inner
    return events


async def open_stream(events: Events) -> tuple[Event, Events] | None:
    """The first event of a stream and the rest; None if it is empty. Closes the stream on an error."""
    try:
        return await anext(events), events
    except StopAsyncIteration:
        return None
    except BaseException:
        await events.aclose()
        raise
