"""Type checks of JSON values, with the error that names the member at fault."""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject
from a2a_bridge.codec.values import describe, string_wire


def an_object(value: Json, path: str = "") -> JsonObject:
    """The object at `path`. Raises DecodeError for any other value."""
    if type(value) is not dict:
        raise DecodeError(path, f"expected an object, got {describe(value)}")
    return value


def an_array(value: Json, path: str = "") -> list[Any]:
    """The array at `path`. Raises DecodeError for any other value."""
    if type(value) is not list:
        raise DecodeError(path, f"expected an array, got {describe(value)}")
    return value


def a_string(value: Json, path: str) -> str:
    """The string at `path`. Raises DecodeError for any other value, and for an unpaired surrogate."""
    if type(value) is not str:
        raise DecodeError(path, f"expected a string, got {describe(value)}")
    try:
        string_wire(value)
    except ValueError as error:
        raise DecodeError(path, str(error)) from None
    return value
