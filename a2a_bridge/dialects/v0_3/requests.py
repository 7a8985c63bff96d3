"""The JSON-RPC rows of 0.3 (spec 0.3.0, 7): operations, method names and the `kind` shape. Not the form's
errors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from a2a_bridge.codec import DecodeError, Json
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.boundary import Coder, Conversion, params_required, response_encoder, row
from a2a_bridge.dialects.dialect import Row
from a2a_bridge.dialects.members import Inline
from a2a_bridge.dialects.shape import decode_inline
from a2a_bridge.dialects.v0_3 import card, params
from a2a_bridge.dialects.v0_3.push_configs import TASK_CONFIG, decode_push_config, encode_push_config
from a2a_bridge.dialects.v0_3.shapes import (
    decode_event,
    decode_result,
    decode_task,
    encode_event,
    encode_result,
    encode_task,
)
from a2a_bridge.dialects.v0_3.side_channel import of_kind, of_list
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty


def decode_push_configs(tree: Json) -> hub.ListTaskPushNotificationConfigsResponse:
    """A bare array. Raises DecodeError."""
    if type(tree) is not list:
        raise DecodeError("", "expected an array")
    return hub.ListTaskPushNotificationConfigsResponse(configs=[decode_push_config(item) for item in tree])


def encode_push_configs(response: hub.ListTaskPushNotificationConfigsResponse) -> Json:
    """The reverse; 0.3 has no pages."""
    return [encode_push_config(config) for config in response.configs]


def _null(_: Any) -> None:
    return None


def _empty(_: Any) -> Empty:
    return Empty()


def _extended_card_request(_: Any) -> hub.GetExtendedAgentCardRequest:
    return hub.GetExtendedAgentCardRequest()


def _kind_row(
    operation: ops.Operation[Any, Any],
    address: Any,
    request: tuple[Coder, Coder],
    response: tuple[Coder, Coder],
    **beside: Any,
) -> Row[Any, Any]:
    """A row of the `kind` shape. request, response: the encoder and decoder of each."""
    return row(
        operation, address, Conversion(*request, absent=params_required), Conversion(*response), **beside
    )


def _query_row(
    operation: ops.Operation[Any, Any],
    address: str,
    request: Inline,
    response: tuple[Coder, Coder],
    **beside: Any,
) -> Row[Any, Any]:
    """A row whose request has no metadata, so that its unmapped content travels beside it."""
    coders = (request.encode, partial(decode_inline, request))
    return _kind_row(operation, address, coders, response, **of_kind(request).request(), **beside)


_SEND = (params.encode_send, params.decode_send)
_TASK = (encode_task, decode_task)
_EVENT = (encode_event, decode_event)
_PUSH_CONFIG = (encode_push_config, decode_push_config)
_PUSH_CONFIGS = (encode_push_configs, decode_push_configs)
_ABOUT_CONFIG = of_kind(TASK_CONFIG)
_ABOUT_CONFIGS = of_list(
    _ABOUT_CONFIG, lambda tree: tree if isinstance(tree, list) else [], lambda _, configs: configs
)

#: tasks/get in which a historyLength of 0 means no history
GET_TASK_LITERALLY = _query_row(ops.GET_TASK, "tasks/get", params.GET_TASK, _TASK)

ROWS: tuple[Row[str, Any], ...] = (
    _kind_row(
        ops.SEND_MESSAGE,
        "message/send",
        _SEND,
        (encode_result, decode_result),
        explicit=params.explicit_send,
    ),
    _kind_row(ops.SEND_STREAMING_MESSAGE, "message/stream", _SEND, _EVENT, explicit=params.explicit_send),
    _kind_row(
        ops.GET_TASK,
        "tasks/get",
        (params.GET_TASK.encode, params.decode_get_task),
        _TASK,
        **of_kind(params.GET_TASK).request(),
    ),
    _kind_row(ops.CANCEL_TASK, "tasks/cancel", (params.encode_cancel, params.decode_cancel), _TASK),
    _query_row(ops.SUBSCRIBE_TO_TASK, "tasks/resubscribe", params.SUBSCRIBE, _EVENT),
    _query_row(
        ops.CREATE_PUSH_CONFIG,
        "tasks/pushNotificationConfig/set",
        TASK_CONFIG,
        _PUSH_CONFIG,
        **_ABOUT_CONFIG.response(),
    ),
    _query_row(
        ops.GET_PUSH_CONFIG,
        "tasks/pushNotificationConfig/get",
        params.GET_PUSH_CONFIG,
        _PUSH_CONFIG,
        **_ABOUT_CONFIG.response(),
    ),
    _query_row(
        ops.LIST_PUSH_CONFIGS,
        "tasks/pushNotificationConfig/list",
        params.LIST_PUSH_CONFIGS,
        _PUSH_CONFIGS,
        **_ABOUT_CONFIGS.response(),
    ),
    _query_row(
        ops.DELETE_PUSH_CONFIG,
        "tasks/pushNotificationConfig/delete",
        params.DELETE_PUSH_CONFIG,
        (_null, _empty),
    ),
    Row(
        ops.GET_EXTENDED_AGENT_CARD,
        "agent/getAuthenticatedExtendedCard",
        encode_request=_null,
        decode_request=_extended_card_request,
        encode_response=response_encoder(hub.AgentCard, card.FORM.encode),
        decode_response=card.FORM.decode,
    ),
)
