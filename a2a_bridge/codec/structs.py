"""Struct, Value and ListValue in both directions: arbitrary JSON inside messages. Hot, hence hand-written,
not generated.

Encoding converts JSON values to wire text (see `values`). Decoding reads the bytes of a serialized Struct:
protobuf serializes it at a fraction of the cost of one Python object per value, and lists of numbers are
unpacked as a whole.

Numbers are doubles on the wire. Integral ones within 64 bits become integers in JSON. An integer that equals
no double is passed to a function of the caller, which rounds or rejects it. The JSON parser has already
rounded integers beyond 64 bits; doubles of that size are counted in `rounded`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, isfinite
from struct import Struct as Layout
from struct import pack as _doubles
from typing import Any

from a2a_bridge.codec.budget import spend
from a2a_bridge.codec.text import ABOVE_64_BITS, BELOW_64_BITS, Irregular, Json
from a2a_bridge.codec.values import VARINT, read_varint

LEVELS = 90
"""Maximum number of protobuf levels of a Struct or Value: an object takes three, an array two.

Protobuf rejects messages of more than 100 levels. The limit here does not depend on the place of the Struct,
so that received content can be sent again inside any other message of A2A, which nest up to eight levels
around it.
"""
OBJECT_LEVELS, ARRAY_LEVELS = 3, 2

BARE_LEVELS = LEVELS - OBJECT_LEVELS
"""The same for a Value that is not an object: versions whose data parts are objects wrap the Value."""

EXACT_INTEGER = 2**53 - 1
"""Up to this value every integer is a double, and every such double is a safe integer in JavaScript."""

TOO_DEEP = "is nested too deeply"

_pack = Layout("<d").pack
_unpack = Layout("<d").unpack_from
_SMALL = {number: "\x11" + _pack(number).decode("latin-1") for number in range(256)}

_NUMBER, _NUMBER_SIZE = b"\n\t\x11", 11
"""The bytes before a double in an item of a ListValue, and the size of the item."""
_NUMERIC = {int, float}
_FEW = 7
"""The longest list whose numbers are read and written one by one."""
_TEXT_HEADS = [f"\n{VARINT[size + 2]}\x1a{VARINT[size]}" for size in range(126)]
"""The wire text before a short string in an item of a ListValue, by its length."""

Write = Callable[[Any, int], str]


class Rounded:
    """The count of numbers that were rounded to a double in this process. `on_first`, if set, is called once,
    with the field path of the first one; empty if that is unknown.
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
    """The functions that write the bodies of Struct, Value and ListValue. They take JSON and the number of
    levels that are left, and raise `Irregular` for values that are not JSON or are nested too deeply.
    """

    def struct(members: Any, levels: int) -> str:
        if type(members) is not dict or levels < OBJECT_LEVELS:
            raise Irregular
        levels -= OBJECT_LEVELS
        entries = []
        for key, item in members.items():
            if not key.isascii():
                key = key.encode().decode("latin-1")  # noqa: PLW2901 - the same name in another alphabet
            kind = type(item)
            if kind is str and item.isascii():  # as `value` does, without the call
                body = f"\x1a{VARINT[len(item)]}{item}"
            elif kind is int and item in _SMALL:
                body = _SMALL[item]
            else:
                body = value(item, levels)
            entry = f"\n{VARINT[len(key)]}{key}\x12{VARINT[len(body)]}{body}"
            entries.append(f"\n{VARINT[len(entry)]}{entry}")
        return "".join(entries)

    def array(items: Any, levels: int) -> str:
        if type(items) is not list or levels < ARRAY_LEVELS:
            raise Irregular
        levels -= ARRAY_LEVELS
        if len(items) > _FEW and type(items[0]) in _NUMERIC and set(map(type, items)) <= _NUMERIC:
            text = _number_items(items, to_double)
            if text:
                return text
        entries = []
        for item in items:
            if type(item) is str and len(item) < len(_TEXT_HEADS) and item.isascii():
                entries.append(_TEXT_HEADS[len(item)] + item)
            else:
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


def _number_items(items: list[float], to_double: Callable[[int], float]) -> str:
    """The wire text of a list of numbers; empty if one of them is beyond 64 bits."""
    try:
        least, most = min(items), max(items)
        if not (least > BELOW_64_BITS and most < ABOVE_64_BITS and isfinite(sum(items))):
            return ""
    except OverflowError:
        return ""
    if not (least >= -EXACT_INTEGER and most <= EXACT_INTEGER):
        doubles = list(map(float, items))
        if doubles != items:
            doubles = [to_double(item) if type(item) is int else item for item in items]
        items = doubles
    raw_bytes = _doubles(f"<{len(items)}d", *items)
    wire = bytearray(_NUMBER + bytes(8)) * len(items)
    for place in range(8):
        wire[len(_NUMBER) + place :: _NUMBER_SIZE] = raw_bytes[place::8]
    return wire.decode("latin-1")


def number(double: float) -> int | float:
    """The JSON form of a double: 7.0 as 7; -0.0, fractions and numbers beyond 64 bits unchanged. Raises
    ValueError for NaN and infinity, which JSON cannot express.
    """
    if double.is_integer():
        if double == 0 and copysign(1, double) < 0:
            return double
        return int(double) if BELOW_64_BITS <= double < ABOVE_64_BITS else double
    if double - double != 0:
        raise ValueError(f"is {'not a number' if double != double else 'infinite'}, which JSON cannot say")  # noqa: PLR0124
    return double


_NUMBERS = Layout("<3xd").iter_unpack
_SHORT = 256
"""The largest Struct, in bytes, whose values are not worth counting."""
_NEGATIVE_ZERO = _pack(-0.0)
_LOWEST, _HIGHEST = int(BELOW_64_BITS), int(ABOVE_64_BITS)


def read_struct(message: Any) -> dict[str, Any]:
    """The JSON object of a Struct. Raises ValueError for NaN and infinity."""
    wire = _bytes(message)
    try:
        return _object(wire, 0, len(wire))
    except (Irregular, IndexError):
        return _object(*_strip_unknown(message))


def read_list(message: Any) -> list[Any]:
    """The JSON array of a ListValue. Raises ValueError for NaN and infinity."""
    wire = _bytes(message)
    try:
        return _array(wire, 0, len(wire))
    except (Irregular, IndexError):
        return _array(*_strip_unknown(message))


def read_value(message: Any) -> Json:
    """The JSON value of a Value; null if it has no kind. Raises ValueError for NaN and infinity."""
    wire = _bytes(message)
    try:
        made: Json = _value(wire, 0, len(wire))
    except (Irregular, IndexError):
        made = _value(*_strip_unknown(message))
    return made


def _bytes(message: Any) -> bytes:
    wire: bytes = message.SerializeToString()
    if len(wire) > _SHORT:
        spend(wire.count(b"\n"))  # each item of a list has such a tag, and each member has two
    return wire


def _strip_unknown(message: Any) -> tuple[bytes, int, int]:
    """The bytes of a message without its unknown fields."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    wire: bytes = known.SerializeToString()
    return wire, 0, len(wire)


# Serialized messages have no other fields, no repeated ones, and members in the order of their numbers, as
# protobuf writes them. Anything else raises Irregular or IndexError: unknown fields.


def _object(wire: bytes, at: int, end: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    while at < end:
        if wire[at] != 0x0A:
            raise Irregular
        at = at + 2 if wire[at + 1] < 0x80 else read_varint(wire, at + 1, end)[1]
        if wire[at] != 0x0A:
            raise Irregular
        size = wire[at + 1]
        if size < 0x80:
            at += 2
        else:
            size, at = read_varint(wire, at + 1, end)
        key = wire[at : at + size].decode()
        at += size
        if wire[at] != 0x12:
            raise Irregular
        size = wire[at + 1]
        if size < 0x80:
            at += 2
        else:
            size, at = read_varint(wire, at + 1, end)
        end_of_value = at + size
        if size and wire[at] == 0x1A and size < 0x80 and wire[at + 1] == size - 2:  # a short string
            members[key] = wire[at + 2 : end_of_value].decode()
        else:
            members[key] = _value(wire, at, end_of_value)
        at = end_of_value
    return members


def _array(wire: bytes, at: int, end: int) -> list[Any]:
    if end - at > _FEW * _NUMBER_SIZE and wire.startswith(_NUMBER, at):
        count, rest = divmod(end - at, _NUMBER_SIZE)
        heads = (wire[at + place : end : _NUMBER_SIZE] for place in range(3))
        if not rest and all(head.count(one) == count for head, one in zip(heads, _NUMBER, strict=True)):
            return _numbers(wire[at:end])
    items: list[Any] = []
    while at < end:
        if wire[at] != 0x0A:
            raise Irregular
        size = wire[at + 1]
        if size < 0x80:
            at += 2
        else:
            size, at = read_varint(wire, at + 1, end)
        end_of_value = at + size
        if size and wire[at] == 0x1A and size < 0x80 and wire[at + 1] == size - 2:  # as in _object
            items.append(wire[at + 2 : end_of_value].decode())
        else:
            items.append(_value(wire, at, end_of_value))
        at = end_of_value
    return items


def _numbers(wire: bytes) -> list[int | float]:
    """The items of a list of numbers only."""
    doubles = [double for (double,) in _NUMBERS(wire)]
    if wire.find(_NEGATIVE_ZERO) < 0:
        try:
            integers = list(map(int, doubles))
        except (ValueError, OverflowError):
            integers = []  # NaN or infinity, reported below
        if integers == doubles and min(integers) >= _LOWEST and max(integers) < _HIGHEST:
            return [*integers]
    return [number(double) for double in doubles]


def _value(wire: bytes, at: int, end: int) -> Any:
    if at == end:
        return None
    kind = wire[at]
    if kind == 0x11:
        if end - at != 9:
            raise Irregular
        (double,) = _unpack(wire, at + 1)
        if double and -EXACT_INTEGER <= double <= EXACT_INTEGER and double.is_integer():
            return int(double)
        return number(double)
    if kind in _SIZED:
        size = wire[at + 1]
        if size < 0x80:
            at += 2
        else:
            size, at = read_varint(wire, at + 1, end)
        if at + size != end:
            raise Irregular
        if kind == 0x1A:
            return wire[at:end].decode()
        return _object(wire, at, end) if kind == 0x2A else _array(wire, at, end)
    if kind == 0x20 and end - at == 2:
        return wire[at + 1] == 1
    if kind == 0x08:
        return None
    raise Irregular


_SIZED = frozenset((0x1A, 0x2A, 0x32))
