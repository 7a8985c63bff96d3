"""The envelopes that 0.2.5 spells differently from 0.3, and what they differ by (spec 0.2.5, 7 and 8).

The configuration of a message has to list media types, there is no method for the extended card, and no error -32007:
one that comes is read as an error without a class of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import RootModel

from a2a_bridge.dialects.v0_3 import models_params, models_requests
from a2a_bridge.dialects.v0_3.models_errors import NUMBERED, CommonErrors, JSONRPCError, error_of
from a2a_bridge.dialects.v0_3.models_requests import (
    METHODS,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    JSONRPCMessage,
    ListTaskPushNotificationConfigRequest,
    SetTaskPushNotificationConfigRequest,
    TaskResubscriptionRequest,
    request_of,
)
from a2a_bridge.dialects.v0_3.models_responses import (
    CancelTaskSuccessResponse,
    DeleteTaskPushNotificationConfigSuccessResponse,
    GetTaskPushNotificationConfigSuccessResponse,
    GetTaskSuccessResponse,
    ListTaskPushNotificationConfigSuccessResponse,
    SendMessageSuccessResponse,
    SendStreamingMessageSuccessResponse,
    SetTaskPushNotificationConfigSuccessResponse,
    answer,
    response_of,
)
from a2a_bridge.dialects.v0_3.models_shape import Text, by, tag


class A2AError(
    RootModel[
        Annotated[
            CommonErrors,
            by(lambda tree: error_of(tree, NUMBERED, ""), "needs a code", "code", map(str, NUMBERED)),
        ]
    ]
):
    """One of the errors with a number of its own, in `root`."""


class MessageSendConfiguration(models_params.MessageSendConfiguration):
    """How a message is to be answered, and in which media types (spec 7.1.1)."""

    accepted_output_modes: list[Text]


class MessageSendParams(models_params.MessageSendParams):
    """What `message/send` and `message/stream` take (spec 7.1.1)."""

    configuration: MessageSendConfiguration | None = None


class SendMessageRequest(models_requests.SendMessageRequest):
    """Send a message, and wait for what comes of it (spec 7.1)."""

    params: MessageSendParams


class SendStreamingMessageRequest(models_requests.SendStreamingMessageRequest):
    """Send a message, and follow what comes of it (spec 7.2)."""

    params: MessageSendParams


def _request(tree: Mapping[str, Any]) -> str:
    return request_of(tree, METHODS)


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
            | Annotated[TaskResubscriptionRequest, tag("TaskResubscriptionRequest")],
            by(_request, "needs a method", "method", METHODS),
        ]
    ]
):
    """A request for any method, in `root`."""


AnyError: TypeAlias = Annotated[
    CommonErrors | Annotated[JSONRPCError, tag("JSONRPCError")],
    by(lambda tree: error_of(tree, NUMBERED), "is no error"),
]


class JSONRPCErrorResponse(JSONRPCMessage):
    """Any answer that is an error."""

    error: AnyError


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


def _response(tree: Mapping[str, Any]) -> str:
    found = response_of(tree)
    return "" if found == "GetAuthenticatedExtendedCardSuccessResponse" else found


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
            ],
            by(_response, "has neither a result nor an error", "result", ("all that methods answer",)),
        ]
    ]
):
    """An answer to any method, in `root`."""
