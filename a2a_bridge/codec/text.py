r"""JSON text to Python trees and back, strictly by the grammar of RFC 8259, and the errors of all conversions
between text, trees and messages. Callers choose the protocol error codes.

Policy where RFC 8259 leaves a choice:

* duplicate keys of one object: the last one wins;
* nesting: rejected beyond 1024 levels by `loads`, and beyond `DEEPEST_EXACT` levels by `loads_exact`;
* a byte order mark: rejected;
* numbers too large for a double (1e400) and half surrogate pairs (`"\ud800"`): accepted, the number as an
  `ExactFloat`. Decoders for messages that cannot hold them reject them, with their path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self, TypeAlias

import orjson

Violation = tuple[str, str]
"""A JSON field path such as `message.parts[0].text` ("" is the document itself), and the problem there."""


class DecodeError(ValueError):
    """The JSON is well formed but is not a message of the requested type.

    `violations` holds all findings, in document order and bounded; `path` and `problem` are the first.
    Problems are plain English: they may be shown to the caller.
    """

    def __init__(self, path: str, problem: str, *more: Violation) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem
        self.violations: tuple[Violation, ...] = ((path, problem), *more)

    @classmethod
    def of(cls, violations: Sequence[Violation]) -> DecodeError:
        """From one or more violations."""
        (path, problem), *more = violations
        return cls(path, problem, *more)


class EncodeError(ValueError):
    """The message holds content that JSON cannot express: NaN, infinity, a year outside 1 to 9999."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class JsonSyntaxError(ValueError):
    """The text is not JSON as RFC 8259 defines it."""


class Irregular(ValueError):  # noqa: N818 - control flow inside the codec, never seen outside
    """The compiled fast path met input that it does not handle; the path-aware pass finds the reason."""


Json: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
JsonObject: TypeAlias = dict[str, Any]

# orjson reads an integer outside this range as a double, which the tree does not show.
ABOVE_64_BITS = 2.0**64
BELOW_64_BITS = -(2.0**63)

#: Maximum nesting in `loads_exact`. The limit of the standard library differs between Python versions: 3.11
#: counts levels as Python frames (1000, less the stack of the caller), 3.12 and newer accept tens of
#: thousands.
DEEPEST_EXACT = 500

_MOST_DIGITS = 4000
"""Python rejects to parse longer integers, since the time grows with the square of the length."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
# A string or a bracket. The closing quote is optional and the quantifiers are possessive, so that a search
# takes linear time.
_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|[\[\]{}]', re.DOTALL)


class ExactFloat(float):
    """A number with its original text, which may be more precise than a double. `text` is a JSON number,
    perhaps an integer of thousands of digits, which Python does not parse.
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
    """Parses one JSON document. Integers outside -2^63 … 2^64-1 become doubles (see `loads_exact`). Raises
    `JsonSyntaxError` for everything that RFC 8259 does not allow.
    """
    try:
        tree: Json = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        rejected = error
    else:
        return tree
    # Outside of the handler: the error of the fast parser says nothing about the thorough one.
    if "surrogate" in rejected.msg or "infinity" in rejected.msg or "hex escape" in rejected.msg:
        return _thorough(data)
    raise _syntax_error(rejected, empty=not len(data))


def loads_exact(data: bytes | bytearray | memoryview | str) -> Json:
    """Parses one JSON document as `loads` does, but keeps numbers exact.

    Integers of any size are integers, and a number with a fraction or an exponent is an `ExactFloat`. About
    ten times slower than `loads`. Text with more than `DEEPEST_EXACT` levels is rejected on every Python
    version.
    """
    return _thorough(data)


def dumps(tree: Json) -> bytes:
    """Writes a tree as compact UTF-8 JSON.

    Everything that an encoder, `loads` or `loads_exact` returns can be written. The caller keeps NaN and
    infinity out of other trees, as encoders do: a plain one would be written as null.
    Raises `EncodeError` for a tree that is not JSON.
    """
    try:
        return orjson.dumps(tree, _exact)
    except orjson.JSONEncodeError:
        pass  # an integer beyond 64 bits, an unpaired surrogate, hundreds of levels, or not JSON
    try:
        return "".join(_pieces(tree)).encode("utf-8", "backslashreplace")  # the JSON escape of half a pair
    except (TypeError, ValueError):
        raise EncodeError("", "cannot be written as JSON") from None


def dumps_ascii(tree: Json) -> str:
    """Writes a tree as compact JSON with ASCII characters only, for places that carry no others."""
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
    """The text of a tree in pieces. Iterative: a tree may be as deep as a parser allows."""
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
    """Punctuation, as opposed to a string value."""

    __slots__ = ()


_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = map(_Text, "{}[]")
_COMMA, _COLON = map(_Text, ",:")


def _thorough(data: bytes | bytearray | memoryview | str) -> Json:
    """Parses with the standard library: strictly RFC 8259 once NaN and infinities are rejected."""
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
    """Whether JSON text nests more than `levels` lists and objects."""
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
    """NaN, Infinity or -Infinity, which are JavaScript and not JSON."""


def _reject(_: str) -> NoReturn:
    raise _NoConstant


def _integer(text: str) -> float:
    return int(text) if len(text) <= _MOST_DIGITS else ExactFloat(text)


_parse: Callable[[str], Any] = json.JSONDecoder(
    parse_float=ExactFloat, parse_int=_integer, parse_constant=_reject
).decode


def _syntax_error(error: orjson.JSONDecodeError, *, empty: bool) -> JsonSyntaxError:
    if empty or error.doc.isspace():
        return JsonSyntaxError("the JSON document is empty")
    if not error.doc:  # orjson could not even decode it
        return JsonSyntaxError("the JSON is not valid UTF-8")
    return JsonSyntaxError(f"invalid JSON at line {error.lineno}, column {error.colno}")
