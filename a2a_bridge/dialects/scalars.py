"""Values in the JSON of older versions, without the objects that hold them: type checks with an error that
names the member, scalars, lists of strings, lengths, free JSON.
"""

from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject, Violation, structs
from a2a_bridge.codec.inspect import free_findings
from a2a_bridge.codec.structs import EXACT_INTEGER, number
from a2a_bridge.codec.text import ABOVE_64_BITS, BELOW_64_BITS, Irregular
from a2a_bridge.codec.values import VARINT, describe, string_wire


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


SHORTEST, LONGEST = -(2**31), 2**31 - 1


#: as in the codec, but integers that would be rounded are rejected
struct, value_of, array = structs.writers(structs.exactly)


def strings(items: Any, tag: str) -> str:
    """Wire text of a list of strings that is not empty. Raises Irregular."""
    if type(items) is not list or not items:
        raise Irregular
    out = ""
    for item in items:
        if type(item) is not str:
            raise Irregular
        text = item if item.isascii() else item.encode().decode("latin-1")
        out += f"{tag}{VARINT[len(text)]}{text}"
    return out


def int32(value: Any) -> int | None:
    """An integer clamped to 32 bits, as the hub stores it; None if the value is not an integer."""
    if isinstance(value, float):
        if value - value != 0:
            return LONGEST if value > 0 else SHORTEST
        if not value.is_integer():
            return None
        value = int(value)
    return max(SHORTEST, min(value, LONGEST)) if type(value) is int else None


class FreeJsonError(ValueError):
    """Free JSON holds content that no message can hold. problems: places and texts."""

    def __init__(self, problems: list[Violation]) -> None:
        super().__init__()
        self.problems = problems


def check_free(value: Json, path: str) -> None:
    """Raises FreeJsonError for JSON that no Value can hold."""
    levels = structs.LEVELS if type(value) is dict else structs.BARE_LEVELS
    found = [(one.path, one.problem) for one in free_findings(value, path, levels) if not one.rounding]
    if found:
        raise FreeJsonError(found)


def round_integers(value: Any) -> Any:
    """JSON with the integers that a Value returns; the same object if nothing changes. Raises OverflowError
    for an integer that no double can hold at all.
    """
    kind = type(value)
    if kind is int:
        if -EXACT_INTEGER <= value <= EXACT_INTEGER:
            return value
        near = number(float(value))
        return value if near == value else near
    if kind is not list and kind is not dict:
        return value
    items = value.values() if kind is dict else value
    kinds = set(map(type, items))
    if kinds <= _UNCHANGED:
        return value
    if kinds == _INTEGERS:
        least, most = min(items), max(items)
        if least >= -EXACT_INTEGER and most <= EXACT_INTEGER:
            return value
        if kind is list and least >= BELOW_64_BITS and float(most) < ABOVE_64_BITS:
            doubles = list(map(int, map(float, value)))  # as below, for all of them at once
            return value if doubles == value else doubles
    changes = {
        at: near
        for at, item in (value.items() if kind is dict else enumerate(value))
        if type(item) not in _UNCHANGED and (near := round_integers(item)) is not item
    }
    if not changes:
        return value
    copy = value.copy()
    for at, item in changes.items():
        copy[at] = item
    return copy


_UNCHANGED = {str, float, bool, type(None)}
_INTEGERS = {int}


def metadata_entry(field_tag: str, key: str, value: str) -> str:
    """Wire text that adds a member to a metadata field: protobuf merges repeated occurrences. value: the wire
    text of a Value.
    """
    entry = f"\n{VARINT[len(key)]}{key}\x12{VARINT[len(value)]}{value}"
    body = f"\n{VARINT[len(entry)]}{entry}"
    return f"{field_tag}{VARINT[len(body)]}{body}"
