"""Detects dead peers on silent streams, without HTTP/2 keep-alive pings.

Servers with gRPC's default settings end a connection after a few pings on a silent stream (`too_many_pings`,
any interval below five minutes), and agents are silent for minutes while they work. A small call on the same
connection is answered by every server, if only with UNIMPLEMENTED.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import grpc.aio

_PROBE = "/grpc.health.v1.Health/Check"


class Keepalive:
    """Watches the streams of one channel.

    A quarter of `idle_timeout` (seconds) of silence on all of them starts a probe, which has the rest of it
    to be answered; otherwise the streams are cancelled and added to `lost`.
    """

    def __init__(self, channel: Any, idle_timeout: float) -> None:
        self.last_received = 0.0
        self.lost: set[Any] = set()
        self._quiet = idle_timeout / 4
        self._patience = idle_timeout - self._quiet
        self._probe = channel.unary_unary(_PROBE)
        self._streams: set[Any] = set()
        self._task: asyncio.Task[None] | None = None

    def watch(self, rpc: Any) -> None:
        """Starts watching a stream."""
        self.last_received = time.monotonic()
        self._streams.add(rpc)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def leave(self, rpc: Any) -> None:
        """Stops watching a stream, lost or not."""
        self._streams.discard(rpc)
        self.lost.discard(rpc)

    async def close(self) -> None:
        """Stops watching all streams."""
        self._streams.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while self._streams:
                silence = time.monotonic() - self.last_received
                if silence < self._quiet:
                    await asyncio.sleep(self._quiet - silence)
                elif await self._answers():
                    self.last_received = time.monotonic()
                else:
                    self.lost.update(self._streams)
                    for rpc in tuple(self._streams):
                        rpc.cancel()
                    return
        finally:
            self._task = None

    async def _answers(self) -> bool:
        probed_at = time.monotonic()
        try:
            await self._probe(b"", timeout=self._patience)
        except grpc.aio.AioRpcError as error:
            # Any other status is a response, or a broken connection, which the streams detect themselves.
            return error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED or self.last_received > probed_at
        return True
