"""Errors of commands: code, hint and exit code, the same for every command and over every binding.

Rules:
1. An error of the protocol has A2A's own name (`TaskNotFoundError`), an error of an agent that A2A does not
   define the name that the agent gives it, and everything else a code of the specification of the command
   line (`A2ACLI_ERR_…`).
2. The code decides the exit code, so that both always agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.specification import CODES, ERROR
from a2a_bridge.core.errors import A2AError, Blame, Reason

#: reason -> name of the error in A2A (specification 3.3.2 and 9.5)
_NAMES = {
    Reason.TASK_NOT_FOUND: "TaskNotFoundError",
    Reason.TASK_NOT_CANCELABLE: "TaskNotCancelableError",
    Reason.PUSH_NOTIFICATION_NOT_SUPPORTED: "PushNotificationNotSupportedError",
    Reason.UNSUPPORTED_OPERATION: "UnsupportedOperationError",
    Reason.CONTENT_TYPE_NOT_SUPPORTED: "ContentTypeNotSupportedError",
    Reason.INVALID_AGENT_RESPONSE: "InvalidAgentResponseError",
    Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED: "ExtendedAgentCardNotConfiguredError",
    Reason.EXTENSION_SUPPORT_REQUIRED: "ExtensionSupportRequiredError",
    Reason.VERSION_NOT_SUPPORTED: "VersionNotSupportedError",
    Reason.PARSE_ERROR: "JSONParseError",
    Reason.INVALID_REQUEST: "InvalidRequestError",
    Reason.METHOD_NOT_FOUND: "MethodNotFoundError",
    Reason.INVALID_PARAMS: "InvalidParamsError",
    Reason.INTERNAL_ERROR: "InternalError",
}
#: reasons of failures that the protocol does not name
_LOCAL = {
    Reason.UNAVAILABLE: "UNREACHABLE",
    Reason.UNAUTHENTICATED: "AUTH_FAILED",
    Reason.PERMISSION_DENIED: "AUTH_FAILED",
    Reason.DEADLINE_EXCEEDED: "TIMEOUT",
}
#: exit code of a failure without an error of A2A -> code
_BY_EXIT = {
    Exit.FAILURE: "INTERNAL",
    Exit.USAGE: "USAGE",
    Exit.UNREACHABLE: "UNREACHABLE",
    Exit.AUTH: "AUTH_FAILED",
    Exit.TIMEOUT: "TIMEOUT",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that ends a command."""

    #: see rule 1
    code: str
    message: str
    #: what to try; empty if there is nothing to say
    hint: str = ""
    #: A2A's number of the error, the same for every binding
    a2a_code: int | None = None

    @property
    def exit(self) -> Exit:
        """The exit code."""
        return Exit(CODES.get(self.code.removeprefix(ERROR), Exit.FAILURE))

    @property
    def document(self) -> dict[str, Any]:
        """The error as JSON (Appendix B of the specification)."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.hint or None,
                "a2aCode": self.a2a_code,
            }
        }


def local(exit_code: Exit, message: str, hint: str = "") -> Failure:
    """A failure of the command itself, by its exit code."""
    return Failure(ERROR + _BY_EXIT[exit_code], message, hint)


def code_of(error: A2AError, *, credentials: bool = True) -> str:
    """The code of an error. credentials: whether some were sent."""
    from a2a_bridge.cards.read import CardError

    if isinstance(error, CardError):
        return ERROR + ("CARD_NOT_FOUND" if error.absent else "CARD_INVALID")
    found = _LOCAL.get(error.reason)
    if found == "AUTH_FAILED" and not credentials:
        found = "CREDENTIALS_MISSING"
    if found is not None:
        return ERROR + found
    if error.name != error.reason.name:  # of the agent's own; it cannot be one of ours
        return error.name.removeprefix(ERROR)
    if error.reason in _NAMES:
        return _NAMES[error.reason]
    return ERROR + "INTERNAL" if error.blame is Blame.SELF else error.name


def failure(error: A2AError, message: str, hint: str = "", *, credentials: bool = True) -> Failure:
    """An error of the protocol, or of the way to the agent. message: replaces that of the error."""
    code = code_of(error, credentials=credentials)
    # Only JSON-RPC has numbers for errors that A2A does not define.
    return Failure(
        code, message, hint, error.code if error.reason in _NAMES and code == _NAMES[error.reason] else None
    )
