"""The JSON-RPC methods of 0.2.5 as rows: those of 0.3 with their differences (spec 0.2.5, 7). It reads no
JSON itself.

1. A configuration always lists media types; an empty list means none.
2. `unknown` is a state that ends a stream, so its events are `final` unless annotated otherwise.
3. The extended card is a plain GET beside the agent's URL; 0.2.6 also has a method for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import annotation
from a2a_bridge.dialects.boundary import (
    Conversion,
    params_required,
    request_decoder,
    request_encoder,
    response_encoder,
)
from a2a_bridge.dialects.dialect import Row
from a2a_bridge.dialects.v0_2_5 import card
from a2a_bridge.dialects.v0_3 import requests as v0_3
from a2a_bridge.dialects.v0_3.params import send_params
from a2a_bridge.pb import lf_a2a_v1 as hub

EXTENDED_CARD = "GET ../agent/authenticatedExtendedCard"
"""Not a method: bindings decide how to serve it."""
EXTENDED_CARD_METHOD = "agent/authenticatedExtendedCard"

_SEND = send_params(modes=True)


def encode_event(event: hub.StreamResponse, encode: Callable[[Any], Any]) -> Any:
    """An event of 0.2.5. `encode`: the encoder of 0.3."""
    if not _is_unknown(event):
        return encode(event)
    if annotation.final_said(event.status_update):
        # The annotation is redundant here but present: it is kept for a later reader.
        return {**encode(event), annotation.FINAL: True}
    return _flipped(encode(_turned(event)))


def decode_event(wire: Any, decode: Callable[[Any], hub.StreamResponse]) -> hub.StreamResponse:
    """An event written by 0.2.5. `decode`: the decoder of 0.3."""
    if isinstance(wire, dict) and wire.get(annotation.FINAL) is True:
        event = decode({name: value for name, value in wire.items() if name != annotation.FINAL})
        if _is_unknown(event) and annotation.final_said(event.status_update):
            return event
    event = decode(wire)
    return _turned(decode(_flipped(wire))) if _is_unknown(event) else event


# For a task in the unknown state, 0.3 assumes `final: false` and 0.2.5 `final: true`. So the member and its
# annotation have opposite meanings in the two versions.


def _is_unknown(event: hub.StreamResponse) -> bool:
    # An event without a status is written with the state `unknown`.
    return event.WhichOneof("payload") == "status_update" and not event.status_update.status.state


def _flipped(tree: Any) -> Any:
    """The tree of an event with the negated `final`, if it has one."""
    return {**tree, "final": not tree["final"]} if type(tree.get("final")) is bool else tree


def _turned(event: hub.StreamResponse) -> hub.StreamResponse:
    """The event with the negated annotation of `final`, if it has one."""
    said = annotation.final_said(event.status_update)
    if said is None:
        return event
    turned = hub.StreamResponse()
    turned.CopyFrom(event)
    annotation.say_final(turned.status_update, not said)
    return turned


def _sending(row: Row[str, Any]) -> Row[str, Any]:
    sent = Conversion(_SEND.encode, _SEND.decode, absent=params_required)
    encode = request_encoder(hub.SendMessageRequest, sent.encode)
    return replace(row, encode_request=encode, decode_request=request_decoder(sent))


def _streaming(row: Row[str, Any]) -> Row[str, Any]:
    encode, decode = row.encode_response, row.decode_response
    return replace(
        row,
        encode_response=lambda event: encode_event(event, encode),
        decode_response=lambda wire: decode_event(wire, decode),
    )


def _showing_card(row: Row[str, Any], address: str) -> Row[str, Any]:
    encode = response_encoder(hub.AgentCard, card.FORM.encode)
    return replace(row, address=address, encode_response=encode, decode_response=card.FORM.decode)


def _older(row: Row[str, Any]) -> tuple[Row[str, Any], ...]:
    if row.operation is ops.GET_EXTENDED_AGENT_CARD:
        return _showing_card(row, EXTENDED_CARD), _showing_card(row, EXTENDED_CARD_METHOD)
    if row.operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE):
        row = _sending(row)
    return (_streaming(row) if row.streaming else row,)


ROWS: tuple[Row[str, Any], ...] = tuple(one for row in v0_3.ROWS for one in _older(row))
