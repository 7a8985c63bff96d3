"""A Service with the behaviour that a test sets, which records its calls. It knows no protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Event, Events

OnUnary = Callable[[Call[Any, Any]], Awaitable[Any]]
OnStream = Callable[[Call[Any, Any]], AsyncGenerator[Any, None]]


class Probe:
    """Set `on_unary` and `on_stream`, which yields events or messages; `answering` and `yielding` make simple
    functions. calls: in order of arrival. cancelled: the number of calls that were cancelled or closed early.
    """

    def __init__(self) -> None:
        self.calls: list[Call[Any, Any]] = []
        self.cancelled = 0
        self.on_unary: OnUnary = answering(None)
        self.on_stream: OnStream = yielding()
        self._running = 0
        self._changed = asyncio.Event()

    @property
    def last(self) -> Call[Any, Any]:
        """The most recent call."""
        return self.calls[-1]

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self._enter(call)
        try:
            return await self.on_unary(call)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self._running -= 1
            self._notify()

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self._enter(call)
        try:
            async with aclosing(self.on_stream(call)) as events:
                async for event in events:
                    yield event if isinstance(event, Event) else Event(event)
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise
        finally:
            self._running -= 1
            self._notify()

    async def wait_running(self, count: int, within: float = 10.0) -> None:
        """Waits until exactly `count` calls run. Raises TimeoutError after `within` seconds."""
        async with asyncio.timeout(within):
            while self._running != count:
                await self._changed.wait()

    async def wait_changed(self) -> None:
        """Waits until a call begins or ends."""
        await self._changed.wait()

    def _enter(self, call: Call[Any, Any]) -> None:
        self.calls.append(call)
        self._running += 1
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def answering(answer: Any) -> OnUnary:
    """Answers every call with `answer`, or raises it."""

    async def on_unary(_: Call[Any, Any]) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return on_unary


def yielding(*events: Any) -> OnStream:
    """Yields `events`; an exception among them is raised."""

    async def on_stream(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        for event in events:
            if isinstance(event, BaseException):
                raise event
            yield event

    return on_stream


async def waiting(_: Call[Any, Any]) -> Any:
    """Never answers: for calls that are to be cancelled."""
    await asyncio.Event().wait()


def holding(*events: Any) -> OnStream:
    """Yields `events`, and then waits without ending."""

    async def on_stream(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        for event in events:
            yield event
        await asyncio.Event().wait()

    return on_stream
