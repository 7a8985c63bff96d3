"""Conversion between models of 0.2.5 and hub messages. Content common to both versions is read as in 0.3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from a2a_bridge.core import errors as core
from a2a_bridge.dialects.v0_2_5 import card
from a2a_bridge.dialects.v0_2_5.forms import JSONRPC_FORM
from a2a_bridge.dialects.v0_2_5.requests import ROWS, decode_event, encode_event
from a2a_bridge.dialects.v0_3 import models_hub, shapes
from a2a_bridge.pb import lf_a2a_v1 as hub

_SEND = next(row for row in ROWS if row.address == "message/send")


def _event(event: hub.StreamResponse) -> Any:
    return encode_event(event, shapes.EVENT.encode)


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **models_hub.DECODERS,
    "TaskStatusUpdateEvent": lambda tree: decode_event(tree, shapes.EVENT.decode).status_update,
    "AgentCard": card.FORM.decode,
    "MessageSendParams": _SEND.decode_request,
}

_ENCODERS: Mapping[type, tuple[Callable[[Any], Any], str]] = {
    **models_hub.ENCODERS,
    hub.TaskStatusUpdateEvent: (
        lambda update: _event(hub.StreamResponse(status_update=update)),
        "TaskStatusUpdateEvent",
    ),
    hub.StreamResponse: (_event, "StreamResult"),
    hub.AgentCard: (card.FORM.encode, "AgentCard"),
    hub.SendMessageRequest: (_SEND.encode_request, "MessageSendParams"),
    core.A2AError: (lambda error: JSONRPC_FORM.encode_error(error).body, "AnyError"),
}


def decode_model(model: BaseModel) -> Any:
    """A model as its hub message. Raises as `models.decode` does."""
    return models_hub.decode_by(_DECODERS, model)


def encode_message(message: Any, types: Mapping[str, Any]) -> Any:
    """A hub message as one of these types. Raises as `models.encode` does."""
    return models_hub.encode_by(_ENCODERS, message, types)
