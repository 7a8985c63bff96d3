"""Writes a stream of events to a connection: batching, keep-alives, back-pressure. It opens no connection.

Rules:
1. Until the first event, an error becomes an ordinary reply; silence for `keep_alive` seconds starts the
   stream.
2. Events that are ready together are sent together, within bounds of number, size and time.
3. After each full batch the writer waits for the reader and yields to the loop; it also waits for the reader
   whenever much data is unsent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from aiohttp import web

from a2a_bridge.core.errors import A2AError
from a2a_bridge_transports._http.exchange import Reply, StreamReply
from a2a_bridge_transports._http.sse import KEEP_ALIVE

BATCH_EVENTS = 16
BATCH_BYTES = 16 * 1024
#: longest delay of events from a producer that never suspends (seconds)
BATCH_TIME = 0.005
#: unsent bytes above which the producer has to wait
MOST_WAITING = 64 * 1024


class EventWriter:
    """One stream on one aiohttp connection."""

    def __init__(
        self, request: web.BaseRequest, head: Callable[[bool], bytes], keep_alive: float, *, chunked: bool
    ) -> None:
        self._request = request
        self._head: Callable[[bool], bytes] | None = head
        self._out = b""
        self._chunked = chunked
        self._loop = asyncio.get_running_loop()
        self._interval = keep_alive
        self._parts: list[bytes] = []
        self._size = 0
        self._last = self._loop.time()
        #: when the events that are not sent yet began to come
        self._begun = monotonic()
        self._corked = False
        self._timer = self._loop.call_later(keep_alive, self._tick)

    async def run(self, reply: StreamReply) -> Reply | None:
        """Writes the stream to its end. If it fails before the first byte, returns the reply to send instead.

        Raises CancelledError or ConnectionError if the client has left.
        """
        encode = reply.encode
        parts = self._parts
        loop = self._loop
        try:
            async for event in reply.source:
                data = encode(event)
                if not isinstance(data, bytes):
                    data = await data
                if self._head is not None:
                    self._size += self._start(event.gap)
                parts.append(data)
                self._size += len(data)
                if not self._corked:
                    self._corked = True
                    self._begun = monotonic()
                    loop.call_soon(self._uncork)
                    transport = self._request.transport
                    if transport is not None and transport.get_write_buffer_size() > MOST_WAITING:
                        # A producer that awaits between events never fills a batch; this bounds its delay.
                        self._flush()
                        await self._request.writer.drain()
                elif (
                    len(parts) >= BATCH_EVENTS
                    or self._size >= BATCH_BYTES
                    or monotonic() - self._begun > BATCH_TIME
                ):
                    self._flush()
                    await self._request.writer.drain()
                    await asyncio.sleep(0)
            if self._head is not None:
                self._start()
        except BaseException as error:
            if self._request.transport is None:
                raise
            failure = reply.fail(error)
            if self._head is not None:
                return failure.reply
            parts.append(failure.event)
        self._flush(last=True)
        await self._request.writer.drain()
        return None

    def release(self) -> None:
        """Stops the timer."""
        self._timer.cancel()

    def _start(self, gap: bool = False) -> int:
        head = self._head
        if head is None:
            return 0
        self._out = head(gap)
        self._head = None
        return len(self._out)

    def _uncork(self) -> None:
        self._corked = False
        if self._parts:
            self._flush()

    def _flush(self, *, last: bool = False) -> None:
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._chunked:
            if data:
                data = b"%x\r\n%b\r\n" % (len(data), data)
            if last:
                data += b"0\r\n\r\n"
        if self._out:
            data = self._out + data
            self._out = b""
        self._last = self._loop.time()
        transport = self._request.transport
        if transport is not None:
            transport.write(data)

    def _tick(self) -> None:
        transport = self._request.transport
        if transport is None:
            return
        silence = self._loop.time() - self._last
        if silence >= self._interval * 0.99:  # a timer may fire a little early
            silence = 0.0
            if not self._parts and not transport.get_write_buffer_size():
                self._keep_alive()
        self._timer = self._loop.call_later(self._interval - silence, self._tick)

    def _keep_alive(self) -> None:
        try:
            self._start()
        except A2AError:
            return  # an invalid header: the first event will report it
        self._parts.append(KEEP_ALIVE)
        self._flush()
