"""The server side of JSON-RPC: frames ↔ Service over an HTTP host. It has no sockets and knows no version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import unquote

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.bindings.offload import SMALL, encode, needs_worker, run_in_worker
from a2a_bridge.bindings.traffic import received_bytes, sent_bytes
from a2a_bridge.codec import missing_required
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, ResponseParameters
from a2a_bridge.core.errors import A2AError, Reason, invalid_params, missing_members_error
from a2a_bridge.core.service import Event, Service
from a2a_bridge.dialects import JSONRPC, Dialect, Form, Row
from a2a_bridge.dialects.signed_extras import dumps
from a2a_bridge.peers import caller
from a2a_bridge_transports._http import sse
from a2a_bridge_transports._http.exchange import (
    CONTENT_TYPE,
    EVENT_STREAM,
    JSON,
    NO_STORE,
    Failure,
    Handler,
    Reply,
    Request,
    StreamReply,
    error_headers,
    error_status,
)
from a2a_bridge_transports._http.parameters import USUAL_TYPES, check_content_type, read_version
from a2a_bridge_transports._http.rows import read_request, write_response
from a2a_bridge_transports._http.serving import A_REQUEST, CallStream, ServerSide, Table
from a2a_bridge_transports.jsonrpc import wire

Rows = dict[str, Row[str, Any]]


def _by_method(form: Form[Any, Any]) -> Rows:
    return {row.address: row for row in form.rows if wire.document(row.address) is None}


def _reject_method(row: Row[str, Any] | None, table: Table[Rows], having: Sequence[Table[Rows]]) -> NoReturn:
    """Raises METHOD_NOT_FOUND for a method without a row, and INVALID_PARAMS for params that are no object:
    not in the check of the frame, because other checks come first. table: the version of the request. having:
    the versions that have the method.
    """
    if row is not None:
        raise invalid_params("", "params has to be an object")
    versions = " and ".join(known.dialect.version for known in having)
    declared = table.dialect.version
    text = f"this is a method of {versions}, and the request declares version {declared}"
    raise A2AError(Reason.METHOD_NOT_FOUND, text if having else "")


def _wants_an_event(parameters: Mapping[str, str], older: bool) -> bool:
    """True if the caller of a stream gets an error before the first event as an event, and not as JSON.

    Callers that accept JSON get JSON. Of the others, callers of 0.x get an event, and callers of 1.0 only if
    their profile says that they read nothing else: the conformance suite of 1.0 accepts events and wants
    JSON.
    """
    accepts = {part.partition(";")[0].strip() for part in parameters.get("accept", "").lower().split(",")}
    if "text/event-stream" not in accepts or "application/json" in accepts:
        return False
    return (older and "*/*" not in accepts) or caller(parameters).quirks.events_only


def _reject_notification(message: Any) -> NoReturn:
    """Raises INVALID_PARAMS for a request that lacks members, else INVALID_REQUEST for one without an id."""
    missing = missing_required(message)
    raise missing_members_error(missing) if missing else wire.not_a_request()


def _place(message: Any, encoded: str) -> None:
    """Puts the tenant of the path into a request. Raises INVALID_REQUEST for a path that is not UTF-8,
    INVALID_PARAMS for another tenant in the request.
    """
    try:
        tenant = unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise A2AError(Reason.INVALID_REQUEST, "the path is not UTF-8") from None
    if message.tenant and message.tenant != tenant:
        raise invalid_params("tenant", "is not the tenant in the path")
    message.tenant = tenant


class JsonRpcServer(ServerSide[Rows]):
    """A service at one URL. documents: the GET handlers that older versions have beside the URL, by the path
    relative to the URL.
    """

    def __init__(self, service: Service, dialects: Sequence[Dialect], options: HostOptions) -> None:
        super().__init__(JSONRPC, service, dialects, _by_method, options)
        self.documents: dict[str, Handler] = {}
        for table in self.tables:
            for row in table.form.rows:
                path = wire.document(row.address)
                if path is not None:
                    self.documents.setdefault(path, self._document(table, row))

    async def handle_below(self, request: Request) -> Reply | StreamReply:
        """Answers one POST to the URL followed by a tenant, the form that the SDK for Java uses."""
        return await self.handle(request, request.path.rstrip("/").rpartition("/")[2])

    async def handle(self, request: Request, tenant: str = "") -> Reply | StreamReply:
        """Answers one POST. tenant: from the path as sent, if any; params may repeat it."""
        table: Table[Rows] | None = None
        token = wire.NULL
        name = A_REQUEST
        having: Sequence[Table[Rows]] = ()
        context: CallContext | None = None
        row: Row[str, Any] | None = None
        try:
            principal = await self.principal(request) if self.authenticate is not None else None
            if request.headers.get(CONTENT_TYPE) not in USUAL_TYPES:
                check_content_type(request.headers)
            body = await request.read()
            received_bytes[JSONRPC.name] += len(body)
            apart = len(body) > SMALL and await needs_worker(body, self.max_values)
            frame = await run_in_worker(wire.parse, body) if apart else wire.parse(body)
            token, name, params, identified = frame
            candidate = self.usual.get(read_version(request.headers, request.query))
            row = candidate.index.get(name) if candidate is not None else None
            if row is None or candidate is None:
                having = [known for known in self.tables if name in known.index]
                candidate = self.table(request, having)
                row = candidate.index.get(name)
            table = candidate
            if row is None or (params is not None and type(params) is not dict):
                _reject_method(row, table, having)
            if self.permit is not None:
                self.permit(row.operation.name, principal)
            if row.extras.variant is not None:
                row = row.extras.variant(params, request.headers)
            if apart:
                message, extracted = await run_in_worker(read_request, row, params)
            else:
                message = row.decode_request(params)
                extracted = None if row.extras.request is None else row.extras.request.extract(params)
            if not identified:
                _reject_notification(message)
            if tenant:
                _place(message, tenant)
            context = self.context(request, table, message, extracted, principal, large=apart)
            call = Call(row.operation, message, context)
            if isinstance(row.operation, ops.Streaming):
                return _JsonRpcStream(self, request, table, row, call, token)
            answer = await self.service.unary(call)
            reply = context.reply
            if reply.version:
                table, row = self.in_version(table, row, reply)
            data = encode(write_response, row, reply, answer, wire.result, token, large=reply.large)
            if not isinstance(data, bytes):
                data = await data
            sent_bytes[JSONRPC.name] += len(data)
            if reply or reply.side_channel:
                return Reply(200, JSON + self.reply_headers(request, table, context, name, message), data)
            return Reply(200, JSON, data)
        except wire.MalformedRequestError as malformed:
            self.note_rejected(request, None, name, malformed.error)
            return self.error(request, self.presume(request), None, malformed.id, malformed.error)
        except BaseException as error:  # noqa: BLE001  failure() re-raises those not for the caller
            failed = self.failure(request, error, name)
            self.note_rejected(request, context, name, failed)
            return self.error(request, table or self.presume(request, having), context, token, failed, row)

    def in_version(
        self, table: Table[Rows], row: Row[str, Any], reply: ResponseParameters
    ) -> tuple[Table[Rows], Row[str, Any]]:
        """The table and row of the response, of the version that the service reports, if it reports one."""
        version, reply.version = reply.version, ""
        if version:
            for other in self.tables:
                found = other.form.row(row.operation)
                if other.dialect.version == version and found is not None:
                    return other, found
        return table, row

    def _document(self, table: Table[Rows], row: Row[str, Any]) -> Handler:
        """Answers GETs of a document: a bare result with HTTP statuses."""
        name = row.operation.name

        async def handle(request: Request) -> Reply:
            context: CallContext | None = None
            try:
                principal = await self.principal(request)
                message = row.decode_request(None)
                context = self.context(request, table, message, None, principal)
                answer = await self.service.unary(Call(row.operation, message, context))
                body = write_response(row, context.reply, answer, dumps)
                headers = self.reply_headers(request, table, context, name, message)
                return Reply(200, JSON + NO_STORE + headers, body)
            except BaseException as error:  # noqa: BLE001  failure() re-raises those not for the caller
                failed = self.failure(request, error, name)
                # A document that the agent does not have is 404, whatever the reason.
                status = 404 if failed.reason.level == "a2a" else error_status(failed, failed.reason.http)
                body = dumps(table.form.encode_error(failed).body)
                return Reply(status, JSON + NO_STORE + error_headers(failed), body)

        return handle

    def error(
        self,
        request: Request,
        table: Table[Rows],
        context: CallContext | None,
        token: bytes,
        error: A2AError,
        row: Row[str, Any] | None = None,
    ) -> Reply:
        if row is not None and context is not None:
            table, row = self.in_version(table, row, context.reply)
        try:
            parameters = self.reply_headers(request, table, context, "an error")
        except A2AError as worse:
            error, parameters = worse, ()
        encoded = table.form.encode_error(error if row is None else row.encode_names(error))
        status = error_status(error, encoded.status)
        headers = error_headers(error, parameters) + parameters
        shape = table.form.shape_error
        body = wire.error(token, encoded.body if shape is None else shape(encoded.body, request.parameters()))
        sent_bytes[JSONRPC.name] += len(body)
        streaming = row is None or row.streaming
        if streaming and status == 200 and _wants_an_event(request.parameters(), table.older):
            return Reply(status, EVENT_STREAM + headers, sse.encode(body))
        return Reply(status, JSON + headers, body)


class _JsonRpcStream(CallStream[JsonRpcServer]):
    """The events of a call, each as a response."""

    __slots__ = ("_before", "_token")

    binding = JSONRPC.name

    def __init__(
        self,
        server: JsonRpcServer,
        request: Request,
        table: Table[Rows],
        row: Row[str, Any],
        call: Call[Any, Any],
        token: bytes,
    ) -> None:
        super().__init__(server, request, table, row, call)
        self._token = token
        self._before = wire.before_result(token)

    def encode(self, event: Event) -> bytes:
        reply = self.call.context.reply
        if reply.version:
            self.table, self.row = self.server.in_version(self.table, self.row, reply)
        tree = self.row.encode_response(event.message)
        if not tree and self.leaves_out(event):
            return b""
        data = self._before + dumps(tree) + wire.AFTER_RESULT
        return sse.encode(data, b"", event.id)

    def fail(self, error: BaseException) -> Failure:
        context, failed = self.call.context, self.failure(error)
        rejected = self.server.error(self.request, self.table, context, self._token, failed, self.row)
        event = rejected.body if rejected.body.startswith(b"data:") else sse.encode(rejected.body)
        return Failure(rejected, event)
