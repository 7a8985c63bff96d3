"""The agent and the clients of the pytest plugin, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from a2a_bridge.app.peer import Peer, Reply
from a2a_bridge.pb import lf_a2a_v1 as hub

T = TypeVar("T")

#: seconds for a call of a test, for the next event of a stream, and for the start and the end of a server
LIMIT = 60.0


class Background:
    """A thread with an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="a2a test", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Raises its errors, and TimeoutError after LIMIT seconds."""
        return asyncio.run_coroutine_threadsafe(_limited(work), self._loop).result()

    @contextmanager
    def opened(self, opens: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
        """Keeps an asynchronous context open, which one task enters and leaves."""
        ready: Future[T] = Future()
        end = asyncio.Event()

        async def keep() -> None:
            async with opens() as value:
                ready.set_result(value)
                await end.wait()

        def ended(task: Future[None]) -> None:
            if not ready.done():
                ready.set_exception(task.exception() or asyncio.CancelledError())

        task = asyncio.run_coroutine_threadsafe(keep(), self._loop)
        task.add_done_callback(ended)
        try:
            yield ready.result(LIMIT)
        finally:
            if not task.done():
                self._loop.call_soon_threadsafe(end.set)
                task.result(LIMIT)

    def close(self) -> None:
        """Ends the thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()


async def _limited(work: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(LIMIT) as scope:
            return await work
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise TimeoutError(f"the call has not ended within {LIMIT:g} seconds") from error


@dataclass(frozen=True)
class AgentUnderTest:
    """A running agent. card: with the addresses of all its interfaces, for clients of any kind."""

    card: hub.AgentCard

    def url(self, binding: str) -> str:
        """The address of its first interface of a binding. Raises LookupError without any."""
        for one in self.card.supported_interfaces:
            if one.protocol_binding == binding:
                return str(one.url)
        raise LookupError(f"the agent has no interface of {binding}")


class EventStream:
    """The events of a stream, as they come: an iterator of a test, fed by the thread of the client."""

    def __init__(self, peer: Peer, background: Background, content: tuple[Any, ...], options: Any) -> None:
        self._background = background
        #: None: the task has ended
        self._queue: queue.SimpleQueue[hub.StreamResponse | None] = queue.SimpleQueue()
        self._task = background.run(self._begin(peer, content, options))

    async def _begin(self, peer: Peer, content: tuple[Any, ...], options: Any) -> asyncio.Task[None]:
        async def read() -> None:
            async with aclosing(peer.stream(*content, **options)) as events:
                async for event in events:
                    self._queue.put(event)

        task = asyncio.create_task(read())
        task.add_done_callback(lambda _: self._queue.put(None))
        return task

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> hub.StreamResponse:
        """The next event. Raises the stream's A2AError, and TimeoutError after LIMIT seconds without one."""
        if not (self._task.done() and self._queue.empty()):
            try:
                event = self._queue.get(timeout=LIMIT)
            except queue.Empty:
                raise TimeoutError(f"the stream has had no event for {LIMIT:g} seconds") from None
            if event is not None:
                return event
        if not self._task.cancelled():
            self._task.result()
        raise StopIteration

    def close(self) -> None:
        """Disconnects; a task of the agent goes on."""

        async def stop() -> None:
            self._task.cancel()
            await asyncio.wait([self._task])

        if not self._task.done():
            self._background.run(stop())


class AgentClient:
    """A client of the agent over one binding. Its methods block, and have a limit of 60 s."""

    def __init__(self, binding: str, peer: Peer, background: Background) -> None:
        self.binding = binding
        #: the client itself, whose methods are coroutines of the thread behind it: see `run`
        self.peer = peer
        self._background = background
        self._streams: list[EventStream] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a call of `peer`, such as `run(peer.get_task(…))`. Raises A2AError."""
        return self._background.run(work)

    def send(self, *content: Any, **options: Any) -> Reply:
        """Sends a message and waits for the response: see `Peer.send`. Raises A2AError."""
        return self.run(self.peer.send(*content, **options))

    def stream(self, *content: Any, **options: Any) -> EventStream:
        """The events after a message, as they come: see `Peer.stream`. Raises A2AError when iterated."""
        stream = EventStream(self.peer, self._background, content, options)
        self._streams.append(stream)
        return stream

    def close(self) -> None:
        """Disconnects the streams that have not ended."""
        for stream in self._streams:
            stream.close()
