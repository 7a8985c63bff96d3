"""Elements of tables of JSON members, which `shape` compiles, and the rule of `reader` for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject
from a2a_bridge.codec.plan import FieldKind, FieldPlan, plan_of
from a2a_bridge.codec.unknown import folded
from a2a_bridge.codec.values import describe
from a2a_bridge.dialects.reader import Names, Reader, Shape


@dataclass(frozen=True, slots=True, eq=False)
class Inline:
    """An object without metadata. It belongs to a unit."""

    #: its message in the hub
    cls: type[Message]
    #: its members
    members: tuple[Member, ...]
    #: a canonical tree as wire text; raises Irregular, LookupError, AttributeError and TypeError otherwise
    write: Callable[[Any], str]
    #: the message as a canonical tree; raises KeyError for enum numbers without a name
    encode: Callable[[Any], JsonObject]
    #: the tolerant reader
    read: Callable[[Reader], None]

    def reader(self, tree: Json) -> Reader:
        """Reads a tree outside of any unit: its canonical form, or its problems."""
        if type(tree) is not dict:
            reader = Reader({})
            reader.wrong("", f"expected an object, got {describe(tree)}")
            return reader
        reader = Reader(tree)
        self.read(reader)
        return reader

    def decode(self, tree: Json) -> Any:
        """The message of a tree outside of any unit. Raises DecodeError."""
        try:
            text = self.write(tree)
        except (ValueError, LookupError, AttributeError, TypeError):
            reader = self.reader(tree)
            if reader.problems:
                raise DecodeError.of(reader.problems) from None
            text = self.write(reader.tree)
        return self.cls.FromString(text.encode("latin-1"))


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object in JSON."""

    #: its name in JSON
    name: str
    #: the shape of its object, or of the objects in its list
    shape: Shape | Inline | None = None
    #: the JSON name of the member in the hub, if different
    of: str = ""
    #: whether the fields of the object belong to the surrounding message in the hub
    flat: bool = False
    #: whether the hub stores the negated value
    inverted: bool = False
    #: whether only later versions define this text or integer: any other value is then an unknown member
    later: bool = False
    #: selects the one text of a list that the hub stores
    chosen: Callable[[list[str]], str] | None = None
    #: whether a canonical tree includes it even if it is empty
    always: bool = False
    #: whether a tree without it is rejected
    required: bool = False
    #: the variants of an enum
    names: Names | None = None
    #: for a member without a field in the hub: the name of another member, and the function that computes
    #: this member's value from it
    follows: tuple[str, Callable[[Any], bool]] | None = None
    #: the key in the hub's metadata for a value that differs from the computed one
    noted: str = ""

    def field_in(self, fields: Mapping[str, FieldPlan]) -> FieldPlan | None:
        """The hub's field, from fields by JSON name; None for members without a field."""
        return fields.get(self.of or self.name)


def fields_of(cls: type[Message]) -> dict[str, FieldPlan]:
    """The fields of a message by JSON name."""
    return {field.json_name: field for field in plan_of(cls).fields}


Step = Callable[[Reader], object]


def reader_of(cls: type[Message], members: tuple[Member, ...], kind: str = "") -> Callable[[Reader], None]:
    """The function that reads one object."""
    fields = fields_of(cls)
    ordered = sorted(members, key=lambda member: bool(member.follows))
    notes = [member.noted for member in members if member.noted]
    steps = [_require(member, _step(member, member.field_in(fields), notes)) for member in ordered]
    names = [member.name for member in members] + (["kind"] if kind else [])
    spelled = {folded(name): name for name in names}

    def read(reader: Reader) -> None:
        reader.spell(spelled)
        if kind:
            reader.kind(kind)
        for step in steps:
            step(reader)

    return read


def _require(member: Member, step: Step) -> Step:
    if not member.required:
        return step

    def read(reader: Reader) -> None:
        reader.require(member.name)
        step(reader)

    return read


def _step(member: Member, field: FieldPlan | None, notes: list[str]) -> Step:
    """The function that reads one member."""
    name, always, shape, names = member.name, member.always, member.shape, member.names
    if isinstance(shape, Inline):
        return lambda reader: _read_inline(reader, member, shape)
    if field is None:
        return lambda reader: _read_following(reader, member)
    if names is not None:
        return lambda reader: reader.enum(name, names)
    if shape is not None:
        return lambda reader: reader.units(name, always=always) if field.repeated else reader.unit(name)
    match field.kind:
        case FieldKind.STRING if field.repeated:
            return lambda reader: reader.strings(name, always=always)
        case FieldKind.STRING if member.chosen is not None:
            return lambda reader: _read_chosen(reader, member)
        case FieldKind.STRING if member.later:
            return lambda reader: reader.later(name)
        case FieldKind.STRING:
            return lambda reader: reader.string(name, always=always)
        case FieldKind.INTEGER if member.later:
            return lambda reader: reader.later_integer(name, field)
        case FieldKind.INTEGER:
            return lambda reader: reader.integer(name)
        case FieldKind.BOOL if member.inverted:
            return lambda reader: _read_inverted(reader, name)
        case FieldKind.BOOL:
            return lambda reader: reader.flag(name)
        case FieldKind.STRUCT:
            return lambda reader: reader.metadata(*notes)
        case FieldKind.TIMESTAMP:
            return lambda reader: reader.time(name)
    raise TypeError(f"shapes have no rule for {name}")


def _read_following(reader: Reader, member: Member) -> None:
    assert member.follows is not None  # noqa: S101 - for the type checker
    other, derive = member.follows
    value = reader.flag(member.name)
    reader.tree[member.name] = derive(reader.tree[other]) if value is None else value


def _read_chosen(reader: Reader, member: Member) -> None:
    assert member.chosen is not None  # noqa: S101 - for the type checker
    reader.strings(member.name)
    if member.name in reader.tree:
        reader.tree[member.name] = [member.chosen(reader.tree[member.name])]


def _read_inverted(reader: Reader, name: str) -> None:
    reader.tree[name] = reader.flag(name) is not False


def _read_inline(reader: Reader, member: Member, shape: Inline) -> None:
    value = reader.object(member.name)
    if value is not None:
        inner = reader.inner(member.name, value)
        shape.read(inner)
        if inner.source is not value:
            reader.source = {**reader.source, member.name: inner.source}
        tree = reader.within(inner)
        # An object without its essential member, such as authentication without a scheme, is absent.
        if member.always or all(one.name in tree for one in shape.members if one.always):
            reader.tree[member.name] = tree
    elif member.always:
        reader.tree[member.name] = shape.encode(shape.cls())
