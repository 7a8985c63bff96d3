"""The web server of the playground: the page, the interface that its scripts use, access, and a webhook.

Rules:
1. Everything but scripts and styles, which hold no secret, asks for the token of this launch, which stands in
   the printed address. There is no cookie: the cookies of one port are sent to every port of a host.
2. The name in `Host` has to be an IP address, `localhost` or the name that was listened at, so that a name of
   someone else's cannot be made to lead here (DNS rebinding). An `Origin` has to be that of the page.
3. Streams are lines of JSON. A reader that leaves ends the calls that it asked for.
4. Errors are documents with a code and a text, those of a defect included.
5. A wildcard address cannot be called: this machine reaches it at the loopback address, and the webhook of
   the page is where the browser reaches the page.
6. The files of the page are read at the start. No part of a request becomes a path.
"""

import asyncio
import hmac
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import typer
from aiohttp import web

from a2a_bridge.bindings.binding import DialOptions, ListenAddress, http_fetch
from a2a_bridge.cli.values import is_header_name
from a2a_bridge.codec import DecodeError, JsonSyntaxError, decoder, dumps, encoder, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.addresses import is_address
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.masking import HIDDEN, mask
from a2a_bridge.dialects import HTTP_JSON
from a2a_bridge.dialects.openapi import openapi
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import TOKEN_HEADERS, read
from a2a_bridge_tools.check.inspection import Inspection
from a2a_bridge_tools.check.table import count_warnings, inspect, is_ok, step
from a2a_bridge_tools.client.equivalents import format_request, request_of_call
from a2a_bridge_tools.client.flags import EquivalentKind
from a2a_bridge_tools.playground.exchange import Exchange, History, error_tree
from a2a_bridge_tools.playground.subject import Asked, Subject, make, operations

# Below `a2a_bridge`, whose level and format the command sets.
logger = logging.getLogger("a2a_bridge.cli.playground.server")

#: bytes of a request, imported records included
LARGEST = 64 * 1024 * 1024
#: seconds for each call of `check`
_CHECK = 10.0
#: seconds for open streams when the program ends
_LAST = 0.5
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_OPERATIONS = {one.name: one for one in ops.ALL}
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  nothing listens there because of this
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


#: headers of every response
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'"
    " data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one launch. host: the name that was listened at."""

    host: str = "127.0.0.1"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    #: the part of the webhook's path that nobody else knows
    webhook: str = field(default_factory=lambda: secrets.token_urlsafe(12), repr=False)

    def knows(self, token: str) -> bool:
        """Whether a token belongs to this launch."""
        # Bytes of a header that are not UTF-8 come as lone surrogates.
        return hmac.compare_digest(token.encode(errors="surrogatepass"), self.token.encode())

    def bears(self, headers: Mapping[str, str]) -> bool:
        """Whether `Authorization` has the token."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.knows(token.strip())

    def is_here(self, headers: Mapping[str, str]) -> bool:
        """Whether a request is for this place, and not from a page of another one."""
        host = headers.get("Host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name not in ("localhost", self.host.lower()) and not is_address(name):
            return False
        origin = headers.get("Origin")
        return origin is None or origin == f"http://{host}"


#: deliveries that are kept, and bytes of each that are shown
KEPT = 100
LONGEST = 64 * 1024
_SECRET = frozenset(name.lower() for name in TOKEN_HEADERS)


class Deliveries:
    """The last notifications, as lines of JSON."""

    def __init__(self) -> None:
        self._number = 0
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._watching: set[asyncio.Queue[bytes]] = set()

    def take(self, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        self._number += 1
        line = dumps(
            {
                "number": self._number,
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "headers": [[name, mask(name, value, _SECRET)] for name, value in headers],
                "body": body[:LONGEST].decode("utf-8", "replace"),
                "event": _event(body),
            }
        )
        self._kept.append(line)
        for queue in self._watching:
            if queue.full():  # a page that does not read has the newest ones
                queue.get_nowait()
            queue.put_nowait(line)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Those that are kept, and then each new one."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(KEPT)
        for line in self._kept:
            queue.put_nowait(line)
        self._watching.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watching.discard(queue)


def _event(body: bytes) -> Any:
    """The event in a notification as JSON of 1.0; None if it is no notification."""
    try:
        return encoder(hub.StreamResponse)(read(body))
    except A2AError:
        return None


class _BadRequestError(Exception):
    """A request that cannot be done. field: the member at fault."""

    def __init__(self, text: str, where: str = "", status: int = 400, code: str = "INVALID_REQUEST") -> None:
        super().__init__(text)
        self.field, self.status, self.code = where, status, code


@dataclass(slots=True)
class Playground:
    """The page's server. kind: `agent`, `gateway` or `client`: where it runs."""

    program: str
    kind: str
    #: the agents, as they are now
    subjects: Callable[[], Sequence[Subject]]
    listen: ListenAddress
    #: the listener for operators
    admin: ListenAddress | None = None
    history: History = field(default_factory=History)
    deliveries: Deliveries = field(default_factory=Deliveries)
    _access: Access = field(default_factory=Access)
    _place: str = ""
    _files: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Serves while the context is open; gives the address with the token. Raises OSError."""
        self._access = Access(self.listen.host)
        self._files = await asyncio.to_thread(_read_files)
        application = web.Application(client_max_size=LARGEST, middlewares=[self._guard])
        application.add_routes(self._routes())
        # A page that is closed ends its calls.
        runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, shutdown_timeout=_LAST
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self.listen.host, self.listen.port).start()
            host, port = runner.addresses[0][:2]
            self._place = f"http://{reachable(ListenAddress(host, port))}"
            yield f"{self._place}/?token={self._access.token}"
        finally:
            await runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._page),
            web.get("/static/{name}", self._static),
            web.post("/webhook/{secret}", self._webhook),
            web.get("/api/state", self._state),
            web.get("/api/agent", self._agent),
            web.post("/api/calls", self._calls),
            web.post("/api/equivalent", self._equivalent),
            web.get("/api/check", self._check),
            web.get("/api/openapi", self._openapi),
            web.get("/api/history", self._entries),
            web.delete("/api/history", self._clear),
            web.get("/api/history/{number}", self._lines),
            web.post("/api/history/{number}", self._pin),
            web.get("/api/export", self._export),
            web.post("/api/import", self._import),
            web.get("/api/deliveries", self._watch),
            web.get("/api/admin/{page}", self._admin),
        ]

    # access, pages

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Access, and errors as documents."""
        try:
            self._check_access(request)
            return await handler(request)
        except _BadRequestError as error:
            return _rejection(error.status, {"code": error.code, "message": str(error), "field": error.field})
        except A2AError as error:
            return _rejection(502, error_tree(error))
        except web.HTTPException as error:
            return _rejection(
                error.status, {"code": error.reason.upper().replace(" ", "_"), "message": error.reason}
            )
        except ConnectionError:
            raise  # the reader has left
        except Exception:
            logger.exception("the playground failed at %s", request.path)
            return _rejection(
                500, {"code": "INTERNAL", "message": "this program has failed; its log says where"}
            )

    def _check_access(self, request: web.Request) -> None:
        if not self._access.is_here(request.headers):
            text = "this page is reached by its own address, and by its own scripts only"
            raise _BadRequestError(text, "Host", 403, "FORBIDDEN")
        if request.path.startswith("/api/") and not self._access.bears(request.headers):
            raise _BadRequestError("the token of this launch is needed", "Authorization", 401, "UNAUTHORIZED")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if not self._access.knows(request.query.get("token", "")):
            raise _BadRequestError(
                "open the address that the program prints, with its token", "token", 403, "FORBIDDEN"
            )
        return self._file("index.html")

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return self._file(request.match_info["name"])

    def _file(self, name: str) -> web.Response:
        if name not in self._files:
            raise web.HTTPNotFound
        kind, content = self._files[name]
        return web.Response(body=content, headers={**HEADERS, "Content-Type": f"{kind}; charset=utf-8"})

    async def _webhook(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["secret"] != self._access.webhook:
            raise web.HTTPNotFound
        self.deliveries.take(request.headers.items(), await request.read())
        return web.Response(status=204)

    async def _state(self, request: web.Request) -> web.StreamResponse:
        return _json(
            {
                "program": self.program,
                "kind": self.kind,
                "agents": [{"name": one.name, "url": one.target.place} for one in self.subjects()],
                "webhook": f"{self._place_for(request)}/webhook/{self._access.webhook}",
                "admin": self.admin is not None,
                "operations": operations(),
            }
        )

    def _place_for(self, request: web.Request) -> str:
        """Where others reach this server (rule 5)."""
        is_wild = self.listen.host in _LOOPBACK and urlsplit(f"//{request.host}").hostname not in _LOOPBACK
        return f"http://{request.host}" if is_wild else self._place

    async def _agent(self, request: web.Request) -> web.StreamResponse:
        return _json((await self._subject(request.query.get("agent", "")).found()).tree())

    def _subject(self, name: str) -> Subject:
        for one in self.subjects():
            if name in ("", one.name):
                return one
        raise _BadRequestError(f"there is no agent {name}", "agent", 404, "NOT_FOUND")

    # calls

    async def _parse_call(self, tree: dict[str, Any]) -> tuple[Asked, Any]:
        """The call that a body asks for, and the request of its operation as JSON."""
        operation = _OPERATIONS.get(str(tree.get("operation")))
        if operation is None:
            raise _BadRequestError(f"none of the operations {', '.join(_OPERATIONS)}", "operation")
        content = tree.get("request")
        if not isinstance(content, dict):
            raise _BadRequestError("the request of the operation is a JSON object", "request")
        message = content.get("message")
        if isinstance(message, dict) and "messageId" not in message:
            content = content | {"message": {"messageId": str(uuid4()), **message}}
        try:
            decoded = decoder(operation.request)(content)
        except DecodeError as error:
            raise _BadRequestError(str(error), f"request.{error.path}" if error.path else "request") from None
        found = await self._subject(str(tree.get("agent") or "")).found()
        ids = tree.get("cells")
        if not isinstance(ids, list) or not ids:
            raise _BadRequestError("a list with at least one cell", "cells")
        try:
            cells = found.choose(list(dict.fromkeys(map(str, ids))))
        except LookupError as error:
            raise _BadRequestError(f"the card has no cell {error.args[0]}", "cells") from None
        return Asked(found, operation, decoded, cells, _headers(tree), str(tree.get("after") or "")), content

    async def _calls(self, request: web.Request) -> web.StreamResponse:
        asked, content = await self._parse_call(await _object(request))
        name = asked.found.subject.name
        exchange = self.history.begin(name, asked.operation.name, content, [one.id for one in asked.cells])
        return await _stream(request, _run(asked, exchange))

    async def _equivalent(self, request: web.Request) -> web.StreamResponse:
        tree = await _object(request)
        asked, _ = await self._parse_call(tree)
        kind = tree.get("kind")
        if kind not in [one.value for one in EquivalentKind]:
            raise _BadRequestError(f"one of {', '.join(EquivalentKind)}", "kind")
        call = Call(asked.operation, asked.request, CallContext())
        candidate, options = asked.cells[0].candidate, asked.found.dial_options(asked.headers)
        secrets = {value: HIDDEN for value in options.parameters.values() if value}
        try:
            shown = await request_of_call(call, candidate, options)
        except typer.BadParameter as error:
            raise _BadRequestError(str(error), "kind") from None
        is_grpc = candidate.interface.protocol_binding == "GRPC"
        if kind != EquivalentKind.PYTHON and is_grpc is not (kind == EquivalentKind.GRPCURL):
            other = EquivalentKind.GRPCURL if is_grpc else EquivalentKind.CURL
            raise _BadRequestError(f"{asked.cells[0].id} is called with {other.value}", "kind")
        return _json({"text": format_request(EquivalentKind(kind), shown, call, candidate, secrets)})

    async def _check(self, request: web.Request) -> web.StreamResponse:
        subject = self._subject(request.query.get("agent", ""))
        return await _stream(request, _findings(subject, "hello" if request.query.get("send") == "1" else ""))

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        found = await self._subject(request.query.get("agent", "")).found()
        try:
            [cell] = found.choose([request.query.get("cell", "")])
        except LookupError as error:
            raise _BadRequestError(f"the card has no cell {error.args[0]}", "cell") from None
        interface, document = cell.candidate.interface, openapi(cell.candidate.dialect)
        if interface.protocol_binding != HTTP_JSON.name or document is None:
            raise _BadRequestError("OpenAPI describes interfaces of HTTP+JSON", "cell")
        return _json({**document, "servers": [{"url": interface.url}]})

    # history

    async def _entries(self, _request: web.Request) -> web.StreamResponse:
        return _json(self.history.entries())

    async def _clear(self, _request: web.Request) -> web.StreamResponse:
        self.history.clear()
        return web.Response(status=204, headers=HEADERS)

    def _exchange(self, number: str) -> Exchange:
        found = self.history.get(int(number)) if number.isdecimal() and len(number) < 10 else None
        if found is None:
            raise _BadRequestError(f"there is no exchange {number} any more", "number", 404, "NOT_FOUND")
        return found

    async def _lines(self, request: web.Request) -> web.StreamResponse:
        return _ndjson(self._exchange(request.match_info["number"]).lines)

    async def _pin(self, request: web.Request) -> web.StreamResponse:
        found, tree = self._exchange(request.match_info["number"]), await _object(request)
        if not isinstance(tree.get("pinned"), bool):
            raise _BadRequestError("true or false", "pinned")
        found.pinned = tree["pinned"]
        return _json(found.entry())

    async def _export(self, request: web.Request) -> web.StreamResponse:
        number = request.query.get("number", "")
        return _ndjson(self._exchange(number).lines if number else self.history.export())

    async def _import(self, request: web.Request) -> web.StreamResponse:
        try:
            return _json({"numbers": self.history.import_lines((await request.read()).splitlines())})
        except ValueError as error:
            raise _BadRequestError(str(error)) from None

    # other pages

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        return await _stream(request, self.deliveries.lines())

    async def _admin(self, request: web.Request) -> web.StreamResponse:
        page = request.match_info["page"]
        if self.admin is None or page not in ("usage", "metrics"):
            raise web.HTTPNotFound
        async with http_fetch(DialOptions(timeout=_CHECK)) as fetch:
            found = await fetch(f"http://{reachable(self.admin)}/{page}", {})
        kind = found.headers.get("content-type", "text/plain")
        return web.Response(status=found.status, body=found.body, headers={**HEADERS, "Content-Type": kind})


def reachable(address: ListenAddress) -> ListenAddress:
    """An address of a listener for this machine."""
    return ListenAddress(_LOOPBACK.get(address.host, address.host), address.port)


async def _run(asked: Asked, exchange: Exchange) -> AsyncGenerator[bytes, None]:
    """The lines of an exchange, as they are made. Closing it ends the calls."""
    # Bounded by the exchange itself, which keeps its lines anyway.
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    for kept in exchange.lines:
        lines.put_nowait(kept)
    exchange.follow = lines.put_nowait
    task = asyncio.create_task(make(asked, exchange))
    task.add_done_callback(lambda _: lines.put_nowait(None))
    try:
        while (line := await lines.get()) is not None:
            yield line
        await task
    finally:
        exchange.follow = None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _findings(subject: Subject, text: str) -> AsyncGenerator[bytes, None]:
    findings = []
    inspection = Inspection(subject.target, subject.options, text, _CHECK)
    async with aclosing(inspect(inspection)) as found:
        async for one in found:
            findings.append(one)
            yield dumps(step(one))
    yield dumps({"ok": is_ok(findings), "warnings": count_warnings(findings)})


async def _stream(request: web.Request, lines: AsyncGenerator[bytes, None]) -> web.StreamResponse:
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    # A page that is closed is no fault of this program.
    with suppress(ConnectionResetError):
        async with aclosing(lines):
            async for line in lines:
                await response.write(line + b"\n")
        await response.write_eof()
    return response


async def _object(request: web.Request) -> dict[str, Any]:
    """The body of a request. Raises _BadRequestError."""
    try:
        tree = loads(await request.read())
    except JsonSyntaxError as error:
        raise _BadRequestError(f"the body is not JSON: {error}", code="PARSE_ERROR") from None
    if not isinstance(tree, dict):
        raise _BadRequestError("the body is a JSON object")
    return tree


def _headers(tree: dict[str, Any]) -> dict[str, str]:
    """The headers that the user adds to a call."""
    found = tree.get("headers") or {}
    if not isinstance(found, dict):
        raise _BadRequestError("an object of names and values", "headers")
    made = {}
    for name, value in found.items():
        if not is_header_name(name.lower()) or not (isinstance(value, str) and value.isprintable()):
            raise _BadRequestError(
                "a header has a name and a value of printable characters", f"headers.{name}"
            )
        made[name.lower()] = value
    return made


def _read_files() -> dict[str, tuple[str, bytes]]:
    """The files of the page by name: type and content (rule 6)."""
    return {
        one.name: (kind, one.read_bytes())
        for one in (files(__package__) / "static").iterdir()
        if (kind := _KINDS.get(one.name[one.name.rfind(".") :]))
    }


def _json(tree: Any) -> web.Response:
    return web.Response(body=dumps(tree), headers={**HEADERS, "Content-Type": "application/json"})


def _ndjson(lines: Sequence[bytes]) -> web.Response:
    body = b"".join(line + b"\n" for line in lines)
    return web.Response(body=body, headers={**HEADERS, "Content-Type": "application/x-ndjson"})


def _rejection(status: int, error: dict[str, Any]) -> web.Response:
    body = dumps({"error": {name: value for name, value in error.items() if value not in ("", None)}})
    return web.Response(status=status, body=body, headers={**HEADERS, "Content-Type": "application/json"})
