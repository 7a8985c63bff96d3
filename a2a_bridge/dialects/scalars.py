"""Scalar values of the JSON of older versions, lists of strings, lengths, free JSON. Not the objects that
hold them.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import Json, Violation, structs
from a2a_bridge.codec.errors import Irregular
from a2a_bridge.codec.inspect import free_findings
from a2a_bridge.codec.structs import EXACT_INTEGER, number
from a2a_bridge.codec.wire import VARINT

SHORTEST, LONGEST = -(2**31), 2**31 - 1


#: as in the codec, but integers that would be rounded are refused
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


def canonical_free(value: Json, path: str) -> Json:
    """Any JSON after a round trip through a Value; the same object if equal. Raises FreeJsonError."""
    levels = structs.LEVELS if type(value) is dict else structs.BARE_LEVELS
    found = [(one.path, one.problem) for one in free_findings(value, path, levels) if not one.rounding]
    if found:
        raise FreeJsonError(found)
    rounded: Json = _rounded(value)
    return rounded


def _rounded(value: Any) -> Any:
    kind = type(value)
    if kind is int and not -EXACT_INTEGER <= value <= EXACT_INTEGER:
        return number(float(value))
    if kind is dict:
        members = {name: _rounded(item) for name, item in value.items()}
        return value if all(members[name] is item for name, item in value.items()) else members
    if kind is list:
        items = [_rounded(item) for item in value]
        return value if all(map(_is, items, value)) else items
    return value


def metadata_entry(field_tag: str, key: str, value: str) -> str:
    """Wire text that adds a member to a metadata field: protobuf merges repeated occurrences.

    value: the wire text of a Value.
    """
    entry = f"\n{VARINT[len(key)]}{key}\x12{VARINT[len(value)]}{value}"
    body = f"\n{VARINT[len(entry)]}{entry}"
    return f"{field_tag}{VARINT[len(body)]}{body}"


def _is(one: object, other: object) -> bool:
    return one is other
