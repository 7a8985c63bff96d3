"""The tolerant reader of tables: which rule of `reader` reads which member."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf.message import Message

from a2a_bridge.codec.plan import FieldKind, FieldPlan
from a2a_bridge.codec.unknown import folded
from a2a_bridge.dialects.members import Inline, Member, fields_of
from a2a_bridge.dialects.reader import Reader

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
