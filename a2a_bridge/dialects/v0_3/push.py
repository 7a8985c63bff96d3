"""Push notifications of 0.3 and 0.2 (spec 0.3.0, 9.5): the current task, whatever the event. Not their
headers, which versions share.

Those versions do not define the body strictly, so the decoder accepts more than the encoder writes: any event
of theirs, and the StreamResponse of 1.0, which newer SDKs also send under the name of an older version.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import JsonObject
from a2a_bridge.dialects.boundary import request_decoder, response_encoder
from a2a_bridge.dialects.dialect import PushForm
from a2a_bridge.dialects.v0_3.shapes import EVENT, kind_of
from a2a_bridge.dialects.v1_0 import push as newer
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the task; without one, the event itself
_encode: Any = response_encoder(hub.StreamResponse, EVENT.encode)
_decode_event = request_decoder(EVENT)


def _decode(tree: JsonObject) -> hub.StreamResponse:
    """Raises INVALID_PARAMS naming the members at fault."""
    if kind_of(tree) is None and "kind" not in tree:
        return newer.FORM.decode(tree)
    event: hub.StreamResponse = _decode_event(tree)
    return event


FORM = PushForm("application/json", _encode, _decode, whole_tasks=True)
