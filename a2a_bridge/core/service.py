"""The central interface (`Service`) and its events: servers accept a service, clients implement it,
middleware wraps it.

Rules:
1. Two methods, permanently. Anything that cannot be expressed as one of them is not a service.
2. `stream` returns an async generator; its consumer closes it (`contextlib.aclosing`), and closing releases
   everything below it. It is a generator and not any iterator so that closing is always possible.
3. Both raise A2AError for errors that the caller should see. Any other exception is a defect and becomes
   INTERNAL where the call entered.
4. Nobody changes a response that was given: a large one is encoded in another thread, and others may have the
   same one. A middleware that changes it copies it first.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Req, Res
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
    """A stream with work to do only before its first event. After that event, the inner stream is read
    directly.
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


class Service(Protocol):
    """Answers calls: a hosted agent, a dialled client, a gateway, a middleware around one of them."""

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        """Answers a unary operation. Raises A2AError when awaited.

        Usually an `async def`. A middleware that only looks at the request returns the coroutine of the
        service inside, so that no frame of its own stays in the way of the response.
        """

    def stream(self, call: Call[Any, Any], /) -> Events:
        """Answers a streaming operation. The generator raises A2AError when iterated."""


#: wraps a service in another
Middleware = Callable[[Service], Service]


def compose(service: Service, *middleware: Middleware) -> Service:
    """Wraps `service`; the first middleware in the list is the outermost."""
    for wrap in reversed(middleware):
        service = _check(wrap(service), wrap)
    return service


def _check(wrapped: Any, wrap: Middleware) -> Service:
    """The result of a middleware. Raises TypeError for anything but a service."""
    if callable(getattr(wrapped, "unary", None)) and callable(getattr(wrapped, "stream", None)):
        service: Service = wrapped
        return service
    name = getattr(wrap, "__qualname__", type(wrap).__name__)
    if isinstance(wrapped, Coroutine):
        wrapped.close()
        raise TypeError(f"the middleware {name} is async: write a plain function, service -> service")
    raise TypeError(
        f"the middleware {name} returned {type(wrapped).__name__}: let it return a service, with `unary` and"
        " `stream`, such as the one that it was given"
    )


async def reject(error: A2AError) -> Any:
    """The response to a rejected call: a coroutine that raises `error`."""
    raise error


async def reject_stream(error: A2AError) -> Events:
    """The stream of a rejected call: a generator that raises `error` when iterated."""
    raise error
    yield  # type: ignore[unreachable]  # makes this a generator


def reject_if(problem: Callable[[Call[Any, Any]], A2AError | None]) -> Middleware:
    """Middleware that rejects the calls for which `problem` returns an error."""
    return lambda service: _Rejecting(service, problem)


class _Rejecting:
    def __init__(self, service: Service, problem: Callable[[Call[Any, Any]], A2AError | None]) -> None:
        self._service = service
        self._problem = problem

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        error = self._problem(call)
        return self._service.unary(call) if error is None else reject(error)

    def stream(self, call: Call[Any, Any], /) -> Events:
        error = self._problem(call)
        return self._service.stream(call) if error is None else reject_stream(error)
