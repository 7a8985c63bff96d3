"""Content that a message has no field for: kept in the message, at its place, and written again.

ProtoJSON readers may ignore such members, but a gateway hands them on. protobuf keeps the unknown fields of
peers when a message is parsed, copied, merged and serialized. Members of JSON use the same mechanism:
1. The unknown members of an object are JSON text in one unknown field, MEMBERS, of its message.
2. MEMBERS never leaves the process as protobuf: it is removed from bytes of peers, and from bytes for them.
   JSON cannot express the unknown fields of peers, and leaves them out.
3. A message without such content costs one search of its bytes.
4. The members are counted while they are decoded (KEPT). In a process that keeps none, no message is
   searched.
5. A member whose name only looks like that of a field is not kept. Some readers take it for that field
   (encoding/json of Go ignores case, pydantic takes snake_case, too), and no check has seen its value.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from a2a_bridge.codec.budget import json_bound, spend
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of, variants
from a2a_bridge.codec.text import Json, JsonObject, dumps, loads
from a2a_bridge.codec.values import LENGTH_WIRE, VARINT, tag

MEMBERS = 2**29 - 1
"""The largest number that a field can have. Its tag has bytes that no UTF-8 text has."""
_TAG = tag(MEMBERS, LENGTH_WIRE)
_MARK = _TAG.encode("latin-1")
FIRST = _MARK[:1]
"""A byte in the bytes of each message that keeps members, and in no text. A search for one byte takes a
tenth of one for the whole mark. With `find`: `in` first tries its left side as a number, which takes longer.
"""


class _Kept:
    """How often this process may have got a message with unknown members."""

    count = 0


KEPT = _Kept()


def expect_members() -> None:
    """Has all messages searched, because some come from another process: of a store or of a replica."""
    KEPT.count += 1


# --- members of JSON ---


def folded(name: str) -> str:
    """The common form of all spellings of a name, for readers that are not strict."""
    return name.replace("_", "").replace("-", "").casefold()


def folded_names(names: Iterable[str]) -> frozenset[str]:
    """The common forms of the spellings of the names."""
    return frozenset(map(folded, names))


def kept_members(tree: JsonObject, names: Container[str], alike: Container[str]) -> str:
    """The wire text of an object's unknown members; empty for none. alike: `folded_names` of the names."""
    unknown: Json = {
        name: value for name, value in tree.items() if name not in names and folded(name) not in alike
    }
    if not unknown:
        return ""
    KEPT.count += 1
    text = dumps(unknown).decode("latin-1")
    return f"{_TAG}{VARINT[len(text)]}{text}"


def unknown_members(plan: MessagePlan, tree: Any, place: str = "") -> Iterator[tuple[str, str, list[str]]]:
    """The members that a JSON document has beside its fields: the place of the object, the name, and the
    names of its fields. Free JSON has none.
    """
    if not isinstance(tree, dict):
        return
    known = variants(plan)
    for name, value in tree.items():
        field = known.get(name)
        if field is None:
            yield place, name, [one.json_name for one in plan.fields]
            continue
        kind = (field.map_value or field).kind
        if kind is not FieldKind.MESSAGE:
            continue
        inner = f"{place}.{name}" if place else name
        if field.map_value is not None and isinstance(value, dict):
            each = [(f"{inner}.{key}", one) for key, one in value.items()]
        elif field.repeated and isinstance(value, list):
            each = [(f"{inner}[{at}]", one) for at, one in enumerate(value)]
        else:
            each = [(inner, value)]
        for at, one in each:
            yield from unknown_members(_plan_in(field), one, at)


def restore_members(plan: MessagePlan, message: Message, tree: JsonObject) -> JsonObject:
    """The tree of a message with the unknown members that the message keeps. Changes it in place."""
    for unknown in _fields(message):
        if _is_members(unknown):
            text = bytes(unknown.data)
            spend(json_bound(text))
            found: Any = loads(text)
            # Names that have a field are of an older release, which stored the message.
            known = variants(plan)
            tree |= {name: value for name, value in found.items() if name not in known}
    for field, place, one in _inside(plan, message):
        below = tree[field.json_name]
        restore_members(_plan_in(field), one, below if place is None else below[place])
    return tree


def unknown_names(message: Message) -> str:
    """The names of the unknown members of a message, and the numbers of its unknown fields, as a text."""
    found: dict[str, None] = {}
    for one in _fields(message):
        if _is_members(one):
            members: Any = loads(bytes(one.data))
            found |= dict.fromkeys(name[:64] for name in members)
        else:
            found[f"field {one.field_number}"] = None
    return ", ".join(found)[:200]


def holds_members(wire: bytes) -> bool:
    """Whether the bytes of a message may hold unknown members. True for a few messages without any."""
    return wire.find(FIRST) >= 0 and wire.find(_MARK) >= 0


def drop_members(message: Message) -> None:
    """Removes the unknown members from a message, in place. Its other unknown fields remain."""
    others = [(one, bytes_of(one)) for one in _messages(plan_of(type(message)), message)]
    message.DiscardUnknownFields()
    for one, raw_bytes in others:
        if raw_bytes:
            one.MergeFromString(raw_bytes)


def _messages(plan: MessagePlan, message: Any) -> Iterator[Any]:
    yield message
    for field, _, one in _inside(plan, message):
        yield from _messages(_plan_in(field), one)


def _inside(plan: MessagePlan, message: Any) -> Iterator[tuple[FieldPlan, Any, Any]]:
    """The messages directly within one, but no free JSON: field, place in a list or map if any, message."""
    for field in plan.fields:
        if (field.map_value or field).kind is not FieldKind.MESSAGE:
            continue
        content = getattr(message, field.name)
        if field.map_value is not None:
            yield from ((field, key, content[key]) for key in content)
        elif field.repeated:
            yield from ((field, at, one) for at, one in enumerate(content))
        elif message.HasField(field.name):
            yield field, None, content


def _plan_in(field: FieldPlan) -> MessagePlan:
    plan = (field.map_value or field).message
    assert plan is not None  # noqa: S101 - for the type checker
    return plan


# --- fields of protobuf ---


def bytes_of(message: Message) -> bytes:
    """The bytes of the unknown fields of a message, but not of the messages in it, without MEMBERS."""
    return "".join(_texts(_fields(message))).encode("latin-1")


def copy_unknown(made: Message, message: Message) -> None:
    """Gives a message all unknown content of another one, but not that of the messages in it."""
    if len(fields := _fields(message)):
        made.MergeFromString("".join(_texts(fields, members=True)).encode("latin-1"))


def _fields(message: Message) -> Any:
    return UnknownFieldSet(message)


def _is_members(unknown: Any) -> bool:
    """Whether an unknown field is MEMBERS. A field of a peer may have its number and another wire type: then
    its value is a number or a group, and never JSON.
    """
    return bool(unknown.field_number == MEMBERS and unknown.wire_type == LENGTH_WIRE)


def _texts(fields: Any, *, members: bool = False) -> Iterator[str]:
    for field in fields:
        if field.field_number == MEMBERS and not members:
            continue
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
                yield from _texts(field.data)
                yield VARINT[field.field_number << 3 | 4]
            case 5:
                yield key + int(field.data).to_bytes(4, "little").decode("latin-1")
