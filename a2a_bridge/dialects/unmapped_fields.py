"""Unmapped content of protobuf messages of a2a.v1: unknown fields of their bytes, unknown members of their
ProtoJSON.

`collect_…` puts entries of source PROTO into the metadata of the owning unit, before a message is converted
to the hub; `restore_…` takes them out again when it is written. Entries outside of any unit are returned.
Pointers are ProtoJSON, with two names that no field has:
UNKNOWN: unknown protobuf fields of the object, base64. Only bytes can express them: in JSON they stay in the
metadata.
WRAPPER: the object around the unit (SendMessageResponse, StreamResponse).
"""

from collections.abc import Iterator
from typing import Any

import pybase64
from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge.codec import JsonObject, dumps_ascii
from a2a_bridge.codec.plan import FieldKind, MessagePlan, is_repeated, plan_of, variants
from a2a_bridge.codec.unknown import bytes_of, folded, folded_names
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.scalars import round_integers

UNKNOWN = "urn:a2a-bridge:unknown-fields"
WRAPPER = "urn:a2a-bridge:wrapper"

_FREE = (FieldKind.STRUCT, FieldKind.VALUE, FieldKind.LIST)
#: members of trees that hold free JSON
_FREE_NAMES = frozenset({"metadata", "data"})


def add(unit: Any, entries: list[unmapped.Entry]) -> None:
    """Adds entries to those in the metadata of a unit."""
    if entries:
        unmapped.carry(unit, unmapped.PROTO, [*(unmapped.find_content(unit, unmapped.PROTO) or ()), *entries])


def entries_of(unit: Any) -> list[unmapped.Entry]:
    """The entries in the metadata of a unit."""
    found = unmapped.find_content(unit, unmapped.PROTO)
    return found if isinstance(found, list) else []


# --- JSON ---


def collect_members(message: Any, tree: JsonObject) -> list[unmapped.Entry]:
    """The content of a tree that the message read from it lacks."""
    plan = plan_of(type(message))
    entries: list[unmapped.Entry] = []
    _collect_object(plan, message, tree, "", entries)
    return entries if not _is_wrapper(plan) else _to_payload(message, entries)


def restore_members(tree: JsonObject) -> JsonObject:
    """A tree with the JSON content that its units carry. Changes it in place."""
    waiting: list[Any] = [tree]
    while waiting:
        place = waiting.pop()
        if type(place) is list:
            waiting += place
        elif type(place) is dict:
            waiting += [value for name, value in place.items() if name not in _FREE_NAMES]
            metadata = place.get("metadata")
            if type(metadata) is dict and unmapped.KEY in metadata:
                _restore_unit(place, metadata, tree)
    return tree


def _collect_object(
    plan: MessagePlan, message: Any, tree: JsonObject, pointer: str, entries: list[unmapped.Entry]
) -> None:
    if is_unit(plan):
        own: list[unmapped.Entry] = []
        _collect(plan, message, tree, "", own)
        add(message, own)
    else:
        _collect(plan, message, tree, pointer, entries)


def _collect(
    plan: MessagePlan, message: Any, tree: JsonObject, pointer: str, entries: list[unmapped.Entry]
) -> None:
    names = variants(plan)
    alike: frozenset[str] | None = None
    for name, value in tree.items():
        field = names.get(name)
        if field is None:
            alike = folded_names(names) if alike is None else alike
            if folded(name) not in alike:  # see codec.unknown
                entries.append([unmapped.below(pointer, name), value])
            continue
        if value is None:
            continue
        here = unmapped.below(pointer, field.json_name)
        one = field.map_value or field
        many = field.map_value is not None or field.repeated
        if many and not value:
            entries.append([here, value])
        elif one.kind in _FREE:
            entries += unmapped.difference(round_integers(value), value, here)
        elif one.kind is FieldKind.MESSAGE and one.message is not None:
            content = getattr(message, field.name)
            if not many:
                _collect_object(one.message, content, value, here, entries)
            else:
                for at, item in value.items() if field.map_value is not None else enumerate(value):
                    _collect_object(one.message, content[at], item, unmapped.below(here, str(at)), entries)


def _restore_unit(unit: JsonObject, metadata: JsonObject, root: JsonObject) -> None:
    by_source = unmapped.sources(metadata.pop(unmapped.KEY))
    remaining = []
    around = []
    within = []
    for entry in by_source.pop(unmapped.PROTO, ()):
        if entry[0].endswith(UNKNOWN):
            remaining.append(entry)
        elif entry[0].startswith(f"/{WRAPPER}/"):
            around.append([entry[0].removeprefix(f"/{WRAPPER}"), *entry[1:]])
        else:
            within.append(entry)
    if remaining:
        by_source[unmapped.PROTO] = remaining
    if by_source.keys() - {unmapped.EMPTY}:
        metadata[unmapped.KEY] = dumps_ascii(by_source)
    elif not metadata and unmapped.EMPTY not in by_source:
        del unit["metadata"]
    unmapped.restore(unit, within)
    if around and unit is not root:
        unmapped.restore(root, around)


# --- bytes ---


def has_unknown(wire: bytes, message: Any) -> bool:
    """Whether bytes hold more than the message parsed from them, whose unknown fields it drops. Anything but
    the usual encoding of known fields takes more bytes.
    """
    message.DiscardUnknownFields()
    return bool(message.ByteSize() != len(wire))


def collect_unknown(message: Any) -> list[unmapped.Entry]:
    """Removes the unknown fields of a message and of all messages in it, and returns them as entries."""
    entries: list[unmapped.Entry] = []
    _collect_unknown(message, "", entries)
    message.DiscardUnknownFields()
    return entries if not _is_wrapper(plan_of(type(message))) else _to_payload(message, entries)


def restore_unknown(message: Any) -> None:
    """Restores the unknown fields that units carry, in place."""
    for unit in unmapped.units(message):
        entries = entries_of(unit)
        remaining = []
        for entry in entries:
            pointer = entry[0]
            if len(entry) < 2 or not pointer.endswith(UNKNOWN):
                remaining.append(entry)
            elif pointer.startswith(f"/{WRAPPER}/"):
                merge_unknown(message, pointer.removeprefix(f"/{WRAPPER}"), entry[1])
            else:
                merge_unknown(unit, pointer, entry[1])
        if entries:
            unmapped.carry(unit, unmapped.PROTO, remaining)


def merge_unknown(message: Any, pointer: str, text: object) -> None:
    """Adds unknown fields to the message at a pointer, if it still exists."""
    place: Any = message
    try:
        for name in pointer.split("/")[1:-1]:
            if isinstance(place, Message):
                field = next((one for one in place.DESCRIPTOR.fields if one.json_name == name), None)
                if field is None or (not is_repeated(field) and not place.HasField(field.name)):
                    return
                place = getattr(place, field.name)
            else:
                place = place[int(name)]
        raw_bytes = pybase64.b64decode(text, validate=True)  # type: ignore[arg-type]
        probe = type(place).FromString(raw_bytes)
        probe.DiscardUnknownFields()
        if not probe.ByteSize():
            place.MergeFromString(raw_bytes)
    except (ValueError, TypeError, AttributeError, LookupError, ProtobufDecodeError):
        return


def _collect_unknown(message: Any, pointer: str, entries: list[unmapped.Entry]) -> None:
    own, path = ([], "") if is_unit(plan_of(type(message))) else (entries, pointer)
    raw_bytes = bytes_of(message)
    if raw_bytes:
        own.append([f"{path}/{UNKNOWN}", pybase64.b64encode(raw_bytes).decode("ascii")])
    for name, at, one in _below(message):
        _collect_unknown(one, f"{path}/{name}{at}", own)
    if own is not entries:
        add(message, own)


def _below(message: Any) -> Iterator[tuple[str, str, Any]]:
    """The messages within one, except free JSON and maps: JSON name, index with a slash, message."""
    for field, value in message.ListFields():
        inner = field.message_type
        if inner is None or inner.full_name.startswith("google.") or inner.GetOptions().map_entry:
            continue
        if is_repeated(field):
            yield from ((field.json_name, f"/{at}", one) for at, one in enumerate(value))
        else:
            yield field.json_name, "", value


# --- properties of messages ---


def is_unit(plan: MessagePlan) -> bool:
    """Whether messages of a type have metadata of their own."""
    return any(field.name == "metadata" for field in plan.fields)


def _is_wrapper(plan: MessagePlan) -> bool:
    return "payload" in plan.descriptor.oneofs_by_name


def _to_payload(message: Any, entries: list[unmapped.Entry]) -> list[unmapped.Entry]:
    which = message.WhichOneof("payload")
    if which is not None:
        add(getattr(message, which), [[f"/{WRAPPER}{entry[0]}", *entry[1:]] for entry in entries])
    return []
