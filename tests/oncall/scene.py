"""A running command that a row hurts: its calls, log and metrics; and a misbehaving agent. No tests."""

import asyncio
import json
import signal
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
from prometheus_client.parser import text_string_to_metric_families

from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cli.commands import Running
from tests.patience import PATIENCE

SEND = "/lf.a2a.v1.A2AService/SendMessage"
_TLS = ssl.create_default_context()
_TLS.check_hostname, _TLS.verify_mode = False, ssl.CERT_NONE


def message(text: str, parts: int = 1) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}] * parts}}


@dataclass
class Scene:
    """A row while it runs. names: of what is in braces. stack: closed after the server. said: its stderr."""

    folder: Path
    names: dict[str, str]
    stack: AsyncExitStack
    running: Running = field(init=False)
    said: str = ""
    #: what `prepare` made for `hurt`
    made: Any = None
    #: of the server, if `hurt` has ended it
    code: int | None = None

    def path(self, name: str) -> Path:
        return self.folder / name

    def write(self, name: str, text: str) -> str:
        self.path(name).write_text(text)
        return str(self.path(name))

    async def http(
        self, text: str = "hi", headers: Mapping[str, str] | None = None, place: str = "", parts: int = 1
    ) -> int:
        """The status of a message over HTTP+JSON."""
        return (await self.answered(text, headers, place, parts)).status_code

    async def answered(
        self, text: str = "hi", headers: Mapping[str, str] | None = None, place: str = "", parts: int = 1
    ) -> httpx.Response:
        url = f"{self.running.http}{place}/message:send"
        sent = {"A2A-Version": "1.0", **(headers or {})}
        async with httpx.AsyncClient(verify=_TLS, timeout=PATIENCE) as client:
            return await client.post(url, json=message(text, parts), headers=sent)

    async def grpc(self, text: str = "hi", headers: Mapping[str, str] | None = None, tenant: str = "") -> str:
        """The name of the status of a message over gRPC."""
        part = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=text)])
        request = hub.SendMessageRequest(message=part, tenant=tenant)
        metadata = [
            ("a2a-version", "1.0"),
            *((name.lower(), value) for name, value in (headers or {}).items()),
        ]
        async with grpc.aio.insecure_channel(self.running.grpc) as channel:
            call = channel.unary_unary(SEND)(request.SerializeToString(), metadata=metadata, timeout=PATIENCE)
            return (await call.code()).name

    async def both(self, text: str = "hi", headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        return await self.http(text, headers), await self.grpc(text, headers)

    async def logged(self, part: str) -> None:
        """Waits for a line of the log."""
        assert self.running.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while part not in self.said:
                line = await self.running.process.stderr.readline()
                assert line, f"the log ends without {part!r}:\n{self.said}"
                self.said += line.decode()

    async def sample(self, name: str, labels: Mapping[str, str]) -> float | None:
        """The sum of the samples of a metric with these labels; None without any."""
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            text = (await client.get(f"{self.running.addresses['admin']}/metrics")).text
        found = [
            one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
            if one.name == name and labels.items() <= one.labels.items()
        ]
        return sum(found) if found else None

    async def measured(self, name: str, labels: Mapping[str, str], value: float | None) -> None:
        """Waits until a sample has a value; None: until it is at least 1."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.sample(name, labels)
                if found is not None and (found >= 1 if value is None else found == value):
                    return

    async def ended(self) -> None:
        """Waits until the server has ended."""
        done = await self.running.ended()
        self.code, self.said = done.code, self.said + done.err

    def hang_up(self) -> None:
        self.running.signal(signal.SIGHUP)


CARD: dict[str, Any] = {
    "name": "Behind",
    "description": "Does what a test says",
    "version": "1",
    "capabilities": {"streaming": True},
    "skills": [],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
}


class Behind:
    """An agent of JSON-RPC 1.0 without code of the product. mode: what its answers are; see `_answer`."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.card: dict[str, Any] = dict(CARD)
        self.url = ""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        scheme = "https" if tls is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        if "supportedInterfaces" not in self.card:
            address = {"url": f"{self.url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            self.card["supportedInterfaces"] = [address]

    async def stop(self) -> None:
        """Closes the listener and the connections."""
        if self._server is not None:
            self._server.close()
            for writer in self._open:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = next(
                    (line[15:] for line in head.split("\r\n") if line.startswith("content-length:")), "0"
                )
                body = await reader.readexactly(int(length))
                if not await self._reply(writer, head, body):
                    break
        self._open.discard(writer)
        writer.close()

    async def _reply(self, writer: asyncio.StreamWriter, head: str, body: bytes) -> bool:
        """Writes an answer. False: the connection ends."""
        if head.startswith("get "):
            found = "/agent-card.json " in head and self.mode != "no card"
            if self.mode == "card is html":
                _write(writer, 200, b"<html>", "text/html")
            else:
                _write(writer, 200 if found else 404, json.dumps(self.card if found else {}).encode())
        else:
            asked = json.loads(body)
            match self.mode:
                case "hangs":
                    await asyncio.Event().wait()
                case "closes":
                    return False
                case "cuts":
                    event = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
                    data = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": event})
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                    )
                    frame = f"data: {data}\n\n"
                    writer.write(f"{len(frame):x}\r\n{frame}\r\n".encode())
                    await writer.drain()
                    return False
                case _:
                    _write(writer, *self._answer(asked))
        await writer.drain()
        return True

    def _answer(self, asked: Any) -> tuple[int, bytes, str, str]:
        kind, more = "application/json", ""
        error: dict[str, Any] | None = None
        match self.mode:
            case "redirects":
                return 302, b"", kind, "Location: http://192.0.2.1/\r\n"
            case "fails":
                return 500, b"secret stack of the agent", "text/plain", more
            case "answers HTML":
                return 200, b"<html>Welcome</html>", "text/html", more
            case "has no such path":
                return 404, b"nothing here", "text/plain", more
            case "rejects":
                return 401, b"", kind, "WWW-Authenticate: Bearer\r\n"
            case "speaks another version":
                error = {"code": -32009, "message": "version not supported"}
            case _ if asked["method"] == "GetTask":
                error = {"code": -32001, "message": "no such task"}
        result = {"message": {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}}
        tree = {"error": error} if error is not None else {"result": result}
        return 200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **tree}).encode(), kind, more


def _write(
    writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "application/json", more: str = ""
) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    writer.write(head.encode() + body)


@asynccontextmanager
async def behind(mode: str = "", tls: ssl.SSLContext | None = None, **card: Any) -> AsyncIterator[Behind]:
    """An agent while the context is open."""
    made = Behind(mode)
    made.card.update(card)
    await made.start(tls)
    try:
        yield made
    finally:
        await made.stop()
