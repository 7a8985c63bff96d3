"""Large requests and answers count in the memory account while they are processed, over every binding, and no
longer.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge import Run
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.bindings.memory import in_work
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.stores import StoreOptions
from tests.limits.scene import BINDINGS, agent, peers, served
from tests.patience import PATIENCE

MIB = 1 << 20


class Echo:
    """Repeats its message, once a test allows it."""

    def __init__(self) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        self.reached.set()
        await self.go.wait()
        yield run.reply(run.text)


@pytest.mark.parametrize("kind", BINDINGS)
async def test_requests_count_in_memory_until_they_are_answered(kind: str) -> None:
    echo = Echo()
    options = ServeOptions(store_options=StoreOptions(max_memory=2 * MIB))
    async with served(agent(echo), options) as server, peers(server) as callers, asyncio.timeout(PATIENCE):
        answer = asyncio.create_task(callers[kind].send("x" * MIB))
        await echo.reached.wait()
        assert MIB <= in_work.held < 2 * MIB
        with pytest.raises(A2AError) as caught:
            await callers[kind].send("y" * MIB)
        assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
        echo.go.set()
        assert (await callers[kind].send("small")).text == "small"
        assert (await answer).text == "x" * MIB
    assert in_work.held == 0


class Large:
    """Ends with a large artifact."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.artifact("x" * 8 * MIB)
        yield run.status("completed")


@pytest.mark.parametrize("path", ["/", "/message:stream"])
async def test_events_that_nobody_reads_count_in_memory(path: str) -> None:
    """They wait in the buffers of connections: hundreds of readers held more than twice the limit."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    tree: dict[str, Any] = {"message": message}
    if path == "/":
        tree = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": tree}
    body = json.dumps(tree)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"
    loop = asyncio.get_running_loop()
    async with served(agent(Large()), ServeOptions()) as server, asyncio.timeout(PATIENCE):
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.setblocking(False)
            await loop.sock_connect(reader, (server.http.host, server.http.port))
            await loop.sock_sendall(reader, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            while in_work.held < 5 * MIB:  # noqa: ASYNC110  there is no notification; the kernel has the rest
                await asyncio.sleep(0.001)
        while in_work.held:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
