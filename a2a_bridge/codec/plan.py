"""The parts that all generators of functions need: the plan of a message, made from its descriptor, and the
source of a generated function. It generates nothing.

Everything in the codec is a function of plans; only this module reads descriptors and their options.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from keyword import iskeyword
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_bridge.pb import google_protobuf
from a2a_bridge.pb._pool import POOL


class Source:
    """Lines at a current indentation. They can use `names`, and their definitions are added there. Generators
    keep one dict of names, so that a message type that is part of several is compiled once.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._lines: list[str] = []
        self._depth = 0

    def line(self, *lines: str) -> None:
        self._lines += [f"{'    ' * self._depth}{line}" for line in lines]

    def keep(self, what: str, value: Any) -> str:
        """Makes a value available to the lines; returns its name there."""
        name = f"_{what}_{len(self.names)}"
        self.names[name] = value
        return name

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def compile(self, title: str) -> None:
        """Executes the lines; `title` replaces the file name in tracebacks."""
        text = "\n".join(self._lines) + "\n"
        file = f"<a2a_bridge.codec {title}>"
        # Tracebacks and debuggers then show the generated lines.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.names)  # noqa: S102 - our own text, made of descriptors only


def attribute(name: str) -> str:
    """Code for the field of this name of `message`. Some protobuf fields are Python keywords: `from`."""
    return f'getattr(message, "{name}")' if iskeyword(name) else f"message.{name}"


def literal(text: str) -> str:
    """Text, escaped for an f-string between double quotes."""
    escaped = text.encode("unicode_escape").decode("ascii")
    return escaped.replace('"', '\\"').replace("{", "{{").replace("}", "}}")


class FieldKind(Enum):
    """The JSON format of a value; each has one rule for decoding and one for encoding."""

    STRING = "a string"
    BYTES = "a base64 string"
    BOOL = "true or false"
    INTEGER = "an integer"
    ENUM = "an enum name or number"
    MESSAGE = "an object"
    STRUCT = "an object of any members"
    VALUE = "any JSON value"
    LIST = "an array of any items"
    TIMESTAMP = "a date and time such as 2025-01-31T12:00:00Z"


_WELL_KNOWN = {
    "google.protobuf.Struct": FieldKind.STRUCT,
    "google.protobuf.Value": FieldKind.VALUE,
    "google.protobuf.ListValue": FieldKind.LIST,
    "google.protobuf.Timestamp": FieldKind.TIMESTAMP,
}
# Their JSON differs from their fields, and A2A does not use them.
_UNSUPPORTED = {"google.protobuf.Any", "google.protobuf.Duration", "google.protobuf.FieldMask"}

_SCALARS = {
    FieldDescriptor.TYPE_STRING: FieldKind.STRING,
    FieldDescriptor.TYPE_BYTES: FieldKind.BYTES,
    FieldDescriptor.TYPE_BOOL: FieldKind.BOOL,
    FieldDescriptor.TYPE_ENUM: FieldKind.ENUM,
    FieldDescriptor.TYPE_INT32: FieldKind.INTEGER,
    FieldDescriptor.TYPE_INT64: FieldKind.INTEGER,
    FieldDescriptor.TYPE_UINT32: FieldKind.INTEGER,
    FieldDescriptor.TYPE_UINT64: FieldKind.INTEGER,
}
_BITS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}

# A part without content is meaningless, but the proto cannot mark a oneof as REQUIRED.
_REQUIRED_ONEOFS = {"lf.a2a.v1.Part.content"}

_REQUIRED = 2
"""google.api.FieldBehavior.REQUIRED"""


@dataclass(frozen=True, slots=True)
class EnumPlan:
    """One enum."""

    #: numbers by name, including aliases
    numbers: dict[str, int]
    #: names by number
    names: dict[int, str]


@dataclass(frozen=True, slots=True, eq=False)
class FieldPlan:
    """One field."""

    #: the name in the proto
    name: str
    #: the name in encoded JSON
    json_name: str
    number: int
    kind: FieldKind
    repeated: bool = False
    #: whether the message stores its presence. False for repeated fields and maps
    presence: bool = False
    #: marked REQUIRED: encoded even if it has its default value
    required: bool = False
    #: the oneof that it shares with other fields; not the synthetic one of `optional`
    oneof: str | None = None
    #: set for a map: the plan of its values. Keys are strings
    map_value: FieldPlan | None = None
    message: MessagePlan | None = None
    enum: EnumPlan | None = None
    #: inclusive lower bound of an integer
    low: int = 0
    #: inclusive upper bound of an integer
    high: int = 0

    @property
    def takes_null(self) -> bool:
        """JSON null is a value of this field, not its absence."""
        return self.kind is FieldKind.VALUE and not self.repeated and self.map_value is None

    @property
    def quoted(self) -> bool:
        """A 64-bit integer: encoded as a string, because JavaScript numbers cannot hold it."""
        return self.kind is FieldKind.INTEGER and self.high > 2**32


@dataclass(slots=True, eq=False)
class MessagePlan:
    """One message type. Filled in place, since message types may contain themselves."""

    descriptor: Descriptor
    #: differs from MESSAGE for well-known types with a JSON format of their own
    kind: FieldKind
    #: a Python identifier, unique among plans
    label: str
    fields: list[FieldPlan] = field(default_factory=list)
    required_oneofs: tuple[str, ...] = ()

    @property
    def cls(self) -> type[Message]:
        return GetMessageClass(self.descriptor)

    def list_nested(self) -> list[MessagePlan]:
        """The plans of this message and of all nested messages, each once."""
        found: dict[int, MessagePlan] = {}
        todo = [self]
        while todo:
            plan = todo.pop()
            if id(plan) not in found:
                found[id(plan)] = plan
                values = [field.map_value or field for field in plan.fields]
                todo += [value.message for value in values if value.message is not None]
        return list(found.values())


_PLANS: dict[Descriptor, MessagePlan] = {}

BUILDING = threading.RLock()
"""Held while plans and functions are made; lookups do not need it."""


def plan_of(cls: type[Message]) -> MessagePlan:
    """The plan of a message class, made once. Raises TypeError if the class or a nested one has a field for
    which the codec has no rule.
    """
    descriptor: Any = cls.DESCRIPTOR
    with BUILDING:
        plans = dict(_PLANS)
        plan = _plan(descriptor, plans)
        _PLANS.update(plans)  # only now: a type that failed half-way leaves no entries
    return plan


def _plan(descriptor: Descriptor, plans: dict[Descriptor, MessagePlan]) -> MessagePlan:
    known = plans.get(descriptor)
    if known is not None:
        return known
    if descriptor.full_name in _UNSUPPORTED:
        raise TypeError(f"the codec has no rule for {descriptor.full_name}")
    kind = _WELL_KNOWN.get(descriptor.full_name, FieldKind.MESSAGE)
    plan = MessagePlan(descriptor, kind, f"{descriptor.name}_{len(plans)}")
    plans[descriptor] = plan  # before its fields, which may be of the same type
    if plan.kind is FieldKind.MESSAGE:
        fields = sorted(descriptor.fields, key=lambda field: field.number)
        plan.fields += [_field(field, plans) for field in fields]
        plan.required_oneofs = tuple(
            one.name for one in descriptor.oneofs if one.full_name in _REQUIRED_ONEOFS
        )
    return plan


def _field(descriptor: FieldDescriptor, plans: dict[Descriptor, MessagePlan]) -> FieldPlan:
    names: dict[str, Any] = {
        "name": descriptor.name,
        "json_name": descriptor.json_name,
        "number": descriptor.number,
        "required": _is_required(descriptor),
    }
    message = descriptor.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        if key.type != FieldDescriptor.TYPE_STRING:
            raise TypeError(f"the codec has no rule for the keys of {descriptor.full_name}")
        return FieldPlan(kind=FieldKind.MESSAGE, map_value=_field(value, plans), **names)
    oneof = descriptor.containing_oneof
    repeated = is_repeated(descriptor)
    names |= {
        "repeated": repeated,
        "presence": descriptor.has_presence and not repeated,
        # The oneof of `optional` has only this member and is named after it.
        "oneof": oneof.name if oneof is not None and oneof.name != f"_{descriptor.name}" else None,
    }
    if message is not None:
        plan = _plan(message, plans)
        return FieldPlan(kind=plan.kind, message=plan, **names)
    kind = _SCALARS.get(descriptor.type)
    if kind is None:
        raise TypeError(f"the codec has no rule for the type of {descriptor.full_name}")
    if descriptor.enum_type is not None:
        return FieldPlan(kind=kind, enum=_enum(descriptor.enum_type), **names)
    low, high = _BITS.get(descriptor.type, (0, 0))
    return FieldPlan(kind=kind, low=low, high=high, **names)


def _enum(descriptor: EnumDescriptor) -> EnumPlan:
    values = list(descriptor.values)
    # Of several names for one number the first is the canonical one.
    names = {value.number: value.name for value in reversed(values)}
    return EnumPlan({value.name: value.number for value in values}, names)


def variants(plan: MessagePlan) -> dict[str, FieldPlan]:
    """The fields of a message by all their accepted JSON names."""
    return {field.name: field for field in plan.fields} | {field.json_name: field for field in plan.fields}


def is_repeated(descriptor: Any) -> bool:
    """Whether a field holds a list."""
    # `label` is deprecated from protobuf 6 on and warns; `is_repeated` does not exist before.
    if hasattr(FieldDescriptor, "is_repeated"):
        return bool(descriptor.is_repeated)
    label: int = getattr(descriptor, "label")  # noqa: B009 - today's stubs no longer have it
    return label == FieldDescriptor.LABEL_REPEATED


def _is_required(descriptor: FieldDescriptor) -> bool:
    # Options have a class of the default pool, which does not know google.api: parse them again with ours.
    options = google_protobuf.FieldOptions.FromString(descriptor.GetOptions().SerializeToString())
    return _REQUIRED in options.Extensions[POOL.FindExtensionByName("google.api.field_behavior")]
