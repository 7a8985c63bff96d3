"""Struct, Value and ListValue, both ways: arbitrary JSON inside messages. Hot, hence written out, not generated.

Writing goes from JSON values to wire text (see `wire`). Reading goes from the serialized Struct to JSON values:
walking the bytes is faster than asking a map and its values one by one through protobuf's objects.

Numbers are doubles on the wire. Integral ones up to 2^53-1 print as integers. An integer that no double equals is
handed to a function of the caller, which rounds or refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign
from struct import Struct as Layout
from typing import Any

from a2a_bridge.codec.errors import InexactNumber, Irregular
from a2a_bridge.codec.text import DOUBT_ABOVE, DOUBT_BELOW, Json
from a2a_bridge.codec.wire import VARINT

LEVELS = 90
"""How many protobuf levels a Struct or Value may nest: an object takes three, an array two.

Protobuf refuses messages of more than 100 levels. The limit here does not depend on where the Struct is, so that
what came in can go out again inside any other message of A2A, which nest up to eight levels around it.
"""
OBJECT_LEVELS, ARRAY_LEVELS = 3, 2

EXACT_INTEGER = 2**53 - 1
"""Up to here every integer is a double and every double an integer that JavaScript trusts."""

TOO_DEEP = "is nested too deeply"

_DOUBLE = Layout("<d")
_pack = _DOUBLE.pack
_unpack_from = _DOUBLE.unpack_from
_SMALL = {number: "\x11" + _pack(number).decode("latin-1") for number in range(256)}

Write = Callable[[Any, int], str]


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
    """The double closest to an integer. Raises `Irregular` if it is too large for any."""
    try:
        return float(number)
    except OverflowError:
        raise Irregular from None


def check_float(number: float) -> None:
    """Raise `InexactNumber` if this plain double may be an integer that the JSON parser has rounded."""
    if type(number) is float and not DOUBT_BELOW < number < DOUBT_ABOVE:
        raise InexactNumber("a number may have been rounded by the JSON parser")


def writers(to_double: Callable[[int], float]) -> tuple[Write, Write, Write]:
    """The functions that write the bodies of Struct, Value and ListValue.

    They take the JSON value and how many levels may follow, and raise `Irregular` for what is not JSON and for
    what is nested too deeply, and `InexactNumber`.
    """

    def struct(members: Any, levels: int) -> str:
        if type(members) is not dict or levels < OBJECT_LEVELS:
            raise Irregular
        levels -= OBJECT_LEVELS
        entries = []
        for name, item in members.items():
            key = name if name.isascii() else name.encode().decode("latin-1")
            body = (
                value(item, levels)
                if type(item) is not str or not item.isascii()
                else f"\x1a{VARINT[len(item)]}{item}"
            )
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
            check_float(item)
            return "\x11" + _pack(item).decode("latin-1")
        raise Irregular

    return struct, value, array


def number(double: float) -> int | float:
    """How a double prints: 7.0 as 7, but -0.0, fractions and what is beyond 2^53-1 as they are.

    Raises ValueError for NaN and infinity, which JSON cannot say.
    """
    if double.is_integer():
        if double == 0 and copysign(1, double) < 0:
            return double
        return int(double) if -EXACT_INTEGER <= double <= EXACT_INTEGER else double
    if double - double != 0:
        raise ValueError(f"is {'not a number' if double != double else 'infinite'}, which JSON cannot say")  # noqa: PLR0124
    return double


def read_struct(message: Any) -> dict[str, Any]:
    """The JSON object that a Struct holds. Raises ValueError for NaN and infinity."""
    octets = message.SerializeToString()
    try:
        return _struct(octets, 0, len(octets))
    except (Irregular, IndexError):
        return walk_struct(message)


def read_value(message: Any) -> Json:
    """The JSON value that a Value holds; null if it holds none. Raises ValueError for NaN and infinity."""
    octets = message.SerializeToString()
    try:
        return _value(octets, 0, len(octets))
    except (Irregular, IndexError):
        return walk_value(message)


def read_list(message: Any) -> list[Any]:
    """The JSON array that a ListValue holds. Raises ValueError for NaN and infinity."""
    octets = message.SerializeToString()
    try:
        return _list(octets, 0, len(octets))
    except (Irregular, IndexError):
        return walk_list(message)


# The three readers below walk what upb has just serialized: each field at most once, nothing unknown. Whatever
# does not look like that (a peer may send fields of a later version) is `Irregular`, and objects are asked instead.


def _struct(octets: bytes, at: int, end: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    while at < end:
        if octets[at] != 0x0A:  # fields
            raise Irregular
        size = octets[at + 1]
        at += 2
        if size > 0x7F:
            size, at = _varint(octets, at - 1)
        stop = at + size
        if octets[at] != 0x0A:  # key
            raise Irregular
        size = octets[at + 1]
        at += 2
        if size > 0x7F:
            size, at = _varint(octets, at - 1)
        key_end = at + size
        key = octets[at:key_end].decode()
        if octets[key_end] != 0x12:  # value
            raise Irregular
        size = octets[key_end + 1]
        at = key_end + 2
        if size > 0x7F:
            size, at = _varint(octets, at - 1)
        if at + size != stop:
            raise Irregular
        members[key] = _value(octets, at, stop)
        at = stop
    return members


def _list(octets: bytes, at: int, end: int) -> list[Any]:
    items: list[Any] = []
    while at < end:
        if octets[at] != 0x0A:  # values
            raise Irregular
        size = octets[at + 1]
        at += 2
        if size > 0x7F:
            size, at = _varint(octets, at - 1)
        stop = at + size
        items.append(_value(octets, at, stop))
        at = stop
    return items


def _value(octets: bytes, at: int, end: int) -> Json:
    if at == end:
        return None
    kind = octets[at]
    if kind == 0x11:
        if at + 9 != end:
            raise Irregular
        return number(_unpack_from(octets, at + 1)[0])
    size = octets[at + 1]
    at += 2
    if size > 0x7F:
        size, at = _varint(octets, at - 1)
    if kind == 0x1A and at + size == end:
        return octets[at:end].decode()
    if kind == 0x2A and at + size == end:
        return _struct(octets, at, end)
    if kind == 0x32 and at + size == end:
        return _list(octets, at, end)
    if kind == 0x20 and at == end:
        return size == 1
    if kind == 0x08 and at == end:
        return None
    raise Irregular


def _varint(octets: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        octet = octets[at]
        at += 1
        result |= (octet & 0x7F) << shift
        if octet < 0x80:
            return result, at
        shift += 7


def walk_struct(message: Any) -> dict[str, Any]:
    """As `read_struct`, through protobuf's objects."""
    fields = message.fields
    return {key: walk_value(fields[key]) for key in fields}


def walk_list(message: Any) -> list[Any]:
    """As `read_list`, through protobuf's objects."""
    return [walk_value(item) for item in message.values]


def walk_value(message: Any) -> Json:
    """As `read_value`, through protobuf's objects."""
    kind = message.WhichOneof("kind")
    match kind:
        case "struct_value":
            return walk_struct(message.struct_value)
        case "list_value":
            return walk_list(message.list_value)
        case "number_value":
            return number(message.number_value)
        case "string_value" | "bool_value":
            plain: Json = getattr(message, kind)
            return plain
    return None
