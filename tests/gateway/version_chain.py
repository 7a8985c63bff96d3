"""A request and its answer through two gateways, as bytes on each wire, without sockets. No tests.

    caller ──wire──▶ gateway ──wire──▶ gateway ──wire──▶ agent

Each wire is a version over a binding. The conversions are those of the transports: the rows of the dialects,
the addresses of HTTP+JSON, the codes of preserved content, and the parameters beside messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import interface
from a2a_bridge.core.call import (
    SIDE_CHANNEL,
    Call,
    CallContext,
    Origin,
    ResponseParameters,
    take_side_channel,
    with_side_channel,
)
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, Form, Row, by_version, signed_extras
from a2a_bridge_transports._http.calling import ClientSide
from a2a_bridge_transports.http_json import wire as http

KINDS = {"JSONRPC": JSONRPC, "HTTP+JSON": HTTP_JSON, "GRPC": GRPC}


@dataclass(frozen=True, slots=True)
class Written:
    """A request or an answer on a wire."""

    #: the body; None if a request has none
    body: bytes | None
    #: the parameters beside it, as on the wire
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: the HTTP method, path and query; None for other bindings
    target: http.HttpCall | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A request as a gateway has read it."""

    #: the row for the answer
    row: Row[Any, Any]
    call: Call[Any, Any]


class Wire:
    """A version over a binding: both ends, in both directions."""

    def __init__(self, version: str, binding: str) -> None:
        dialect = by_version(version)
        assert dialect is not None
        self.version, self.binding, self.dialect = version, binding, dialect
        self.form = cast("Form[Any, Any]", dialect.form(KINDS[binding]))
        self.binary = binding == "GRPC"
        self._routes = http.Routes(self.form.rows) if binding == "HTTP+JSON" else None
        # Nothing is sent, so there is no session.
        nowhere: Any = None
        at = interface(binding, "127.0.0.1:1" if binding == "GRPC" else "http://127.0.0.1/", version=version)
        self._client = ClientSide(KINDS[binding], at, dialect, DialOptions(), nowhere)

    def __repr__(self) -> str:
        return f"{self.version} {self.binding}"

    def row(self, operation: Any) -> Row[Any, Any]:
        """The row of an operation, before the context of a call selects a variant of it."""
        found = self.form.row(operation)
        assert found is not None
        return found

    # --- requests ---

    def write_request(self, call: Call[Any, Any]) -> Written:
        """The client side, as a gateway has it."""
        row = self._client.row(call)
        if self.binary:
            wire = row.encode_request(call.request)
            given = with_side_channel(call.context.parameters, call.context.side_channel)
            if row.extras.request is not None and given:
                wire = row.extras.request.restore(wire, given)
            wire = signed_extras.seal_request(wire, row.address)
        else:
            wire = self._client.encode(row, call)
        parameters = dict(row.extras.parameters or {})
        if call.context.side_channel and self.dialect.declares:
            parameters[SIDE_CHANNEL] = signed_extras.seal_side_channel(
                call.context.side_channel, call.request
            )
        return self.addressed(row, wire, parameters)

    def addressed(self, row: Row[Any, Any], wire: Any, parameters: Mapping[str, str]) -> Written:
        """A value of the row as bytes at the address of the row."""
        if self.binary:
            return Written(wire, parameters)
        if self._routes is None:
            return Written(signed_extras.dumps(wire), parameters)
        target = http.implode(row.address, wire)[0]
        return Written(None if target.body is None else signed_extras.dumps(target.body), parameters, target)

    def read_request(self, operation: Any, written: Written) -> Read:
        """The server side."""
        row, wire = self._found(operation, written)
        parameters = dict(written.parameters)
        if row.extras.variant is not None:
            row = row.extras.variant(wire, parameters)
        message = row.decode_request(wire)
        beside = dict(row.extras.request.extract(wire)) if row.extras.request is not None else {}
        given = parameters.pop(SIDE_CHANNEL, None)
        own = beside.pop(SIDE_CHANNEL, "")
        aside = own or (signed_extras.open_side_channel(given, message) if given else "")
        origin = Origin(binding=self.binding, version=self.version)
        context = CallContext(parameters={**parameters, **beside}, origin=origin, side_channel=aside)
        return Read(row, Call(operation, message, context))

    def _found(self, operation: Any, written: Written) -> tuple[Row[Any, Any], Any]:
        body = written.body
        if self._routes is not None:
            assert written.target is not None
            match = self._routes.match(written.target.method, written.target.path)
            assert isinstance(match, http.Match), written.target
            tree = None if body is None else signed_extras.loads(body)
            return match.route.row, http.explode(match, written.target.query, tree)
        row = self.row(operation)
        if self.binary:
            return row, signed_extras.open_request(body or b"", row.address)
        return row, signed_extras.loads(body or b"")

    # --- answers ---

    def write_answer(self, row: Row[Any, Any], call: Call[Any, Any], message: Any) -> Written:
        """The server side. Content beside the answer is in the reply of the call's context."""
        reply = call.context.reply
        wire = row.encode_response(message)
        if row.extras.response is not None:
            wire = row.extras.response.restore(wire, with_side_channel(reply, reply.side_channel))
        body = signed_extras.seal_response(wire, row.address) if self.binary else signed_extras.dumps(wire)
        parameters = {}
        if reply.side_channel and self.dialect.declares:
            parameters[SIDE_CHANNEL] = signed_extras.seal_side_channel(reply.side_channel, call.request)
        return Written(body, parameters)

    def read_answer(self, call: Call[Any, Any], written: Written) -> Any:
        """The client side. Content beside the answer goes into the reply of the call's context."""
        row = self._client.row(call)
        if written.parameters.get(SIDE_CHANNEL):
            given = written.parameters[SIDE_CHANNEL]
            call.context.reply.side_channel = signed_extras.open_side_channel(given, call.request)
        if not self.binary:
            return self._client.decode(row, signed_extras.loads(written.body or b""), call.context)
        wire = signed_extras.open_response(written.body or b"", row.address)
        if row.extras.response is not None:
            take_side_channel(call.context.reply, row.extras.response.extract(wire))
        return row.decode_response(wire)


Chain = tuple[Wire, Wire, Wire]
"""From the caller to the agent."""


def relayed(chain: Chain, operation: Any, written: Written) -> tuple[list[Read], Written]:
    """A request of a caller through the chain: as each side has read it, the agent's last, and its bytes."""
    reads = []
    for number, wire in enumerate(chain):
        read = wire.read_request(operation, written)
        reads.append(read)
        if number + 1 < len(chain):
            written = chain[number + 1].write_request(read.call)
    return reads, written


def answered(chain: Chain, reads: list[Read], written: Written) -> Written:
    """The bytes of an answer of the agent through the chain, as the caller gets them."""
    caller, middle, agent = chain
    for near, far, read in ((middle, agent, reads[1]), (caller, middle, reads[0])):
        reply = ResponseParameters()
        context = CallContext(
            parameters=read.call.context.parameters, origin=read.call.context.origin, reply=reply
        )
        call = Call(read.call.operation, read.call.request, context)
        message = far.read_answer(call, written)
        written = near.write_answer(read.row, call, message)
    return written
