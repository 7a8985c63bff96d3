"""Synchronous functions as agents: each call in a separate thread, beside the event loop.

Rules:
1. A thread cannot be stopped. A cancelled call sets `run.cancelled` and is not waited for; its result is
   dropped, and a generator is closed at its next value. It counts as running until it has ended.
2. A generator stays in one thread from its first value to its last, with the context variables of its call.
3. The threads are daemons, so that a function that does not return does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextvars import copy_context
from typing import Any

from a2a_bridge.hosting.run import Run

#: concurrent threads of one agent; further calls wait
MOST = 64
#: values that a generator may be ahead of its reader
_AHEAD = 32

_END = object()


class Threads:
    """The threads of one agent."""

    def __init__(self, function: Callable[..., Any], most: int = MOST) -> None:
        self._function = function
        self._most = most
        self._running = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def result(self, run: Run, arguments: tuple[Any, ...]) -> Any:
        """The result of the function for a run; if that is awaitable, its result.

        Raises the function's errors.
        """
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def work(callback: Callable[..., None]) -> None:
            try:
                value = self._function(*arguments)
            except BaseException as error:  # noqa: BLE001  raised in the loop
                callback(_fail, outcome, error)
            else:
                callback(_settle, outcome, value)

        await self._start(work, run)
        try:
            value = await outcome
        except asyncio.CancelledError:
            run.cancel()
            raise
        return await value if inspect.isawaitable(value) else value

    async def values(self, run: Run, arguments: tuple[Any, ...]) -> AsyncIterator[Any]:
        """The generator's values for a run, in order. Raises the generator's errors."""
        results: asyncio.Queue[tuple[Any, BaseException | None]] = asyncio.Queue()
        room = threading.Semaphore(_AHEAD)
        closed = threading.Event()

        def work(callback: Callable[..., None]) -> None:
            try:
                values: Generator[Any, None, None] = self._function(*arguments)
                with contextlib.closing(values):
                    for value in values:
                        callback(results.put_nowait, (value, None))
                        room.acquire()
                        if closed.is_set():
                            return
            except BaseException as error:  # noqa: BLE001  raised in the loop
                callback(results.put_nowait, (_END, error))
            else:
                callback(results.put_nowait, (_END, None))

        await self._start(work, run)
        try:
            while True:
                value, error = await results.get()
                if value is _END:
                    if error is not None:
                        raise _raisable(error)
                    return
                yield value
                room.release()
        except (asyncio.CancelledError, GeneratorExit):
            run.cancel()
            raise
        finally:
            closed.set()
            room.release()

    async def _start(self, work: Callable[[Callable[..., None]], None], run: Run) -> None:
        """Runs `work` in a thread, once one is free."""
        loop = asyncio.get_running_loop()
        while self._running >= self._most:
            place: asyncio.Future[None] = loop.create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if not place.cancelled():
                    self._wake_next()  # this call does not take the thread that is free
                raise
            finally:
                if place in self._waiting:
                    self._waiting.remove(place)
        self._running += 1
        context = copy_context()

        def callback(what: Callable[..., object], *arguments: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all waiters
                loop.call_soon_threadsafe(what, *arguments)

        def thread() -> None:
            try:
                context.run(work, callback)
            finally:
                callback(self._on_end)

        threading.Thread(target=thread, name=f"a2a run {run.task_id}", daemon=True).start()

    def _on_end(self) -> None:
        self._running -= 1
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            place = self._waiting.pop(0)
            if not place.done():  # else its call has left
                place.set_result(None)
                break


def _settle(outcome: asyncio.Future[Any], value: Any) -> None:
    if not outcome.done():
        outcome.set_result(value)
    elif inspect.iscoroutine(value):
        value.close()


def _fail(outcome: asyncio.Future[Any], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(_raisable(error))


def _raisable(error: BaseException) -> BaseException:
    """The error in a form that a coroutine may raise: not one that ends iterations, asyncio tasks, or the
    process.
    """
    if isinstance(error, Exception) and not isinstance(error, (StopIteration, StopAsyncIteration)):
        return error
    made = RuntimeError(f"the function raised {type(error).__name__}")
    made.__cause__ = error
    return made
