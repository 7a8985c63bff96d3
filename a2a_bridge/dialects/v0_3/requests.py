"""The JSON-RPC rows of 0.3 (spec 0.3.0, 7): operations, method names and the `kind` shape. Not the form's
errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from a2a_bridge.codec import Json
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.boundary import (
    Coder,
    Conversion,
    params_required,
    request_decoder,
    response_encoder,
    row,
)
from a2a_bridge.dialects.dialect import CardForm, Row, RowExtras
from a2a_bridge.dialects.members import Inline
from a2a_bridge.dialects.scalars import an_array
from a2a_bridge.dialects.v0_3 import card, params
from a2a_bridge.dialects.v0_3.error_names import KIND
from a2a_bridge.dialects.v0_3.push_configs import TASK_CONFIG
from a2a_bridge.dialects.v0_3.shapes import EVENT, RESULT, TASK
from a2a_bridge.dialects.v0_3.side_channel import Channel, of_kind, of_list
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.peers import caller


class Coders(Protocol):
    """Encoder and decoder of a message, such as a shape."""

    @property
    def encode(self) -> Coder: ...

    @property
    def decode(self) -> Coder: ...


def _decode_configs(tree: Json) -> hub.ListTaskPushNotificationConfigsResponse:
    configs = [TASK_CONFIG.decode(item) for item in an_array(tree)]
    return hub.ListTaskPushNotificationConfigsResponse(configs=configs)


def _encode_configs(response: hub.ListTaskPushNotificationConfigsResponse) -> Json:
    return [TASK_CONFIG.encode(config) for config in response.configs]


def _null(_: Any) -> None:
    return None


#: a bare array: 0.3 has no pages
_CONFIGS = Conversion(_encode_configs, _decode_configs)
_NOTHING = Conversion(_null, lambda _: Empty())
_ABOUT_CONFIG = of_kind(TASK_CONFIG)
#: the unmapped content of responses without metadata
_RESPONSE_CHANNELS: dict[Any, Channel] = {
    TASK_CONFIG: _ABOUT_CONFIG,
    _CONFIGS: of_list(
        _ABOUT_CONFIG, lambda tree: tree if isinstance(tree, list) else [], lambda _, configs: configs
    ),
}


def _row(
    operation: ops.Operation[Any, Any], address: str, request: Coders, response: Coders
) -> Row[str, Any]:
    channel = _RESPONSE_CHANNELS.get(response)
    return row(
        operation,
        address,
        Conversion(request.encode, request.decode, absent=params_required),
        Conversion(response.encode, response.decode),
        RowExtras(
            request=of_kind(request).request() if isinstance(request, Inline) else None,
            response=None if channel is None else channel.response(),
            names=KIND.get(operation),
        ),
    )


#: tasks/get in which a historyLength of 0 means no history
GET_TASK_LITERALLY = _row(ops.GET_TASK, "tasks/get", params.GET_TASK, TASK)
_GET_TASK = Conversion(params.GET_TASK.encode, params.decode_get_task, absent=params_required)


def _get_task() -> Row[str, Any]:
    """tasks/get, in which a historyLength of 0 means what the caller's profile says."""
    usual = replace(GET_TASK_LITERALLY, decode_request=request_decoder(_GET_TASK))

    def variant(_wire: Any, parameters: Mapping[str, str]) -> Row[str, Any]:
        return GET_TASK_LITERALLY if caller(parameters).quirks.zero_history else usual

    return usual.with_extras(variant=variant)


_PUSH = "tasks/pushNotificationConfig"
#: the rows that versions share
_SHARED: tuple[Row[str, Any], ...] = (
    _get_task(),
    _row(ops.CANCEL_TASK, "tasks/cancel", params.CANCEL, TASK),
    _row(ops.CREATE_PUSH_CONFIG, f"{_PUSH}/set", TASK_CONFIG, TASK_CONFIG),
    _row(ops.GET_PUSH_CONFIG, f"{_PUSH}/get", params.GET_PUSH_CONFIG, TASK_CONFIG),
    _row(ops.LIST_PUSH_CONFIGS, f"{_PUSH}/list", params.LIST_PUSH_CONFIGS, _CONFIGS),
    _row(ops.DELETE_PUSH_CONFIG, f"{_PUSH}/delete", params.DELETE_PUSH_CONFIG, _NOTHING),
)


def rows(send: Coders, event: Coders, form: CardForm, *card_addresses: str) -> tuple[Row[str, Any], ...]:
    """The rows of a version with the methods of 0.3.

    send: MessageSendParams. event: the events of its streams. card_addresses: all addresses of the extended
    card.
    """
    explicit = params.explicit_send
    show_card = Row(
        ops.GET_EXTENDED_AGENT_CARD,
        "",
        encode_request=_null,
        decode_request=lambda _: hub.GetExtendedAgentCardRequest(),
        encode_response=response_encoder(hub.AgentCard, form.encode),
        decode_response=form.decode,
    )
    return (
        _row(ops.SEND_MESSAGE, "message/send", send, RESULT).with_extras(explicit=explicit),
        _row(ops.SEND_STREAMING_MESSAGE, "message/stream", send, event).with_extras(explicit=explicit),
        _row(ops.SUBSCRIBE_TO_TASK, "tasks/resubscribe", params.SUBSCRIBE, event),
        *_SHARED,
        *(replace(show_card, address=address) for address in card_addresses),
    )


ROWS = rows(params.SEND, EVENT, card.FORM, "agent/getAuthenticatedExtendedCard")
