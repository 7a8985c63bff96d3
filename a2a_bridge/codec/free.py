"""Free JSON in messages (Struct, Value, ListValue): its places, and nulls that are not written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec.inspect import member
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import ListValue, Struct

_FREE = (FieldKind.STRUCT, FieldKind.VALUE, FieldKind.LIST)
#: a Value of zero bytes: in an object, in an array, and in a part
_KINDLESS_MEMBER, _KINDLESS_ITEM = b"\x12\0", b"\n\0"
_KINDLESS_PART = bytes((hub.Part.DESCRIPTOR.fields_by_name["data"].number << 3 | 2, 0))


def contents(message: Message) -> Iterator[tuple[str, Any]]:
    """All free JSON in a message, each with its JSON path."""
    return _members(plan_of(type(message)), message, "")


def fill_nulls(wire: bytes, message: Message) -> None:
    """Replaces each Value without a kind by null, in a message parsed from bytes: Java writes null
    like this.
    """
    # `find` and not `in`, which first tries its left side as a number and costs several times the search.
    if wire.find(_KINDLESS_MEMBER) >= 0 or wire.find(_KINDLESS_ITEM) >= 0 or wire.find(_KINDLESS_PART) >= 0:
        for _, content in contents(message):
            _fill(content)


def _fill(content: Any) -> None:
    waiting = [content]
    while waiting:
        one = waiting.pop()
        items: Iterable[Any] = ()
        if isinstance(one, Struct):
            items = one.fields.values()
        elif isinstance(one, ListValue):
            items = one.values
        else:
            items = (one,)
        for value in items:
            kind = value.WhichOneof("kind")
            if kind is None:
                value.null_value = 0
            elif kind in ("struct_value", "list_value"):
                waiting.append(getattr(value, kind))


def _members(plan: MessagePlan, message: Any, path: str) -> Iterator[tuple[str, Any]]:
    for field in plan.fields:
        one = field.map_value or field
        if one.message is None or one.kind is FieldKind.TIMESTAMP:
            continue
        content, here = getattr(message, field.name), member(path, field.json_name)
        if field.map_value is not None:
            for key in content:
                yield from _content(one, content[key], member(here, key))
        elif field.repeated:
            for index, item in enumerate(content):
                yield from _content(one, item, f"{here}[{index}]")
        elif message.HasField(field.name):
            yield from _content(one, content, here)


def _content(field: FieldPlan, content: Any, path: str) -> Iterator[tuple[str, Any]]:
    if field.kind in _FREE:
        yield path, content
    else:
        assert field.message is not None  # noqa: S101 - for the type checker
        yield from _members(field.message, content, path)
