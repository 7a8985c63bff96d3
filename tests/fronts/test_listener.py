"""What the fronts promise as servers: the limits of our host for strangers, and the end of running requests."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from mcp.shared._httpx_utils import create_mcp_http_client

from a2a_bridge.bindings.binding import HostOptions, http_host
from a2a_bridge.core.addresses import ListenAddress
from a2a_bridge.testing.each import each
from a2a_bridge_adapters.fronts.mcp_serving import mcp_front
from a2a_bridge_adapters.fronts.openai_serving import openai_front
from tests.fronts.desk import FORMS, At, Desk, serving
from tests.fronts.fronts import ACCEPT, INITIALIZE, authentication, running
from tests.fronts.test_mcp import TOOL
from tests.fronts.test_openai import chat, client
from tests.fronts.test_openai import fronted as openai_at
from tests.patience import PATIENCE
from tests.transports.http_scene import Wire

MIB = 1 << 20
FRONTS = {"/mcp": mcp_front, "/v1/chat/completions": openai_front}
fronts = pytest.mark.parametrize("path", list(FRONTS))


@asynccontextmanager
async def guarded(path: str, **options: Any) -> AsyncIterator[ListenAddress]:
    """A front with keys for its callers on a host of ours, as the commands serve it."""
    host = http_host(ListenAddress(), HostOptions(**options))
    async with asyncio.timeout(PATIENCE), serving(Desk(), *FORMS[0]) as card:
        host.mount_application("", FRONTS[path](card, authenticate=authentication()))
        await host.start()
        try:
            yield host.address
        finally:
            await host.drain(0)


@asynccontextmanager
async def stranger(address: ListenAddress) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


@fronts
@each(
    "first,piece,status",
    [
        (b"POST %b HTTP/1.1\r\nHost: x\r\n", b"X-Header: " + b"x" * 1000 + b"\r\n", 431),
        (b"POST %b?", b"x" * 1000, 414),
    ],
)
async def test_a_stranger_sends_a_head_without_an_end(
    path: str, first: bytes, piece: bytes, status: int
) -> None:
    async with guarded(path) as address, stranger(address) as wire:
        tracemalloc.start()
        try:
            wire.send(first % path.encode())
            for _ in range(20_000):  # 20 MB, as far as they are taken
                wire.send(piece)
                if wire.writer.transport.is_closing():
                    break
            assert (await wire.head())[0] == status
            assert (
                tracemalloc.get_traced_memory()[0] - wire.writer.transport.get_write_buffer_size() < 4 * MIB
            )
        finally:
            tracemalloc.stop()


@fronts
@each("sent", [b"", b"POST /mcp HTTP/1.1\r\nHost: x\r\n"])
async def test_an_idle_connection_and_half_a_head_end(path: str, sent: bytes) -> None:
    async with guarded(path, header_timeout=0.1) as address, stranger(address) as wire:
        wire.send(sent)
        assert await wire.ended()


@fronts
@each("key,status", [("key of ann", 413), ("no key", 401)])
async def test_a_body_of_many_values_is_not_decoded(path: str, key: str, status: int) -> None:
    nested = b"[" + b",".join([b"[]"] * 1_400_000) + b"]"
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"data":%b}}}' % nested
    assert len(body) > 4 * MIB
    headers = {**ACCEPT, "Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    options = {"max_body": 16 * MIB}
    async with (
        asyncio.timeout(PATIENCE),
        serving(Desk(), *FORMS[0]) as card,
        httpx.AsyncClient(timeout=PATIENCE) as http,
    ):
        host = http_host(ListenAddress(), HostOptions())
        host.mount_application("", FRONTS[path](card, authenticate=authentication(), **options))
        await host.start()
        tracemalloc.start()
        try:
            answer = await http.post(f"http://{host.address}{path}", content=body, headers=headers)
            assert answer.status_code == status
            if status == 413:
                assert "more than 100000 values" in answer.text
            # Copies of the body: what the client sends, what came, and what is counted.
            assert tracemalloc.get_traced_memory()[1] < 8 * len(body)
        finally:
            tracemalloc.stop()
            await host.drain(0)


async def test_limits_and_callers_that_are_not_known() -> None:
    async with (
        asyncio.timeout(PATIENCE),
        serving(Desk(), *FORMS[0]) as card,
        openai_at(card, authenticate=authentication(), max_body=100) as url,
        client(url, "wrong") as api,
        client(url, "key of ann") as ann,
    ):
        with pytest.raises(openai.AuthenticationError) as unknown:
            await chat(api, "x")
        assert unknown.value.response.headers["www-authenticate"] == 'Bearer realm="test"'
        with pytest.raises(openai.APIStatusError, match="larger than 100 bytes") as large:
            await chat(ann, "x" * 200)
        assert large.value.status_code == 413


class Session:
    """A session of MCP in raw HTTP, so that the end of each response is seen."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http, self._url = http, f"{url}/mcp"
        self._headers = dict(ACCEPT)

    async def open(self) -> None:
        opened = await self._http.post(self._url, json=INITIALIZE, headers=self._headers)
        self._headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._http.post(self._url, json=ready, headers=self._headers)

    async def listen(self) -> httpx.Response:
        asked = self._http.build_request("GET", self._url, headers=self._headers)
        return await self._http.send(asked, stream=True)

    async def work(self) -> httpx.Response:
        call = {"name": TOOL, "arguments": {"message": "work"}}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        return await self._http.post(self._url, json=asked, headers=self._headers)


@pytest.mark.process
@each("grace,ends", [(str(PATIENCE), "worked"), ("1", "the server is shutting down")])
async def test_sigterm_lets_calls_of_mcp_end_or_tells_why_not(
    desk_at: At, card_file: str, tmp_path: Path, grace: str, ends: str
) -> None:
    desk, _ = desk_at
    for event in (desk.working, desk.released, desk.cancelled):
        event.clear()
    log = tmp_path / f"log {grace}"
    flags = ("--http", "127.0.0.1:0", "--timeout-graceful-shutdown", grace)
    async with create_mcp_http_client() as http, asyncio.timeout(PATIENCE):
        http.timeout = PATIENCE
        async with running("mcp", card_file, *flags, stderr=log) as url:
            sessions = [Session(http, url) for _ in range(3)]
            for session in sessions:
                await session.open()
            listening = [await session.listen() for session in sessions]
            call = asyncio.create_task(sessions[0].work())
            await desk.working.wait()

            async def release() -> None:
                """Lets the agent end when the front drains: its streams have ended."""
                for one in listening:
                    assert [chunk async for chunk in one.aiter_bytes()] == []
                if ends == "worked":
                    desk.released.set()

            releasing = asyncio.create_task(release())
        await releasing
        answer = await call
        assert (answer.status_code, ends in answer.text) == (200, True)
        if ends != "worked":
            await desk.cancelled.wait()
    assert "ERROR" not in log.read_text("utf-8")
    assert "Traceback" not in log.read_text("utf-8")


@pytest.mark.process
async def test_a_front_has_the_probes_of_a_server(card_file: str) -> None:
    async with running("openai", card_file, "--http", "127.0.0.1:0") as url, httpx.AsyncClient() as http:
        for path in ("/livez", "/readyz"):
            assert (await http.get(f"{url}{path}")).text == "ok\n"
