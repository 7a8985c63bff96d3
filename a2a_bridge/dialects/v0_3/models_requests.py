"""The JSON-RPC requests of 0.3 as models (spec 0.3.0, 6.11 and 7). What they carry and what answers them is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import RootModel

from a2a_bridge.dialects.v0_3.models_params import (
    DeleteTaskPushNotificationConfigParams,
    GetTaskPushNotificationConfigParams,
    ListTaskPushNotificationConfigParams,
    MessageSendParams,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
)
from a2a_bridge.dialects.v0_3.models_shape import (
    A2ABaseModel,
    RequestId,
    ResponseId,
    Text,
    by,
    has,
    tag,
)


class JSONRPCMessage(A2ABaseModel):
    """What every envelope has."""

    id: ResponseId = None
    jsonrpc: Literal["2.0"] = "2.0"


class JSONRPCRequest(JSONRPCMessage):
    """Any request."""

    method: Text
    params: dict[str, Any] | None = None


class _Request(A2ABaseModel):
    """What the request of every method has."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"


# Requests


class SendMessageRequest(_Request):
    """Send a message, and wait for what comes of it (spec 7.1)."""

    method: Literal["message/send"] = "message/send"
    params: MessageSendParams


class SendStreamingMessageRequest(_Request):
    """Send a message, and follow what comes of it (spec 7.2)."""

    method: Literal["message/stream"] = "message/stream"
    params: MessageSendParams


class GetTaskRequest(_Request):
    """Read a task (spec 7.3)."""

    method: Literal["tasks/get"] = "tasks/get"
    params: TaskQueryParams


class CancelTaskRequest(_Request):
    """Cancel a task (spec 7.4)."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskIdParams


class SetTaskPushNotificationConfigRequest(_Request):
    """Ask for notifications about a task (spec 7.5)."""

    method: Literal["tasks/pushNotificationConfig/set"] = "tasks/pushNotificationConfig/set"
    params: TaskPushNotificationConfig


def _get_params(tree: Mapping[str, Any]) -> str:
    named = has(tree, "pushNotificationConfigId")
    return "GetTaskPushNotificationConfigParams" if named else "TaskIdParams"


class GetTaskPushNotificationConfigRequest(_Request):
    """Read where notifications about a task go (spec 7.6). TaskIdParams is the older way to ask."""

    method: Literal["tasks/pushNotificationConfig/get"] = "tasks/pushNotificationConfig/get"
    params: Annotated[
        Annotated[TaskIdParams, tag("TaskIdParams")]
        | Annotated[GetTaskPushNotificationConfigParams, tag("GetTaskPushNotificationConfigParams")],
        by(_get_params, "names no task"),
    ]


class ListTaskPushNotificationConfigRequest(_Request):
    """Read all places where notifications about a task go (spec 7.7)."""

    method: Literal["tasks/pushNotificationConfig/list"] = "tasks/pushNotificationConfig/list"
    params: ListTaskPushNotificationConfigParams


class DeleteTaskPushNotificationConfigRequest(_Request):
    """Ask for no more notifications (spec 7.8)."""

    method: Literal["tasks/pushNotificationConfig/delete"] = "tasks/pushNotificationConfig/delete"
    params: DeleteTaskPushNotificationConfigParams


class TaskResubscriptionRequest(_Request):
    """Follow a task again (spec 7.9)."""

    method: Literal["tasks/resubscribe"] = "tasks/resubscribe"
    params: TaskIdParams


class GetAuthenticatedExtendedCardRequest(_Request):
    """Read the card for those who are known (spec 7.10; since 0.3.0)."""

    method: Literal["agent/getAuthenticatedExtendedCard"] = "agent/getAuthenticatedExtendedCard"


METHODS: Mapping[str, str] = {
    "message/send": "SendMessageRequest",
    "message/stream": "SendStreamingMessageRequest",
    "tasks/get": "GetTaskRequest",
    "tasks/cancel": "CancelTaskRequest",
    "tasks/pushNotificationConfig/set": "SetTaskPushNotificationConfigRequest",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfigRequest",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigRequest",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfigRequest",
    "tasks/resubscribe": "TaskResubscriptionRequest",
}
_METHODS = {**METHODS, "agent/getAuthenticatedExtendedCard": "GetAuthenticatedExtendedCardRequest"}


def request_of(tree: Mapping[str, Any], methods: Mapping[str, str] = _METHODS) -> str:
    """The class of a request for this `method`; "" for none."""
    method = tree.get("method")
    return methods.get(method, "") if isinstance(method, str) else ""


class A2ARequest(
    RootModel[
        Annotated[
            Annotated[SendMessageRequest, tag("SendMessageRequest")]
            | Annotated[SendStreamingMessageRequest, tag("SendStreamingMessageRequest")]
            | Annotated[GetTaskRequest, tag("GetTaskRequest")]
            | Annotated[CancelTaskRequest, tag("CancelTaskRequest")]
            | Annotated[SetTaskPushNotificationConfigRequest, tag("SetTaskPushNotificationConfigRequest")]
            | Annotated[GetTaskPushNotificationConfigRequest, tag("GetTaskPushNotificationConfigRequest")]
            | Annotated[ListTaskPushNotificationConfigRequest, tag("ListTaskPushNotificationConfigRequest")]
            | Annotated[
                DeleteTaskPushNotificationConfigRequest, tag("DeleteTaskPushNotificationConfigRequest")
            ]
            | Annotated[TaskResubscriptionRequest, tag("TaskResubscriptionRequest")]
            | Annotated[GetAuthenticatedExtendedCardRequest, tag("GetAuthenticatedExtendedCardRequest")],
            by(request_of, "needs a method", "method", _METHODS),
        ]
    ]
):
    """A request for any method, in `root`."""
