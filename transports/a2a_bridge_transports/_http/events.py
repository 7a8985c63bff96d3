"""Writes a stream of events to a connection: batching, keep-alives, back-pressure. It opens no connection.

Rules:
1. Until the first event, an error becomes an ordinary reply; silence for `keep_alive` seconds starts the
   stream.
2. Events that are ready together are sent together, within bounds of number, size and time: what has been
   written is sent when the source has to wait (`run_flushing`).
3. After each full batch the writer yields to the loop. Before it waits for further events, it waits for a
   reader that is behind.
"""

import asyncio
from collections.abc import Callable
from math import inf
from time import monotonic

from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.bindings.traffic import sent_bytes
from a2a_bridge.codec.budget import ALLOWANCE, METER, LengthyError
from a2a_bridge.core.errors import A2AError
from a2a_bridge_transports._http.exchange import Reply, StreamReply
from a2a_bridge_transports._http.protocol import Connection
from a2a_bridge_transports._http.sse import BATCH_BYTES, BATCH_EVENTS, BATCH_TIME, KEEP_ALIVE


class EventWriter:
    """One stream on one connection. head: makes the head; its argument is StreamReply.headers'."""

    __slots__ = (
        "_begun",
        "_chunked",
        "_connection",
        "_head",
        "_interval",
        "_last",
        "_loop",
        "_out",
        "_sent",
        "_size",
        "_timer",
        "parts",
    )

    def __init__(
        self, connection: Connection, head: Callable[[bool], bytes], keep_alive: float, *, chunked: bool
    ) -> None:
        self._connection = connection
        self._head: Callable[[bool], bytes] | None = head
        self._out = b""
        self._chunked = chunked
        self._loop = asyncio.get_running_loop()
        self._interval = keep_alive
        #: events that have been written and not yet sent
        self.parts: list[bytes] = []
        self._size = 0
        #: bytes of the last write
        self._sent = 0
        self._last = self._loop.time()
        #: when the first of `parts` came
        self._begun = 0.0
        self._timer = self._loop.call_later(keep_alive, self._tick)

    async def run(self, reply: StreamReply) -> Reply | None:
        """Writes the stream to its end; `run_flushing` runs it. Returns the reply to send instead if it fails
        before the first byte. Raises CancelledError if the client has left.
        """
        encode, parts = reply.encode, self.parts
        try:
            async for event in reply.source:
                METER.left = ALLOWANCE  # as `within_budget`, without another call for each event
                try:
                    data = encode(event)
                except LengthyError:
                    METER.left = inf
                    data = await run_in_worker(encode, event)
                finally:
                    METER.left = inf
                sent_bytes[reply.binding] += len(data)
                if self._head is not None:
                    self._start(gap=event.gap)
                if not parts:
                    self._begun = monotonic()
                parts.append(data)
                self._size += len(data)
                del event, data  # the reader, or the next event, may take hours
                if (
                    len(parts) >= BATCH_EVENTS
                    or self._size >= BATCH_BYTES
                    or (len(parts) > 1 and monotonic() - self._begun > BATCH_TIME)
                ):
                    await self.flush()
                    await asyncio.sleep(0)
            if self._head is not None:
                self._start(gap=False)
        except BaseException as error:
            if self._connection.transport is None:
                raise
            failure = reply.fail(error)
            if self._head is not None:
                return failure.reply
            parts.append(failure.event)
        finally:
            # Now, because a keep-alive after the last chunk would be part of the next response.
            self._timer.cancel()
        self._send(last=True)
        await self._connection.drain(self._sent)
        return None

    async def flush(self) -> None:
        """Sends `parts`, and waits for a reader that is behind."""
        self._send()
        if self._connection.is_full:
            await self._connection.drain(self._sent)

    def _start(self, *, gap: bool) -> None:
        head = self._head
        if head is not None:
            self._out = head(gap)
            self._head = None

    def _send(self, *, last: bool = False) -> None:
        parts = self.parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._size = 0
        if self._chunked:
            end = b"0\r\n\r\n" if last else b""
            data = b"%b%x\r\n%b\r\n%b" % (self._out, len(data), data, end) if data else self._out + end
        elif self._out:
            data = self._out + data
        self._out = b""
        self._sent = len(data)
        self._last = self._loop.time()
        transport = self._connection.transport
        # A closed transport in which nothing waits drops the data, and its loss is reported in the next turn
        # of the loop. asyncio logs each such write after the fifth.
        if transport is not None and (not transport.is_closing() or transport.get_write_buffer_size()):
            transport.write(data)

    def _tick(self) -> None:
        """Sends a comment after `keep_alive` seconds without other data."""
        connection = self._connection
        if connection.transport is None:
            return
        silence = self._loop.time() - self._last
        if silence >= self._interval * 0.99:  # a timer may fire a little early
            silence = 0.0
            if not self.parts and not connection.transport.get_write_buffer_size():
                self._keep_alive()
        self._timer = self._loop.call_later(self._interval - silence, self._tick)

    def _keep_alive(self) -> None:
        try:
            self._start(gap=False)
        except (A2AError, ValueError):
            return  # an invalid header: the first event will report it
        self.parts.append(KEEP_ALIVE)
        self._send()
