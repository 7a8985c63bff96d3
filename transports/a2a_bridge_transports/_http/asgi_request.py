"""One request of an ASGI server: its input with a time limit, its output, and whether the client has left."""

from __future__ import annotations

import asyncio
from itertools import chain
from time import monotonic

from a2a_bridge.bindings.asgi import Message, Receive, Scope, Send
from a2a_bridge.bindings.memory import HoldsInWork
from a2a_bridge.bindings.offload import SMALL
from a2a_bridge_transports._http.exchange import SLOWEST_BODY, ClientLeftError, body_too_slow
from a2a_bridge_transports._http.sse import BATCH_BYTES, BATCH_EVENTS, BATCH_TIME

#: seconds after which a request counts as slow; it gets its watch after one or two of them
MOMENT = 0.05
#: longest time until a server that does not tell by itself whether the client has left is asked again (s)
LONGEST_PAUSE = 2.0


class Watches:
    """Starts a watch for each request that takes longer than a moment, with one timer for all. patience:
    seconds that a body may take, and longer only if it is faster than `SLOWEST_BODY`.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        #: requests without a watch → the tick at which they came, oldest first
        self.waiting: dict[AsgiRequest, int] = {}
        self.tick = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, request: AsgiRequest) -> None:
        """Watches a request from soon on, until it is taken out of `waiting`."""
        self.waiting[request] = self.tick
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOMENT, self._sweep)

    def _sweep(self) -> None:
        for request, tick in list(self.waiting.items()):
            if tick == self.tick:
                break
            del self.waiting[request]
            request.watch()
        self.tick += 1
        again = bool(self.waiting)
        self._timer = asyncio.get_running_loop().call_later(MOMENT, self._sweep) if again else None


def is_head_too_large(scope: Scope, limit: int) -> bool:
    """Whether the headers have more bytes than `limit`. ASGI servers have limits of their own."""
    return sum(map(len, chain.from_iterable(scope["headers"]))) > limit


class AsgiRequest(HoldsInWork):
    """The part that requests of all bindings share. The owner calls `answer`, then `end`."""

    __slots__ = (
        "_again",
        "_began",
        "_is_late",
        "_limit",
        "_patience",
        "_pause",
        "_reading",
        "_size",
        "_task",
        "_watch",
        "_watches",
        "left",
        "parts",
        "receive",
        "scope",
        "send",
        "started",
        "stopping",
    )

    def __init__(self, watches: Watches, scope: Scope, receive: Receive, send: Send) -> None:
        self._watches = watches
        self.scope = scope
        self.receive = receive
        self.send = send
        #: the client has closed its connection or reset its stream
        self.left = False
        #: the head of the response has been sent
        self.started = False
        #: the host has cancelled the request because it stops
        self.stopping = False
        #: messages of a stream that have been written and not yet sent
        self.parts: list[bytes] = []
        self._size = 0
        self._began = 0.0
        self._held = 0
        #: the message that comes when the client leaves
        self._watch: asyncio.Future[Message] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._pause = MOMENT
        #: waits for a part of the body
        self._reading = False
        #: the time limit of a slow body, and when it begins to count bytes
        self._limit: asyncio.TimerHandle | None = None
        self._patience = 0.0
        self._is_late = False
        self._task = asyncio.current_task()

    async def answer(self) -> None:
        """Reads the request and answers it."""
        raise NotImplementedError

    async def flush(self) -> None:
        """Sends `parts` and empties it."""
        raise NotImplementedError

    async def put(self, *messages: Message) -> None:
        """Sends messages of the response. Raises OSError if the client has left, as servers tell a writer."""
        try:
            for message in messages:
                await self.send(message)
        except OSError:
            self.left = True
            raise

    async def next_part(self) -> Message:
        """The next part of the body. Raises ClientLeftError; A2AError if a watched body is too slow."""
        self._reading = True
        try:
            message = await self.receive()
        except asyncio.CancelledError:
            if not self._is_late or self._task is None:
                raise
            self._task.uncancel()
            raise body_too_slow() from None
        finally:
            self._reading = False
        if message["type"] == "http.disconnect":
            self.left = True
            raise ClientLeftError
        return message

    async def body(self, most: int, declared: int = 0) -> bytes | None:
        """The whole body; None if it is larger than `most`, or declared to be. Raises as `next_part`."""
        message = await self.next_part()
        body: bytes = message.get("body", b"")
        size = len(body)
        if message.get("more_body", False):
            # Not a list: small parts as objects would take many times their length.
            parts, more = bytearray(body), True
            self.hold(size)
            while more and max(size, declared) <= most:
                message = await self.next_part()
                part: bytes = message.get("body", b"")
                size += len(part)
                self.hold(len(part))
                parts += part
                more = message.get("more_body", False)
            body = bytes(parts)
        elif SMALL < size <= most:
            self.hold(size)
        if max(size, declared) > most:
            return None
        if self._limit is not None:
            self.body_read()
        return body

    async def write(self, data: bytes) -> None:
        """Writes a message of a stream; see `sse`."""
        parts = self.parts
        if not parts:
            self._began = monotonic()
        parts.append(data)
        self._size += len(data)
        if (
            len(parts) >= BATCH_EVENTS
            or self._size >= BATCH_BYTES
            or (len(parts) > 1 and monotonic() - self._began > BATCH_TIME)
        ):
            await self.flush()
            await asyncio.sleep(0)

    def take(self) -> bytes:
        """The bytes of `parts`, which is empty afterwards."""
        parts = self.parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._size = 0
        return data

    def watch(self) -> None:
        """Cancels the request when its client leaves; only the watch calls `receive` from now on. A body that
        is still being read gets a time limit first.
        """
        if self._reading:
            self._patience = asyncio.get_running_loop().time() + self._watches.patience
            self._check_body()
            return
        self._watch = asyncio.ensure_future(self.receive())
        self._watch.add_done_callback(self._on_receive)

    def body_read(self) -> None:
        """The body is complete. A request that was watched for its body is watched for its client again."""
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
            self._watches.add(self)

    def last_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that end the connection of a late request, which the rest of its body would occupy.
        HTTP/2 has no such headers, and needs none.
        """
        is_single = self.scope.get("http_version", "1.1").startswith("1.")
        return [(b"connection", b"close")] if is_single else []

    def _check_body(self) -> None:
        """Ends the wait for a body that is too slow; reschedules itself for others."""
        loop = asyncio.get_running_loop()
        deadline = self._patience + self._held / SLOWEST_BODY
        if loop.time() < deadline:
            self._limit = loop.call_at(deadline, self._check_body)
        elif self._reading and self._task is not None:
            self._is_late = True
            self._task.cancel()

    def stop(self) -> None:
        """Ends the request because the host stops; the binding tells the caller."""
        self.stopping = True
        self.cancel()

    def cancel(self) -> None:
        """Cancels the task that answers."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Ends the watch, after the response. A server whose `receive` is a coroutine sees it cancelled. The
        future of another one (pyvoy) is left alone: it may be set later, from another thread, or never.
        """
        self._watches.waiting.pop(self, None)
        self._task = None
        if self._held:
            self.release()
        if self._again is not None:
            self._again.cancel()
        if self._limit is not None:
            self._limit.cancel()
        if self._watch is not None:
            self._watch.remove_done_callback(self._on_receive)
            if isinstance(self._watch, asyncio.Task):
                self._watch.cancel()

    def _on_receive(self, received: asyncio.Future[Message]) -> None:
        if received.cancelled():
            return
        if received.result()["type"] != "http.disconnect":
            if self._task is None:
                return
            # pyvoy does not wait after the end of the body, so it has to be asked again and again.
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._again = asyncio.get_running_loop().call_later(self._pause, self.watch)
            return
        self.leave()

    def leave(self) -> None:
        """The client has left: ends the request."""
        self.left = True
        self.cancel()

    def forgive(self) -> bool:
        """True if a cancellation came from the watch; then it is taken back."""
        if self.left and self._task is not None:
            self._task.uncancel()
        return self.left
