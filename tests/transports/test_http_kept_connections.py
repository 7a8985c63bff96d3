"""Responses that nobody asked for, on a connection that is kept for the next call."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.core.agent_api import Client
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE
from tests.transports.http_peer import http
from tests.transports.http_scene import BINDINGS, dialling


class Talkative:
    """An agent that answers GetTask with the task, and the first call of each connection twice."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.url = ""
        self.connections = 0
        #: says that the client has its response, and keeps the connection
        self.given_back: asyncio.Queue[None] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        first = True
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1])) if length else b""
                writer.write(self._response(head, body))
                await writer.drain()
                if first:
                    await self.given_back.get()
                    writer.write(self._response(head, body, again=True))
                first = False
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.close()

    def _response(self, head: str, body: bytes, *, again: bool = False) -> bytes:
        task = {"contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        if self._kind == "HTTP+JSON":
            return http(json.dumps(task | {"id": head.split()[1].rpartition("/")[2]}))
        frame = json.loads(body)
        task["id"] = frame["params"]["id"]
        # Ids are counted up, so that of the next request is easy to guess.
        return http(json.dumps({"jsonrpc": "2.0", "id": frame["id"] + again, "result": task}))


@asynccontextmanager
async def talking(kind: str) -> AsyncIterator[Talkative]:
    agent = Talkative(kind)
    server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    agent.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield agent
    finally:
        server.close()


@pytest.mark.parametrize("kind", list(BINDINGS))
async def test_a_response_that_nobody_asked_for_is_for_nobody(kind: str) -> None:
    async with talking(kind) as agent, dialling(agent.url, kind) as service, asyncio.timeout(PATIENCE):
        kept: Any = service.exchanger._session.connector._conns  # type: ignore[attr-defined]
        for number in range(3):
            task = await Client(service).get_task(hub.GetTaskRequest(id=f"t{number}"))
            assert task.id == f"t{number}"
            agent.given_back.put_nowait(None)
            while not any(len(one) for idle in kept.values() for one, _ in idle):  # noqa: ASYNC110
                await asyncio.sleep(0)  # until the second response is here
    assert agent.connections == 3
