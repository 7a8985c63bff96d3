"""Values of an agent that another binding forbids in headers and texts never cost the answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.app.peer import request_of
from a2a_bridge.app.runtime import Server, connect, serve_gateway
from a2a_bridge.cards import interface, select
from a2a_bridge.codec import dumps, loads
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.rejections import rejected

KNOWN = ("JSONRPC", "HTTP+JSON", "GRPC")
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}


class Agent:
    """A 1.0 agent over JSON-RPC that sends fixed bytes. headers: raw lines of every answer."""

    def __init__(self) -> None:
        self.headers = b""
        self.answer: dict[str, Any] = {"result": {"task": TASK}}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        frame: Any = loads(await reader.readexactly(length))
        body = b'{"jsonrpc":"2.0","id":%d,' % frame["id"] + dumps(self.answer)[1:]
        kind = b"application/json"
        if frame["method"] == "SendStreamingMessage" and "result" in self.answer:
            kind, body = b"text/event-stream", b"data: " + body + b"\n\n"
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n%b\r\n%b"
            % (kind, len(body), self.headers, body)
        )
        writer.close()


@asynccontextmanager
async def bridged_values(agent: Agent) -> AsyncIterator[Server]:
    served = await asyncio.start_server(agent.handle, "127.0.0.1", 0)
    async with served:
        port = served.sockets[0].getsockname()[1]
        card = hub.AgentCard(
            name="raw", supported_interfaces=[interface("JSONRPC", f"http://127.0.0.1:{port}/")]
        )
        card.capabilities.streaming = True
        candidates = select(card, known=KNOWN)
        async with serve_gateway(card, candidates, [interface(kind) for kind in KNOWN]) as server:
            yield server


BAD = b"urn:x:\x01, urn:ok, urn:\xc3\xa9"


@pytest.mark.parametrize("binding", KNOWN)
async def test_a_header_that_cannot_be_relayed_is_left_out(
    binding: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent()
    agent.headers = b"A2A-Extensions: %b\r\nA2A-Resume: ga\x02p\r\nx-a2a-bridge-aside: \x7f{\r\n" % BAD
    async with bridged_values(agent) as server, connect(server.card, binding=binding) as peer:
        context = CallContext(parameters={"a2a-extensions": "urn:ok"})
        answer = await peer.send_message(request_of(("hi",)), context)
        assert answer.task.id == "t"
        assert context.reply.get("a2a-extensions") == "urn:ok"
        events = [event async for event in peer.events(request_of(("hi",)))]
        assert events[-1].message.task.id == "t"
        assert not any(event.gap for event in events)
    assert "a2a-extensions" in caplog.text
    assert "\x01" not in caplog.text


@pytest.mark.parametrize("binding", KNOWN)
@pytest.mark.parametrize(
    "error",
    [
        {"code": -32001, "message": "no \ud800 such\u0000 \u0007task\r\nX: 1"},
        {
            "code": -32001,
            "message": "gone",
            "data": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {"k\ud800": "v\udfff", "taskId": "\u0001"},
                }
            ],
        },
    ],
)
async def test_a_text_that_cannot_be_relayed_does_not_hide_the_error(
    binding: str, error: dict[str, Any]
) -> None:
    agent = Agent()
    agent.answer = {"error": error}
    async with bridged_values(agent) as server, connect(server.card, binding=binding) as peer:
        with rejected(Reason.TASK_NOT_FOUND):
            await peer.send_message(request_of(("hi",)))
        with rejected(Reason.TASK_NOT_FOUND):
            await anext(peer.events(request_of(("hi",))))
