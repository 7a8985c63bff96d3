"""Requests of every operation, version and binding, and their answers, as bytes that no client has read."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import aiohttp
import grpc.aio

from a2a_bridge.app.runtime import Server
from a2a_bridge.bindings.binding import find
from a2a_bridge.cards import interface
from a2a_bridge.codec import dumps, encoder, loads
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Operation
from a2a_bridge.dialects import GRPC, JSONRPC, Dialect, ErrorReply, Form, Row, by_version
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports.http_json import wire as rest
from a2a_bridge_transports.jsonrpc import wire as rpc
from tests.patience import PATIENCE

VERSIONS = ("0.1", "0.2.5", "0.3", "1.0")
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: 0.1 and 0.3 have method names in common, so 0.1 has a path of its own
OLDEST = "/oldest"


@dataclass(frozen=True)
class Cell:
    """A version over a binding."""

    version: str
    binding: str

    def __str__(self) -> str:
        return f"{self.version}-{self.binding}"

    @property
    def dialect(self) -> Dialect:
        found = by_version(self.version)
        assert found is not None
        return found

    @property
    def form(self) -> Form[Any, Any]:
        found: Form[Any, Any] | None = self.dialect.form(find(self.binding).kind)
        assert found is not None
        return found

    @property
    def path(self) -> str:
        return OLDEST if self.version == "0.1" else ""


def _exists(version: str, binding: str) -> bool:
    dialect = by_version(version)
    return dialect is not None and dialect.form(find(binding).kind) is not None


CELLS = [Cell(version, binding) for version in VERSIONS for binding in BINDINGS if _exists(version, binding)]
INTERFACES = [interface(cell.binding, cell.path, version=cell.version) for cell in CELLS]


@dataclass(frozen=True)
class Answer:
    """What a caller gets. status: of HTTP, or the number of gRPC's. body: of a stream, its first event."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def error(self, cell: Cell, operation: Operation[Any, Any]) -> A2AError | None:
        """The error in it, read with the tables of the version; None for a success."""
        form = cell.form
        if form is cell.dialect.form(GRPC):
            if self.status == 0:
                return None
            body: Any = dict(self.headers).get("grpc-status-details-bin", "")
            details = bytes.fromhex(body) or None
            return form.decode_error(ErrorReply(self.status, details, self.body.decode(), operation))
        text = self.body.decode()
        text = next((line[6:] for line in text.splitlines() if line.startswith("data: ")), text)
        if form is cell.dialect.form(JSONRPC):
            found = rpc.answer(text.encode()).error
            return None if found is None else form.decode_error(ErrorReply(self.status, found, "", operation))
        if self.status < 300:
            return None
        tree = loads(text.encode())
        return form.decode_error(ErrorReply(self.status, tree, text, operation))


class Asker:
    """Sends requests to one server. Its connections are shared by all callers, as behind a proxy."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, channel: grpc.aio.Channel) -> None:
        self._base = f"http://{server.http}"
        self._session, self._channel = session, channel

    async def ask(
        self, cell: Cell, operation: Operation[Any, Any], request: Any, headers: Mapping[str, str]
    ) -> Answer:
        """The answer to a request, or its first event. The version has to have the operation."""
        row = cell.form.row(operation)
        assert row is not None
        given = {**headers, "A2A-Version": cell.version} if cell.dialect.declares else dict(headers)
        wire = row.encode_request(request)
        if cell.binding == "GRPC":
            return await self._grpc(row, wire, given)
        if cell.binding == "HTTP+JSON":
            target = rest.implode(row.address, wire)[0]
            query = f"?{target.query}" if target.query else ""
            body = None if target.body is None else dumps(target.body)
            return await self._http(target.method, f"{target.path}{query}", body, given)
        document = rpc.document(row.address)
        if document is not None:
            return await self._http("GET", rpc.beside(cell.path, document), None, given)
        return await self._http("POST", cell.path or "/", rpc.request(1, row.address, wire), given)

    async def _http(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        if body is not None:
            headers["Content-Type"] = "application/json"
        async with self._session.request(
            method, self._base + path, data=body, headers=headers, allow_redirects=False
        ) as response:
            shown = tuple(sorted((name, value) for name, value in response.headers.items() if name != "Date"))
            if response.content_type == "text/event-stream":
                lines = [await response.content.readline()]
                while lines[-1].strip():
                    lines.append(await response.content.readline())
                return Answer(response.status, shown, b"".join(lines))
            return Answer(response.status, shown, await response.read())

    async def _grpc(self, row: Row[str, bytes], wire: bytes, headers: dict[str, str]) -> Answer:
        metadata = tuple((name.lower(), value) for name, value in headers.items())
        method: Any = self._channel.unary_stream if row.streaming else self._channel.unary_unary
        call = method(row.address)(wire, metadata=metadata, timeout=PATIENCE)
        try:
            body = await (call.read() if row.streaming else call)
        except grpc.aio.AioRpcError as error:
            pairs = [*(error.initial_metadata() or ()), *(error.trailing_metadata() or ())]
            return Answer(error.code().value[0], _shown(pairs), (error.details() or "").encode())
        shown = _shown(await call.initial_metadata())
        call.cancel()
        # Times have other lengths in other messages, so these bytes are compared as JSON.
        tree = encoder(row.operation.response)(row.decode_response(b"" if body is grpc.aio.EOF else body))
        return Answer(0, shown, dumps(tree))


def _shown(pairs: Any) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted((name, value if isinstance(value, str) else value.hex()) for name, value in pairs or ())
    )


@asynccontextmanager
async def asking(server: Server) -> AsyncIterator[Asker]:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE)) as session,
        grpc.aio.insecure_channel(str(server.grpc)) as channel,
    ):
        yield Asker(server, session, channel)


_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # made ids
    r"|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"  # times in JSON
    r"|id: [^\n]+"  # ids of events
)

_LENGTH = re.compile(r"\('Content-Length', '\d+'\), ")


def told(answer: Answer, *own: str) -> str:
    """What a caller can compare: without the names that it sent itself; ids and times numbered by appearance."""
    text = repr((answer.status, answer.headers, answer.body.decode("latin-1")))
    hexadecimal = {name.encode().hex(): name for name in own if name}
    for sent in (*(name for name in own if name), *hexadecimal):
        text = text.replace(sent, "SENT")
    numbers, known = count(1), dict[str, str]()
    text = _CHANGING.sub(lambda found: known.setdefault(found[0], f"MADE{next(numbers)}"), text)
    # Times may end with zeros, which are left out.
    return _LENGTH.sub("", text) if known else text


def carries_tenant(cell: Cell, operation: Operation[Any, Any], request: Any) -> bool:
    """Whether the version has a place for the tenant of a request."""
    row = cell.form.row(operation)
    if row is None or not request.tenant or not expressible(cell, operation, request):
        return False
    back: hub.GetTaskRequest = row.decode_request(row.encode_request(request))
    return back.tenant == request.tenant


def expressible(cell: Cell, operation: Operation[Any, Any], request: Any) -> bool:
    """Whether a version has the operation, and a place for what the request says."""
    row = cell.form.row(operation)
    if row is None:
        return False
    try:
        row.decode_request(row.encode_request(request))
    except A2AError:
        return False
    return True


def is_get(cell: Cell, operation: Operation[Any, Any], request: Any) -> bool:
    """Whether the request is a GET of HTTP."""
    row = cell.form.row(operation)
    if row is None or cell.binding == "GRPC" or not expressible(cell, operation, request):
        return False
    if cell.binding == "JSONRPC":
        return rpc.document(row.address) is not None
    return rest.implode(row.address, row.encode_request(request))[0].method == "GET"
