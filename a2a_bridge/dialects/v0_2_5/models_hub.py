"""Conversion between models of 0.2.5 and hub messages. Content common to both versions is read as in 0.3."""

from __future__ import annotations

from a2a_bridge.dialects.v0_2_5.forms import CARD_FORM, EVENT, JSONRPC_FORM
from a2a_bridge.dialects.v0_3.models_hub import Models

_MODELS = Models(JSONRPC_FORM.rows, CARD_FORM, EVENT, JSONRPC_FORM.encode_error)
decode_model, encode_message = _MODELS.decode_model, _MODELS.encode_message
