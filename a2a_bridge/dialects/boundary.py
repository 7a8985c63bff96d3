"""The boundary of rows: conversions of all versions, with the errors of the protocol.

Conversions raise DecodeError, EncodeError and the errors of protobuf. At the boundary these become
INVALID_PARAMS for requests, and INVALID_AGENT_RESPONSE for responses, which blames the peer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, EncodeError, encoder
from a2a_bridge.codec.free_json import fill_nulls, may_be_deep, path_of_depth, too_deep
from a2a_bridge.codec.structs import TOO_DEEP
from a2a_bridge.codec.unknown import drop_members, holds_members
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason, Violation, invalid_params
from a2a_bridge.dialects.dialect import NO_EXTRAS, Row, RowExtras
from a2a_bridge.pb.google_protobuf import Timestamp

Coder = Callable[[Any], Any]

#: a number_value of google.protobuf.Value that is NaN or infinite: its tag, and a double with all bits of the
#: exponent set. Other content can have the same bytes.
_NOT_FINITE = re.compile(rb"\x11.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL)


def chain(first: Coder, second: Coder) -> Coder:
    """Both, one after the other."""
    return lambda value: second(first(value))


class Conversion(NamedTuple):
    """The two directions between a wire value and a message of the hub."""

    #: message → wire
    encode: Coder
    #: wire → message
    decode: Coder
    #: the message class of the wire, if its values are bytes
    wire: type[Message] | None = None
    #: the message for null; None if `decode` reads null
    absent: Callable[[], Any] | None = None


def row(
    operation: ops.Operation[Any, Any],
    address: Any,
    request: Conversion,
    response: Conversion,
    extras: RowExtras[Any, Any] = NO_EXTRAS,
) -> Row[Any, Any]:
    """A row whose conversions raise errors of the protocol."""
    return Row(
        operation,
        address,
        encode_request=request_encoder(operation.request, request.encode),
        decode_request=request_decoder(request),
        encode_response=response_encoder(operation.response, response.encode, of_row=True),
        decode_response=response_decoder(operation.response, response),
        extras=extras,
    )


def params_required() -> NoReturn:
    """The `absent` of requests with required members."""
    raise invalid_params("", "params are required")


def request_decoder(conversion: Conversion) -> Coder:
    """Raises INVALID_PARAMS with the members at fault, and PARSE_ERROR for bytes that are no such message."""
    _, decode, wire_class, absent = conversion
    # JSON rejects such times by itself.
    times = [] if wire_class is None else _times(wire_class)

    def decode_request(wire: Any) -> Any:
        if wire is None and absent is not None:
            return absent()
        try:
            message = decode(wire)
        except DecodeError as error:
            violations = tuple(Violation(path, problem) for path, problem in error.violations)
            raise A2AError(Reason.INVALID_PARAMS, str(error), violations=violations) from None
        except ProtobufDecodeError:
            raise _unreadable(wire_class, wire) from None
        if wire_class is not None and 0x11 in wire and _NOT_FINITE.search(wire):
            _check_values(message)
        for time in times:
            if message.HasField(time):
                _check_values(message)
        return message

    return decode_request


def _times(cls: type[Message]) -> list[str]:
    """The fields of a class that are timestamps."""
    kind = Timestamp.DESCRIPTOR.full_name
    return [
        one.name for one in cls.DESCRIPTOR.fields if one.message_type and one.message_type.full_name == kind
    ]


def _check_values(message: Message) -> None:
    """Raises INVALID_PARAMS for a number or a time that JSON cannot express: no caller of JSON could read it
    again.
    """
    try:
        encoder(type(message))(message)
    except EncodeError as error:
        raise invalid_params(error.path, error.problem) from None


def request_encoder(cls: type[Message], encode: Coder) -> Coder:
    """Raises INVALID_PARAMS for content that the wire cannot express."""
    return _encoder(cls, encode, lambda found: invalid_params(found.path, found.problem))


def _encoder(
    cls: type[Message],
    encode: Coder,
    failed: Callable[[EncodeError | DecodeError], A2AError],
    *,
    bare: bool = False,
) -> Coder:
    def encode_checked(message: Any) -> Any:
        try:
            return encode(message)
        except ValueError as error:
            if bare and message.WhichOneof("payload") is None:
                return {}
            found = _unencodable(cls, message, error)
        raise failed(found)

    return encode_checked


class UnknownKindError(DecodeError):
    """The `kind` of an object of 0.x is not known here; a stream may have events of such kinds."""


class UnknownEventError(A2AError):
    """INVALID_AGENT_RESPONSE: an event of a stream without a known member. event: what can be handed on."""

    def __init__(self, event: Any) -> None:
        text = "the agent's answer is a StreamResponse that holds none of its members"
        super().__init__(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        self.event = event


def response_decoder(cls: type[Message], conversion: Conversion) -> Coder:
    """Raises INVALID_AGENT_RESPONSE for every error, and for an empty oneof `payload` (spec 3.2.1);
    UnknownEventError if that is an event.
    """
    _, decode, wire_class, absent = conversion
    name = cls.DESCRIPTOR.name
    checked = "payload" in cls.DESCRIPTOR.oneofs_by_name

    def decode_response(wire: Any) -> Any:
        if wire is None and absent is not None:
            return absent()
        try:
            message = decode(wire)
        except DecodeError as error:
            if isinstance(error, UnknownKindError) and name == "StreamResponse":
                raise UnknownEventError(cls()) from None
            raise _bad_answer(f"is not a {name}: {error}") from None
        except ProtobufDecodeError:
            raise _bad_answer(f"is not a {(wire_class or cls).DESCRIPTOR.full_name}") from None
        except A2AError as error:
            if error.reason is not Reason.INVALID_PARAMS:
                raise
            raise _bad_answer(f"is not a {name}: {error.message}") from None
        if checked and message.WhichOneof("payload") is None:
            if name == "StreamResponse":
                raise UnknownEventError(message)
            raise _bad_answer(f"is a {name} that holds none of its members")
        return message

    return decode_response


def response_encoder(cls: type[Message], encode: Coder, *, of_row: bool = False) -> Coder:
    """Raises INVALID_AGENT_RESPONSE for content that the wire cannot express. of_row: an event without a
    known member is an empty object.
    """
    reason = Reason.INVALID_AGENT_RESPONSE
    bare = of_row and cls.DESCRIPTOR.name == "StreamResponse"
    return _encoder(cls, encode, lambda found: A2AError(reason, str(found), blame=Blame.PEER), bare=bare)


def card_decoder(decode: Callable[..., Any]) -> Callable[..., Any]:
    """`decode` of an agent card; raises INVALID_AGENT_RESPONSE with the path of the member at fault."""

    def decode_card(tree: Any, *options: Any, **named: Any) -> Any:
        try:
            return decode(tree, *options, **named)
        except DecodeError as error:
            problem = str(error)
        except RecursionError:
            problem = "it is nested too deeply"
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, f"not an agent card: {problem}", blame=Blame.PEER)

    return decode_card


def parser(cls: type[Message]) -> Conversion:
    """Protobuf bytes of a message of the hub. Their free JSON is checked and completed. Unknown members of
    JSON do not leave the process.
    """
    from_string = cls.FromString

    def encode(message: Any) -> bytes:
        wire: bytes = message.SerializeToString()
        if holds_members(wire):
            message = from_string(wire)  # other readers have the original
            drop_members(message)
            wire = message.SerializeToString()
        return wire

    def decode(wire: bytes) -> Any:
        message = from_string(wire)
        if holds_members(wire):
            drop_members(message)
        if may_be_deep(wire):
            check_depth(message)
        fill_nulls(wire, message)
        return message

    return Conversion(encode, decode, cls)


def check_depth(message: Message) -> None:
    """Raises DecodeError for free JSON that is nested too deeply, in a message parsed from bytes."""
    deep = too_deep(message)
    if deep:
        raise DecodeError.of([(path, TOO_DEEP) for path in deep])


def _unencodable(cls: type[Message], message: Any, error: ValueError) -> EncodeError | DecodeError:
    """The error with its place; the encoder of 1.0 finds the place if the conversion does not name it."""
    if isinstance(error, EncodeError | DecodeError):
        return error
    try:
        encoder(cls)(message)
    except EncodeError as found:
        return found
    return EncodeError("", str(error))


def _unreadable(cls: type[Message] | None, wire: Any) -> A2AError:
    assert cls is not None  # noqa: S101 - only conversions of bytes raise errors of protobuf
    path = path_of_depth(cls, wire)
    if path is not None:
        return invalid_params(path, TOO_DEEP)
    return A2AError(Reason.PARSE_ERROR, f"the bytes are not a {cls.DESCRIPTOR.full_name}")


def _bad_answer(text: str) -> A2AError:
    return A2AError(Reason.INVALID_AGENT_RESPONSE, f"the agent's answer {text}", blame=Blame.PEER)
