"""Push notifications of 1.0 (spec 4.3): a StreamResponse, one per event. Not their headers, which versions
share.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import JsonObject
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects.boundary import request_decoder, response_encoder
from a2a_bridge.dialects.dialect import PushForm
from a2a_bridge.dialects.v1_0.forms import conversion
from a2a_bridge.pb import lf_a2a_v1 as hub

_EVENT = conversion(hub.StreamResponse, whole=True)
_decode = request_decoder(_EVENT)


def _decode_event(tree: JsonObject) -> hub.StreamResponse:
    event: hub.StreamResponse = _decode(tree)
    if event.WhichOneof("payload") is None:
        raise invalid_params("", "a notification holds a task, a message or an update")
    return event


_encode: Any = response_encoder(hub.StreamResponse, _EVENT.encode)

FORM = PushForm("application/a2a+json", _encode, _decode_event)
