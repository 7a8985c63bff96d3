"""Shared by the client sides of the HTTP bindings: rows, tenants, headers."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from multidict import MultiMapping

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.offload import SMALL
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import (
    SIDE_CHANNEL,
    Call,
    CallContext,
    ResponseParameters,
    take_side_channel,
    with_side_channel,
)
from a2a_bridge.core.errors import A2AError, Kind, Reason
from a2a_bridge.core.resume import LAST_EVENT_ID, resume_id
from a2a_bridge.core.service import Event, Service
from a2a_bridge.dialects import BindingKind, Dialect, ErrorReply, Form, Row, is_older
from a2a_bridge.dialects.boundary import UnknownEventError
from a2a_bridge.dialects.responses import other_rows, with_older_names
from a2a_bridge.dialects.signed_extras import seal_side_channel
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.connector import build_resolver
from a2a_bridge_transports._http.parameters import request_headers, response_parameters
from a2a_bridge_transports._http.rows import add_tenant, partly, read_large, take_parameters, without
from a2a_bridge_transports._http.session import Exchanger, open_exchanger

_log = logging.getLogger("a2a_bridge.http")


#: the responses of an agent to a request in an unknown format or with an unknown name
_UNREADABLE = frozenset(
    {Reason.INVALID_PARAMS, Reason.INVALID_REQUEST, Reason.PARSE_ERROR, Reason.METHOD_NOT_FOUND}
)

T = TypeVar("T")

#: errors that can say what to present instead
#: of one response, the most challenges and the most characters of one that travel on
_CHALLENGES, _CHALLENGE = 8, 1024

#: events are small and useless when late: proxies must not delay them
STREAM_HEADERS = {"Accept-Encoding": "identity", "Cache-Control": "no-store"}


class ClientSide:
    """One dialled interface. Raises ValueError if the dialect has no form for the kind."""

    def __init__(
        self,
        kind: BindingKind[Any, Any],
        interface: hub.AgentInterface,
        dialect: Dialect,
        options: DialOptions,
        exchanger: Exchanger,
    ) -> None:
        form = dialect.form(kind, files=options.files)
        if form is None:
            raise ValueError(f"{dialect} cannot be spoken over {kind.name}")
        self.form: Form[Any, Any] = form
        self.options = options
        self._strict = options.profile.quirks.strict_json
        self._passes_credentials = "authorization" in options.forward - options.parameters.keys()
        self.exchanger = exchanger
        # The first row of an operation is the one to use; further ones are alternatives.
        self._rows: dict[Any, Row[Any, Any]] = {row.operation: row for row in reversed(form.rows)}
        self.dialect = dialect
        self._tenant = interface.tenant
        self._kind = kind
        self._place = interface.url
        #: operations that the agent answers in another version than it claims, and the row that reads them
        self._found: dict[Any, Row[Any, Any]] = {}

    def row(self, call: Call[Any, Any]) -> Row[Any, Any]:
        """The row of a call. Raises UNSUPPORTED_OPERATION if the version lacks the operation."""
        row = self._rows.get(call.operation)
        if row is None:
            text = f"version {self.dialect.version} has no {call.operation.name}"
            raise A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"operation": call.operation.name})
        return row if row.extras.for_agent is None else row.extras.for_agent(call.context)

    async def either(self, ask: Callable[[Row[Any, Any]], Awaitable[T]], row: Row[Any, Any]) -> T:
        """The response to a call with a row, or with its alternative row if the agent cannot read the first.
        Raises the agent's first error if it reads neither.
        """
        try:
            return await ask(row)
        except A2AError as error:
            if row.extras.fallback is None or error.reason not in _UNREADABLE:
                raise
            rejected = error
        try:
            answer = await ask(row.extras.fallback)
        except A2AError as error:
            if error.reason in _UNREADABLE:
                raise rejected from None
            raise
        self._rows[row.operation] = row.extras.fallback
        return answer

    def headers(self, call: Call[Any, Any]) -> dict[str, str]:
        """The headers of a call. Raises INVALID_PARAMS for a parameter that is not valid in a header."""
        headers = request_headers(self.dialect, call.context, self.options, time.monotonic())
        if call.operation is ops.SUBSCRIBE_TO_TASK and (after := resume_id(call.context)):
            headers[LAST_EVENT_ID] = after
        if call.context.side_channel and self.dialect.declares:
            headers[SIDE_CHANNEL] = seal_side_channel(call.context.side_channel, call.request)
        return headers

    def encode(self, row: Row[Any, Any], call: Call[Any, Any]) -> Any:
        """The request on the wire, with the content beside it if the row has a place for that."""
        request = add_tenant(call.request, self._tenant) if self._tenant else call.request
        wire = row.encode_request(request)
        if row.extras.explicit is not None:
            wire = row.extras.explicit(wire, is_older(call.context.origin.version))
        if row.extras.request is not None and (
            given := with_side_channel(call.context.parameters, call.context.side_channel)
        ):
            wire = row.extras.request.restore(wire, given)
        return row.extras.strict(wire) if self._strict and row.extras.strict is not None else wire

    def decode(self, row: Row[Any, Any], wire: Any, context: CallContext) -> Any:
        """The response; the content beside its message goes into `reply`."""
        found = self._found.get(row.operation)
        if found is not None and (answer := self._read_as(found, wire)) is not None:
            return answer
        try:
            answer = row.decode_response(wire)
        except A2AError as error:
            listed = partly(row, wire, error)
            if listed is not None and listed[0].tasks:
                return without(listed, error, context.reply)
            other = self._other(row, wire) if error.reason is Reason.INVALID_AGENT_RESPONSE else None
            if other is not None:
                return other
            if isinstance(error, UnknownEventError):
                return error.event
            if listed is None:
                raise
            return without(listed, error, context.reply)
        if row.extras.response is not None:
            take_side_channel(context.reply, row.extras.response.extract(wire))
        return answer

    def only_event(self, answer: hub.StreamResponse) -> Event:
        """The event of a response that is no stream. Raises INVALID_AGENT_RESPONSE for an unknown one: a
        document of another kind has no known member either.
        """
        if answer.WhichOneof("payload") is None:
            raise UnknownEventError(answer)
        return Event(answer)

    def _other(self, row: Row[Any, Any], wire: Any) -> Any:
        """The response, read as another version than the agent claims; None if it fits none."""
        for found in other_rows(self.dialect, self._kind, row.operation, wire):
            answer = self._read_as(found, wire)
            if answer is not None:
                if not self._found:
                    _log.warning(
                        "the agent at %s claims version %s and answers as another one does;"
                        " that is read from now on",
                        self._place,
                        self.dialect.version,
                    )
                self._found[row.operation] = found
                return answer
        return None

    def _read_as(self, row: Row[Any, Any], wire: Any) -> Any:
        for tree in (wire, with_older_names(wire)):
            try:
                return row.decode_response(tree)
            except A2AError as error:
                if error.reason is not Reason.INVALID_AGENT_RESPONSE:
                    raise
        return None

    async def parse(
        self, data: bytes, reply: ResponseParameters, read: Callable[..., T], *arguments: Any
    ) -> T:
        """The result of `read`, which parses `data`. Raises INVALID_AGENT_RESPONSE for too many values.
        reply: notes whether the response is large.
        """
        if len(data) <= SMALL:
            return read(*arguments)
        return await read_large(data, self.options.max_values, reply, read, *arguments)

    def read_error(self, row: Row[Any, Any], status: int, body: Any, text: str = "") -> A2AError:
        """The error in a response, with the hub's names of members. text: the body as text."""
        return row.decode_names(self.form.decode_error(ErrorReply(status, body, text, row.operation)))

    def with_challenges(self, error: A2AError, headers: MultiMapping[str]) -> A2AError:
        """The error of a response, with what the agent asks for. Only where the caller's own credentials are
        sent: elsewhere none that it presents would reach the agent.
        """
        if self._passes_credentials and error.reason.kind is Kind.CREDENTIALS:
            given = headers.getall("WWW-Authenticate", ())
            sound = [one for one in given if one.isascii() and one.isprintable() and len(one) <= _CHALLENGE]
            error.challenges = tuple(sound[:_CHALLENGES])
        return error

    def copy_parameters(self, call: Call[Any, Any], headers: Mapping[str, str]) -> None:
        """Copies the response parameters from the headers of a response."""
        found = response_parameters(headers, self.dialect)
        if found:
            take_parameters(call, found, _log)


@asynccontextmanager
async def dial(
    client: Callable[[hub.AgentInterface, Dialect, DialOptions, Exchanger], Service],
    interface: hub.AgentInterface,
    dialect: Dialect,
    options: DialOptions,
) -> AsyncIterator[Service]:
    """A client side with a separate session. client: its class."""
    async with open_exchanger(options, build_resolver(options.resolve)) as exchanger:
        yield client(interface, dialect, options, exchanger)
