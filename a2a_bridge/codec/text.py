r"""JSON text to Python trees and back, by the grammar of RFC 8259 to the letter. It knows nothing of
messages.

Policy where RFC 8259 leaves a choice:

* duplicate keys of one object: the last one wins;
* nesting: refused beyond 1024 levels by `loads`, and beyond `DEEPEST_EXACT` levels by `loads_exact`;
* a byte order mark: refused;
* numbers too large for a double (1e400) and halves of surrogate pairs (`"\ud800"`): read as they stand, the
  number as an `ExactFloat`. Decoders for messages that cannot hold them refuse them, and can say where they
  are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn, Self, TypeAlias

import orjson

from a2a_bridge.codec.errors import EncodeError, JsonSyntaxError

Json: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
JsonObject: TypeAlias = dict[str, Any]

# orjson reads an integer outside these as a double, and the tree does not show that it did.
ABOVE_64_BITS = 2.0**64
BELOW_64_BITS = -(2.0**63)

#: Levels of nesting that `loads_exact` takes. The standard library's own limit differs between Python
#: versions: 3.11 counts levels as Python frames (1000, less the stack of the caller), 3.12 and newer take
#: tens of thousands.
DEEPEST_EXACT = 500

_MOST_DIGITS = 4000
"""Python refuses to read longer integers, since that takes a time that grows with the square of the length.
"""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
# A string, or one bracket. The closing quote is optional and nothing is given back, so that a search takes
# linear time.
_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|[\[\]{}]', re.DOTALL)


class ExactFloat(float):
    """A number together with the text it was written as, which may say more than a double holds.

    `text` is a JSON number. It may be an integer: one of thousands of digits, which Python does not read.
    """

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str | float) -> Self:
        made = super().__new__(cls, text)
        made.text = text if type(text) is str else float.__repr__(made)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ExactFloat, (self.text,)


def loads(data: bytes | bytearray | memoryview | str) -> Json:
    """Read one JSON document.

    Integers outside -2^63 … 2^64-1 come as doubles (see `loads_exact`).
    Raises `JsonSyntaxError` for everything that RFC 8259 does not allow.
    """
    try:
        tree: Json = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        refused = error
    else:
        return tree
    # Not while handling: what went wrong in the quick reader says nothing about the thorough one.
    if "surrogate" in refused.msg or "infinity" in refused.msg or "hex escape" in refused.msg:
        return _thorough(data)
    raise _syntax_error(refused, empty=not len(data))


def loads_exact(data: bytes | bytearray | memoryview | str) -> Json:
    """Read one JSON document as `loads` does, but with numbers as they were written.

    Integers of any size are integers, and everything with a fraction or an exponent is an `ExactFloat`. Some
    ten times slower than `loads`. Text with more than `DEEPEST_EXACT` levels is refused on every Python
    version.
    """
    return _thorough(data)


def dumps(tree: Json) -> bytes:
    """Write a tree as compact UTF-8 JSON.

    Everything that an encoder, `loads` or `loads_exact` returns can be written. The caller keeps NaN and
    infinity
    out of trees of other origin, as encoders do: a plain one would be written as null.
    Raises `EncodeError` for a tree that is not JSON.
    """
    try:
        return orjson.dumps(tree, _exact)
    except orjson.JSONEncodeError:
        pass  # an integer beyond 64 bits, half of a surrogate pair, hundreds of levels, or no JSON at all
    try:
        return "".join(_pieces(tree)).encode("utf-8", "backslashreplace")  # which is how JSON escapes a half
    except (TypeError, ValueError):
        raise EncodeError("", "cannot be written as JSON") from None


def dumps_ascii(tree: Json) -> str:
    """Write a tree as compact JSON of ASCII characters only, for places that carry no others."""
    text = dumps(tree).decode()
    return text if text.isascii() else _NOT_ASCII.sub(_escape, text)


def _exact(value: Any) -> Any:
    if type(value) is ExactFloat:
        return orjson.Fragment(value.text)
    raise TypeError


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"


def _pieces(tree: Json) -> list[str]:
    """The text of a tree in pieces. Without recursion: a tree may be as deep as a parser lets it be."""
    out: list[str] = []
    rest: list[Any] = [tree]
    while rest:
        item = rest.pop()
        if type(item) is _Text:
            out.append(item)
        elif isinstance(item, str):
            out.append(json.dumps(item, ensure_ascii=False))
        elif type(item) is dict:
            items: list[Any] = [_OPEN_OBJECT]
            for key, value in item.items():
                if not isinstance(key, str):
                    raise TypeError
                items += (_COMMA,) if len(items) > 1 else ()
                items += (key, _COLON, value)
            rest += reversed([*items, _CLOSE_OBJECT])
        elif type(item) is list:
            items = [_OPEN_ARRAY]
            for value in item:
                items += (_COMMA,) if len(items) > 1 else ()
                items.append(value)
            rest += reversed([*items, _CLOSE_ARRAY])
        elif type(item) is ExactFloat:
            out.append(item.text)
        elif type(item) is int:
            out.append(int.__repr__(item))
        else:
            out.append(json.dumps(item, allow_nan=False))
    return out


class _Text(str):
    """Punctuation, as opposed to a string to write."""

    __slots__ = ()


_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = map(_Text, "{}[]")
_COMMA, _COLON = map(_Text, ",:")


def _thorough(data: bytes | bytearray | memoryview | str) -> Json:
    """By the standard library, which is as strict as RFC 8259 once NaN and infinities are refused."""
    try:
        text = data if isinstance(data, str) else bytes(data).decode()
    except UnicodeDecodeError:
        raise JsonSyntaxError("the JSON is not valid UTF-8") from None
    if not text.isascii() and _SURROGATE.search(text):
        raise JsonSyntaxError("the JSON is not valid UTF-8")
    if _deeper_than(text, DEEPEST_EXACT):
        raise JsonSyntaxError("the JSON is nested too deeply")
    try:
        tree: Json = _parse(text)
    except json.JSONDecodeError as error:
        if not text or text.isspace():
            raise JsonSyntaxError("the JSON document is empty") from None
        raise JsonSyntaxError(f"invalid JSON at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise JsonSyntaxError("the JSON is nested too deeply") from None
    except _NoConstant:
        raise JsonSyntaxError("invalid JSON: not a number") from None
    return tree


def _deeper_than(text: str, levels: int) -> bool:
    """Whether JSON text opens more than `levels` lists and objects within each other."""
    if text.count("[") + text.count("{") <= levels:
        return False
    depth = 0
    for match in _BRACKET.finditer(text):
        bracket = match[0]
        if bracket in "[{":
            depth += 1
            if depth > levels:
                return True
        elif bracket in "]}":
            depth -= 1
    return False


class _NoConstant(Exception):  # noqa: N818 - control flow, never seen outside
    """NaN, Infinity or -Infinity, which are JavaScript."""


def _refuse(_: str) -> NoReturn:
    raise _NoConstant


def _integer(text: str) -> float:
    return int(text) if len(text) <= _MOST_DIGITS else ExactFloat(text)


_parse: Callable[[str], Any] = json.JSONDecoder(
    parse_float=ExactFloat, parse_int=_integer, parse_constant=_refuse
).decode


def _syntax_error(error: orjson.JSONDecodeError, *, empty: bool) -> JsonSyntaxError:
    if empty or error.doc.isspace():
        return JsonSyntaxError("the JSON document is empty")
    if not error.doc:  # orjson could not even decode it
        return JsonSyntaxError("the JSON is not valid UTF-8")
    return JsonSyntaxError(f"invalid JSON at line {error.lineno}, column {error.colno}")
