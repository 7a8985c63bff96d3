"""The error class of the bridge and the table of its reasons. Not the wire formats: dialects encode those.

Rules:
1. Code raises A2AError with a Reason; only dialects write error numbers.
2. One row per reason holds all three columns (spec 1.0.1 section 5.4), so bindings cannot disagree.
3. Texts are for people and may change. Reasons and numbers are the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # processes without protobuf load this module
    from a2a_bridge.pb import lf_a2a_v1 as hub

DOMAIN = "a2a-protocol.org"


class GrpcStatus(IntEnum):
    """The canonical status codes of gRPC by number."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Blame(Enum):
    """The party responsible for an error."""

    CALLER = "caller"
    SELF = "self"
    PEER = "peer"


class Reason(Enum):
    """Why a call failed: (JSON-RPC code, gRPC status, HTTP status, default text, level).

    `level` is the layer where the error arises: "a2a" and "rpc" in the protocols themselves, "http" before a
    request is read as JSON-RPC (credentials, size, rate), "call" while a call is running. JSON-RPC carries
    "http" errors with their HTTP status; all others with 200, because some clients drop the body of any other
    status.
    The value in ErrorInfo.reason is the member's name.
    """

    TASK_NOT_FOUND = (-32001, GrpcStatus.NOT_FOUND, 404, "Task not found", "a2a")
    TASK_NOT_CANCELABLE = (-32002, GrpcStatus.FAILED_PRECONDITION, 400, "Task cannot be canceled", "a2a")
    PUSH_NOTIFICATION_NOT_SUPPORTED = (
        -32003,
        GrpcStatus.FAILED_PRECONDITION,
        400,
        "Push Notification is not supported",
        "a2a",
    )
    UNSUPPORTED_OPERATION = (
        -32004,
        GrpcStatus.FAILED_PRECONDITION,
        400,
        "This operation is not supported",
        "a2a",
    )
    CONTENT_TYPE_NOT_SUPPORTED = (
        -32005,
        GrpcStatus.INVALID_ARGUMENT,
        400,
        "Incompatible content types",
        "a2a",
    )
    INVALID_AGENT_RESPONSE = (-32006, GrpcStatus.INTERNAL, 500, "Invalid agent response", "a2a")
    EXTENDED_AGENT_CARD_NOT_CONFIGURED = (
        -32007,
        GrpcStatus.FAILED_PRECONDITION,
        400,
        "Extended agent card is not configured",
        "a2a",
    )
    EXTENSION_SUPPORT_REQUIRED = (
        -32008,
        GrpcStatus.FAILED_PRECONDITION,
        400,
        "The agent requires an extension that the caller did not declare",
        "a2a",
    )
    VERSION_NOT_SUPPORTED = (
        -32009,
        GrpcStatus.FAILED_PRECONDITION,
        400,
        "Protocol version is not supported",
        "a2a",
    )
    #: of the draft of 1.1
    TASK_GENERATION_MISMATCH = (
        -32010,
        GrpcStatus.ABORTED,
        409,
        "The task has another generation",
        "a2a",
    )
    PARSE_ERROR = (-32700, GrpcStatus.INVALID_ARGUMENT, 400, "The request cannot be parsed", "rpc")
    INVALID_REQUEST = (-32600, GrpcStatus.INVALID_ARGUMENT, 400, "The request is not valid", "rpc")
    METHOD_NOT_FOUND = (-32601, GrpcStatus.UNIMPLEMENTED, 404, "Method not found", "rpc")
    INVALID_PARAMS = (-32602, GrpcStatus.INVALID_ARGUMENT, 400, "Invalid parameters", "rpc")
    INTERNAL_ERROR = (-32603, GrpcStatus.INTERNAL, 500, "Internal error", "rpc")
    REQUEST_TOO_LARGE = (-32600, GrpcStatus.RESOURCE_EXHAUSTED, 413, "The request is too large", "http")
    RESOURCE_EXHAUSTED = (-32603, GrpcStatus.RESOURCE_EXHAUSTED, 429, "Too many requests", "http")
    UNAUTHENTICATED = (-32603, GrpcStatus.UNAUTHENTICATED, 401, "Authentication is required", "http")
    PERMISSION_DENIED = (-32603, GrpcStatus.PERMISSION_DENIED, 403, "Permission denied", "http")
    DEADLINE_EXCEEDED = (-32603, GrpcStatus.DEADLINE_EXCEEDED, 504, "The deadline has passed", "call")
    CANCELLED = (-32603, GrpcStatus.CANCELLED, 499, "The call was cancelled", "call")
    UNAVAILABLE = (-32603, GrpcStatus.UNAVAILABLE, 503, "The agent is not available", "call")
    DATA_LOSS = (-32603, GrpcStatus.DATA_LOSS, 500, "What was stored is damaged", "call")

    code: int
    grpc: GrpcStatus
    http: int
    text: str
    level: str

    def __init__(self, code: int, grpc: GrpcStatus, http: int, text: str, level: str) -> None:
        self.code = code
        self.grpc = grpc
        self.http = http
        self.text = text
        self.level = level

    @property
    def jsonrpc_http(self) -> int:
        """The HTTP status of a JSON-RPC response with this error."""
        return self.http if self.level == "http" else 200


@dataclass(frozen=True, slots=True)
class Violation:
    """An invalid member of a request."""

    #: its JSON path, such as `message.parts[0].text`
    field: str
    description: str


class A2AError(Exception):
    """A call failed with an error for the caller.

    message: for people; the reason's default text if empty.
    violations: the invalid members (google.rpc.BadRequest).
    metadata: string to string (google.rpc.ErrorInfo.metadata).
    details: further details as ProtoJSON of Any, each with `@type`; forwarded unchanged.
    code: the JSON-RPC number of a peer if no reason has it; otherwise the number of the reason.
    name: the ErrorInfo.reason of a peer if no reason has it; otherwise the name of the reason.
    blame: PEER for an error of a dialled agent, CALLER for bad input, SELF for our own errors.
    retry_after: seconds after which to retry, for UNAVAILABLE and RESOURCE_EXHAUSTED.
    """

    #: values for the header WWW-Authenticate (RFC 9110, 11.6.1), which only HTTP sends
    challenges: tuple[str, ...] = ()

    def __init__(
        self,
        reason: Reason,
        message: str = "",
        *,
        violations: Iterable[Violation] = (),
        metadata: Mapping[str, str] | None = None,
        details: Sequence[Mapping[str, Any]] = (),
        code: int | None = None,
        name: str = "",
        blame: Blame = Blame.CALLER,
        retry_after: float | None = None,
    ) -> None:
        if not isinstance(reason, Reason):
            raise TypeError(
                f"the first argument of A2AError is a Reason, not {type(reason).__name__}:"
                " write A2AError(Reason.INTERNAL_ERROR, text)"
            )
        message = _carriable(message)
        super().__init__(message or reason.text)
        self.reason = reason
        self.message = message or reason.text
        self.violations = tuple(
            Violation(_carriable(one.field), _carriable(one.description)) for one in violations
        )
        self.metadata = {
            _carriable(str(key)): _carriable(str(value)) for key, value in (metadata or {}).items()
        }
        self.details = tuple(details)
        self.code = reason.code if code is None else code
        self.name = _carriable(name) or reason.name
        self.blame = blame
        self.retry_after = retry_after

    def __repr__(self) -> str:
        return f"A2AError({self.name}, {self.message!r})"


_ARGUMENTS = ("message", "violations", "metadata", "details", "code", "name", "blame", "retry_after")


def changed(error: A2AError, **changes: Any) -> A2AError:
    """A copy of an error with some other arguments. The copy has no notes, and is a plain A2AError."""
    arguments = {name: getattr(error, name) for name in ("reason", *_ARGUMENTS)}
    return A2AError(**(arguments | changes))


def _carriable(text: str) -> str:
    # A lone surrogate, which neither protobuf nor JSON can carry, must not cause a different error.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def invalid_params(field: str, description: str) -> A2AError:
    """INVALID_PARAMS with one violation; the message names the field (empty: the whole request)."""
    text = f"{field}: {description}" if field else description
    return A2AError(Reason.INVALID_PARAMS, text, violations=(Violation(field, description),))


def missing_members_error(paths: Sequence[str]) -> A2AError:
    """INVALID_PARAMS that names every absent REQUIRED member by its JSON path."""
    violations = [Violation(path, "is required") for path in paths]
    return A2AError(Reason.INVALID_PARAMS, f"{', '.join(paths)}: required", violations=violations)


def task_not_found(task_id: str) -> A2AError:
    """TASK_NOT_FOUND for an id. The same for a missing task and for one that the caller may not see."""
    return A2AError(Reason.TASK_NOT_FOUND, metadata={"taskId": task_id})


def cause_of(error: A2AError) -> str:
    """The message of an error with its notes, for logs and operators. Notes name addresses and repeat texts
    of peers, so they never reach a caller.
    """
    return "; ".join((error.message, *getattr(error, "__notes__", ())))


def request_too_large(limit: int) -> A2AError:
    """REQUEST_TOO_LARGE with the maximum number of bytes of a request."""
    text = f"the request is larger than {limit} bytes"
    return A2AError(Reason.REQUEST_TOO_LARGE, text, metadata={"limit": str(limit)})


def internal_error() -> A2AError:
    """INTERNAL_ERROR without the text of the cause, which belongs in the log and not on the wire."""
    return A2AError(Reason.INTERNAL_ERROR, blame=Blame.SELF)


# Errors about the holder of a task: the process with the right to write it.


class OwnerLostError(A2AError):
    """The called replica is dead, or no longer holds the task's lease. To callers: UNAVAILABLE."""

    def __init__(self) -> None:
        text = "the replica that worked on the task is gone; try again"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)


class NotOwnerError(A2AError):
    """Another live replica works on the task, or on the message. To callers: UNAVAILABLE."""

    def __init__(self, holder: str, task: hub.Task | None = None) -> None:
        text = "the task is worked on by another replica"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
        #: the replica that works on it
        self.holder = holder
        #: the task as it was when this was found; None for a message that has not led to a task yet
        self.task = task


class ClosingError(A2AError):
    """The engine closes. To callers: UNAVAILABLE."""


def closing_error() -> A2AError:
    """The response to new work while the engine closes."""
    return ClosingError(Reason.UNAVAILABLE, "the agent is being stopped", blame=Blame.SELF)


def changed_hands_error() -> A2AError:
    """The response if another process has just taken the task."""
    text = "the task was changed meanwhile; try again"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
