"""The tolerant reader of tables: it makes the canonical tree of any tree with a clear meaning, member by
member.
"""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf.message import Message

from a2a_bridge.codec.plan import FieldPlan, Kind
from a2a_bridge.codec.values import describe, lenient_timestamp
from a2a_bridge.dialects import scalars
from a2a_bridge.dialects.irregular import Reader
from a2a_bridge.dialects.members import Inline, Member, Names, fields_of


def reader_of(cls: type[Message], members: tuple[Member, ...], kind: str = "") -> Callable[[Reader], None]:
    """The function that reads one object."""
    fields = fields_of(cls)
    ordered = sorted(members, key=lambda member: bool(member.follows))
    notes = [member.noted for member in members if member.noted]
    steps = [_step(member, member.field_in(fields), notes) for member in ordered]

    def read(reader: Reader) -> None:
        if kind:
            reader.kind(kind)
        for step in steps:
            step(reader)

    return read


def _step(member: Member, field: FieldPlan | None, notes: list[str]) -> Callable[[Reader], None]:
    """The function that reads one member."""
    name, always, shape, names = member.name, member.always, member.shape, member.names
    if isinstance(shape, Inline):
        within = shape.read
        return lambda reader: _read_inline(reader, member, shape, within)
    if field is None:
        return lambda reader: _read_following(reader, member)
    if names is not None:
        return lambda reader: _read_name(reader, member, names)
    if shape is not None:
        return lambda reader: _read_units(reader, member, many=field.repeated)
    match field.kind:
        case Kind.STRING if field.repeated:
            return lambda reader: reader.strings(name, required=always)
        case Kind.STRING if member.chosen is not None:
            return lambda reader: _read_chosen(reader, member)
        case Kind.STRING if member.later:
            return lambda reader: reader.later(name)
        case Kind.STRING:
            return lambda reader: _read_text(reader, member)
        case Kind.INTEGER:
            return lambda reader: _read_integer(reader, name)
        case Kind.BOOL if member.inverted:
            return lambda reader: _read_inverted(reader, name)
        case Kind.BOOL:
            return lambda reader: _ignore(reader.flag(name))
        case Kind.STRUCT:
            return lambda reader: reader.metadata(*notes)
        case Kind.TIMESTAMP:
            return lambda reader: _read_time(reader, name)
    raise TypeError(f"shapes have no rule for {name}")


def _ignore(_: object) -> None:
    return None


def _read_following(reader: Reader, member: Member) -> None:
    assert member.follows is not None  # noqa: S101 - for the type checker
    other, derive = member.follows
    value = reader.given.get(member.name)
    if type(value) is not bool:
        if value is not None:
            reader.expected(member.name, "true or false")
        value = derive(reader.tree[other])
    reader.tree[member.name] = value


def _read_name(reader: Reader, member: Member, names: Names) -> None:
    value = reader.given.get(member.name)
    if value is None and not member.required:
        value = names.default
    name = names.aliases.get(value, value) if type(value) is str else ""
    if name not in names.numbers:
        text = "is required" if value is None else f"is none of {', '.join(names.numbers)}"
        reader.wrong(member.name, text)
    reader.tree[member.name] = name


def _read_text(reader: Reader, member: Member) -> None:
    if member.required and reader.given.get(member.name) is None:
        reader.wrong(member.name, "is required")
    reader.string(member.name, required=member.always)


def _read_chosen(reader: Reader, member: Member) -> None:
    assert member.chosen is not None  # noqa: S101 - for the type checker
    reader.strings(member.name)
    if member.name in reader.tree:
        reader.tree[member.name] = [member.chosen(reader.tree[member.name])]


def _read_integer(reader: Reader, name: str) -> None:
    value = reader.given.get(name)
    if value is None:
        return
    number = scalars.int32(value)
    if number is None:
        got = "a fraction" if isinstance(value, float) else describe(value)
        reader.wrong(name, f"expected an integer, got {got}")
    else:
        reader.tree[name] = number


def _read_inverted(reader: Reader, name: str) -> None:
    value = reader.given.get(name)
    if value is not None and type(value) is not bool:
        reader.expected(name, "true or false")
    reader.tree[name] = value is not False


def _read_units(reader: Reader, member: Member, *, many: bool) -> None:
    if member.required and reader.given.get(member.name) is None:
        reader.wrong(member.name, "is required")
    if many:
        reader.units(member.name, required=member.always)
    else:
        reader.unit(member.name)


def _read_inline(reader: Reader, member: Member, shape: Inline, within: Callable[[Reader], None]) -> None:
    given = reader.object(member.name)
    if given is not None:
        inner = Reader(given, f"{reader.path}.{member.name}" if reader.path else member.name)
        within(inner)
        tree = reader.within(inner)
        # An object without its essential member, such as authentication without a scheme, is absent.
        if member.always or all(one.name in tree for one in shape.members if one.always):
            reader.tree[member.name] = tree
    elif member.required and reader.given.get(member.name) is None:
        reader.wrong(member.name, "is required")
    elif member.always and not member.required:
        reader.tree[member.name] = shape.encode(shape.cls())


def _read_time(reader: Reader, name: str) -> None:
    value = reader.given.get(name)
    if type(value) is str:
        if lenient_timestamp(value) is not None:
            reader.tree[name] = value
    elif value is not None:
        reader.expected(name, "a date and time")
