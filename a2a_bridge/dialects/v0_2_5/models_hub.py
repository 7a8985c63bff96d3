"""From the models of 0.2.5 to the messages of the hub and back. What the versions share is read as 0.3 reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

from pydantic import BaseModel, RootModel

from a2a_bridge.core import errors as core
from a2a_bridge.dialects.v0_2_5 import card
from a2a_bridge.dialects.v0_2_5.errors import SPELLING
from a2a_bridge.dialects.v0_2_5.models_card import AgentCard
from a2a_bridge.dialects.v0_2_5.models_envelopes import A2AError, AnyError, MessageSendParams
from a2a_bridge.dialects.v0_2_5.requests import ROWS, decode_event, encode_event
from a2a_bridge.dialects.v0_3 import models_hub, shapes
from a2a_bridge.dialects.v0_3.models_data import (
    Artifact,
    DataPart,
    FilePart,
    Message,
    Part,
    StreamResult,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
    TextPart,
)
from a2a_bridge.dialects.v0_3.models_params import TaskPushNotificationConfig, TaskQueryParams
from a2a_bridge.pb import lf_a2a_v1 as hub

_SEND = next(row for row in ROWS if row.address == "message/send")


def _event(event: hub.StreamResponse) -> Any:
    return encode_event(event, shapes.encode_event)


DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **models_hub.DECODERS,
    "TaskStatusUpdateEvent": lambda tree: decode_event(tree, shapes.decode_event).status_update,
    "AgentCard": card.FORM.decode,
    "MessageSendParams": _SEND.decode_request,
}

ENCODERS: Mapping[type, tuple[Callable[[Any], Any], Any]] = {
    **models_hub.ENCODERS,
    hub.TaskStatusUpdateEvent: (
        lambda update: _event(hub.StreamResponse(status_update=update)),
        TaskStatusUpdateEvent,
    ),
    hub.StreamResponse: (_event, RootModel[StreamResult]),
    hub.AgentCard: (card.FORM.encode, AgentCard),
    hub.SendMessageRequest: (_SEND.encode_request, MessageSendParams),
    core.A2AError: (lambda error: SPELLING.encode_jsonrpc(error).body, RootModel[AnyError]),
}


@overload
def decode(model: Part | TextPart | FilePart | DataPart) -> hub.Part: ...
@overload
def decode(model: Message) -> hub.Message: ...
@overload
def decode(model: Artifact) -> hub.Artifact: ...
@overload
def decode(model: Task) -> hub.Task: ...
@overload
def decode(model: TaskStatusUpdateEvent) -> hub.TaskStatusUpdateEvent: ...
@overload
def decode(model: TaskArtifactUpdateEvent) -> hub.TaskArtifactUpdateEvent: ...
@overload
def decode(model: AgentCard) -> hub.AgentCard: ...
@overload
def decode(model: MessageSendParams) -> hub.SendMessageRequest: ...
@overload
def decode(model: TaskQueryParams) -> hub.GetTaskRequest: ...
@overload
def decode(model: TaskPushNotificationConfig) -> hub.TaskPushNotificationConfig: ...
@overload
def decode(model: A2AError | AnyError) -> core.A2AError: ...
def decode(model: BaseModel) -> Any:
    """A model as what the hub has for it; an error as the exception to raise.

    Raises A2AError INVALID_PARAMS for what no JSON can say, such as a `metadata` that holds a date, and TypeError for
    models that stand for nothing in the hub.
    """
    return models_hub.decode_by(DECODERS, model)


@overload
def encode(message: hub.Part) -> Part: ...
@overload
def encode(message: hub.Message) -> Message: ...
@overload
def encode(message: hub.Artifact) -> Artifact: ...
@overload
def encode(message: hub.Task) -> Task: ...
@overload
def encode(message: hub.TaskStatusUpdateEvent) -> TaskStatusUpdateEvent: ...
@overload
def encode(message: hub.TaskArtifactUpdateEvent) -> TaskArtifactUpdateEvent: ...
@overload
def encode(
    message: hub.StreamResponse,
) -> Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent: ...
@overload
def encode(message: hub.SendMessageResponse) -> Task | Message: ...
@overload
def encode(message: hub.AgentCard) -> AgentCard: ...
@overload
def encode(message: hub.SendMessageRequest) -> MessageSendParams: ...
@overload
def encode(message: hub.GetTaskRequest) -> TaskQueryParams: ...
@overload
def encode(message: hub.TaskPushNotificationConfig) -> TaskPushNotificationConfig: ...
@overload
def encode(message: core.A2AError) -> AnyError: ...
def encode(message: Any) -> Any:
    """What the hub has as a model of 0.2.5, and an exception as the error to answer with.

    Raises A2AError INVALID_PARAMS for what JSON cannot say, such as NaN, and TypeError for messages without a model.
    """
    return models_hub.encode_by(ENCODERS, message)
