"""ProtoJSON to messages and back, compiled once per message type. No I/O, no protocol knowledge.

`decoder(cls)` and `encoder(cls)` return plain functions between JSON trees and messages; `loads` and `dumps`
convert between JSON trees and text; `missing_required` names absent REQUIRED members. All of it is pure.
"""

from a2a_bridge.codec.decode import decode_bytes, decoder, whole_decoder
from a2a_bridge.codec.encode import encoder
from a2a_bridge.codec.required import compile_required, missing_required
from a2a_bridge.codec.structs import Rounded, rounded
from a2a_bridge.codec.text import (
    DEEPEST_EXACT,
    DecodeError,
    EncodeError,
    ExactFloat,
    Json,
    JsonObject,
    JsonSyntaxError,
    Violation,
    dumps,
    dumps_ascii,
    loads,
    loads_exact,
)

__all__ = [
    "DEEPEST_EXACT",
    "DecodeError",
    "EncodeError",
    "ExactFloat",
    "Json",
    "JsonObject",
    "JsonSyntaxError",
    "Rounded",
    "Violation",
    "compile_required",
    "decode_bytes",
    "decoder",
    "dumps",
    "dumps_ascii",
    "encoder",
    "loads",
    "loads_exact",
    "missing_required",
    "rounded",
    "whole_decoder",
]
