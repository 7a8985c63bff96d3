"""The gRPC rows of 0.3: operations, paths of /a2a.v1.A2AService and protobuf bytes. Not the form's errors.

There is no row for listing tasks: a2a.v1 has no such rpc. Rows that hold files exist for each encoding of
their contents (file_rows).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError as ProtobufDecodeError

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.boundary import Conversion, row
from a2a_bridge.dialects.dialect import Row, RowExtras
from a2a_bridge.dialects.pair import Pair
from a2a_bridge.dialects.v0_3 import proto_card
from a2a_bridge.dialects.v0_3.errors import PROTO
from a2a_bridge.dialects.v0_3.proto import EVENT, SEND, SENT, TASK, decode_bytes, encode_bytes
from a2a_bridge.dialects.v0_3.proto_files import ENCODINGS, choose_row
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
from a2a_bridge.dialects.v0_3.side_channel import of_bytes, of_list
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.peers import Files

SERVICE = "/a2a.v1.A2AService/"


#: the rows except that of the card: operation, name, request and response
_TABLE: tuple[tuple[ops.Operation[Any, Any], str, Pair, Pair], ...] = (
    (ops.SEND_MESSAGE, "SendMessage", SEND, SENT),
    (ops.SEND_STREAMING_MESSAGE, "SendStreamingMessage", SEND, EVENT),
    (ops.GET_TASK, "GetTask", GET_TASK, TASK),
    (ops.CANCEL_TASK, "CancelTask", CANCEL, TASK),
    (ops.SUBSCRIBE_TO_TASK, "TaskSubscription", SUBSCRIBE, EVENT),
    (ops.CREATE_PUSH_CONFIG, "CreateTaskPushNotificationConfig", CREATE_CONFIG, CONFIG),
    (ops.GET_PUSH_CONFIG, "GetTaskPushNotificationConfig", GET_CONFIG, CONFIG),
    (ops.LIST_PUSH_CONFIGS, "ListTaskPushNotificationConfig", LIST_CONFIGS, CONFIGS),
    (ops.DELETE_PUSH_CONFIG, "DeleteTaskPushNotificationConfig", DELETE_CONFIG, EMPTY),
)


def _configs(wire: bytes) -> list[bytes]:
    return [config.SerializeToString() for config in CONFIGS.wire.FromString(wire).configs]


def _with_configs(wire: bytes, configs: list[bytes]) -> bytes:
    message = CONFIGS.wire.FromString(wire)
    del message.configs[:]
    message.configs.extend(map(CONFIG.wire.FromString, configs))
    raw_bytes: bytes = message.SerializeToString()
    return raw_bytes


_ABOUT_CONFIG = of_bytes(CONFIG)
#: the unmapped content of responses without metadata
_RESPONSE_CHANNELS = {CONFIG: _ABOUT_CONFIG, CONFIGS: of_list(_ABOUT_CONFIG, _configs, _with_configs)}


def _row(
    operation: ops.Operation[Any, Any], name: str, request: Pair, response: Pair, files: Files
) -> Row[str, bytes]:
    channel = _RESPONSE_CHANNELS.get(response)
    extras: RowExtras[str, bytes] = RowExtras(
        request=None if request is SEND else of_bytes(request).request(),
        response=None if channel is None else channel.response(),
        names=PROTO.get(operation),
    )
    return row(operation, SERVICE + name, _conversion(request, files), _conversion(response, files), extras)


def _conversion(pair: Pair, files: Files) -> Conversion:
    return Conversion(
        lambda message: encode_bytes(pair, message, files),
        lambda wire: decode_bytes(pair, wire, files),
        pair.wire,
    )


def _card_row() -> Row[str, bytes]:
    answer = Conversion(proto_card.encode_bytes, proto_card.decode_bytes, v0.AgentCard)
    request = _conversion(GET_CARD, Files.RAW)
    return row(ops.GET_EXTENDED_AGENT_CARD, f"{SERVICE}GetAgentCard", request, answer)


def _rows(files: Files) -> tuple[Row[str, bytes], ...]:
    return (*(_row(*one, files) for one in _TABLE), _card_row())


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
BY_FILES: Mapping[Files, tuple[Row[str, bytes], ...]] = {files: _rows(files) for files in ENCODINGS}
ROWS: tuple[Row[str, bytes], ...] = tuple(
    choose_row(dict(zip(BY_FILES, rows, strict=True)), _first_file)
    for rows in zip(*BY_FILES.values(), strict=True)
)
