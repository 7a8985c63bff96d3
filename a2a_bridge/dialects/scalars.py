"""Single values of the JSON of older versions, both ways: timestamps, base64, free JSON. Not the objects that hold them.

Two readers for each. The quick ones, for the hot path, take only what an encoder would write and raise `Irregular`
for all else. The tolerant ones (`canonical_…`) take whatever can be understood and return the canonical spelling:
the same object if it is canonical already.
"""

from __future__ import annotations

import re
from typing import Any

import pybase64

from a2a_bridge.codec import Json, structs, values
from a2a_bridge.codec.errors import Irregular
from a2a_bridge.codec.structs import ARRAY_LEVELS, EXACT_INTEGER, OBJECT_LEVELS, number
from a2a_bridge.codec.wire import VARINT

_CANONICAL_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])"
    r"(?:\.([0-9]{3}|[0-9]{6}|[0-9]{9}))?Z"
)
#: the last character before the padding, if no stray bits follow the last byte
_ENDS_ONE = frozenset("AQgw")
_ENDS_TWO = frozenset("AEIMQUYcgkosw048")
_SURROGATE = re.compile("[\ud800-\udfff]")
SHORTEST, LONGEST = -(2**31), 2**31 - 1


#: as in the codec, but no integers that would be rounded
struct, value_of, array = structs.writers(structs.exactly)


def timestamp_octets(text: Any) -> str:
    """A Timestamp's wire text, of canonical spelling only."""
    if type(text) is not str:
        raise Irregular
    match = _CANONICAL_TIME.fullmatch(text)
    if match is None or (match[7] or "1").endswith("000"):
        raise Irregular
    return values.timestamp_octets(text)


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


def base64_octets(text: Any) -> str:
    """Bytes as wire text, of canonical base64 only."""
    if type(text) is not str:
        raise Irregular
    octets = pybase64.b64decode(text, validate=True).decode("latin-1")
    if text.endswith("="):
        if text.endswith("=="):
            if text[-3:-2] not in _ENDS_ONE:
                raise Irregular
        elif text[-2:-1] not in _ENDS_TWO:
            raise Irregular
    return octets


def history_length(value: Any) -> int | None:
    """A historyLength as the hub can hold it, in 32 bits; None for what is no integer."""
    if isinstance(value, float):
        if value - value != 0:
            return LONGEST if value > 0 else SHORTEST
        if not value.is_integer():
            return None
        value = int(value)
    return max(SHORTEST, min(value, LONGEST)) if type(value) is int else None


def canonical_text(text: str) -> str:
    """A string that protobuf can hold."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub("\ufffd", text)


class TooDeepError(Exception):
    """Free JSON is nested deeper than messages may hold it."""


def canonical_free(value: Json, levels: int = structs.LEVELS) -> Json:
    """Any JSON as it comes back from a Value, the same object where that is equal. What no double holds becomes 0.

    Raises TooDeepError.
    """
    kind = type(value)
    if kind is str:
        return canonical_text(value)  # type: ignore[arg-type]
    if kind is int:
        return value if -EXACT_INTEGER <= value <= EXACT_INTEGER else _large(value)  # type: ignore[operator,arg-type]
    if kind is dict:
        return _canonical_object(value, levels - OBJECT_LEVELS)  # type: ignore[arg-type]
    if kind is list:
        if levels < ARRAY_LEVELS:
            raise TooDeepError
        items = [canonical_free(item, levels - ARRAY_LEVELS) for item in value]  # type: ignore[union-attr]
        return value if all(map(_is, items, value)) else items  # type: ignore[arg-type]
    if isinstance(value, float):
        return value if value - value == 0 else 0
    return value


def _canonical_object(value: dict[str, Any], levels: int) -> Json:
    if levels < 0:
        raise TooDeepError
    members = {}
    changed = False
    for key, item in value.items():
        if canonical_text(key) is not key:
            changed = True  # two such names could become one: they stay outside
            continue
        members[key] = found = canonical_free(item, levels)
        changed = changed or found is not item
    return members if changed else value


def canonical_base64(text: str) -> str | None:
    """Standard base64 with padding of the bytes a text stands for; None when it is no base64 at all."""
    try:
        octets = values.base64_octets(text).encode("latin-1")
    except ValueError:
        return None
    plain = values.base64_text(octets)
    return text if plain == text else plain


def canonical_time(text: str) -> str | None:
    """RFC 3339 in UTC with 0, 3, 6 or 9 digits of a second; None for what is no time."""
    stamp = values.lenient_timestamp(text)
    if stamp is None:
        return None
    canonical = values.timestamp_text(stamp)
    return text if canonical == text else canonical


def metadata_entry(field_tag: str, key: str, value: str) -> str:
    """Wire text that adds a member to a metadata field: protobuf merges what is given twice.

    value: the wire text of a Value.
    """
    entry = f"\n{VARINT[len(key)]}{key}\x12{VARINT[len(value)]}{value}"
    body = f"\n{VARINT[len(entry)]}{entry}"
    return f"{field_tag}{VARINT[len(body)]}{body}"


def _large(value: int) -> int | float:
    """An integer as it comes back from a double."""
    try:
        return number(float(value))
    except OverflowError:
        return 0


def _is(one: object, other: object) -> bool:
    return one is other
