"""Carries what the hub has no place for, so that what an older version said comes back as it was said. It knows
no version: what is canonical, and what a patched tree means, is for the dialects to say.

Rules:
1. A residue tells how a tree deviates from the one that the hub message alone would give: members added, removed,
   spelled differently. It is one ASCII string under KEY in the metadata of a hub message, because a Struct would
   lose numbers and depth.
2. A *unit* is a message with metadata of its own. Its residue covers its members, but not units within it.
3. It is written only where there is a deviation, and refused where it would be larger than LARGEST.
4. Each entry names the value it replaces by a checksum. Entries whose value has changed since are left out. No two
   speak of the same value: a residue with such entries is none of ours.
5. It cannot change what a message says: a dialect applies it only if the outcome still means the same message.
   What does not pass, or is none of ours, is the user's own.
6. `strip` takes it away for those to whom it says nothing: agents next door. What the protobuf shape said stays behind
   on wires of the other shape, too; the reverse travels on as an entry of the metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from operator import itemgetter
from typing import Any, TypeVar
from zlib import crc32

import orjson
from google.protobuf.message import Message

from a2a_bridge.codec import (
    ExactFloat,
    Json,
    JsonSyntaxError,
    dumps,
    dumps_ascii,
    loads,
)
from a2a_bridge.codec.structs import number
from a2a_bridge.dialects.respelling import describe, respelled
from a2a_bridge.pb import lf_a2a_v1 as hub

M = TypeVar("M", bound=Message)
Entry = list[Any]
"""[pointer, checksum, value]: set a member (checksum null: there was none); [pointer, checksum]: remove it;
[pointer, checksum, null, recipe]: respell a text. Pointers as in RFC 6901."""

KEY = "urn:a2a-bridge:residue:1"
LARGEST = 64 * 1024
DEEPEST = 490
"""Levels of a carried value, at most: with the few around it, less than `loads` reads again."""
MOST = LARGEST // 16
"""Entries of a residue, at most: the text of each takes more than so many octets."""
KIND, PROTO, HUB = "kind", "proto", "hub"
"""Sources: the JSON `kind` shape, the protobuf shape and 0.1 (what those said more than the hub), and the hub."""

_PREFIX = '{"v":1,"'
_KEY_BYTES = KEY.encode()


class TooMuch(ValueError):  # noqa: N818 - it is about a size, and the caller says whose
    """What would have to be carried is more than LARGEST, or nested deeper than DEEPEST."""


def diff(canonical: Json, given: Json) -> list[Entry]:
    """What `patch` needs to make the given tree of the canonical one.

    Numbers differ by value, however they are written. The entries come in the order of their pointers, whatever the
    order of the members. Raises TooMuch, as soon as there are more entries than a residue can hold.
    """
    if canonical is given:
        return []
    entries = list(islice(_differences(canonical, given, ""), MOST + 1))
    if len(entries) > MOST:
        raise TooMuch(f"holds more than {LARGEST} bytes that A2A 1.0 has no place for")
    entries.sort(key=itemgetter(0))
    return entries


def patch(canonical: Json, entries: Sequence[Entry]) -> Json:
    """The tree with all the entries whose old value is still there. Shares what is unchanged."""
    root: dict[str, Any] = {"": canonical}
    owned: set[int] = {id(root)}  # containers that are ours to change
    for entry in entries:
        _apply(root, owned, entry)
    tree: Json = root.get("")
    return tree


def write(source: str, entries: Sequence[Entry]) -> str:
    """The text of a residue. Raises TooMuch."""
    return said(source, list(entries))


def said(source: str, content: Json) -> str:
    """The text under KEY for what a source says. Raises TooMuch."""
    text = dumps_ascii({"v": 1, source: content})
    if len(text) > LARGEST:
        raise TooMuch(f"holds more than {LARGEST} bytes that A2A 1.0 has no place for")
    return text


def heard(text: object, source: str) -> Json:
    """What a source says in a text under KEY; None when it says nothing there, or when the text is none of ours."""
    if not isinstance(text, str) or not text.startswith(_PREFIX) or len(text) > LARGEST:
        return None
    try:
        tree = loads(text)
    except JsonSyntaxError:
        return None
    return tree.get(source) if isinstance(tree, dict) else None


def read(text: object, source: str) -> list[Entry] | None:
    """The entries of a source in a text under KEY; None when it has none, or when they are not as `diff` makes them."""
    entries = heard(text, source)
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        return None
    return (
        entries
        if _are_apart(entries) and not any(_is_too_deep(entry[2]) for entry in entries if len(entry) == 3)
        else None
    )


def is_residue(value: object) -> bool:
    """Whether a value under KEY looks like one of ours."""
    return isinstance(value, str) and value.startswith(_PREFIX)


def carry(unit: Any, source: str, entries: Sequence[Entry]) -> None:
    """Puts a residue into the metadata of a unit, beside those of other sources. Raises TooMuch."""
    content = {"v": 1}
    fields = unit.metadata.fields
    if KEY in fields and is_residue(fields[KEY].string_value):
        try:
            content = dict(loads(fields[KEY].string_value))  # type: ignore[arg-type]
        except (JsonSyntaxError, ValueError, TypeError):
            content = {"v": 1}
    text = dumps_ascii({**content, source: list(entries)})
    if len(text) > LARGEST:
        raise TooMuch(f"holds more than {LARGEST} bytes that A2A 1.0 has no place for")
    fields[KEY].string_value = text


def carried(unit: Any, source: str) -> list[Entry] | None:
    """The entries of a source in the metadata of a unit."""
    if not unit.HasField("metadata") or KEY not in unit.metadata.fields:
        return None
    return read(unit.metadata.fields[KEY].string_value, source)


def present(message: Message) -> bool:
    """Whether there is a residue anywhere in a message of the hub."""
    return _KEY_BYTES in message.SerializeToString() and any(_bears(unit) for unit in units(message))


def strip(message: Message) -> None:
    """Takes all residues out of a message, in place, and metadata that held nothing else."""
    for unit in units(message):
        if _bears(unit):
            del unit.metadata.fields[KEY]
            if not unit.metadata.fields:
                unit.ClearField("metadata")


def stripped(message: M) -> M:
    """The message without residues: itself if it has none, else a copy."""
    if not present(message):
        return message
    copy = type(message)()
    copy.CopyFrom(message)
    strip(copy)
    return copy


def units(message: Any) -> Iterator[Any]:
    """All the messages with metadata of their own in a message of the hub, itself included."""
    match message:
        case hub.Part():
            yield message
        case hub.Message() | hub.Artifact():
            yield message
            yield from message.parts
        case hub.Task():
            yield message
            yield from _status_units(message)
            for one in (*message.history, *message.artifacts):
                yield from units(one)
        case hub.TaskStatusUpdateEvent():
            yield message
            yield from _status_units(message)
        case hub.TaskArtifactUpdateEvent():
            yield message
            if message.HasField("artifact"):
                yield from units(message.artifact)
        case hub.SendMessageRequest():
            yield message
            if message.HasField("message"):
                yield from units(message.message)
        case hub.CancelTaskRequest():
            yield message
        case hub.StreamResponse() | hub.SendMessageResponse():
            payload = message.WhichOneof("payload")
            if payload is not None:
                yield from units(getattr(message, payload))
        case hub.ListTasksResponse():
            for task in message.tasks:
                yield from units(task)


def same(one: Json, other: Json) -> bool:
    """Whether two trees are the same: numbers by value, as doubles where one is a double; members in any order."""
    if one is other:
        return True
    if isinstance(one, float) or isinstance(other, float):
        return type(one) in _NUMBERS and type(other) in _NUMBERS and _double(one) == _double(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            key in other and same(item, other[key]) for key, item in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def equal(one: Json, other: Json) -> bool:
    """Whether two trees are the same, quickly. Python's own comparison takes true for 1, but no reader makes the one of
    the other.
    """
    return type(one) is type(other) and one == other


def with_sorted_members(value: Json) -> Json:
    """The same tree, whose text is always the same: maps of protobuf have no order. Not recursive: it may be deep."""
    root: list[Any] = [value]
    rest: list[Any] = [root]
    while rest:
        place = rest.pop()
        for key, item in place.items() if isinstance(place, dict) else enumerate(place):
            if isinstance(item, dict):
                place[key] = {name: item[name] for name in sorted(item)}
            elif isinstance(item, list):
                place[key] = item.copy()
            else:
                continue
            rest.append(place[key])
    made: Json = root[0]
    return made


def _status_units(message: Any) -> Iterator[Any]:
    if message.HasField("status") and message.status.HasField("message"):
        yield from units(message.status.message)


def _bears(unit: Any) -> bool:
    if not unit.HasField("metadata"):
        return False
    fields = unit.metadata.fields
    return KEY in fields and is_residue(fields[KEY].string_value)


_NUMBERS = (int, float, ExactFloat)


def _double(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def _differences(canonical: Json, given: Json, pointer: str) -> Iterator[Entry]:
    if isinstance(canonical, dict) and isinstance(given, dict):
        for key, value in canonical.items():
            if key not in given:
                yield [_below(pointer, key), _checksum(value)]
        for key, value in given.items():
            if key not in canonical:
                _check_carriable(value)
                yield [_below(pointer, key), None, value]
            elif value is not canonical[key] and not equal(canonical[key], value):
                yield from _differences(canonical[key], value, _below(pointer, key))
    elif isinstance(canonical, list) and isinstance(given, list) and len(canonical) == len(given):
        for index, value in enumerate(given):
            if value is not canonical[index] and not equal(canonical[index], value):
                yield from _differences(canonical[index], value, f"{pointer}/{index}")
    elif type(canonical) is not type(given) or canonical != given:
        if same(canonical, given):
            return
        recipe = describe(canonical, given) if isinstance(canonical, str) and isinstance(given, str) else None
        if recipe is not None:
            yield [pointer, _checksum(canonical), None, recipe]
        else:
            _check_carriable(given)
            yield [pointer, _checksum(canonical), given]


def _below(pointer: str, key: str) -> str:
    if "~" in key or "/" in key:
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{key}"


def _check_carriable(value: Json) -> None:
    if _is_too_deep(value):
        raise TooMuch(f"is nested more than {DEEPEST} levels deep")


def _is_too_deep(value: Json) -> bool:
    """Level by level and without recursion, since this may be the deepest tree a parser returns."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper += item.values()
            elif isinstance(item, list):
                deeper += item
        if not deeper:
            return False
        level = deeper
    return True


def _checksum(value: Json) -> str:
    """The same for trees that are the same, whatever the order of their members and the text of their numbers."""
    try:
        octets = orjson.dumps(_spelled(value), _plain, orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        octets = dumps(with_sorted_members(_spelled(value)))
    return f"{crc32(octets):08x}"


def _spelled(value: Json) -> Json:
    """The tree with numbers as encoders write them: 7.0 as 7. Not recursive: it may be deep."""
    root: list[Any] = [value]
    rest: list[Any] = [root]
    while rest:
        place = rest.pop()
        for key, item in place.items() if isinstance(place, dict) else enumerate(place):
            if isinstance(item, dict | list):
                place[key] = item.copy()
                rest.append(place[key])
            elif isinstance(item, float) and item - item == 0:
                place[key] = number(item)
    made: Json = root[0]
    return made


def _plain(value: Any) -> float:
    if isinstance(value, ExactFloat):
        return float(value)
    raise TypeError


def _is_entry(entry: object) -> bool:
    match entry:
        case [str(), str()] | [str(), str() | None, _] | [str(), str(), None, dict()]:
            return True
    return False


def _are_apart(entries: list[Entry]) -> bool:
    """Whether no entry is about what another is about, or a part of that.

    Together they look at each value once, then, and make no text longer but once. Without that a few of them could
    keep a processor busy for minutes, or fill the memory.
    """
    places: dict[str, Any] = {}
    for entry in entries:
        *above, last = _keys(entry[0])
        place: Any = places
        for key in above:
            place = place.setdefault(key, {})
            if place is None:
                return False
        if last in place:
            return False
        place[last] = None
    return True


def _keys(pointer: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")]


def _apply(root: dict[str, Any], owned: set[int], entry: Entry) -> None:
    pointer, old = entry[0], entry[1]
    if pointer and not pointer.startswith("/"):
        return
    keys = _keys(pointer)
    place: Any = root
    for key in keys[:-1]:
        found = _member(place, key)
        if not isinstance(found, dict | list):
            return
        if id(found) not in owned:
            found = found.copy()
            owned.add(id(found))
            place[key if isinstance(place, dict) else int(key)] = found
        place = found
    last = keys[-1]
    current = _member(place, last)
    if (current is _ABSENT) != (old is None) or (old is not None and _checksum(current) != old):
        return
    if isinstance(place, list) and len(entry) > 2:
        if current is not _ABSENT:
            place[int(last)] = _new(current, entry)
    elif isinstance(place, dict):
        if len(entry) == 2:
            del place[last]
        else:
            place[last] = _new(current, entry)


def _new(current: Json, entry: Entry) -> Json:
    if len(entry) == 3:
        value: Json = entry[2]
        return value
    text = respelled(current, entry[3]) if isinstance(current, str) else None
    return current if text is None else text


_ABSENT: Any = object()


def _member(place: Any, key: str) -> Any:
    if isinstance(place, dict):
        return place.get(key, _ABSENT)
    if (
        isinstance(place, list)
        and key.isascii()
        and key.isdigit()
        and len(key) < 10
        and (key == "0" or key[0] != "0")
        and int(key) < len(place)
    ):
        return place[int(key)]
    return _ABSENT
