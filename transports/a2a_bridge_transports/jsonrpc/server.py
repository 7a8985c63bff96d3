"""The server side of JSON-RPC: frames ↔ Service over an HTTP host. It reads no sockets and knows no version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a_bridge.codec import InexactNumber, Json
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import JSONRPC, Dialect, Form, Row
from a2a_bridge_transports._http import sse
from a2a_bridge_transports._http.exchange import EVENT_STREAM, JSON, Failure, Reply, Request, StreamReply
from a2a_bridge_transports._http.parameters import check_content_type
from a2a_bridge_transports._http.serving import ServerSide, Table, error_headers, error_status
from a2a_bridge_transports.jsonrpc import wire

Rows = dict[str, Row[str, Any]]


def _by_method(form: Form[Any, Any]) -> Rows:
    return {row.address: row for row in form.rows}


def _row(table: Table[Rows], method: str) -> Row[str, Any]:
    row = table.index.get(method)
    if row is None:
        raise A2AError(Reason.METHOD_NOT_FOUND)
    return row


def _check_structure(params: Json) -> None:
    """Raises INVALID_PARAMS for what is no object. Not a matter of the frame: other checks come before it."""
    if params is not None and type(params) is not dict:
        raise invalid_params("", "params has to be an object")


class JsonRpcServer(ServerSide[Rows]):
    """A service at one URL."""

    def __init__(self, service: Service, dialects: Sequence[Dialect], *, lenient: bool = False) -> None:
        super().__init__(JSONRPC, service, dialects, _by_method, lenient=lenient)

    async def handle(self, request: Request) -> Reply | StreamReply:
        """Answers one POST."""
        table = self.tables[0]
        token = wire.NULL
        name = "a request"
        context: CallContext | None = None
        try:
            check_content_type(request.headers)
            body = await request.read()
            frame = wire.parse(body)
            token, name, params = frame
            table = self.table(request, lambda known: name in known.index)
            row = _row(table, name)
            _check_structure(params)
            try:
                message = row.decode_request(params)
            except InexactNumber:
                message = row.decode_request(wire.exact_params(body))
            context = self.context(request, table, message.tenant)
            call = Call(row.operation, message, context)
            if row.streaming:
                return self._stream(request, table, row, call, token)
            answer = await self.service.unary(call)
            data = wire.result(token, row.encode_response(answer))
            if context.reply:
                return Reply(200, JSON + self.reply_headers(context, name), data)
            return Reply(200, JSON, data)
        except wire.Malformed as malformed:
            return self._error(table, None, malformed.id, malformed.error)
        except BaseException as error:  # noqa: BLE001  failure() raises again what is not for the caller
            return self._error(table, context, token, self.failure(request, error, name))

    def _stream(
        self, request: Request, table: Table[Rows], row: Row[str, Any], call: Call[Any, Any], token: bytes
    ) -> StreamReply:
        encode_response = row.encode_response
        name = row.operation.name

        def encode(event: Any) -> bytes:
            return sse.encode(wire.result(token, encode_response(event)))

        def fail(error: BaseException) -> Failure:
            reply = self._error(table, call.context, token, self.failure(request, error, name))
            return Failure(reply, sse.encode(reply.body))

        return StreamReply(
            self.service.stream(call),
            encode,
            lambda: EVENT_STREAM + self.reply_headers(call.context, name),
            fail,
        )

    def _error(self, table: Table[Rows], context: CallContext | None, token: bytes, error: A2AError) -> Reply:
        try:
            parameters = self.reply_headers(context, "an error")
        except A2AError as worse:
            error, parameters = worse, ()
        encoded = table.form.encode_error(error)
        headers = JSON + error_headers(error) + parameters
        return Reply(error_status(error, encoded.status), headers, wire.error(token, encoded.body))
