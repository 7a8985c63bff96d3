"""The errors of 0.3 as models (spec 0.3.0, 8). These are values of the wire; what is raised is `core.errors.A2AError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import RootModel

from a2a_bridge.dialects.v0_3.models_shape import A2ABaseModel, Integer, Text, by, tag


class JSONRPCError(A2ABaseModel):
    """Any error; the ones that the specification numbers have classes of their own."""

    code: Integer
    data: Any | None = None
    message: Text


class JSONParseError(A2ABaseModel):
    """The request is not JSON."""

    code: Literal[-32700] = -32700
    data: Any | None = None
    message: Text = "Invalid JSON payload"


class InvalidRequestError(A2ABaseModel):
    """The request is JSON, but no JSON-RPC request."""

    code: Literal[-32600] = -32600
    data: Any | None = None
    message: Text = "Request payload validation error"


class MethodNotFoundError(A2ABaseModel):
    """There is no such method."""

    code: Literal[-32601] = -32601
    data: Any | None = None
    message: Text = "Method not found"


class InvalidParamsError(A2ABaseModel):
    """The method does not take these parameters."""

    code: Literal[-32602] = -32602
    data: Any | None = None
    message: Text = "Invalid parameters"


class InternalError(A2ABaseModel):
    """The server is at fault."""

    code: Literal[-32603] = -32603
    data: Any | None = None
    message: Text = "Internal error"


class TaskNotFoundError(A2ABaseModel):
    """There is no such task."""

    code: Literal[-32001] = -32001
    data: Any | None = None
    message: Text = "Task not found"


class TaskNotCancelableError(A2ABaseModel):
    """The task is past the point where it could be canceled."""

    code: Literal[-32002] = -32002
    data: Any | None = None
    message: Text = "Task cannot be canceled"


class PushNotificationNotSupportedError(A2ABaseModel):
    """The agent sends no push notifications."""

    code: Literal[-32003] = -32003
    data: Any | None = None
    message: Text = "Push Notification is not supported"


class UnsupportedOperationError(A2ABaseModel):
    """The agent does not do this."""

    code: Literal[-32004] = -32004
    data: Any | None = None
    message: Text = "This operation is not supported"


class ContentTypeNotSupportedError(A2ABaseModel):
    """A media type does not fit the agent."""

    code: Literal[-32005] = -32005
    data: Any | None = None
    message: Text = "Incompatible content types"


class InvalidAgentResponseError(A2ABaseModel):
    """The agent answered something that no version knows."""

    code: Literal[-32006] = -32006
    data: Any | None = None
    message: Text = "Invalid agent response"


class AuthenticatedExtendedCardNotConfiguredError(A2ABaseModel):
    """The agent has no extended card (since 0.3.0)."""

    code: Literal[-32007] = -32007
    data: Any | None = None
    message: Text = "Authenticated Extended Card is not configured"


NUMBERED: Mapping[int, str] = {
    -32700: "JSONParseError",
    -32600: "InvalidRequestError",
    -32601: "MethodNotFoundError",
    -32602: "InvalidParamsError",
    -32603: "InternalError",
    -32001: "TaskNotFoundError",
    -32002: "TaskNotCancelableError",
    -32003: "PushNotificationNotSupportedError",
    -32004: "UnsupportedOperationError",
    -32005: "ContentTypeNotSupportedError",
    -32006: "InvalidAgentResponseError",
}
_NUMBERED = {**NUMBERED, -32007: "AuthenticatedExtendedCardNotConfiguredError"}


def error_of(
    tree: Mapping[str, Any], numbered: Mapping[int, str] = _NUMBERED, otherwise: str = "JSONRPCError"
) -> str:
    """The class of an error with this `code`."""
    code = tree.get("code")
    return numbered.get(code, otherwise) if isinstance(code, int) else otherwise


#: What both versions have (spec 8.1, 8.2).
CommonErrors: TypeAlias = (
    Annotated[JSONParseError, tag("JSONParseError")]
    | Annotated[InvalidRequestError, tag("InvalidRequestError")]
    | Annotated[MethodNotFoundError, tag("MethodNotFoundError")]
    | Annotated[InvalidParamsError, tag("InvalidParamsError")]
    | Annotated[InternalError, tag("InternalError")]
    | Annotated[TaskNotFoundError, tag("TaskNotFoundError")]
    | Annotated[TaskNotCancelableError, tag("TaskNotCancelableError")]
    | Annotated[PushNotificationNotSupportedError, tag("PushNotificationNotSupportedError")]
    | Annotated[UnsupportedOperationError, tag("UnsupportedOperationError")]
    | Annotated[ContentTypeNotSupportedError, tag("ContentTypeNotSupportedError")]
    | Annotated[InvalidAgentResponseError, tag("InvalidAgentResponseError")]
)
_CARD = tag("AuthenticatedExtendedCardNotConfiguredError")

AnyError: TypeAlias = Annotated[
    CommonErrors
    | Annotated[AuthenticatedExtendedCardNotConfiguredError, _CARD]
    | Annotated[JSONRPCError, tag("JSONRPCError")],
    by(error_of, "is no error"),
]


class A2AError(
    RootModel[
        Annotated[
            CommonErrors | Annotated[AuthenticatedExtendedCardNotConfiguredError, _CARD],
            by(lambda tree: error_of(tree, otherwise=""), "needs a code", "code", map(str, _NUMBERED)),
        ]
    ]
):
    """One of the errors with a number of its own, in `root`."""
