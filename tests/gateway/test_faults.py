"""Agents that fail, answer nonsense or hang up: callers learn whose fault it is, the log has the cause."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from a2a_bridge.app.runtime import ServeOptions, connect, serve_gateway
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import V1_0
from tests.gateway.test_gateway import card
from tests.runtime.scene import BINDINGS

SECRET = "secret-of-10.0.0.7"  # noqa: S105  what must not be told
HTTP = ("JSONRPC", "HTTP+JSON")


def response(status: int, body: str, kind: str = "text/html") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"{head}\r\n\r\n{body}".encode()


ANSWERS = {
    "500": response(500, f"Traceback: {SECRET}"),
    "502": response(502, f"<html>{SECRET}"),
    "html": response(200, f"<html>{SECRET}"),
    "json": response(200, f'{{"{SECRET}": "{SECRET}"}}', "application/json"),
    "reset": b"",
}


@asynccontextmanager
async def over_http(answer: bytes) -> AsyncIterator[str]:
    """An agent that answers every request so; without bytes it resets the connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        if not answer:
            writer.transport.abort()
            return
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types here
    """Every method does the same."""

    def __init__(self, act: Callable[[], bytes]) -> None:
        self._act = act

    def service(self, details: Any) -> Any:
        async def unary(_request: bytes, _context: Any) -> bytes:
            return self._act()

        async def stream(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
            yield self._act()

        if "Streaming" in details.method:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


def raising() -> bytes:
    raise RuntimeError(SECRET)


@asynccontextmanager
async def over_grpc(act: Callable[[], bytes]) -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handler(act),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def told(binding: str, url: str) -> set[tuple[Reason, str]]:
    """The errors of both operations at a gateway, over every binding."""
    found = set()
    options = ServeOptions(grace=0)
    async with serve_gateway(card(), [Candidate(interface(binding, url), V1_0)], options=options) as gateway:
        for front in BINDINGS:
            async with connect(gateway.card, binding=front) as peer:
                with pytest.raises(A2AError) as unary:
                    await peer.send("hi")
                with pytest.raises(A2AError) as stream:
                    [text async for text in peer.stream_text("hi")]
            for caught in (unary, stream):
                error = caught.value
                shown = f"{error.message} {error.metadata} {error.details} {error.violations}"
                assert SECRET not in shown
                assert url.rpartition(":")[2] not in shown
                words = error.message.replace("StreamResponse", "…").replace("SendMessageResponse", "…")
                found.add((error.reason, words.partition("request ")[0]))
    return found


def causes(caplog: pytest.LogCaptureFixture, binding: str) -> str:
    """The lines about the agent; those of the clients of this test are about the gateway."""
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return next(line for line in lines if f"failed at <Upstream {binding} 1.0" in line)


@pytest.mark.parametrize("binding", HTTP)
@pytest.mark.parametrize(
    ("name", "reason", "text"),
    [
        ("500", Reason.INTERNAL_ERROR, "the agent failed with an internal error"),
        ("502", Reason.UNAVAILABLE, "The agent is not available"),
        ("html", Reason.INVALID_AGENT_RESPONSE, "the agent's answer is not "),
        ("json", Reason.INVALID_AGENT_RESPONSE, "the agent's answer is "),
        ("reset", Reason.UNAVAILABLE, "the connection to the agent broke"),
    ],
)
async def test_a_fault_over_http_is_the_agents(
    binding: str, name: str, reason: Reason, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with over_http(ANSWERS[name]) as url:
        found = await told(binding, url)
    assert len(found) == 1
    ((told_reason, message),) = found
    assert told_reason is reason
    assert message.startswith(text)
    line = causes(caplog, binding)
    if name in ("500", "502"):
        assert f"HTTP {name} from {url}" in line
        assert SECRET in line


@pytest.mark.parametrize(
    ("act", "reason", "text"),
    [
        (raising, Reason.INTERNAL_ERROR, "the agent failed with an internal error"),
        (lambda: b"\xff\xff\xff", Reason.INVALID_AGENT_RESPONSE, "the agent's answer is not a lf.a2a.v1.…"),
    ],
    ids=["exception", "garbage"],
)
async def test_a_fault_over_grpc_is_the_agents(
    act: Callable[[], bytes], reason: Reason, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with over_grpc(act) as url:
        assert await told("GRPC", url) == {(reason, text)}
    assert (SECRET in causes(caplog, "GRPC")) == (act is raising)


async def test_an_error_that_the_agent_words_itself_is_passed_on() -> None:
    body = '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}'
    async with over_http(response(200, body, "application/json")) as url:
        options = ServeOptions(grace=0)
        candidate = Candidate(interface("JSONRPC", url), V1_0)
        async with (
            serve_gateway(card(), [candidate], options=options) as gateway,
            connect(gateway.card) as peer,
        ):
            with pytest.raises(A2AError, match=r"^Internal error$"):
                await peer.send("hi")
