"""The client side of JSON-RPC: a Service over an HTTP session. It knows no version."""

import itertools
from collections.abc import Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.offload import SMALL, run
from a2a_bridge.codec import Json, JsonSyntaxError
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.resume import is_gap
from a2a_bridge.core.service import Event, Events, reject
from a2a_bridge.dialects import JSONRPC, Dialect, Row
from a2a_bridge.dialects.signed_extras import loads
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge_transports._http import session
from a2a_bridge_transports._http.calling import STREAM_HEADERS, ClientSide
from a2a_bridge_transports._http.parameters import begins_with_gap
from a2a_bridge_transports._http.rows import remaining_time
from a2a_bridge_transports.jsonrpc import wire


class JsonRpcClient(ClientSide):
    """An agent at one URL; implements Service."""

    def __init__(
        self,
        interface: hub.AgentInterface,
        dialect: Dialect,
        options: DialOptions,
        exchanger: session.Exchanger,
    ) -> None:
        super().__init__(JSONRPC, interface, dialect, options, exchanger)
        self._url = session.parse_url(session.call_url(interface.url, options))
        self._ids = itertools.count(1)

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        try:
            row = self.row(call)
        except A2AError as error:
            return reject(error)
        path = wire.document(row.address)
        if path is not None:
            return self._document(row, path, call)
        if row.extras.fallback is not None:
            return cast("Coroutine[Any, Any, Res]", self.either(partial(self._unary, call), row))
        return self._unary(call, row)

    async def _unary(self, call: Call[Any, Any], row: Row[str, Any]) -> Any:
        id_, headers, body = await run(self._request, row, call, large=call.context.large)
        headers["Accept"] = "application/json"
        timeout = remaining_time(call.context, self.options.timeout)
        status, received, data = await self.exchanger.call("POST", self._url, headers, body, timeout)
        self.copy_parameters(call, received)
        if len(data) <= SMALL:
            return self._check(row, call, id_, status, received, data)
        return await self.parse(data, call.context.reply, self._check, row, call, id_, status, received, data)

    async def stream(self, call: Call[Req, Res], /) -> Events:
        row = self.row(call)
        id_, headers, body = await run(self._request, row, call, large=call.context.large)
        headers["Accept"] = "text/event-stream, application/json"
        headers |= STREAM_HEADERS
        timeout = remaining_time(call.context, None)
        async with self.exchanger.stream("POST", self._url, headers, body, timeout) as response:
            self.copy_parameters(call, response.headers)
            if response.content_type != "text/event-stream":
                data, status = await self.exchanger.whole(response), response.status
                answer = await self.parse(
                    data, call.context.reply, self._check, row, call, id_, status, response.headers, data
                )
                yield self.only_event(answer)
                return
            gap = begins_with_gap(response.headers)
            async with aclosing(self.exchanger.events(response)) as groups:
                async for group in groups:
                    for event in group:
                        read, data = self._read, event.data
                        if len(data) <= SMALL:
                            answer = read(row, call, id_, response.status, data)
                        else:
                            answer = await self.parse(
                                data, call.context.reply, read, row, call, id_, response.status, data
                            )
                        yield Event(answer, event.id, gap or is_gap(answer))
                        gap = False

    def _check(
        self, row: Row[str, Any], call: Call[Any, Any], id_: int, status: int, headers: Any, data: bytes
    ) -> Any:
        """The result in a response that is no stream."""
        try:
            self._check_status(row, status, headers, data)
            return self._read(row, call, id_, status, data)
        except A2AError as error:
            self.with_challenges(error, headers)
            raise

    def _request(self, row: Row[str, Any], call: Call[Any, Any]) -> tuple[int, dict[str, str], bytes]:
        tree = self.encode(row, call)
        headers = self.headers(call)
        headers["Content-Type"] = "application/json"
        id_ = next(self._ids)
        return id_, headers, wire.request(id_, row.address, tree)

    async def _document(self, row: Row[str, Any], path: str, call: Call[Any, Any]) -> Any:
        """Fetches a document that an older version serves beside the URL."""
        headers = self.headers(call)
        headers["Accept"] = "application/json"
        url = self._url
        url = url.with_path(wire.beside(url.raw_path, path), encoded=True)
        timeout = remaining_time(call.context, self.options.timeout)
        fetched = await self.exchanger.call("GET", url, headers, None, timeout)
        self.copy_parameters(call, fetched.headers)
        moved = session.redirect_error(fetched.status, fetched.headers, url)
        if moved is not None:
            raise moved
        status, received, data = fetched.status, fetched.headers, fetched.body
        return await self.parse(
            data, call.context.reply, self._read_document, row, call, status, received, data
        )

    def _read_document(
        self, row: Row[str, Any], call: Call[Any, Any], status: int, headers: Any, data: bytes
    ) -> Any:
        try:
            tree = loads(data)
        except JsonSyntaxError as problem:
            if status < 300:
                raise wire.not_a_response(str(problem)) from None
            tree = None
        if status >= 300:
            raise self.with_challenges(self.read_error(row, status, tree, session.text_of(data)), headers)
        return self.decode(row, tree, call.context)

    def _read(self, row: Row[str, Any], call: Call[Any, Any], id_: int, status: int, data: bytes) -> Any:
        """The result of a response. Raises its error, or INVALID_AGENT_RESPONSE."""
        if row.operation.response is Empty and not data.strip():
            # Agents of a2a-go 0.3 answer deletions like this (a2asrv/jsonrpc.go).
            return self.decode(row, None, call.context)
        answer = wire.answer(data)
        if answer.error is not None:
            raise self.read_error(row, status, answer.error)
        # Some answers of a2a-java 0.3 have the id as text.
        given = answer.id
        if (type(given) is not int or given != id_) and (type(given) is not str or given != str(id_)):
            raise wire.not_a_response(f"its id is not that of request {id_}")
        if not answer.complete and row.operation.response is not Empty:
            raise wire.not_a_response("it has neither result nor error")
        return self.decode(row, answer.result, call.context)

    def _check_status(self, row: Row[str, Any], status: int, headers: Any, data: bytes) -> None:
        """Raises the error for an HTTP error without a JSON-RPC body."""
        if status < 300:
            return
        failed: Json = None
        moved = session.redirect_error(status, headers, self._url)
        if moved is not None:
            raise moved
        try:
            failed = wire.answer(data).error
        except A2AError:
            failed = None  # not from an agent: a proxy's page, or nothing at all
        if failed is None:
            error = self.read_error(row, status, None, session.text_of(data))
            raise session.with_origin(session.with_patience(error, headers), status, self._url)
