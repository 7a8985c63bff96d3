"""Messages of a2a.v1 and the hub as JSON trees, cut into units: objects with metadata of their own. No residues here.

A unit's tree (a piece) is ProtoJSON of its own members. Child units are replaced by how many there are (a list) or by
true (one); `cut` and `join` walk children in the order of field numbers, which is the same order on both sides.

What ProtoJSON cannot say stands in members whose names no field has:
UNKNOWN: unknown protobuf fields of the object, base64.
WRAPPER: how the wrapper around the unit (SendMessageResponse, StreamResponse) was spelled, where that was odd.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from a2a_bridge.codec import JsonObject, decoder, encoder
from a2a_bridge.codec.decode import spellings
from a2a_bridge.codec.plan import FieldPlan, MessagePlan, plan_of
from a2a_bridge.codec.plan import Kind as ValueKind
from a2a_bridge.codec.wire import VARINT

UNKNOWN = "urn:a2a-bridge:unknown-fields"
WRAPPER = "urn:a2a-bridge:wrapper"

UNITS = frozenset(
    {
        "Part",
        "Message",
        "Artifact",
        "Task",
        "TaskStatusUpdateEvent",
        "TaskArtifactUpdateEvent",
        "SendMessageRequest",
    }
)


# --- messages ↔ trees ------------------------------------------------------------------------------------------


def tree_of(message: Any) -> JsonObject:
    """ProtoJSON of a message, with its unknown fields. Raises EncodeError for what JSON cannot say."""
    tree: JsonObject = encoder(type(message))(message)
    _add_unknown(plan_of(type(message)), message, tree)
    return tree


def without_unknown(tree: Any) -> Any:
    """A tree for JSON peers, to whom unknown protobuf fields say nothing."""
    # Not recursive: residues may be deep.
    root: list[Any] = [None]
    waiting: list[tuple[Any, Any, Any]] = [(root, 0, tree)]
    while waiting:
        place, key, value = waiting.pop()
        if type(value) is dict:
            place[key] = {name: None for name in value if name != UNKNOWN}
            waiting += [(place[key], name, value[name]) for name in place[key]]
        elif type(value) is list:
            place[key] = [None] * len(value)
            waiting += [(place[key], index, item) for index, item in enumerate(value)]
        else:
            place[key] = value
    return root[0]


def message_of(cls: type[Message], tree: JsonObject) -> Any:
    """The message a tree of `tree_of` says. Members that no field has are left out. Raises DecodeError."""
    message = decoder(cls)(tree)
    _merge_unknown(plan_of(cls), message, tree)
    return message


def has_unknown(wire: bytes, message: Any) -> bool:
    """Whether bytes hold more than a message parsed from them says; drops its unknown fields.

    Whatever is not the usual encoding of known fields takes more bytes than that.
    """
    message.DiscardUnknownFields()
    size: int = message.ByteSize()
    return size != len(wire)


def unknown_in(message: Any) -> bool:
    """Whether a message or one below it has unknown fields."""
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return bool(copy.ByteSize() != message.ByteSize())


def _add_unknown(plan: MessagePlan, message: Any, tree: JsonObject) -> None:
    octets = unknown_octets(message)
    if octets:
        tree[UNKNOWN] = b64encode(octets).decode("ascii")
    for field, value, place in _below(plan, message, tree):
        _add_unknown(field, value, place)


def _merge_unknown(plan: MessagePlan, message: Any, tree: JsonObject) -> None:
    text = tree.get(UNKNOWN)
    if type(text) is str:
        with suppress(ValueError, ProtobufDecodeError):  # a member of that name in somebody's JSON: not ours
            message.MergeFromString(b64decode(text, validate=True))
    for field, value, place in _below(plan, message, tree):
        _merge_unknown(field, value, place)


def _below(
    plan: MessagePlan, message: Any, tree: JsonObject
) -> Iterator[tuple[MessagePlan, Any, JsonObject]]:
    """The messages within a message, each with its plan and the object it is in the tree."""
    names = spellings(plan)
    for name, value in list(tree.items()):
        field = names.get(name)
        if field is None or value is None:
            continue
        content = getattr(message, field.name)
        if field.map_value is not None:
            inner = field.map_value.message
            if inner is not None and field.map_value.kind is ValueKind.MESSAGE:
                yield from ((inner, content[key], value[key]) for key in value)
        elif field.kind is ValueKind.MESSAGE and field.message is not None:
            if field.repeated:
                yield from ((field.message, *pair) for pair in zip(content, value, strict=True))
            else:
                yield field.message, content, value


def unknown_octets(message: Any) -> bytes:
    """The unknown fields of a message itself, as they are written."""
    return "".join(_unknown(UnknownFieldSet(message))).encode("latin-1")


def _unknown(fields: Any) -> Iterator[str]:
    for field in fields:
        key = VARINT[field.field_number << 3 | field.wire_type]
        match field.wire_type:
            case 0:
                yield key + VARINT[field.data]
            case 1:
                yield key + int(field.data).to_bytes(8, "little").decode("latin-1")
            case 2:
                yield f"{key}{VARINT[len(field.data)]}{bytes(field.data).decode('latin-1')}"
            case 3:
                yield key
                yield from _unknown(field.data)
                yield VARINT[field.field_number << 3 | 4]
            case 5:
                yield key + int(field.data).to_bytes(4, "little").decode("latin-1")


# --- units -----------------------------------------------------------------------------------------------------


def units(message: Any) -> list[Any]:
    """The units of a message, itself included, each before its children."""
    found: list[Any] = []
    _collect(plan_of(type(message)), message, found)
    return found


def _collect(plan: MessagePlan, message: Any, found: list[Any]) -> None:
    if is_unit(plan):
        found.append(message)
    for field in plan.fields:
        if not _leads_to_units(field):
            continue
        if field.repeated:
            for item in getattr(message, field.name):
                _collect(_plan(field), item, found)
        elif message.HasField(field.name):
            _collect(_plan(field), getattr(message, field.name), found)


def bare(unit: Any) -> Any:
    """A copy of a unit without its children."""
    copy = type(unit)()
    copy.CopyFrom(unit)
    _clear(plan_of(type(unit)), copy)
    return copy


def _clear(plan: MessagePlan, message: Any) -> None:
    for field in plan.fields:
        if not _leads_to_units(field):
            continue
        if is_unit(_plan(field)):
            message.ClearField(field.name)
        elif message.HasField(field.name):
            _clear(_plan(field), getattr(message, field.name))


def cut(cls: type[Message], tree: JsonObject) -> list[JsonObject]:
    """The pieces of a tree, in the order of `units`. The tree has to be one that decodes."""
    plan = plan_of(cls)
    found: list[JsonObject] = []
    if is_unit(plan):
        _cut(plan, tree, found)
        return found
    # A wrapper, whose one member is the first unit.
    shell = _shallow(plan, tree, found)
    payload = [name for name, value in shell.items() if value is True and spellings(plan).get(name)]
    if found and (len(shell) != 1 or spellings(plan)[payload[0]].json_name != payload[0]):
        found[0][WRAPPER] = shell
    return found


def _cut(plan: MessagePlan, tree: JsonObject, found: list[JsonObject]) -> None:
    piece: JsonObject = {}
    found.append(piece)
    piece.update(_shallow(plan, tree, found))


def _shallow(plan: MessagePlan, tree: JsonObject, found: list[JsonObject]) -> JsonObject:
    """The object with its children replaced; they are cut in the order of their fields' numbers."""
    names = spellings(plan)
    out = dict(tree)
    ordered = sorted(
        (
            (field.number, name, field)
            for name in tree
            if (field := names.get(name)) is not None and _leads_to_units(field)
        ),
        key=lambda item: item[0],
    )
    for _, name, field in ordered:
        value, inner = tree[name], _plan(field)
        if value is None:
            continue
        if not is_unit(inner):
            out[name] = _shallow(inner, value, found)
        elif field.repeated:
            for item in value:
                _cut(inner, item, found)
            out[name] = len(value) or []
        else:
            _cut(inner, value, found)
            out[name] = True
    return out


def alone(cls: type[Message], piece: JsonObject) -> JsonObject:
    """A piece without its children, as `bare` is the unit without them."""
    return _alone(plan_of(cls), piece)


def _alone(plan: MessagePlan, piece: JsonObject) -> JsonObject:
    names = spellings(plan)
    out: JsonObject = {}
    for name, value in piece.items():
        field = names.get(name)
        if field is None or not _leads_to_units(field):
            if name != WRAPPER:
                out[name] = value
        elif type(value) is dict:
            out[name] = _alone(_plan(field), value)
    return out


def join(cls: type[Message], pieces: list[JsonObject], payload: str = "") -> JsonObject:
    """The reverse of `cut`. payload: the JSON name of a wrapper's member. Raises ValueError when nothing fits."""
    plan = plan_of(cls)
    waiting = iter(pieces)
    try:
        if is_unit(plan):
            tree = _join(plan, waiting)
        else:
            tree = _wrapped(plan, waiting, payload, pieces[0])
    except StopIteration:
        raise ValueError("too few pieces") from None
    if next(waiting, None) is not None:
        raise ValueError("too many pieces")
    return tree


def _wrapped(plan: MessagePlan, waiting: Iterator[JsonObject], payload: str, first: JsonObject) -> JsonObject:
    shell = first.get(WRAPPER)
    if type(shell) is dict:
        known = spellings(plan)
        spelled = [known[name].json_name for name, value in shell.items() if value is True and name in known]
        if spelled == [payload]:
            return _filled(plan, shell, waiting)
    return _filled(plan, {payload: True}, waiting)


def _join(plan: MessagePlan, waiting: Iterator[JsonObject]) -> JsonObject:
    return _filled(plan, next(waiting), waiting)


def _filled(plan: MessagePlan, piece: JsonObject, waiting: Iterator[JsonObject]) -> JsonObject:
    names = spellings(plan)
    out = {name: value for name, value in piece.items() if name != WRAPPER}
    ordered = sorted(
        (
            (field.number, name, field)
            for name in piece
            if (field := names.get(name)) is not None and _leads_to_units(field)
        ),
        key=lambda item: item[0],
    )
    for _, name, field in ordered:
        value, inner = piece[name], _plan(field)
        if type(value) is int:
            out[name] = [_join(inner, waiting) for _ in range(value)]
        elif value is True:
            out[name] = _join(inner, waiting)
        elif type(value) is dict:
            out[name] = _filled(inner, value, waiting)
    return out


def is_unit(plan: MessagePlan) -> bool:
    """Whether messages of a type are units."""
    return plan.descriptor.name in UNITS


def _leads_to_units(field: FieldPlan) -> bool:
    return field.message is not None and field.kind is ValueKind.MESSAGE and _reaches(field.message)


def _reaches(plan: MessagePlan) -> bool:
    # TaskStatus is the only message that is no unit and holds one.
    return is_unit(plan) or plan.descriptor.name == "TaskStatus"


def _plan(field: FieldPlan) -> MessagePlan:
    assert field.message is not None  # noqa: S101 - for the type checker
    return field.message
