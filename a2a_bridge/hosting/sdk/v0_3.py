"""The types of a2a-sdk 0.3.x: pydantic models of the JSON of 0.3, which the dialect reads and writes."""

from typing import Any

from a2a import types
from a2a.server import agent_execution
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.utils import errors

from a2a_bridge.codec import DecodeError, EncodeError
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects.v0_3.requests import SEND
from a2a_bridge.dialects.v0_3.shapes import EVENT, TASK
from a2a_bridge.hosting.agent_content import ExecutorError
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.hosting.sdk.conversion import call_members, own, protocol_error
from a2a_bridge.pb import lf_a2a_v1 as hub

# The SDK that is installed where types are checked has other types under these names.
_sdk: Any = types
_Context: Any = agent_execution.RequestContext
_Error: Any = getattr(errors, "ServerError", None)
#: members of events and of what is in them that need not be there, and members with JSON of the agent
_OPTIONAL = (
    *("append", "artifacts", "contextId", "description", "extensions", "history", "lastChunk", "metadata"),
    *("mimeType", "name", "referenceTaskIds", "taskId", "timestamp"),
)
_FREE = ("data", "metadata")
_EVENTS = (_sdk.Message, _sdk.Task, _sdk.TaskStatusUpdateEvent, _sdk.TaskArtifactUpdateEvent)


class TypesV03:
    """See `SdkTypes`. As in the SDK's server, the task of a context has the message that began the run."""

    queue = EventQueue
    message_is_end = True

    def request_context(self, run: Run, related: list[hub.Task]) -> Any:
        request = None
        if isinstance(run.request, hub.SendMessageRequest):
            request = _sdk.MessageSendParams.model_validate(SEND.encode(run.request))
        return _Context(
            request,
            run.task_id,
            run.context_id,
            None if run.task is None else _task(run.task),
            [_task(one) for one in related],
            ServerCallContext(**call_members(run.context)),
        )

    def event(self, event: Any, run: Run) -> Event | None:
        if not isinstance(event, _EVENTS):
            raise ExecutorError(f"{type(event).__name__} is no event of the a2a-sdk 0.3")
        tree = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        _drop_defaults(tree)
        try:
            made: hub.StreamResponse = EVENT.decode(tree)
        except (DecodeError, EncodeError) as error:
            raise ExecutorError(f"a {type(event).__name__} is not valid: {error}") from None
        return own(getattr(made, made.WhichOneof("payload") or "task"), run)

    def error(self, raised: BaseException) -> A2AError | None:
        if not isinstance(raised, _Error):
            return None
        error = raised.error
        if error is None:
            return protocol_error(-32603, "", None)
        return protocol_error(error.code, error.message, error.data)

    def activated(self, context: Any) -> set[str]:
        extensions: set[str] = context.call_context.activated_extensions
        return extensions


def _drop_defaults(tree: dict[str, Any]) -> None:
    """Takes out members that say what their absence says. The dialect would preserve them beside the event,
    in a text that is sealed, whose bytes differ after a restart.
    """
    for name, value in [*tree.items()]:
        if name in _OPTIONAL and not value:
            del tree[name]
        elif type(value) is dict and name not in _FREE:
            _drop_defaults(value)
        elif type(value) is list and name not in _FREE:
            for item in value:
                if type(item) is dict:
                    _drop_defaults(item)


def _task(task: hub.Task) -> Any:
    return _sdk.Task.model_validate(TASK.encode(task))
