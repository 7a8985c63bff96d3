"""Counts the values of a document before it is decoded, so that rejecting a large one is cheap.

A value is a JSON value; names of members do not count. In protobuf each present field is one, and so is each
item of a list or a Struct. The time to decode, store and encode a document grows with their number. The
number of bytes is no measure: one value may take two or millions.

Both counters stop beyond `most`. The JSON counter works on blocks of text; the protobuf counter goes from
field to field, and enters only messages that are large enough to exceed the limit.

The size of a message is unknown before it has been walked. So encoders count the values while they encode
(`spend`), and in a call of `within_budget` they stop beyond an allowance: the caller then encodes the message
where that may take time, such as in a thread. Outside of `within_budget`, and so in every other thread, there
is no limit.
"""

import math
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.codec.values import read_varint

#: default maximum number of values in a request, and in a response of an agent
REQUEST_VALUES, ANSWER_VALUES = 100_000, 1_000_000

_BLOCK = 1 << 20
"""Bytes per step of the JSON counter. Other threads may run between two steps."""
_QUOTES = 512
"""Most quotes, escaped ones included, of text that is counted from string to string."""
_BACKSLASH = ord("\\")
_SHORTEST = 2
"""Bytes of the shortest value including its separator, in both formats."""
_FIELDS = 4
"""Maximum number of protobuf fields for one JSON value: a map's entry, its key, its value, and its kind."""
_WEIGHT = 0
"""The key in a table, used by no field as its tag, for the weight of each field of such a message."""


def json_bound(text: bytes) -> int:
    """An upper bound of the number of values in JSON text: each follows a comma or an opening bracket. Exact
    for text with few strings, however long they are.
    """
    found = _outside_of_strings(text)
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{") if found is None else found


def _outside_of_strings(text: bytes) -> int | None:
    """The bound, counted from string to string: a search for the next quote is ten times faster than a count.
    None for text with more than _QUOTES quotes.
    """
    found, at = 1, 0
    opening = True
    for _ in range(_QUOTES):
        quote = text.find(b'"', at)
        if opening:
            end = len(text) if quote < 0 else quote
            found += text.count(b",", at, end) + text.count(b"[", at, end) + text.count(b"{", at, end)
        if quote < 0:
            return found
        at = quote + 1
        if opening or text[quote - 1] != _BACKSLASH:
            opening = not opening
            continue
        start = quote - 1
        while text[start - 1] == _BACKSLASH:
            start -= 1
        opening = (quote - start) % 2 == 0  # an even number of them escapes each other, not the quote
    return None


def json_values(text: bytes, most: int) -> int:
    """The number of values in JSON text; some number above `most` if there are more. An empty list or object
    counts as two. For text that is not JSON the result is arbitrary.
    """
    bound = len(text) // _SHORTEST + 1
    if bound > most:
        bound = json_bound(text)
    if bound <= most:
        return bound
    # The same count, without the content of strings.
    found, inside, start = 1, 0, 0
    while start < len(text) and found <= most:
        block = text[start : start + _BLOCK]
        start += len(block)
        if block.endswith(b"\\") and (len(block) - len(block.rstrip(b"\\"))) % 2:
            block += text[start : start + 1]  # never split an escape sequence
            start += 1
        if block.find(b"\\") >= 0:
            block = block.replace(b"\\\\", b"").replace(b'\\"', b"")
        quotes = block.count(b'"')
        if quotes // 4 > most - found + 1:
            return (
                most + 1
            )  # a value has at most two strings, its name and itself; keeps the list below short
        if quotes:
            block = b"".join(block.split(b'"')[inside::2])
            inside = (inside + quotes) % 2
        elif inside:
            continue
        found += block.count(b",") + block.count(b"[") + block.count(b"{")
    return found


def protobuf_values(cls: type[Message], wire: bytes, most: int) -> int:
    """As `json_values`, for the bytes of a message. For other bytes the result is arbitrary."""
    bound = len(wire) // _SHORTEST + 1
    if bound <= most:
        return bound
    count = steps = 0
    waiting = [(_table(cls.DESCRIPTOR), 0, len(wire))]
    while waiting:
        known, at, end = waiting.pop()
        weight: int = known[_WEIGHT]
        while at < end:
            steps += 1
            count += weight
            if count > most or steps > _FIELDS * most:
                return most + 1
            tag = wire[at]
            at += 1
            if tag > 0x7F:
                tag, at = read_varint(wire, at - 1, end)
            kind = tag & 7
            if kind == 2:
                size = wire[at] if at < end else 0
                at += 1
                if size > 0x7F:
                    size, at = read_varint(wire, at - 1, end)
                below = known.get(tag)
                if below is None or at + size > end:
                    at += size
                    continue
                if at + size < end:
                    waiting.append((known, at + size, end))
                known, end = below, at + size
                weight = known[_WEIGHT]
            elif kind == 0:
                while at < end and wire[at] > 0x7F:
                    at += 1
                at += 1
            elif kind == 1:
                at += 8
            elif kind == 5:
                at += 4
            # A group is an unknown field: its content counts as if it were outside of the group.
    return count


_TABLES: dict[str, dict[int, Any]] = {}
"""For each message type: the tag of a field that holds messages → the table of that type."""


def _table(descriptor: Any) -> dict[int, Any]:
    table = _TABLES.get(descriptor.full_name)
    if table is None:
        # A map's entry counts once, in the message with the map; a Value counts once, in its own place.
        inner = descriptor.GetOptions().map_entry or descriptor.full_name == "google.protobuf.Value"
        table = _TABLES[descriptor.full_name] = {_WEIGHT: 0 if inner else 1}
        for field in descriptor.fields:
            if field.message_type is not None:
                table[field.number << 3 | 2] = _table(field.message_type)
    return table


T = TypeVar("T")

ALLOWANCE = 4000
"""Maximum number of values encoded without a pause. They take some milliseconds."""
LONG = 32
"""Minimum length of a list of messages that is counted; shorter lists are not worth the check."""
_EACH = 8
"""The number of values that a message in such a list counts as, besides its free content."""


class LengthyError(Exception):
    """A message holds more values than may be encoded without a pause."""


class _Meter(threading.local):
    left: float = math.inf


METER = _Meter()


def within_budget(write: Callable[..., T], *arguments: Any) -> T:
    """The result of `write`. Raises LengthyError if it encodes more than ALLOWANCE values."""
    METER.left = ALLOWANCE
    try:
        return write(*arguments)
    finally:
        METER.left = math.inf


def spend(values: int) -> None:
    """Counts values that are about to be encoded. Raises LengthyError."""
    left = METER.left - values
    METER.left = left
    if left < 0:
        raise LengthyError


def spend_on(items: Any) -> Any:
    """The items of a long list of messages, after counting them. Raises LengthyError."""
    if len(items) > LONG:
        spend(_EACH * len(items))
    return items
