"""Struct, Value and ListValue in both directions: arbitrary JSON inside messages. Hot, hence hand-written,
not generated.

Encoding converts JSON values to wire text (see `wire`), decoding protobuf's objects to JSON values. (Decoding
from the bytes of a serialized Struct instead was tried: no faster on large ones, half as fast on small ones.)

Numbers are doubles on the wire. Integral ones within 64 bits become integers in JSON. An integer that equals
no double is passed to a function of the caller, which rounds or refuses it. The JSON parser has already
rounded integers beyond 64 bits; doubles of that size are counted in `rounded`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign
from struct import Struct as Layout
from typing import Any

from a2a_bridge.codec.errors import Irregular
from a2a_bridge.codec.meter import spend
from a2a_bridge.codec.text import ABOVE_64_BITS, BELOW_64_BITS, Json
from a2a_bridge.codec.wire import VARINT

LEVELS = 90
"""Maximum number of protobuf levels of a Struct or Value: an object takes three, an array two.

Protobuf refuses messages of more than 100 levels. The limit here does not depend on the place of the Struct,
so that received content can be sent again inside any other message of A2A, which nest up to eight levels
around it.
"""
OBJECT_LEVELS, ARRAY_LEVELS = 3, 2

BARE_LEVELS = LEVELS - OBJECT_LEVELS
"""The same for a Value that is not an object: versions whose data parts are objects wrap it in one."""

EXACT_INTEGER = 2**53 - 1
"""Up to this value every integer is a double, and every such double is a safe integer in JavaScript."""

TOO_DEEP = "is nested too deeply"

_pack = Layout("<d").pack
_SMALL = {number: "\x11" + _pack(number).decode("latin-1") for number in range(256)}

Write = Callable[[Any, int], str]


class Rounded:
    """The count of numbers that were rounded to a double in this process.

    `on_first`, if set, is called once, with the field path of the first one; the path is empty if it is
    unknown.
    """

    def __init__(self) -> None:
        self.count = 0
        self.on_first: Callable[[str], None] | None = None

    def note(self, path: str) -> None:
        """Counts one number."""
        self.count += 1
        if self.count == 1 and self.on_first is not None:
            self.on_first(path)


rounded = Rounded()


def exactly(number: int) -> float:
    """The double that equals an integer. Raises `Irregular` if none does."""
    try:
        double = float(number)
    except OverflowError:
        raise Irregular from None
    if double != number:
        raise Irregular
    return double


def nearest(number: int) -> float:
    """The double closest to an integer. Raises `Irregular` if it is out of the range of doubles."""
    try:
        return float(number)
    except OverflowError:
        raise Irregular from None


def writers(to_double: Callable[[int], float]) -> tuple[Write, Write, Write]:
    """The functions that write the bodies of Struct, Value and ListValue.

    They take the JSON value and the remaining number of levels, and raise `Irregular` for values that are not
    JSON or are nested too deeply.
    """

    def struct(members: Any, levels: int) -> str:
        if type(members) is not dict or levels < OBJECT_LEVELS:
            raise Irregular
        levels -= OBJECT_LEVELS
        entries = []
        for key, item in members.items():
            if not key.isascii():
                key = key.encode().decode("latin-1")  # noqa: PLW2901 - the same name in another alphabet
            if type(item) is str and item.isascii():  # as `value` does, without the call
                body = f"\x1a{VARINT[len(item)]}{item}"
            else:
                body = value(item, levels)
            entry = f"\n{VARINT[len(key)]}{key}\x12{VARINT[len(body)]}{body}"
            entries.append(f"\n{VARINT[len(entry)]}{entry}")
        return "".join(entries)

    def array(items: Any, levels: int) -> str:
        if type(items) is not list or levels < ARRAY_LEVELS:
            raise Irregular
        levels -= ARRAY_LEVELS
        entries = []
        for item in items:
            body = value(item, levels)
            entries.append(f"\n{VARINT[len(body)]}{body}")
        return "".join(entries)

    def value(item: Any, levels: int) -> str:
        kind = type(item)
        if kind is str:
            if not item.isascii():
                item = item.encode().decode("latin-1")
            return f"\x1a{VARINT[len(item)]}{item}"
        if kind is int:
            if item in _SMALL:
                return _SMALL[item]
            if not -EXACT_INTEGER <= item <= EXACT_INTEGER:
                item = to_double(item)
            return "\x11" + _pack(item).decode("latin-1")
        if kind is float and BELOW_64_BITS < item < ABOVE_64_BITS:
            return "\x11" + _pack(item).decode("latin-1")
        if kind is dict:
            body = struct(item, levels)
            return f"*{VARINT[len(body)]}{body}"
        if kind is list:
            body = array(item, levels)
            return f"2{VARINT[len(body)]}{body}"
        if item is None:
            return "\x08\0"
        if kind is bool:
            return " \x01" if item else " \0"
        if isinstance(item, float) and item - item == 0:  # neither NaN nor infinite
            if kind is float:
                rounded.note("")
            return "\x11" + _pack(item).decode("latin-1")
        raise Irregular

    return struct, value, array


def number(double: float) -> int | float:
    """The JSON form of a double: 7.0 as 7; -0.0, fractions and numbers beyond 64 bits unchanged.

    Raises ValueError for NaN and infinity, which JSON cannot express.
    """
    if double.is_integer():
        if double == 0 and copysign(1, double) < 0:
            return double
        return int(double) if BELOW_64_BITS <= double < ABOVE_64_BITS else double
    if double - double != 0:
        raise ValueError(f"is {'not a number' if double != double else 'infinite'}, which JSON cannot say")  # noqa: PLR0124
    return double


# Decoding tests the string and the number before it asks for the kind: a member with a non-default value is
# the one that is set, and most values are such strings or numbers.


def read_struct(message: Any) -> dict[str, Any]:
    """The JSON object of a Struct. Raises ValueError for NaN and infinity."""
    fields = message.fields
    spend(len(fields) + 1)
    members: dict[str, Any] = {}
    for key in fields:
        item = fields[key]
        text = item.string_value
        if text:
            members[key] = text
            continue
        double = item.number_value
        if double:
            plain = -EXACT_INTEGER <= double <= EXACT_INTEGER and double.is_integer()
            members[key] = int(double) if plain else number(double)
        else:
            members[key] = read_value(item)
    return members


def read_list(message: Any) -> list[Any]:
    """The JSON array of a ListValue. Raises ValueError for NaN and infinity."""
    items: list[Any] = []
    values = message.values
    spend(len(values) + 1)
    for item in values[:]:
        text = item.string_value
        if text:
            items.append(text)
            continue
        double = item.number_value
        if double:
            plain = -EXACT_INTEGER <= double <= EXACT_INTEGER and double.is_integer()
            items.append(int(double) if plain else number(double))
        else:
            items.append(read_value(item))
    return items


def read_value(message: Any) -> Json:
    """The JSON value of a Value; null if it has no kind. Raises ValueError for NaN and infinity."""
    kind = message.WhichOneof("kind")
    match kind:
        case "struct_value":
            return read_struct(message.struct_value)
        case "list_value":
            return read_list(message.list_value)
        case "number_value":
            return number(message.number_value)
        case "string_value" | "bool_value":
            plain: Json = getattr(message, kind)
            return plain
    return None
