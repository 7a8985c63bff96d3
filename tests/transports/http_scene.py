"""The fixtures of the tests of the HTTP bindings: a scripted service, a started host, raw sockets. No tests."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.codec import dumps
from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports.http_json import BINDING as HTTP_JSON_BINDING
from a2a_bridge_transports.jsonrpc import BINDING as JSONRPC_BINDING
from tests.patience import PATIENCE

BINDINGS = {"JSONRPC": JSONRPC_BINDING, "HTTP+JSON": HTTP_JSON_BINDING}
MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}


def reply(text: str = "hi") -> hub.SendMessageResponse:
    """A direct message as an answer."""
    part = hub.Part(text=text)
    return hub.SendMessageResponse(message=hub.Message(message_id="m-2", role=hub.ROLE_AGENT, parts=[part]))


def update(text: str) -> hub.StreamResponse:
    part = hub.Part(text=text)
    message = hub.Message(message_id="m-3", role=hub.ROLE_AGENT, parts=[part])
    status = hub.TaskStatus(state=hub.TASK_STATE_WORKING, message=message)
    return hub.StreamResponse(
        status_update=hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=status)
    )


def said(event: hub.StreamResponse) -> str:
    return event.status_update.status.message.parts[0].text


class Pipe(asyncio.Transport):
    """A transport that keeps the written data."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading
    abort = close


@dataclass
class Unanswered:
    """A call that waits until it is cancelled: `Scripted(on_unary=Unanswered())`."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _: Call[Any, Any]) -> Any:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.gone.set()


@dataclass
class Scripted:
    """A service that a test controls, and that records its requests."""

    on_unary: Callable[[Call[Any, Any]], Awaitable[Any]] | None = None
    on_stream: Callable[[Call[Any, Any]], AsyncGenerator[Any, None]] | None = None
    calls: list[Call[Any, Any]] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.calls.append(call)
        if self.on_unary is not None:
            return await self.on_unary(call)
        if call.operation.response is hub.SendMessageResponse:
            return reply()
        answer = call.operation.response()
        if isinstance(answer, hub.Task):
            answer.id = call.request.id
            answer.status.state = hub.TASK_STATE_COMPLETED
        return answer

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.calls.append(call)
        try:
            if self.on_stream is None:
                for text in ("one", "two", "three"):
                    yield Event(update(text))
                return
            events = self.on_stream(call)
            try:
                async for event in events:
                    yield event if isinstance(event, Event) else Event(event)
            finally:
                await events.aclose()
        finally:
            self.closed.set()


@asynccontextmanager
async def hosting(
    service: Service,
    *,
    path: str = "",
    options: HostOptions | None = None,
    dialects: Sequence[Dialect] = (V1_0,),
) -> AsyncIterator[HttpHost]:
    """A started host with both bindings at one path."""
    host = HttpHost(ListenAddress(), options or HostOptions())
    for binding in BINDINGS.values():
        binding.mount(host, path, service, dialects)
    await host.start()
    try:
        yield host
    finally:
        await host.drain(0)


@asynccontextmanager
async def dialling(
    url: str, kind: str, options: DialOptions | None = None, tenant: str = "", dialect: Dialect = V1_0
) -> AsyncIterator[Service]:
    """A client side of ours."""
    interface = hub.AgentInterface(
        url=url, protocol_binding=kind, protocol_version=dialect.version, tenant=tenant
    )
    async with BINDINGS[kind].dial(interface, dialect, options or DialOptions()) as service:
        yield service


@dataclass
class Answer:
    """A response on a raw socket, unchanged."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def reason(self) -> str:
        """ErrorInfo.reason of either variant."""
        error = self.json()["error"]
        found = error.get("details", error.get("data"))
        # 0.3 over JSON-RPC has an object where 1.0 has the list.
        return (found if isinstance(found, list) else found["details"])[0]["reason"]


class Wire:
    """A raw connection to a host."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes | str) -> None:
        self.writer.write(data.encode() if isinstance(data, str) else data)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers (lower-case) of the next response."""
        async with asyncio.timeout(PATIENCE):
            block = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = block.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        return int(first.split()[1]), {name.lower(): value for name, value in headers.items()}

    async def answer(self, *, bodyless: bool = False) -> Answer:
        """The next response, whole."""
        status, headers = await self.head()
        if bodyless or status in (204, 304):
            return Answer(status, headers, b"")
        async with asyncio.timeout(PATIENCE):
            if headers.get("transfer-encoding") == "chunked":
                return Answer(status, headers, b"".join([chunk async for chunk in self.chunks()]))
            return Answer(status, headers, await self.reader.readexactly(int(headers["content-length"])))

    async def chunk(self) -> bytes:
        """The next chunk; empty at the end of the response."""
        async with asyncio.timeout(PATIENCE):
            size = int((await self.reader.readline()).strip(), 16)
            data = await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        return data

    async def chunks(self) -> AsyncIterator[bytes]:
        while data := await self.chunk():
            yield data

    async def ended(self) -> bool:
        """Whether the host closed the connection (waits for it) without further data."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True


@asynccontextmanager
async def wire(host: HttpHost, **options: Any) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection(host.address.host, host.address.port, **options)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):  # the other end was faster
            await writer.wait_closed()


def request(
    method: str, path: str, body: bytes | str = b"", *, version: str = "1.0", host: str = "x", **headers: str
) -> bytes:
    """An HTTP request as bytes. Underscores in header names stand for hyphens."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    if version:
        lines.append(f"A2A-Version: {version}")
    if data:
        headers = {"Content_Type": "application/json", "Content_Length": str(len(data)), **headers}
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def frame(method: str, params: Any = None, id_: Any = 1, **more: Any) -> bytes:
    """A JSON-RPC request."""
    tree = {"jsonrpc": "2.0", "id": id_, "method": method, **more}
    return dumps(tree if params is None else {**tree, "params": params})


async def ask(host: HttpHost, data: bytes) -> Answer:
    """One request over a connection of its own."""
    async with wire(host) as connection:
        connection.send(data)
        return await connection.answer()
