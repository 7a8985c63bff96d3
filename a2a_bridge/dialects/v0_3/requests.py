"""The JSON-RPC rows of 0.3 (spec 0.3.0, 7): operations, method names, and params in the `kind` shape. Not the
form's errors.

Rules for params:
1. `blocking` is the inverse of `returnImmediately`. A request without it waits in 1.0; in 0.x some agents do
   not wait. So it is written wherever there is a configuration, as the official SDKs do, and for all callers
   of 1.0.
2. historyLength is passed on unchanged; values above the hub's maximum become the maximum. A negative value
   is left for the agent to reject: the schema allows it. 0 in tasks/get is read as absent, as the servers of
   the Python and Java SDKs do: the Java client sends it with every request (a2a-java 0.3.3.Final,
   TaskQueryParams.java:20). Callers whose profile says so mean no history by it.
3. Requests with metadata in the hub are units. Unmapped content of other requests travels beside them (see
   `side_channel`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from a2a_bridge.codec import Json
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.boundary import Conversion, params_required, request_decoder, response_encoder, row
from a2a_bridge.dialects.dialect import CardForm, Row, RowExtras
from a2a_bridge.dialects.members import Inline, Member
from a2a_bridge.dialects.reader import Shape
from a2a_bridge.dialects.scalars import an_array
from a2a_bridge.dialects.shape import inline, unit
from a2a_bridge.dialects.v0_3 import card
from a2a_bridge.dialects.v0_3.errors import KIND
from a2a_bridge.dialects.v0_3.push import NESTED_CONFIG, TASK_CONFIG
from a2a_bridge.dialects.v0_3.shapes import CALLERS_MESSAGE, EVENT, RESULT, TASK
from a2a_bridge.dialects.v0_3.side_channel import Channel, of_kind, of_list
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.peers import caller

#: 0.x has no tenants: the bridge sets one from the address of the interface (see LOSSES of `forms`)
_TENANT = ("tenant",)


def send_params(*, modes: bool) -> Shape:
    """MessageSendParams. modes: whether a configuration always lists media types."""
    configuration = inline(
        hub.SendMessageConfiguration,
        Member("blocking", of="returnImmediately", inverted=True, always=True),
        Member("acceptedOutputModes", always=modes),
        Member("historyLength"),
        Member("pushNotificationConfig", NESTED_CONFIG, of="taskPushNotificationConfig"),
        Member("ifGenerationMatch", later=True),
    )
    return unit(
        hub.SendMessageRequest,
        Member("message", CALLERS_MESSAGE),
        Member("configuration", configuration),
        Member("metadata"),
        elsewhere=_TENANT,
    )


SEND = send_params(modes=False)
#: TaskIdParams of a cancellation
CANCEL = unit(hub.CancelTaskRequest, Member("id", always=True), Member("metadata"), elsewhere=_TENANT)


def explicit_send(tree: Any, older: bool) -> Any:
    """MessageSendParams with explicit values for defaults that differ between agents of 0.x. fasta2a 0.6
    answers 500 to a configuration without media types. a2akit 0.0.32 waits only on request, while 1.0 waits
    by default: callers of 0.x keep the agent's default.
    """
    configuration = tree.get("configuration")
    if not older:
        return {
            **tree,
            "configuration": {"acceptedOutputModes": [], "blocking": True, **(configuration or {})},
        }
    if not configuration or "acceptedOutputModes" in configuration:
        return tree
    return {**tree, "configuration": {"acceptedOutputModes": [], **configuration}}


_ID = Member("id", always=True)
# Required here, so that an error has the name of this version and not the name of the hub.
_TASK_ID = Member("id", of="taskId", always=True, required=True)

#: TaskQueryParams
GET_TASK = inline(
    hub.GetTaskRequest,
    _ID,
    Member("historyLength"),
    Member("currentGeneration", later=True),
    elsewhere=_TENANT,
)
#: TaskIdParams
SUBSCRIBE = inline(hub.SubscribeToTaskRequest, _ID, elsewhere=_TENANT)
#: GetTaskPushNotificationConfigParams, or TaskIdParams without a config id
GET_PUSH_CONFIG = inline(
    hub.GetTaskPushNotificationConfigRequest,
    _TASK_ID,
    Member("pushNotificationConfigId", of="id"),
    elsewhere=_TENANT,
)
LIST_PUSH_CONFIGS = inline(
    hub.ListTaskPushNotificationConfigsRequest, _TASK_ID, elsewhere=(*_TENANT, "pageSize", "pageToken")
)
DELETE_PUSH_CONFIG = inline(
    hub.DeleteTaskPushNotificationConfigRequest,
    _TASK_ID,
    Member("pushNotificationConfigId", of="id", always=True, required=True),
    elsewhere=_TENANT,
)


def decode_get_task(tree: Json) -> hub.GetTaskRequest:
    """TaskQueryParams, in which a historyLength of 0 counts as absent. Raises DecodeError."""
    request: hub.GetTaskRequest = GET_TASK.decode(tree)
    if not request.history_length:
        request.ClearField("history_length")
    return request


#: encoder and decoder of a message
Coders = Shape | Inline | Conversion


def _decode_configs(tree: Json) -> hub.ListTaskPushNotificationConfigsResponse:
    configs = [TASK_CONFIG.decode(item) for item in an_array(tree)]
    return hub.ListTaskPushNotificationConfigsResponse(configs=configs)


def _null(_: Any) -> None:
    return None


#: a bare array: 0.3 has no pages
_CONFIGS = Conversion(
    lambda response: [TASK_CONFIG.encode(config) for config in response.configs], _decode_configs
)
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
GET_TASK_LITERALLY = _row(ops.GET_TASK, "tasks/get", GET_TASK, TASK)
_GET_TASK = Conversion(GET_TASK.encode, decode_get_task, absent=params_required)


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
    _row(ops.CANCEL_TASK, "tasks/cancel", CANCEL, TASK),
    _row(ops.CREATE_PUSH_CONFIG, f"{_PUSH}/set", TASK_CONFIG, TASK_CONFIG),
    _row(ops.GET_PUSH_CONFIG, f"{_PUSH}/get", GET_PUSH_CONFIG, TASK_CONFIG),
    _row(ops.LIST_PUSH_CONFIGS, f"{_PUSH}/list", LIST_PUSH_CONFIGS, _CONFIGS),
    _row(ops.DELETE_PUSH_CONFIG, f"{_PUSH}/delete", DELETE_PUSH_CONFIG, _NOTHING),
)


def rows(send: Coders, event: Coders, form: CardForm, *card_addresses: str) -> tuple[Row[str, Any], ...]:
    """The rows of a version with the methods of 0.3. send: MessageSendParams. event: the events of its
    streams. card_addresses: all addresses of the extended card.
    """
    explicit = explicit_send
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
        _row(ops.SUBSCRIBE_TO_TASK, "tasks/resubscribe", SUBSCRIBE, event),
        *_SHARED,
        *(replace(show_card, address=address) for address in card_addresses),
    )


ROWS = rows(SEND, EVENT, card.FORM, "agent/getAuthenticatedExtendedCard")
