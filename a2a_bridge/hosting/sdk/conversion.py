"""What the types of both majors of the SDK need: the caller, the ids of events, and errors."""

from typing import Any

from a2a.auth.user import User

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects.dialect import ErrorReply
from a2a_bridge.dialects.v0_3.errors import decode_jsonrpc
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub


class Caller(User):
    """The authenticated caller, as a user of the SDK."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


def call_members(context: CallContext) -> dict[str, Any]:
    """The members of the SDK's ServerCallContext that both majors have. `state` has the headers, or the
    metadata of gRPC, by lower-case name; and the claims of the caller.
    """
    members: dict[str, Any] = {
        "state": {"headers": dict(context.parameters.items())},
        "requested_extensions": set(context.extensions),
    }
    if context.principal is not None:
        members["user"] = Caller(context.principal.name)
        members["state"]["claims"] = dict(context.principal.claims)
    return members


def own(event: Any, run: Run) -> Event:
    """An event with the context of its run, and without a copy of the message that began the run. event: an
    Event, which is changed. The SDK's server takes events of any context. The engine has the message, with
    content that executors are not shown.
    """
    event.context_id = run.context_id
    # Not by isinstance: it asks the metaclass of a class of protobuf, for each event.
    if type(event) is hub.TaskArtifactUpdateEvent:
        return event
    if type(event) is hub.Message:
        event.ClearField("task_id")
        return event
    status: hub.TaskStatus = event.status
    if status.HasField("message"):
        message = status.message
        message.task_id, message.context_id = run.task_id, run.context_id
    if type(event) is hub.Task and run.task is None:
        history = event.history
        if history and history[-1].message_id == run.message.message_id and history[-1].role == hub.ROLE_USER:
            del history[-1]
    made: Event = event
    return made


def protocol_error(code: int, message: str | None, data: Any) -> A2AError:
    """The error for a number of JSON-RPC."""
    body = {"code": code, "message": message or ""} | ({} if data is None else {"data": data})
    error = decode_jsonrpc(ErrorReply(200, body))
    error.blame = Blame.SELF if error.reason is Reason.INTERNAL_ERROR else Blame.CALLER
    return error
