"""A2A 0.1: the oldest version, JSON-RPC only. A thin coat over 0.3; what needs memory is in `gateway.identity`."""

from __future__ import annotations

from a2a_bridge.dialects.dialect import JSONRPC, Dialect, Form, Loss
from a2a_bridge.dialects.v0_1 import card, errors, push
from a2a_bridge.dialects.v0_1.requests import ROWS

DIALECT = Dialect(
    version="0.1",
    card=card.FORM,
    forms={JSONRPC: Form(ROWS, errors.encode_jsonrpc, errors.decode_jsonrpc)},
    push=push.FORM,
    declares=False,
    extensions=("x-a2a-extensions", "a2a-extensions"),
    final_events=True,
    losses=(Loss("StreamResponse.task.history", "a stream of 0.1 has no event that holds a whole task"),),
)

__all__ = ["DIALECT"]
