"""The JSON-RPC rows of 0.3 (spec 0.3.0, 7): operations, method names and the `kind` shape. Not the form's
errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from a2a_bridge.codec import DecodeError, Json, JsonSyntaxError, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.boundary import Coder, Conversion, params_required, response_encoder, row
from a2a_bridge.dialects.dialect import Row
from a2a_bridge.dialects.v0_3 import card, params
from a2a_bridge.dialects.v0_3.push_configs import (
    TooLargeError,
    decode_push_config,
    encode_push_config,
    irregularities,
    read_push_config,
    side_channel,
    with_push_config,
)
from a2a_bridge.dialects.v0_3.shapes import (
    decode_event,
    decode_result,
    decode_task,
    encode_event,
    encode_result,
    encode_task,
)
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


def extract_push_config(tree: Json) -> Mapping[str, str]:
    """The content of a config in an answer that the hub cannot hold."""
    return _aside(tree, read_push_config(tree).tree)


def restore_push_config(tree: Any, parameters: Mapping[str, str]) -> Json:
    """A config with that content restored."""
    text = parameters.get(SIDE_CHANNEL)
    return with_push_config(tree, text) if text else tree


def extract_push_configs(tree: Json) -> Mapping[str, str]:
    """The content of a list of configs that the hub cannot hold."""
    return _aside(tree, [read_push_config(item).tree for item in tree]) if isinstance(tree, list) else {}


def restore_push_configs(tree: Any, parameters: Mapping[str, str]) -> Json:
    """A list of configs with that content restored.

    Other forms extract it config by config; that format is accepted too.
    """
    text = parameters.get(SIDE_CHANNEL)
    if not text:
        return cast("Json", tree)
    texts = _texts(text)
    if texts is not None:
        texts += [None] * (len(tree) - len(texts))
        return [with_push_config(item, one) if one else item for item, one in zip(tree, texts, strict=False)]
    return cast("Json", unmapped.restore(tree, unmapped.read(text, unmapped.KIND) or ()))


def _texts(text: str) -> list[str | None] | None:
    """The texts in a JSON array of texts and nulls; None for any other text."""
    try:
        found = loads(text)
    except JsonSyntaxError:
        return None
    if not isinstance(found, list):
        return None
    return [one if isinstance(one, str) else None for one in found]


def _aside(tree: Json, canonical: Json) -> Mapping[str, str]:
    try:
        return side_channel(irregularities(tree, canonical))
    except TooLargeError as error:
        text = f"the agent's answer {error}"
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER) from None


def _null(_: Any) -> None:
    return None


def _empty(_: Any) -> Empty:
    return Empty()


def _extended_card_request(_: Any) -> hub.GetExtendedAgentCardRequest:
    return hub.GetExtendedAgentCardRequest()


def kind_row(
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


def _beside(one: params.Params, **more: Any) -> dict[str, Any]:
    return {"extract": one.extract, "restore": one.restore, **more}


_SEND = (params.encode_send, params.decode_send)
_TASK = (encode_task, decode_task)
_EVENT = (encode_event, decode_event)
_PUSH_CONFIG = (encode_push_config, decode_push_config)
_ABOUT_CONFIG = {"extract_response": extract_push_config, "restore_response": restore_push_config}

#: tasks/get in which a historyLength of 0 means no history
GET_TASK_LITERALLY = kind_row(
    ops.GET_TASK,
    "tasks/get",
    (params.GET_TASK.encode, params.GET_TASK.decode),
    _TASK,
    **_beside(params.GET_TASK),
)

ROWS: tuple[Row[str, Any], ...] = (
    kind_row(
        ops.SEND_MESSAGE,
        "message/send",
        _SEND,
        (encode_result, decode_result),
        explicit=params.explicit_send,
    ),
    kind_row(ops.SEND_STREAMING_MESSAGE, "message/stream", _SEND, _EVENT, explicit=params.explicit_send),
    kind_row(
        ops.GET_TASK,
        "tasks/get",
        (params.GET_TASK.encode, params.decode_get_task),
        _TASK,
        **_beside(params.GET_TASK),
    ),
    kind_row(ops.CANCEL_TASK, "tasks/cancel", (params.encode_cancel, params.decode_cancel), _TASK),
    kind_row(
        ops.SUBSCRIBE_TO_TASK,
        "tasks/resubscribe",
        (params.SUBSCRIBE.encode, params.SUBSCRIBE.decode),
        _EVENT,
        **_beside(params.SUBSCRIBE),
    ),
    kind_row(
        ops.CREATE_PUSH_CONFIG,
        "tasks/pushNotificationConfig/set",
        _PUSH_CONFIG,
        _PUSH_CONFIG,
        **_beside(params.SET_PUSH_CONFIG, **_ABOUT_CONFIG),
    ),
    kind_row(
        ops.GET_PUSH_CONFIG,
        "tasks/pushNotificationConfig/get",
        (params.GET_PUSH_CONFIG.encode, params.GET_PUSH_CONFIG.decode),
        _PUSH_CONFIG,
        **_beside(params.GET_PUSH_CONFIG, **_ABOUT_CONFIG),
    ),
    kind_row(
        ops.LIST_PUSH_CONFIGS,
        "tasks/pushNotificationConfig/list",
        (params.LIST_PUSH_CONFIGS.encode, params.LIST_PUSH_CONFIGS.decode),
        (encode_push_configs, decode_push_configs),
        **_beside(
            params.LIST_PUSH_CONFIGS,
            extract_response=extract_push_configs,
            restore_response=restore_push_configs,
        ),
    ),
    kind_row(
        ops.DELETE_PUSH_CONFIG,
        "tasks/pushNotificationConfig/delete",
        (params.DELETE_PUSH_CONFIG.encode, params.DELETE_PUSH_CONFIG.decode),
        (_null, _empty),
        **_beside(params.DELETE_PUSH_CONFIG),
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
