"""Hosts pass posts below a path to a function: on their own socket and as an ASGI application."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from a2a_bridge.bindings.binding import HostOptions, ListenAddress, ReadBody, asgi_host, find
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import KNOWN
from a2a_bridge.testing.probe import Probe
from tests.patience import PATIENCE

PATH = "/.hooks"
both = pytest.mark.parametrize("kind", ["socket", "asgi"])


class Received:
    def __init__(self, answer: Any = 202) -> None:
        self.got: list[tuple[str, str, bytes]] = []
        self._answer = answer

    async def __call__(self, path: str, headers: Mapping[str, str], read_body: ReadBody) -> int:
        self.got.append((path, headers["x-token"], await read_body()))
        if isinstance(self._answer, BaseException):
            raise self._answer
        status: int = self._answer
        return status


@asynccontextmanager
async def receiving(kind: str, receive: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a host that also serves an agent over HTTP+JSON, whose paths can be any."""
    options = HostOptions(max_body=1000)
    http_json = find("HTTP+JSON")
    host: Any = asgi_host(options) if kind == "asgi" else http_json.host(ListenAddress(), options)
    http_json.mount(host, "", Probe(), KNOWN)
    host.receive(PATH, receive)
    if kind == "asgi":
        transport = httpx.ASGITransport(app=host)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            yield client
        return
    await host.start()
    async with httpx.AsyncClient(base_url=f"http://{host.address}", timeout=PATIENCE) as client:
        yield client
    await host.drain(0)


@both
async def test_posts_below_the_path_arrive(kind: str) -> None:
    receive = Received()
    async with receiving(kind, receive) as client:
        reply = await client.post(f"{PATH}/a/b", content=b"body", headers={"X-Token": "t"})
    assert (reply.status_code, reply.content) == (202, b"")
    assert receive.got == [("/a/b", "t", b"body")]


@both
async def test_nothing_else_does(kind: str) -> None:
    receive = Received()
    async with receiving(kind, receive) as client:
        headers = {"X-Token": "t"}
        assert (await client.get(f"{PATH}/a", headers=headers)).status_code == 405
        assert (await client.post(f"{PATH}more/a", headers=headers)).status_code != 202
        assert (await client.post(f"{PATH}/a", content=b"x" * 1001, headers=headers)).status_code == 413
    assert receive.got == []


@both
@pytest.mark.parametrize(
    ("raised", "status"), [(A2AError(Reason.PARSE_ERROR), 400), (RuntimeError("secret"), 500)]
)
async def test_exceptions_become_a_status(
    kind: str, raised: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "a2a_bridge.http"):
        async with asyncio.timeout(PATIENCE), receiving(kind, Received(raised)) as client:
            reply = await client.post(f"{PATH}/a", content=b"{}", headers={"X-Token": "t"})
    assert reply.status_code == status
    assert b"secret" not in reply.content
    assert len(caplog.records) == (status == 500)
