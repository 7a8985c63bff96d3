"""Params of the requests of 0.3 over JSON-RPC, `kind` shape ↔ hub (spec 0.3.0, 7). Not their rows, nor their
results.

Rules:
1. `blocking` is the inverse of `returnImmediately`. A request without it waits in 1.0; in 0.x some agents do
   not wait. So it is written wherever there is a configuration, as the official SDKs do, and for all callers
   of 1.0.
2. historyLength is passed on unchanged; values above the hub's maximum become the maximum. A negative value
   is left for the agent to reject: the schema allows it. 0 in tasks/get is read as absent, as the servers of
   the Python and Java SDKs do: the Java client sends it with every request (a2a-java 0.3.3.Final,
   TaskQueryParams.java:20). Callers whose profile says so mean no history by it (see requests.py).
3. Requests with metadata in the hub are units. Unmapped content of other requests travels beside them (see
   `side_channel`).
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import Json
from a2a_bridge.dialects.members import Member
from a2a_bridge.dialects.reader import Shape
from a2a_bridge.dialects.shape import inline, unit
from a2a_bridge.dialects.v0_3.push_configs import NESTED_CONFIG
from a2a_bridge.dialects.v0_3.shapes import CALLERS_MESSAGE
from a2a_bridge.pb import lf_a2a_v1 as hub

#: 0.x has no tenants: the bridge sets one from the address of the interface (see `losses`)
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
    """MessageSendParams with explicit values for defaults that differ between agents of 0.x.

    fasta2a 0.6 answers 500 to a configuration without media types. a2akit 0.0.32 waits only on request, while
    1.0 waits by default: callers of 0.x keep the agent's default.
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
# Required here, so that an error has the name of this version and not that of the hub.
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
