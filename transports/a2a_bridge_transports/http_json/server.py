"""The server side of HTTP+JSON: paths and bodies ↔ Service over an HTTP host. It knows no version."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import parse_qsl

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.bindings.offload import SMALL, encode, needs_worker, run_in_worker
from a2a_bridge.bindings.traffic import received_bytes, sent_bytes
from a2a_bridge.codec import JsonSyntaxError
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.core.service import Event, Service
from a2a_bridge.dialects import HTTP_JSON, Dialect, HttpAddress, Row
from a2a_bridge.dialects.signed_extras import dumps, loads
from a2a_bridge_transports._http import sse
from a2a_bridge_transports._http.exchange import (
    A2A_JSON,
    JSON,
    NO_STORE,
    Failure,
    Headers,
    Reply,
    Request,
    StreamReply,
    error_headers,
    error_status,
    not_allowed,
    not_found,
    with_status,
)
from a2a_bridge_transports._http.mounts import without_empty_start
from a2a_bridge_transports._http.parameters import check_content_type, read_version
from a2a_bridge_transports._http.rows import read_request, write_response
from a2a_bridge_transports._http.serving import A_REQUEST, CallStream, ServerSide, Table
from a2a_bridge_transports.http_json import wire

#: of the OpenAPI document, below the mount
OPENAPI_PATH = "/openapi.json"


class HttpJsonServer(ServerSide[wire.Routes]):
    """A service below one path. below: length of the mount's path, which is not part of the templates."""

    def __init__(
        self, service: Service, dialects: Sequence[Dialect], options: HostOptions, below: int = 0
    ) -> None:
        super().__init__(HTTP_JSON, service, dialects, lambda form: wire.Routes(form.rows), options)
        self._below = below

    async def handle(self, request: Request) -> Reply | StreamReply:
        """Answers one request for any path below the mount."""
        table: Table[wire.Routes] | None = None
        name = A_REQUEST
        having: Sequence[Table[wire.Routes]] = ()
        context: CallContext | None = None
        row: Row[HttpAddress, Any] | None = None
        try:
            method, path = request.method, without_empty_start(request.path[self._below :])
            candidate = self.usual.get(read_version(request.headers, request.query))
            match = candidate.index.match(method, path) if candidate is not None else None
            if not isinstance(match, wire.Match):
                found = {known.dialect: known.index.match(method, path) for known in self.tables}
                having = [known for known in self.tables if isinstance(found[known.dialect], wire.Match)]
                if not having:
                    if path == OPENAPI_PATH and method in ("GET", "HEAD"):
                        return self._openapi(request)
                    return _options(method, found.values(), _nothing_at(self.tables, method, path))
            principal = await self.principal(request) if self.authenticate is not None else None
            body = b""
            tree = None
            apart = False
            if method != "GET":
                body = await request.read()
                received_bytes[HTTP_JSON.name] += len(body)
                if body:
                    check_content_type(request.headers)
                    apart = len(body) > SMALL and await needs_worker(body, self.max_values)
                    tree = await run_in_worker(loads, body) if apart else loads(body)
            if having or candidate is None:
                candidate = self.table(request, having)
                match = candidate.index.match(method, path)
            table = candidate
            match = _match_path(match, table, method, path)
            row = match.route.row
            name = row.operation.name
            if self.permit is not None:
                self.permit(name, principal)
            tree = wire.explode(match, request.query, tree)
            if row.extras.variant is not None:
                row = row.extras.variant(tree, request.headers)
            read = run_in_worker(read_request, row, tree) if apart else None
            message, extracted = read_request(row, tree) if read is None else await read
            context = self.context(request, table, message, extracted, principal, large=apart)
            call = Call(row.operation, message, context)
            if row.streaming:
                return _HttpJsonStream(self, request, table, row, call)
            answer = await self.service.unary(call)
            reply = context.reply
            data = encode(write_response, row, reply, answer, dumps, large=reply.large)
            if not isinstance(data, bytes):
                data = await data
            sent_bytes[HTTP_JSON.name] += len(data)
            media = _media(request, table)
            if reply or reply.side_channel:
                return Reply(200, media + self.reply_headers(request, table, context, name, message), data)
            return Reply(200, media, data)
        except JsonSyntaxError as problem:
            error = A2AError(Reason.PARSE_ERROR, str(problem))
            self.note_rejected(request, None, name, error)
            return self.error(request, table or self.presume(request, having), None, error)
        except BaseException as error:  # noqa: BLE001  failure() re-raises those not for the caller
            failed = self.failure(request, error, name)
            self.note_rejected(request, context, name, failed)
            return self.error(request, table or self.presume(request, having), context, failed, row)

    def _openapi(self, request: Request) -> Reply:
        """The document of the version that the query names as `version`, else of the newest. Raises
        INVALID_PARAMS for a version that is not served.
        """
        from a2a_bridge.dialects.openapi import openapi  # not for servers that nobody asks

        known = {table.dialect.version: table.dialect for table in self.tables}
        named = [value for name, value in parse_qsl(request.query) if name == "version"]
        version = named[0] if named else next(iter(known))
        if len(named) > 1 or version not in known:
            raise invalid_params("version", f"is none of the versions here: {', '.join(known)}")
        return Reply(200, JSON, dumps(openapi(known[version])))

    def error(
        self,
        request: Request,
        table: Table[wire.Routes],
        context: CallContext | None,
        error: A2AError,
        row: Row[HttpAddress, Any] | None = None,
    ) -> Reply:
        try:
            parameters = self.reply_headers(request, table, context, "an error")
        except A2AError as worse:
            error, parameters = worse, ()
        encoded = table.form.encode_error(error if row is None else row.encode_names(error))
        headers = _media(request, table) + error_headers(error, parameters) + parameters
        status = error_status(error, encoded.status)
        body = dumps(with_status(encoded.body, status))
        sent_bytes[HTTP_JSON.name] += len(body)
        return Reply(status, headers, body)


class _HttpJsonStream(CallStream[HttpJsonServer]):
    """The events of a call, each as a bare message."""

    __slots__ = ()

    binding = HTTP_JSON.name

    def encode(self, event: Event) -> bytes:
        tree = self.row.encode_response(event.message)
        return b"" if not tree and self.leaves_out(event) else sse.encode(dumps(tree), b"", event.id)

    def fail(self, error: BaseException) -> Failure:
        context, failed = self.call.context, self.failure(error)
        rejected = self.server.error(self.request, self.table, context, failed, self.row)
        return Failure(rejected, sse.encode(rejected.body, b"error"))


def _media(request: Request, table: Table[wire.Routes]) -> Headers:
    """The media type of a response, and for GET, that no cache keeps the response. Older versions have
    application/json only.
    """
    accept = request.headers.get("Accept")
    wanted = accept and not table.older and "a2a+json" in accept.lower() and _prefers_a2a(accept)
    media = A2A_JSON if wanted else JSON
    return media + NO_STORE if request.method == "GET" else media


def _options(method: str, found: Iterable[wire.Match | list[str]], nothing: A2AError) -> Reply:
    """The methods of a path, in answer to OPTIONS. Raises METHOD_NOT_FOUND for other methods (405 with
    Allow), and `nothing` for a path that does not exist.
    """
    methods = {allowed for match in found for allowed in match if isinstance(allowed, str)}
    if not methods:
        raise nothing
    allow = [*sorted(methods), "OPTIONS"]
    if method != "OPTIONS":
        raise not_allowed(allow)
    return Reply(204, (("Allow", ", ".join(allow)),))


def _match_path(
    match: wire.Match | list[str] | None, table: Table[wire.Routes], method: str, path: str
) -> wire.Match:
    if not isinstance(match, wire.Match):
        raise _nothing_at([table], method, path)
    return match


def _nothing_at(tables: Iterable[Table[wire.Routes]], method: str, path: str) -> A2AError:
    """The error for a path that does not exist. It explains the prefix of an older version's paths if the
    caller left that out: a2a-go 2.3.1 does so in its own 0.3 (a2acompat/a2av0/rest_client.go, line 220),
    which is not supported.
    """
    for table in tables:
        found = table.index.below(method, path) if table.older else None
        if found is not None:
            version, place = table.dialect.version, found.route.rule.template
            text = f"there is nothing at this path; version {version} has it at {place}"
            return A2AError(Reason.METHOD_NOT_FOUND, text)
    return not_found()


def _prefers_a2a(accept: str) -> bool:
    """True if an Accept header prefers application/a2a+json to application/json, or accepts both equally."""
    weights = {"application/a2a+json": 0.0, "application/json": 0.0}
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if media in weights:
            quality = next((item[2:] for item in parameters if item.startswith("q=")), "1")
            try:
                weights[media] = float(quality)
            except ValueError:
                weights[media] = 0.0
    wanted = weights["application/a2a+json"]
    return wanted > 0 and wanted >= weights["application/json"]
