"""The eleven operations of A2A 1.0 as typed values. Dialects have their names in other versions.

Rules:
1. An operation is a value with facts; code does not branch on its name. A fact left out is a TypeError.
2. `ALL` follows the descriptor of `lf.a2a.v1.A2AService`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty

#: the request of an operation
Req = TypeVar("Req", bound=Message)
#: its response, or an event of its stream
Res = TypeVar("Res", bound=Message)


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Generic[Req, Res]):
    """One operation with all that the product knows about it.

    name: the canonical name (the rpc name of 1.0). request, response: their classes.
    """

    name: str
    request: type[Req]
    response: type[Res]
    _: KW_ONLY
    #: the name of its method in an agent (`core/agent_api.py`)
    method: str
    #: whether it changes nothing, so that a gateway may repeat it after a failure
    reads: bool
    #: whether its request is about a task that exists
    about_task: bool
    #: the name that rules have for it and operations like it (`read`, `send`, `push`); empty without one
    group: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Unary(Operation[Req, Res]):
    """An operation with one response."""

    __slots__ = ()


class Streaming(Operation[Req, Res]):
    """An operation with a stream of responses."""

    __slots__ = ()


SEND_MESSAGE = Unary(
    "SendMessage",
    hub.SendMessageRequest,
    hub.SendMessageResponse,
    method="send_message",
    reads=False,
    about_task=False,
    group="send",
)
SEND_STREAMING_MESSAGE = Streaming(
    "SendStreamingMessage",
    hub.SendMessageRequest,
    hub.StreamResponse,
    method="send_streaming_message",
    reads=False,
    about_task=False,
    group="send",
)
GET_TASK = Unary(
    "GetTask",
    hub.GetTaskRequest,
    hub.Task,
    method="get_task",
    reads=True,
    about_task=True,
    group="read",
)
LIST_TASKS = Unary(
    "ListTasks",
    hub.ListTasksRequest,
    hub.ListTasksResponse,
    method="list_tasks",
    reads=True,
    about_task=False,
    group="read",
)
CANCEL_TASK = Unary(
    "CancelTask",
    hub.CancelTaskRequest,
    hub.Task,
    method="cancel_task",
    reads=False,
    about_task=True,
    group="",
)
SUBSCRIBE_TO_TASK = Streaming(
    "SubscribeToTask",
    hub.SubscribeToTaskRequest,
    hub.StreamResponse,
    method="subscribe_to_task",
    reads=True,
    about_task=True,
    group="read",
)
CREATE_PUSH_CONFIG = Unary(
    "CreateTaskPushNotificationConfig",
    hub.TaskPushNotificationConfig,
    hub.TaskPushNotificationConfig,
    method="create_task_push_notification_config",
    reads=False,
    about_task=True,
    group="push",
)
GET_PUSH_CONFIG = Unary(
    "GetTaskPushNotificationConfig",
    hub.GetTaskPushNotificationConfigRequest,
    hub.TaskPushNotificationConfig,
    method="get_task_push_notification_config",
    reads=True,
    about_task=True,
    group="push",
)
LIST_PUSH_CONFIGS = Unary(
    "ListTaskPushNotificationConfigs",
    hub.ListTaskPushNotificationConfigsRequest,
    hub.ListTaskPushNotificationConfigsResponse,
    method="list_task_push_notification_configs",
    reads=True,
    about_task=True,
    group="push",
)
DELETE_PUSH_CONFIG = Unary(
    "DeleteTaskPushNotificationConfig",
    hub.DeleteTaskPushNotificationConfigRequest,
    Empty,
    method="delete_task_push_notification_config",
    reads=False,
    about_task=True,
    group="push",
)
GET_EXTENDED_AGENT_CARD = Unary(
    "GetExtendedAgentCard",
    hub.GetExtendedAgentCardRequest,
    hub.AgentCard,
    method="get_extended_agent_card",
    reads=True,
    about_task=False,
    group="read",
)

ALL: tuple[Operation[Message, Message], ...] = (
    SEND_MESSAGE,
    SEND_STREAMING_MESSAGE,
    GET_TASK,
    LIST_TASKS,
    CANCEL_TASK,
    SUBSCRIBE_TO_TASK,
    CREATE_PUSH_CONFIG,
    GET_PUSH_CONFIG,
    LIST_PUSH_CONFIGS,
    GET_EXTENDED_AGENT_CARD,
    DELETE_PUSH_CONFIG,
)  # type: ignore[assignment]  # heterogeneous; tests check each row

#: group -> its operations
GROUPS: Mapping[str, frozenset[Operation[Any, Any]]] = {
    group: frozenset(one for one in ALL if one.group == group) for group in {one.group for one in ALL} - {""}
}
SEND, PUSH = GROUPS["send"], GROUPS["push"]
