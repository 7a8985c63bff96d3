r"""JSON text to Python trees and back, by RFC 8259 to the letter. It knows nothing of messages.

Policy where RFC 8259 leaves a choice:

* duplicate keys of one object: the last one wins;
* nesting: refused beyond what the parser supports (about 1000 levels);
* numbers too large for a double (1e400): refused;
* lone surrogates (`"\ud800"`) and a byte order mark: refused, since neither is valid Unicode interchange.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import orjson

from a2a_bridge.codec.errors import EncodeError, JsonSyntaxError

Json: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
JsonObject: TypeAlias = dict[str, Any]

# orjson reads an integer outside these as a double, and the tree does not show that it did.
DOUBT_ABOVE = 2.0**64
DOUBT_BELOW = -(2.0**63)


class ExactFloat(float):
    """A large number whose text had a fraction or an exponent, so that no integer was rounded to get it."""

    __slots__ = ()


def loads(data: bytes | bytearray | memoryview | str) -> Json:
    """Read one JSON document.

    Integers outside -2^63 … 2^64-1 come as doubles (see `loads_exact`).
    Raises `JsonSyntaxError` for everything that RFC 8259 does not allow.
    """
    try:
        tree: Json = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _syntax_error(error, empty=not len(data)) from None
    return tree


def loads_exact(data: bytes | bytearray | memoryview | str) -> Json:
    """Read one JSON document as `loads` does, but with integers of any size as they were written.

    Doubles that an integer might have been rounded to come as `ExactFloat`. Some ten times slower than `loads`.
    """
    loads(data)  # the standard library is lax: this decides what is JSON
    text = data if isinstance(data, str) else bytes(data).decode()
    try:
        tree: Json = json.loads(text, parse_float=_parse_float)
    except RecursionError:
        raise JsonSyntaxError("the JSON is nested too deeply") from None
    return tree


def dumps(tree: Json) -> bytes:
    """Write a tree as compact UTF-8 JSON.

    Everything that an encoder or `loads_exact` returns can be written. The caller keeps NaN and infinity out of
    trees of other origin, as encoders do: a plain one would be written as null.
    Raises `EncodeError` for a tree that is not JSON.
    """
    try:
        return orjson.dumps(tree)
    except orjson.JSONEncodeError:
        pass  # an integer beyond 64 bits or an ExactFloat: the standard library can write both
    try:
        return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise EncodeError("", "cannot be written as JSON") from None


def _parse_float(text: str) -> float:
    number = float(text)
    return number if DOUBT_BELOW < number < DOUBT_ABOVE else ExactFloat(number)


def _syntax_error(error: orjson.JSONDecodeError, *, empty: bool) -> JsonSyntaxError:
    if empty or error.doc.isspace():
        return JsonSyntaxError("the JSON document is empty")
    if not error.doc:  # orjson could not even decode it
        return JsonSyntaxError("the JSON is not valid UTF-8")
    return JsonSyntaxError(f"invalid JSON at line {error.lineno}, column {error.colno}")
