"""The JSON-RPC answers of 0.3 as models (spec 0.3.0, 6.11 and 7). What they carry is elsewhere.

Rules:
1. An answer has an `id`, null when the request's could not be read. It is written even then.
2. An answer is an error if it has one. `result` is always written, also where it is null.
3. An answer does not say which method it belongs to: `JSONRPCResponse` takes the first type that fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, RootModel

from a2a_bridge.dialects.v0_3.models_card import AgentCard
from a2a_bridge.dialects.v0_3.models_data import SendResult, StreamResult, Task, kind_of
from a2a_bridge.dialects.v0_3.models_errors import AnyError
from a2a_bridge.dialects.v0_3.models_params import TaskPushNotificationConfig
from a2a_bridge.dialects.v0_3.models_requests import JSONRPCMessage
from a2a_bridge.dialects.v0_3.models_shape import Null, by, has, tag


class JSONRPCSuccessResponse(JSONRPCMessage):
    """Any answer that is no error."""

    result: Annotated[Any, Null()]


class JSONRPCErrorResponse(JSONRPCMessage):
    """Any answer that is one."""

    error: AnyError


class SendMessageSuccessResponse(JSONRPCMessage):
    """What came of a message: a task or a message."""

    result: SendResult


class SendStreamingMessageSuccessResponse(JSONRPCMessage):
    """One event of a stream."""

    result: StreamResult


class GetTaskSuccessResponse(JSONRPCMessage):
    """The task."""

    result: Task


class CancelTaskSuccessResponse(JSONRPCMessage):
    """The task after it was canceled."""

    result: Task


class SetTaskPushNotificationConfigSuccessResponse(JSONRPCMessage):
    """The config as the agent keeps it."""

    result: TaskPushNotificationConfig


class GetTaskPushNotificationConfigSuccessResponse(JSONRPCMessage):
    """The config that was asked for."""

    result: TaskPushNotificationConfig


class ListTaskPushNotificationConfigSuccessResponse(JSONRPCMessage):
    """All configs of the task."""

    result: list[TaskPushNotificationConfig]


class DeleteTaskPushNotificationConfigSuccessResponse(JSONRPCMessage):
    """The config is gone."""

    result: Annotated[None, Null()] = None


class GetAuthenticatedExtendedCardSuccessResponse(JSONRPCMessage):
    """The extended card."""

    result: AgentCard


def answer(success: str) -> Discriminator:
    """What decides between an error and this class."""
    return by(lambda tree: "JSONRPCErrorResponse" if has(tree, "error") else success, "is no answer")


_Error: TypeAlias = Annotated[JSONRPCErrorResponse, tag("JSONRPCErrorResponse")]


class SendMessageResponse(
    RootModel[
        Annotated[
            _Error | Annotated[SendMessageSuccessResponse, tag("SendMessageSuccessResponse")],
            answer("SendMessageSuccessResponse"),
        ]
    ]
):
    """The answer to `message/send`, in `root`."""


class SendStreamingMessageResponse(
    RootModel[
        Annotated[
            _Error
            | Annotated[SendStreamingMessageSuccessResponse, tag("SendStreamingMessageSuccessResponse")],
            answer("SendStreamingMessageSuccessResponse"),
        ]
    ]
):
    """The answer to `message/stream` and `tasks/resubscribe`, once per event, in `root`."""


class GetTaskResponse(
    RootModel[
        Annotated[
            _Error | Annotated[GetTaskSuccessResponse, tag("GetTaskSuccessResponse")],
            answer("GetTaskSuccessResponse"),
        ]
    ]
):
    """The answer to `tasks/get`, in `root`."""


class CancelTaskResponse(
    RootModel[
        Annotated[
            _Error | Annotated[CancelTaskSuccessResponse, tag("CancelTaskSuccessResponse")],
            answer("CancelTaskSuccessResponse"),
        ]
    ]
):
    """The answer to `tasks/cancel`, in `root`."""


class SetTaskPushNotificationConfigResponse(
    RootModel[
        Annotated[
            _Error
            | Annotated[
                SetTaskPushNotificationConfigSuccessResponse,
                tag("SetTaskPushNotificationConfigSuccessResponse"),
            ],
            answer("SetTaskPushNotificationConfigSuccessResponse"),
        ]
    ]
):
    """The answer to `tasks/pushNotificationConfig/set`, in `root`."""


class GetTaskPushNotificationConfigResponse(
    RootModel[
        Annotated[
            _Error
            | Annotated[
                GetTaskPushNotificationConfigSuccessResponse,
                tag("GetTaskPushNotificationConfigSuccessResponse"),
            ],
            answer("GetTaskPushNotificationConfigSuccessResponse"),
        ]
    ]
):
    """The answer to `tasks/pushNotificationConfig/get`, in `root`."""


class ListTaskPushNotificationConfigResponse(
    RootModel[
        Annotated[
            _Error
            | Annotated[
                ListTaskPushNotificationConfigSuccessResponse,
                tag("ListTaskPushNotificationConfigSuccessResponse"),
            ],
            answer("ListTaskPushNotificationConfigSuccessResponse"),
        ]
    ]
):
    """The answer to `tasks/pushNotificationConfig/list`, in `root`."""


class DeleteTaskPushNotificationConfigResponse(
    RootModel[
        Annotated[
            _Error
            | Annotated[
                DeleteTaskPushNotificationConfigSuccessResponse,
                tag("DeleteTaskPushNotificationConfigSuccessResponse"),
            ],
            answer("DeleteTaskPushNotificationConfigSuccessResponse"),
        ]
    ]
):
    """The answer to `tasks/pushNotificationConfig/delete`, in `root`."""


class GetAuthenticatedExtendedCardResponse(
    RootModel[
        Annotated[
            _Error
            | Annotated[
                GetAuthenticatedExtendedCardSuccessResponse,
                tag("GetAuthenticatedExtendedCardSuccessResponse"),
            ],
            answer("GetAuthenticatedExtendedCardSuccessResponse"),
        ]
    ]
):
    """The answer to `agent/getAuthenticatedExtendedCard`, in `root`."""


def response_of(tree: Mapping[str, Any]) -> str:
    """The first class of an answer that looks like this one; "" for none."""
    if has(tree, "error"):
        return "JSONRPCErrorResponse"
    result = tree.get("result")
    if isinstance(result, list):
        return "ListTaskPushNotificationConfigSuccessResponse"
    if not isinstance(result, Mapping):
        deleted = result is None and "result" in tree
        return "DeleteTaskPushNotificationConfigSuccessResponse" if deleted else ""
    if has(result, "pushNotificationConfig"):
        return "GetTaskPushNotificationConfigSuccessResponse"
    if has(result, "skills", "capabilities"):
        return "GetAuthenticatedExtendedCardSuccessResponse"
    kind = kind_of(result)
    return "SendStreamingMessageSuccessResponse" if kind.endswith("-update") else "SendMessageSuccessResponse"


class JSONRPCResponse(
    RootModel[
        Annotated[
            _Error
            | Annotated[SendMessageSuccessResponse, tag("SendMessageSuccessResponse")]
            | Annotated[SendStreamingMessageSuccessResponse, tag("SendStreamingMessageSuccessResponse")]
            | Annotated[GetTaskSuccessResponse, tag("GetTaskSuccessResponse")]
            | Annotated[CancelTaskSuccessResponse, tag("CancelTaskSuccessResponse")]
            | Annotated[
                SetTaskPushNotificationConfigSuccessResponse,
                tag("SetTaskPushNotificationConfigSuccessResponse"),
            ]
            | Annotated[
                GetTaskPushNotificationConfigSuccessResponse,
                tag("GetTaskPushNotificationConfigSuccessResponse"),
            ]
            | Annotated[
                ListTaskPushNotificationConfigSuccessResponse,
                tag("ListTaskPushNotificationConfigSuccessResponse"),
            ]
            | Annotated[
                DeleteTaskPushNotificationConfigSuccessResponse,
                tag("DeleteTaskPushNotificationConfigSuccessResponse"),
            ]
            | Annotated[
                GetAuthenticatedExtendedCardSuccessResponse,
                tag("GetAuthenticatedExtendedCardSuccessResponse"),
            ],
            by(response_of, "has neither a result nor an error", "result", ("all that methods answer",)),
        ]
    ]
):
    """An answer to any method, in `root`."""
