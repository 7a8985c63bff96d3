"""The eleven operations of A2A 1.0 as typed values. Dialects have their names in other versions.

Rules:
1. An operation is a value; no code branches on its name.
2. `ALL` follows the descriptor of `lf.a2a.v1.A2AService`; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Generic[Req, Res]):
    """One operation: its canonical name (the rpc name of 1.0), request class and response class."""

    name: str
    request: type[Req]
    response: type[Res]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Unary(Operation[Req, Res]):
    """An operation with one response."""

    __slots__ = ()


class Streaming(Operation[Req, Res]):
    """An operation with a stream of responses."""

    __slots__ = ()


SEND_MESSAGE = Unary("SendMessage", hub.SendMessageRequest, hub.SendMessageResponse)
SEND_STREAMING_MESSAGE = Streaming("SendStreamingMessage", hub.SendMessageRequest, hub.StreamResponse)
GET_TASK = Unary("GetTask", hub.GetTaskRequest, hub.Task)
LIST_TASKS = Unary("ListTasks", hub.ListTasksRequest, hub.ListTasksResponse)
CANCEL_TASK = Unary("CancelTask", hub.CancelTaskRequest, hub.Task)
SUBSCRIBE_TO_TASK = Streaming("SubscribeToTask", hub.SubscribeToTaskRequest, hub.StreamResponse)
CREATE_PUSH_CONFIG = Unary(
    "CreateTaskPushNotificationConfig", hub.TaskPushNotificationConfig, hub.TaskPushNotificationConfig
)
GET_PUSH_CONFIG = Unary(
    "GetTaskPushNotificationConfig", hub.GetTaskPushNotificationConfigRequest, hub.TaskPushNotificationConfig
)
LIST_PUSH_CONFIGS = Unary(
    "ListTaskPushNotificationConfigs",
    hub.ListTaskPushNotificationConfigsRequest,
    hub.ListTaskPushNotificationConfigsResponse,
)
DELETE_PUSH_CONFIG = Unary(
    "DeleteTaskPushNotificationConfig", hub.DeleteTaskPushNotificationConfigRequest, Empty
)
GET_EXTENDED_AGENT_CARD = Unary("GetExtendedAgentCard", hub.GetExtendedAgentCardRequest, hub.AgentCard)

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
