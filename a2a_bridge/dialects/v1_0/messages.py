"""Hub ↔ wire for 1.0: the codec with the protocol's error handling. No conversion, because the hub is 1.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, EncodeError, decoder, encoder
from a2a_bridge.codec.depth import is_plain, may_be_deep, path_of_depth, too_deep
from a2a_bridge.codec.free import fill_nulls
from a2a_bridge.codec.plan import plan_of
from a2a_bridge.codec.structs import TOO_DEEP
from a2a_bridge.core.errors import A2AError, Blame, Reason, Violation, invalid_params
from a2a_bridge.pb.google_protobuf import Empty


def request_decoder(cls: type[Message]) -> Callable[[Any], Any]:
    """JSON tree → request. Raises INVALID_PARAMS with the members at fault; None counts as `{}` where every
    member is optional (spec 9.4).
    """
    decode = decoder(cls)
    optional = not any(field.required for field in plan_of(cls).fields)

    def decode_request(wire: Any) -> Any:
        if wire is None:
            if not optional:
                raise invalid_params("", "params are required")
            return cls()
        try:
            return decode(wire)
        except DecodeError as error:
            raise _invalid_params(error) from None

    return decode_request


def response_decoder(cls: type[Message]) -> Callable[[Any], Any]:
    """JSON tree → response. Raises INVALID_AGENT_RESPONSE, blaming the peer; null is an Empty."""
    decode = decoder(cls)
    empty = cls is Empty
    has_payload = _has_payload(cls)

    def decode_response(wire: Any) -> Any:
        if wire is None and empty:
            return Empty()
        try:
            message = decode(wire)
        except DecodeError as error:
            raise A2AError(
                Reason.INVALID_AGENT_RESPONSE,
                f"the agent's answer is not a {cls.DESCRIPTOR.name}: {error}",
                blame=Blame.PEER,
            ) from None
        if has_payload and message.WhichOneof("payload") is None:
            raise _without_payload(cls)
        return message

    return decode_response


def request_encoder(cls: type[Message]) -> Callable[[Any], Any]:
    """Request → JSON tree. Raises INVALID_PARAMS for content that JSON cannot express (NaN and
    infinities).
    """
    encode = encoder(cls)

    def encode_request(message: Any) -> Any:
        try:
            return encode(message)
        except EncodeError as error:
            raise invalid_params(error.path, error.problem) from None

    return encode_request


def response_encoder(cls: type[Message]) -> Callable[[Any], Any]:
    """Response → JSON tree. Raises INVALID_AGENT_RESPONSE for content that JSON lacks (NaN and
    infinities).
    """
    encode = encoder(cls)

    def encode_response(message: Any) -> Any:
        try:
            return encode(message)
        except EncodeError as error:
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, str(error), blame=Blame.PEER) from None

    return encode_response


def bytes_request_decoder(cls: type[Message]) -> Callable[[bytes], Any]:
    """Protobuf bytes → request. Raises PARSE_ERROR without the runtime's own text, and INVALID_PARAMS for
    free JSON that is nested too deeply.
    """
    parse = cls.FromString

    def decode_request(wire: bytes) -> Any:
        try:
            message = parse(wire)
        except ProtobufDecodeError:
            raise unreadable(cls, wire) from None
        if not is_plain(wire):
            if may_be_deep(wire) and (deep := too_deep(message)):
                raise _invalid_params(DecodeError.of([(path, TOO_DEEP) for path in deep]))
            fill_nulls(wire, message)
        return message

    return decode_request


def unreadable(cls: type[Message], wire: bytes) -> A2AError:
    """The error for the bytes of a request that protobuf cannot parse."""
    path = path_of_depth(cls, wire)
    if path is not None:
        return invalid_params(path, TOO_DEEP)
    return A2AError(Reason.PARSE_ERROR, f"the bytes are not a {cls.DESCRIPTOR.full_name}")


def bytes_response_decoder(cls: type[Message]) -> Callable[[bytes], Any]:
    """Protobuf bytes → response. Raises INVALID_AGENT_RESPONSE, blaming the peer."""
    parse = cls.FromString
    has_payload = _has_payload(cls)

    def decode_response(wire: bytes) -> Any:
        try:
            message = parse(wire)
        except ProtobufDecodeError:
            text = f"the agent's answer is not a {cls.DESCRIPTOR.full_name}"
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER) from None
        if not is_plain(wire):
            if may_be_deep(wire) and (deep := too_deep(message)):
                text = f"the agent's answer is not a {cls.DESCRIPTOR.name}: {deep[0]}: {TOO_DEEP}"
                raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
            fill_nulls(wire, message)
        if has_payload and message.WhichOneof("payload") is None:
            raise _without_payload(cls)
        return message

    return decode_response


def _has_payload(cls: type[Message]) -> bool:
    """True for responses that hold one member of several (spec 3.2.1)."""
    return "payload" in cls.DESCRIPTOR.oneofs_by_name


def _without_payload(cls: type[Message]) -> A2AError:
    text = f"the agent's answer is a {cls.DESCRIPTOR.name} that holds none of its members"
    return A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)


def _invalid_params(error: DecodeError) -> A2AError:
    violations = tuple(Violation(path, problem) for path, problem in error.violations)
    return A2AError(Reason.INVALID_PARAMS, str(error), violations=violations)
