"""A2A 0.3: the JSON shape with `kind`, the protobuf package a2a.v1, and HTTP+JSON below /v1."""

from __future__ import annotations

from a2a_bridge.dialects.dialect import JSONRPC, Dialect, Form
from a2a_bridge.dialects.v0_3 import card, errors, push
from a2a_bridge.dialects.v0_3.losses import LOSSES
from a2a_bridge.dialects.v0_3.requests import ROWS

DIALECT = Dialect(
    version="0.3",
    card=card.FORM,
    forms={JSONRPC: Form(ROWS, errors.encode_jsonrpc, errors.decode_jsonrpc)},
    push=push.FORM,
    declares=False,
    extensions=("x-a2a-extensions", "a2a-extensions"),
    final_events=True,
    losses=LOSSES,
)

__all__ = ["DIALECT"]
