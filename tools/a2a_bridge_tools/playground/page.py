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
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import typer

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress, http_fetch, http_host
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
from a2a_bridge_tools.playground.web import Answer, Application, Lines, Request, Routes

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


#: deliveries that are kept, the bytes of all, and those of each that are read: a longer one has no event
KEPT = 100
MOST = 4 * 1024 * 1024
LONGEST = 64 * 1024
_SECRET = frozenset(name.lower() for name in TOKEN_HEADERS)


class Deliveries:
    """The last notifications, as lines of JSON."""

    def __init__(self) -> None:
        self._number = 0
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._watching: set[asyncio.Queue[bytes]] = set()

    def take(self, headers: Iterable[tuple[str, str]], body: bytes, size: int) -> None:
        """Keeps a notification. body: its first bytes. size: of the whole."""
        self._number += 1
        line = dumps(
            {
                "number": self._number,
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                # As HTTP/1.1 writes them: ASGI has names in lower case.
                "headers": [[name.title(), mask(name, value, _SECRET)] for name, value in headers],
                "body": body.decode("utf-8", "replace"),
                "event": _event(body) if size == len(body) else None,
            }
        )
        self._kept.append(line)
        self._size += len(line)
        while len(self._kept) > KEPT or (self._size > MOST and len(self._kept) > 1):
            self._size -= len(self._kept.popleft())
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


def _not_found() -> _BadRequestError:
    return _BadRequestError("Not Found", status=404, code="NOT_FOUND")


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
    _routes: Routes = field(default_factory=lambda: Routes(()))
    _files: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Serves while the context is open; gives the address with the token. Raises OSError."""
        self._access = Access(self.listen.host)
        self._files = await asyncio.to_thread(_read_files)
        host = http_host(self.listen, HostOptions(max_body=LARGEST, cors=""))
        host.mount_application("", Application(self._answer, HEADERS))
        self._routes = self._table()
        await host.start()
        try:
            self._place = f"http://{reachable(host.address)}"
            yield f"{self._place}/?token={self._access.token}"
        finally:
            await host.drain(_LAST)

    def _table(self) -> Routes:
        routes: list[tuple[str, str, Any]] = [
            ("GET", "/", self._page),
            ("GET", "/static/{}", self._static),
            ("POST", "/webhook/{}", self._webhook),
            ("GET", "/api/state", self._state),
            ("GET", "/api/agent", self._agent),
            ("POST", "/api/calls", self._calls),
            ("POST", "/api/equivalent", self._equivalent),
            ("GET", "/api/check", self._check),
            ("GET", "/api/openapi", self._openapi),
            ("GET", "/api/history", self._entries),
            ("DELETE", "/api/history", self._clear),
            ("GET", "/api/history/{}", self._lines),
            ("POST", "/api/history/{}", self._pin),
            ("GET", "/api/export", self._export),
            ("POST", "/api/import", self._import),
            ("GET", "/api/deliveries", self._watch),
            ("GET", "/api/admin/{}", self._admin),
        ]
        return Routes(routes)

    # access, pages

    async def _answer(self, request: Request) -> Answer | Lines:
        """Access, and errors as documents."""
        try:
            self._check_access(request)
            answers, part, methods = self._routes.find(request)
            if answers is not None:
                found: Answer | Lines = await answers(replace(request, part=part))
                return found
            if methods:
                refused = {"code": "METHOD_NOT_ALLOWED", "message": "Method Not Allowed"}
                return _rejection(405, refused)._replace(headers={"Allow": ", ".join(methods)})
            return _rejection(404, {"code": "NOT_FOUND", "message": "Not Found"})
        except _BadRequestError as error:
            return _rejection(error.status, {"code": error.code, "message": str(error), "field": error.field})
        except A2AError as error:
            return _rejection(502, error_tree(error))
        except ConnectionError:
            raise  # the reader has left
        except Exception:
            logger.exception("the playground failed at %s", request.path)
            return _rejection(
                500, {"code": "INTERNAL", "message": "this program has failed; its log says where"}
            )

    def _check_access(self, request: Request) -> None:
        if not self._access.is_here(request.headers):
            text = "this page is reached by its own address, and by its own scripts only"
            raise _BadRequestError(text, "Host", 403, "FORBIDDEN")
        if request.path.startswith("/api/") and not self._access.bears(request.headers):
            raise _BadRequestError("the token of this launch is needed", "Authorization", 401, "UNAUTHORIZED")

    async def _page(self, request: Request) -> Answer | Lines:
        if not self._access.knows(request.query.get("token", "")):
            raise _BadRequestError(
                "open the address that the program prints, with its token", "token", 403, "FORBIDDEN"
            )
        return self._file("index.html")

    async def _static(self, request: Request) -> Answer | Lines:
        return self._file(request.part)

    def _file(self, name: str) -> Answer:
        if name not in self._files:
            raise _not_found()
        kind, content = self._files[name]
        return Answer(200, content, f"{kind}; charset=utf-8")

    async def _webhook(self, request: Request) -> Answer | Lines:
        if request.part != self._access.webhook:
            raise _not_found()
        body, size = await request.read(LONGEST)
        self.deliveries.take(request.headers.items(), body, size)
        return Answer(204)

    async def _state(self, request: Request) -> Answer | Lines:
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

    def _place_for(self, request: Request) -> str:
        """Where others reach this server (rule 5)."""
        named = request.headers["Host"]
        is_wild = self.listen.host in _LOOPBACK and urlsplit(f"//{named}").hostname not in _LOOPBACK
        return f"http://{named}" if is_wild else self._place

    async def _agent(self, request: Request) -> Answer | Lines:
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

    async def _calls(self, request: Request) -> Answer | Lines:
        asked, content = await self._parse_call(await _object(request))
        name = asked.found.subject.name
        exchange = self.history.begin(name, asked.operation.name, content, [one.id for one in asked.cells])
        return Lines(_run(asked, exchange))

    async def _equivalent(self, request: Request) -> Answer | Lines:
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

    async def _check(self, request: Request) -> Answer | Lines:
        subject = self._subject(request.query.get("agent", ""))
        return Lines(_findings(subject, "hello" if request.query.get("send") == "1" else ""))

    async def _openapi(self, request: Request) -> Answer | Lines:
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

    async def _entries(self, _request: Request) -> Answer | Lines:
        return _json(self.history.entries())

    async def _clear(self, _request: Request) -> Answer | Lines:
        self.history.clear()
        return Answer(204)

    def _exchange(self, number: str) -> Exchange:
        found = self.history.get(int(number)) if number.isdecimal() and len(number) < 10 else None
        if found is None:
            raise _BadRequestError(f"there is no exchange {number} any more", "number", 404, "NOT_FOUND")
        return found

    async def _lines(self, request: Request) -> Answer | Lines:
        return _ndjson(self._exchange(request.part).lines)

    async def _pin(self, request: Request) -> Answer | Lines:
        found, tree = self._exchange(request.part), await _object(request)
        if not isinstance(tree.get("pinned"), bool):
            raise _BadRequestError("true or false", "pinned")
        found.pinned = tree["pinned"]
        return _json(found.entry())

    async def _export(self, request: Request) -> Answer | Lines:
        number = request.query.get("number", "")
        return _ndjson(self._exchange(number).lines if number else self.history.export())

    async def _import(self, request: Request) -> Answer | Lines:
        try:
            body, _ = await request.read()
            return _json({"numbers": self.history.import_lines(body.splitlines())})
        except ValueError as error:
            raise _BadRequestError(str(error)) from None

    # other pages

    async def _watch(self, _request: Request) -> Answer | Lines:
        return Lines(self.deliveries.lines())

    async def _admin(self, request: Request) -> Answer | Lines:
        page = request.part
        if self.admin is None or page not in ("usage", "metrics"):
            raise _not_found()
        async with http_fetch(DialOptions(timeout=_CHECK)) as fetch:
            found = await fetch(f"http://{reachable(self.admin)}/{page}", {})
        return Answer(found.status, found.body, found.headers.get("content-type", "text/plain"))


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


async def _object(request: Request) -> dict[str, Any]:
    """The body of a request. Raises _BadRequestError."""
    try:
        tree = loads((await request.read())[0])
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


def _json(tree: Any) -> Answer:
    return Answer(200, dumps(tree))


def _ndjson(lines: Sequence[bytes]) -> Answer:
    return Answer(200, b"".join(line + b"\n" for line in lines), "application/x-ndjson")


def _rejection(status: int, error: dict[str, Any]) -> Answer:
    return Answer(
        status, dumps({"error": {name: value for name, value in error.items() if value not in ("", None)}})
    )
