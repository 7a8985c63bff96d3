"""Frames of TCP+JSON and their content. Pure: it opens no connection and reads no clock.

A frame is its length in four bytes, big-endian, and JSON of that length.

    caller → agent   {"version", "operation", "parameters", "timeout", "request"}
    agent → caller   {"parameters"} at most once, first
                     {"item", "id", "gap"} the response, or each event of a stream, with its id if it has one,
                     and with "gap": true if events before it are lost
                     {} as a keep-alive
                     {"end": true} or {"error"}, last
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a2a_bridge.ext import A2AError, BindingKind, JsonSyntaxError, Reason, dumps, invalid_params, loads

KIND: BindingKind[str, Any] = BindingKind("TCP+JSON")

HEADER = struct.Struct(">I")

#: characters that could add another parameter if a gateway forwards parameters as headers
_FORBIDDEN = frozenset("\r\n\0")


@dataclass(frozen=True, slots=True)
class Opening:
    """The caller's frame."""

    version: str | None
    operation: str
    parameters: Mapping[str, str]
    timeout: float | None
    request: Any


def frame(content: Mapping[str, Any]) -> bytes:
    """A frame ready to be written."""
    body = dumps(dict(content))
    return HEADER.pack(len(body)) + body


def opening(body: bytes) -> Opening:
    """Reads the caller's frame. Raises PARSE_ERROR for invalid JSON, INVALID_REQUEST for another
    shape.
    """
    try:
        tree = loads(body)
    except JsonSyntaxError as error:
        raise A2AError(Reason.PARSE_ERROR, str(error)) from None
    if not isinstance(tree, dict) or not isinstance(tree.get("operation"), str):
        raise A2AError(Reason.INVALID_REQUEST, "a call names its operation")
    version, timeout = tree.get("version"), tree.get("timeout")
    parameters = tree.get("parameters", {})
    if not isinstance(version, str | None) or not isinstance(timeout, int | float | None):
        raise A2AError(Reason.INVALID_REQUEST, "version is a string and timeout a number of seconds")
    if not isinstance(parameters, dict) or not all(isinstance(text, str) for text in parameters.values()):
        raise A2AError(Reason.INVALID_REQUEST, "parameters are strings")
    return Opening(version, tree["operation"], parameters, timeout, tree.get("request"))


def check(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters, if their values are safe as headers. Raises INVALID_PARAMS."""
    for name, value in parameters.items():
        if _FORBIDDEN & {*name, *value}:
            raise invalid_params(name, "a parameter is one line")
    return dict(parameters)
