"""Free JSON (Struct, Value, ListValue) in messages that were not decoded from JSON: its places, nulls that
are not written, and the depth limit.

JSON decoders reject content that is nested deeper than `structs.LEVELS`, so that it fits into any other
message. Protobuf itself accepts deeper content; the functions here apply the limit of the JSON decoders to
it.

The limit is checked in three steps, the cheapest first. A count of the bytes that containers need clears
nearly all messages. Then protobuf parses the free content inside of additional messages, which fails at its
own limit. Only then is the content converted to JSON and inspected.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge.codec import structs
from a2a_bridge.codec.encode import encoder
from a2a_bridge.codec.inspect import findings, member
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of
from a2a_bridge.codec.text import EncodeError
from a2a_bridge.codec.values import VARINT, read_varint
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import ListValue, Struct, Value

_FREE = (FieldKind.STRUCT, FieldKind.VALUE, FieldKind.LIST)
#: a Value of zero bytes: in an object, in an array, and in a part
_KINDLESS_MEMBER, _KINDLESS_ITEM = b"\x12\0", b"\n\0"
_KINDLESS_PART = bytes((hub.Part.DESCRIPTOR.fields_by_name["data"].number << 3 | 2, 0))


def contents(message: Message) -> Iterator[tuple[str, Any]]:
    """All free JSON in a message, each with its JSON path."""
    return _members(plan_of(type(message)), message, "")


def fill_nulls(wire: bytes, message: Message) -> None:
    """Replaces each Value without a kind by null, in a message parsed from bytes. Java writes null without a
    kind.
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


SHALLOW = structs.LEVELS // structs.OBJECT_LEVELS - 1
"""A number of nested containers that is always within the limit. Each container has a line feed in the bytes
of a message, so a message with no more line feeds than this is not too deep.
"""
_SURE = structs.BARE_LEVELS - structs.OBJECT_LEVELS
"""A number of protobuf levels that is always within the limit. (An empty container counts more levels than
protobuf needs.)
"""
_LARGE = 1 << 17
"""The size of a message in bytes above which the first step is skipped."""


def may_be_deep(wire: bytes) -> bool:
    """Whether the bytes of a message may hold free JSON that is nested too deeply. Nearly always False."""
    # Each object and each array has a line feed before its content, and `*` or `2` before itself. Large
    # messages hold files and texts: the next step is faster for them, because it looks at free content only.
    return len(wire) > _LARGE or (
        wire.count(b"\n") > SHALLOW and wire.count(b"*") + wire.count(b"2") > SHALLOW
    )


def too_deep(message: Message) -> list[str]:
    """The JSON paths of free content in a message that is nested too deeply."""
    return [path for path, content in contents(message) if _is_too_deep(content)]


def path_of_depth(cls: type[Message], wire: bytes) -> str | None:
    """The path where bytes that protobuf rejects are nested too deeply; None for another error."""
    waiting: list[tuple[Any, str, int, int, int]] = [(cls.DESCRIPTOR, "", 0, 0, len(wire))]
    steps = 0
    while waiting and steps < _STEPS:
        descriptor, path, levels, at, end = waiting.pop()
        while at < end and steps < _STEPS:
            steps += 1
            tag, at = read_varint(wire, at, end)
            kind = tag & 7
            if kind == 2:
                size, at = read_varint(wire, at, end)
                field = descriptor.fields_by_number.get(tag >> 3)
                inner = None if field is None else field.message_type
                if inner is not None and at + size <= end:
                    if levels + 1 > _PARSED:
                        return path
                    free = (
                        descriptor.full_name.startswith("google.protobuf.")
                        or descriptor.GetOptions().map_entry
                    )
                    below = path if free else member(path, field.json_name)
                    waiting.append((descriptor, path, levels, at + size, end))
                    descriptor, path, levels, end = inner, below, levels + 1, at + size
                else:
                    at += size
            elif kind == 0:
                _, at = read_varint(wire, at, end)
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                break
    return None


_PARSED = 100
"""The maximum depth of nested messages in protobuf, in all languages."""
_STEPS = 100_000


def _is_too_deep(content: Any) -> bool:
    wire: bytes = content.SerializeToString()
    if not may_be_deep(wire) or _reads(type(content), wire, _wrappers()):
        return False
    try:
        tree = encoder(type(content))(content)
    except EncodeError:
        return False  # JSON cannot express it anyway
    except RecursionError:
        return True
    return any(one.problem == structs.TOO_DEEP for one in findings(plan_of(type(content)), tree))


def _reads(cls: type[Message], wire: bytes, wrappers: int) -> bool:
    """Whether protobuf parses a message inside this number of other messages."""
    tags = {Struct: "*", Value: "", ListValue: "2"}
    prefix, size = "", len(wire)
    if tags[cls]:
        prefix = f"{tags[cls]}{VARINT[size]}"
        size += len(prefix)
    for number in range(wrappers):
        head = f"{'2' if number % 2 else chr(10)}{VARINT[size]}"
        prefix = head + prefix
        size += len(head)
    outer: Any = Value if wrappers % 2 == 0 else ListValue
    try:
        outer.FromString(prefix.encode("latin-1") + wire)
    except ProtobufDecodeError:
        return False
    return True


@cache
def _wrappers() -> int:
    """The number of messages around content with which protobuf just parses all content within the limit."""
    tree: Any = 1
    for _ in range(_SURE // structs.ARRAY_LEVELS):
        tree = [tree]
    wire = structs.writers(structs.exactly)[1](tree, structs.LEVELS).encode("latin-1")
    number = 1
    while _reads(Value, wire, number + 1):
        number += 1
    return number
