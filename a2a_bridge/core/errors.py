"""The error class of the bridge and the table of its reasons. Not the wire formats: dialects encode those.

Rules:
1. Code raises A2AError with a Reason; only dialects write error numbers.
2. One row per reason (`ReasonFacts`) has all three columns (spec 1.0.1 section 5.4), so bindings cannot
   disagree, and all else that code asks. Code asks for a fact and does not list reasons; a dialect adds what
   only its version has.
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


class Kind(Enum):
    """What an error says to its caller: (name, exit code, whether the same call may succeed later).

    Commands end with the exit code; `a2a_bridge.cli.values.Exit` has their names.
    """

    OTHER = ("other", 1, False)
    #: the agent does not have what was asked for
    LACKING = ("lacking", 1, False)
    CREDENTIALS = ("credentials", 4, False)
    BUSY = ("busy", 1, True)
    UNREACHED = ("unreached", 3, True)
    #: the call may have had an effect
    LATE = ("late", 5, False)

    exit: int
    retry: bool

    def __init__(self, _name: str, exit: int, retry: bool) -> None:  # noqa: A002
        self.exit = exit
        self.retry = retry

    @property
    def is_silence(self) -> bool:
        """Whether the agent has not responded at all."""
        return self in (Kind.UNREACHED, Kind.LATE)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReasonFacts:
    """All that the product knows about one reason. A fact that is forgotten is a TypeError at import."""

    #: its number in JSON-RPC
    code: int
    grpc: GrpcStatus
    #: its HTTP status
    http: int
    #: its default text
    text: str
    #: the layer where it arises: "a2a" and "rpc" in the protocols themselves, "http" before a request is read
    #: as JSON-RPC (credentials, size, rate), "call" while a call is running
    level: str
    #: its name in A2A (specification 1.0.1, 3.3.2 and 9.5); empty if A2A has none
    type_name: str
    #: the number for callers of 0.1: its own there, or the nearest
    number_0_1: int
    kind: Kind


class Reason(Enum):
    """Why a call failed. The value in ErrorInfo.reason is the member's name.

    JSON-RPC carries errors of level "http" with their HTTP status, all others with 200, because some clients
    drop the body of any other status.
    """

    TASK_NOT_FOUND = ReasonFacts(
        code=-32001,
        grpc=GrpcStatus.NOT_FOUND,
        http=404,
        text="Task not found",
        level="a2a",
        type_name="TaskNotFoundError",
        number_0_1=-32001,
        kind=Kind.OTHER,
    )
    TASK_NOT_CANCELABLE = ReasonFacts(
        code=-32002,
        grpc=GrpcStatus.FAILED_PRECONDITION,
        http=400,
        text="Task cannot be canceled",
        level="a2a",
        type_name="TaskNotCancelableError",
        number_0_1=-32002,
        kind=Kind.OTHER,
    )
    PUSH_NOTIFICATION_NOT_SUPPORTED = ReasonFacts(
        code=-32003,
        grpc=GrpcStatus.FAILED_PRECONDITION,
        http=400,
        text="Push Notification is not supported",
        level="a2a",
        type_name="PushNotificationNotSupportedError",
        number_0_1=-32003,
        kind=Kind.OTHER,
    )
    UNSUPPORTED_OPERATION = ReasonFacts(
        code=-32004,
        grpc=GrpcStatus.FAILED_PRECONDITION,
        http=400,
        text="This operation is not supported",
        level="a2a",
        type_name="UnsupportedOperationError",
        number_0_1=-32004,
        kind=Kind.LACKING,
    )
    CONTENT_TYPE_NOT_SUPPORTED = ReasonFacts(
        code=-32005,
        grpc=GrpcStatus.INVALID_ARGUMENT,
        http=400,
        text="Incompatible content types",
        level="a2a",
        type_name="ContentTypeNotSupportedError",
        number_0_1=-32005,
        kind=Kind.OTHER,
    )
    INVALID_AGENT_RESPONSE = ReasonFacts(
        code=-32006,
        grpc=GrpcStatus.INTERNAL,
        http=500,
        text="Invalid agent response",
        level="a2a",
        type_name="InvalidAgentResponseError",
        number_0_1=-32603,
        kind=Kind.OTHER,
    )
    EXTENDED_AGENT_CARD_NOT_CONFIGURED = ReasonFacts(
        code=-32007,
        grpc=GrpcStatus.FAILED_PRECONDITION,
        http=400,
        text="Extended agent card is not configured",
        level="a2a",
        type_name="ExtendedAgentCardNotConfiguredError",
        number_0_1=-32004,
        kind=Kind.OTHER,
    )
    EXTENSION_SUPPORT_REQUIRED = ReasonFacts(
        code=-32008,
        grpc=GrpcStatus.FAILED_PRECONDITION,
        http=400,
        text="The agent requires an extension that the caller did not declare",
        level="a2a",
        type_name="ExtensionSupportRequiredError",
        number_0_1=-32004,
        kind=Kind.OTHER,
    )
    VERSION_NOT_SUPPORTED = ReasonFacts(
        code=-32009,
        grpc=GrpcStatus.FAILED_PRECONDITION,
        http=400,
        text="Protocol version is not supported",
        level="a2a",
        type_name="VersionNotSupportedError",
        number_0_1=-32600,
        kind=Kind.OTHER,
    )
    #: of the draft of 1.1
    TASK_GENERATION_MISMATCH = ReasonFacts(
        code=-32010,
        grpc=GrpcStatus.ABORTED,
        http=409,
        text="The task has another generation",
        level="a2a",
        type_name="TaskGenerationMismatchError",
        number_0_1=-32600,
        kind=Kind.OTHER,
    )
    PARSE_ERROR = ReasonFacts(
        code=-32700,
        grpc=GrpcStatus.INVALID_ARGUMENT,
        http=400,
        text="The request cannot be parsed",
        level="rpc",
        type_name="JSONParseError",
        number_0_1=-32700,
        kind=Kind.OTHER,
    )
    INVALID_REQUEST = ReasonFacts(
        code=-32600,
        grpc=GrpcStatus.INVALID_ARGUMENT,
        http=400,
        text="The request is not valid",
        level="rpc",
        type_name="InvalidRequestError",
        number_0_1=-32600,
        kind=Kind.OTHER,
    )
    METHOD_NOT_FOUND = ReasonFacts(
        code=-32601,
        grpc=GrpcStatus.UNIMPLEMENTED,
        http=404,
        text="Method not found",
        level="rpc",
        type_name="MethodNotFoundError",
        number_0_1=-32601,
        kind=Kind.LACKING,
    )
    INVALID_PARAMS = ReasonFacts(
        code=-32602,
        grpc=GrpcStatus.INVALID_ARGUMENT,
        http=400,
        text="Invalid parameters",
        level="rpc",
        type_name="InvalidParamsError",
        number_0_1=-32602,
        kind=Kind.OTHER,
    )
    INTERNAL_ERROR = ReasonFacts(
        code=-32603,
        grpc=GrpcStatus.INTERNAL,
        http=500,
        text="Internal error",
        level="rpc",
        type_name="InternalError",
        number_0_1=-32603,
        kind=Kind.OTHER,
    )
    REQUEST_TOO_LARGE = ReasonFacts(
        code=-32600,
        grpc=GrpcStatus.RESOURCE_EXHAUSTED,
        http=413,
        text="The request is too large",
        level="http",
        type_name="",
        number_0_1=-32600,
        kind=Kind.OTHER,
    )
    RESOURCE_EXHAUSTED = ReasonFacts(
        code=-32603,
        grpc=GrpcStatus.RESOURCE_EXHAUSTED,
        http=429,
        text="Too many requests",
        level="http",
        type_name="",
        number_0_1=-32010,
        kind=Kind.BUSY,
    )
    UNAUTHENTICATED = ReasonFacts(
        code=-32603,
        grpc=GrpcStatus.UNAUTHENTICATED,
        http=401,
        text="Authentication is required",
        level="http",
        type_name="",
        number_0_1=-32007,
        kind=Kind.CREDENTIALS,
    )
    PERMISSION_DENIED = ReasonFacts(
        code=-32603,
        grpc=GrpcStatus.PERMISSION_DENIED,
        http=403,
        text="Permission denied",
        level="http",
        type_name="",
        number_0_1=-32008,
        kind=Kind.CREDENTIALS,
    )
    DEADLINE_EXCEEDED = ReasonFacts(
        code=-32603,
        grpc=GrpcStatus.DEADLINE_EXCEEDED,
        http=504,
        text="The deadline has passed",
        level="call",
        type_name="",
        number_0_1=-32603,
        kind=Kind.LATE,
    )
    CANCELLED = ReasonFacts(
        code=-32603,
        grpc=GrpcStatus.CANCELLED,
        http=499,
        text="The call was cancelled",
        level="call",
        type_name="",
        number_0_1=-32603,
        kind=Kind.OTHER,
    )
    UNAVAILABLE = ReasonFacts(
        code=-32603,
        grpc=GrpcStatus.UNAVAILABLE,
        http=503,
        text="The agent is not available",
        level="call",
        type_name="",
        number_0_1=-32011,
        kind=Kind.UNREACHED,
    )
    DATA_LOSS = ReasonFacts(
        code=-32603,
        grpc=GrpcStatus.DATA_LOSS,
        http=500,
        text="What was stored is damaged",
        level="call",
        type_name="",
        number_0_1=-32603,
        kind=Kind.OTHER,
    )

    code: int
    grpc: GrpcStatus
    http: int
    text: str
    level: str
    type_name: str
    number_0_1: int
    kind: Kind

    def __init__(self, facts: ReasonFacts) -> None:
        vars(self).update(vars(facts))

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


class IllegalStateError(RuntimeError):
    """A state that may not follow another: a defect of this program. owner: what has the states."""

    def __init__(self, owner: str, before: object, after: object) -> None:
        super().__init__(f"{owner} cannot go from {before} to {after}")


class AgentFactoryError(Exception):
    """A factory of an agent has failed, or has made no agent. The text names it; the cause is what it raised.

    name: of the factory.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name} {text}")
        self.name = name
        self.text = text
