"""The gRPC rows of 0.3: operations, paths of /a2a.v1.A2AService and protobuf bytes. Not the form's errors.

There is no row for listing tasks: a2a.v1 has no such rpc. Rows that hold files exist for each encoding of
their contents (file_rows).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError as ProtobufDecodeError

from a2a_bridge.codec import DecodeError, EncodeError
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason, Violation, invalid_params
from a2a_bridge.dialects.dialect import Row
from a2a_bridge.dialects.pair import Pair
from a2a_bridge.dialects.v0_3 import proto_card
from a2a_bridge.dialects.v0_3 import proto_side_channel as side_channel
from a2a_bridge.dialects.v0_3.file_rows import chosen
from a2a_bridge.dialects.v0_3.proto import EVENT, SEND, SENT, TASK, decode_bytes, encode_bytes
from a2a_bridge.dialects.v0_3.proto_requests import (
    CANCEL,
    CONFIG,
    CONFIGS,
    CREATE_CONFIG,
    DELETE_CONFIG,
    EMPTY,
    GET_CARD,
    GET_CONFIG,
    GET_TASK,
    LIST_CONFIGS,
    SUBSCRIBE,
)
from a2a_bridge.dialects.v1_0.messages import unreadable
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.peers import Files

SERVICE = "/a2a.v1.A2AService/"

Coder = Callable[[Any], Any]


# --- the boundary of errors ---


def request_decoder(pair: Pair, decode: Coder) -> Coder:
    """Raises PARSE_ERROR for bytes that are no such message, and INVALID_PARAMS with the members at fault."""

    def decode_request(wire: Any) -> Any:
        try:
            return decode(wire)
        except ProtobufDecodeError:
            raise unreadable(pair.wire, wire) from None
        except DecodeError as error:
            violations = tuple(Violation(path, problem) for path, problem in error.violations)
            raise A2AError(Reason.INVALID_PARAMS, str(error), violations=violations) from None

    return decode_request


def request_encoder(encode: Coder) -> Coder:
    """Raises INVALID_PARAMS for content that can be neither expressed nor carried."""

    def encode_request(message: Any) -> Any:
        try:
            return encode(message)
        except (DecodeError, EncodeError) as error:
            raise invalid_params(error.path, error.problem) from None

    return encode_request


def response_decoder(pair: Pair, decode: Coder) -> Coder:
    """Raises INVALID_AGENT_RESPONSE, blaming the peer, for every error in an answer."""
    name = pair.hub.DESCRIPTOR.name
    checked = "payload" in pair.hub.DESCRIPTOR.oneofs_by_name

    def decode_response(wire: Any) -> Any:
        try:
            message = decode(wire)
        except ProtobufDecodeError:
            raise _bad_answer(f"is not a {pair.wire.DESCRIPTOR.full_name}") from None
        except DecodeError as error:
            raise _bad_answer(f"is not a {name}: {error}") from None
        except A2AError as error:
            if error.reason is not Reason.INVALID_PARAMS:
                raise
            raise _bad_answer(f"is not a {name}: {error.message}") from None
        if checked and message.WhichOneof("payload") is None:
            raise _bad_answer(f"is a {name} that holds none of its members")
        return message

    return decode_response


def response_encoder(encode: Coder) -> Coder:
    """Raises INVALID_AGENT_RESPONSE for content that can be neither expressed nor carried."""

    def encode_response(message: Any) -> Any:
        try:
            return encode(message)
        except (DecodeError, EncodeError) as error:
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, str(error), blame=Blame.PEER) from None

    return encode_response


def _bad_answer(text: str) -> A2AError:
    return A2AError(Reason.INVALID_AGENT_RESPONSE, f"the agent's answer {text}", blame=Blame.PEER)


# --- rows ---


def _row(
    operation: ops.Operation[Any, Any], name: str, request: Pair, response: Pair, files: Files, **beside: Any
) -> Row[str, bytes]:
    return Row(
        operation,
        SERVICE + name,
        encode_request=request_encoder(partial(_encode, request, files)),
        decode_request=request_decoder(request, partial(_decode, request, files)),
        encode_response=response_encoder(partial(_encode, response, files)),
        decode_response=response_decoder(response, partial(_decode, response, files)),
        **beside,
    )


def _decode(pair: Pair, files: Files, wire: bytes) -> Any:
    return decode_bytes(pair, wire, files)


def _encode(pair: Pair, files: Files, message: Any) -> bytes:
    return encode_bytes(pair, message, files)


_ABOUT_CONFIG: dict[str, Any] = {
    "extract_response": partial(side_channel.extract_bytes, CONFIG),
    "restore_response": partial(side_channel.restore_bytes, CONFIG),
}
_ABOUT_CONFIGS: dict[str, Any] = {
    "extract_response": partial(side_channel.extract_list_bytes, CONFIGS, CONFIG),
    "restore_response": partial(side_channel.restore_list_bytes, CONFIGS, CONFIG),
}


def _card_row() -> Row[str, bytes]:
    return Row(
        ops.GET_EXTENDED_AGENT_CARD,
        f"{SERVICE}GetAgentCard",
        encode_request=partial(_encode, GET_CARD, Files.RAW),
        decode_request=request_decoder(GET_CARD, partial(_decode, GET_CARD, Files.RAW)),
        encode_response=response_encoder(proto_card.encode_bytes),
        decode_response=response_decoder(proto_card.PAIR, proto_card.decode_bytes),
    )


def _rows(files: Files) -> tuple[Row[str, bytes], ...]:
    return (
        _row(ops.SEND_MESSAGE, "SendMessage", SEND, SENT, files),
        _row(ops.SEND_STREAMING_MESSAGE, "SendStreamingMessage", SEND, EVENT, files),
        _row(ops.GET_TASK, "GetTask", GET_TASK, TASK, files, **side_channel.of_bytes(GET_TASK)),
        _row(ops.CANCEL_TASK, "CancelTask", CANCEL, TASK, files, **side_channel.of_bytes(CANCEL)),
        _row(
            ops.SUBSCRIBE_TO_TASK,
            "TaskSubscription",
            SUBSCRIBE,
            EVENT,
            files,
            **side_channel.of_bytes(SUBSCRIBE),
        ),
        _row(
            ops.CREATE_PUSH_CONFIG,
            "CreateTaskPushNotificationConfig",
            CREATE_CONFIG,
            CONFIG,
            files,
            **side_channel.of_bytes(CREATE_CONFIG),
            **_ABOUT_CONFIG,
        ),
        _row(
            ops.GET_PUSH_CONFIG,
            "GetTaskPushNotificationConfig",
            GET_CONFIG,
            CONFIG,
            files,
            **side_channel.of_bytes(GET_CONFIG),
            **_ABOUT_CONFIG,
        ),
        _row(
            ops.LIST_PUSH_CONFIGS,
            "ListTaskPushNotificationConfig",
            LIST_CONFIGS,
            CONFIGS,
            files,
            **side_channel.of_bytes(LIST_CONFIGS),
            **_ABOUT_CONFIGS,
        ),
        _card_row(),
        _row(
            ops.DELETE_PUSH_CONFIG,
            "DeleteTaskPushNotificationConfig",
            DELETE_CONFIG,
            EMPTY,
            files,
            **side_channel.of_bytes(DELETE_CONFIG),
        ),
    )


def _first_file(wire: bytes) -> tuple[bytes, str] | None:
    try:
        message = v0.SendMessageRequest.FromString(wire).request
    except ProtobufDecodeError:
        return None  # unreadable: the decoder reports the error
    for part in message.content:
        if part.file.file_with_bytes:
            return part.file.file_with_bytes, part.file.mime_type
    return None


#: for agents with a known encoding
BY_FILES: Mapping[Files, tuple[Row[str, bytes], ...]] = {files: _rows(files) for files in Files}
ROWS: tuple[Row[str, bytes], ...] = tuple(
    chosen(dict(zip(BY_FILES, rows, strict=True)), _first_file)
    for rows in zip(*BY_FILES.values(), strict=True)
)
