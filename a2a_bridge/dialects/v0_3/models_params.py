"""What the methods of 0.3 take, as models (spec 0.3.0, 7). The envelopes around it are elsewhere."""

from __future__ import annotations

from typing import Any

from a2a_bridge.dialects.v0_3.models_data import Message
from a2a_bridge.dialects.v0_3.models_shape import A2ABaseModel, Flag, Integer, Text


class PushNotificationAuthenticationInfo(A2ABaseModel):
    """How the agent authenticates where it notifies (spec 6.9)."""

    credentials: Text | None = None
    schemes: list[Text]


class PushNotificationConfig(A2ABaseModel):
    """Where the agent is to send notifications (spec 6.8)."""

    authentication: PushNotificationAuthenticationInfo | None = None
    id: Text | None = None
    token: Text | None = None
    url: Text


class TaskPushNotificationConfig(A2ABaseModel):
    """The same for one task (spec 6.10)."""

    push_notification_config: PushNotificationConfig
    task_id: Text


class MessageSendConfiguration(A2ABaseModel):
    """How a message is to be answered (spec 7.1.1)."""

    accepted_output_modes: list[Text] | None = None
    blocking: Flag | None = None
    history_length: Integer | None = None
    push_notification_config: PushNotificationConfig | None = None


class MessageSendParams(A2ABaseModel):
    """What `message/send` and `message/stream` take (spec 7.1.1)."""

    configuration: MessageSendConfiguration | None = None
    message: Message
    metadata: dict[str, Any] | None = None


class TaskIdParams(A2ABaseModel):
    """A task, for `tasks/cancel` and `tasks/resubscribe` (spec 7.4.1)."""

    id: Text
    metadata: dict[str, Any] | None = None


class TaskQueryParams(A2ABaseModel):
    """A task and how much of it, for `tasks/get` (spec 7.3.1)."""

    history_length: Integer | None = None
    id: Text
    metadata: dict[str, Any] | None = None


class GetTaskPushNotificationConfigParams(A2ABaseModel):
    """One config of a task; any of them where none is named (spec 7.6.1)."""

    id: Text
    metadata: dict[str, Any] | None = None
    push_notification_config_id: Text | None = None


class ListTaskPushNotificationConfigParams(A2ABaseModel):
    """All configs of a task (spec 7.7.1)."""

    id: Text
    metadata: dict[str, Any] | None = None


class DeleteTaskPushNotificationConfigParams(A2ABaseModel):
    """One config of a task, which has to be named (spec 7.8.1)."""

    id: Text
    metadata: dict[str, Any] | None = None
    push_notification_config_id: Text
