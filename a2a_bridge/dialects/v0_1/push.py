"""Push notifications of 0.1. It neither sends them nor stores addresses.

The text of 0.1 leaves the body to the server. The servers of that time send the task in the format of
tasks/get, so the encoder writes that. The decoder also accepts the example in the text: an event type, the id
of the task and its status.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import JsonObject
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects.boundary import Conversion, request_decoder, response_encoder
from a2a_bridge.dialects.dialect import PushForm
from a2a_bridge.dialects.v0_1 import events, messages
from a2a_bridge.dialects.v0_3 import shapes as newer_shapes
from a2a_bridge.pb import lf_a2a_v1 as hub


def _encode(event: hub.StreamResponse) -> JsonObject:
    """The body for an event; a task is unchanged."""
    tree: Any = newer_shapes.EVENT.encode(event)
    if tree.get("kind") == "task":
        made: JsonObject = messages.encode_task(tree)
    else:
        made = events.encode_event(tree)
    return made


def decode(body: JsonObject) -> hub.StreamResponse:
    """The event in a body. Raises INVALID_PARAMS."""
    if type(body) is dict and "taskId" in body and "id" not in body:
        wire = {name: value for name, value in body.items() if name != "taskId"}
        body = {**wire, "id": body["taskId"]}
    if type(body) is not dict or type(body.get("id")) is not str:
        raise invalid_params("id", "is required")
    try:
        event: hub.StreamResponse = _decode(body)
    except RecursionError:
        raise invalid_params("", "is nested too deeply") from None
    return event


def _newer(body: JsonObject) -> Any:
    """The body as an event of 0.3. A task without artifacts, history and session looks like a status event of
    a stream, but without its `final`.
    """
    is_task = "status" in body and not body.keys() & {"artifact", "final", "eventType"}
    return events.decode_result(body) if is_task else events.decode_event(body)


encode: Any = response_encoder(hub.StreamResponse, _encode)
_decode = request_decoder(Conversion(_encode, lambda body: newer_shapes.EVENT.decode(_newer(body))))

FORM = PushForm("application/json", encode, decode, whole_tasks=True)
