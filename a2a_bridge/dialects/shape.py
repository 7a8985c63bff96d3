r"""Compiles a table of JSON members into the functions that read and write one message of an older version.

A table lists the differences between the JSON of a message and the hub's own JSON: a tag such as `kind`,
other names of enum values, members that are always present. Types and field numbers come from the hub's
descriptor. Four rules:

1. A shape with `metadata` is a *unit*: its unmapped content is kept in its metadata (see `Shape`). A shape
   without metadata is *inline*: it belongs to the surrounding unit.
2. The compiled writer accepts canonical trees only, counts members, and raises for other trees; the engine
   for unmapped content reads such a tree again with the tolerant reader, which walks the table.
3. Content that the hub can hold and the older version cannot (no status, an enum number without a name, a
   member that the version lacks) is a fact of the unit.
4. Each member of the hub has a place: a member of the table, `lacks`, or `elsewhere`.

For a status the generated functions look like this:

    def write(tree):
        get = tree.get
        rest = len(tree) - 1
        out = written[get("state")]
        if not rest:
            return out
        value = get("message")
        if value is not None:
            rest -= 1
            body = text(value)
            out += f"\x12{VARINT[len(body)]}{body}"
        …

    def encode(message):
        tree = {"state": names[message.state]}
        if message.HasField("message"):
            tree["message"] = encode_message(message.message)
        …
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

from google.protobuf.message import Message

from a2a_bridge.codec import Json, JsonObject, values
from a2a_bridge.codec.budget import spend_on
from a2a_bridge.codec.plan import BUILDING, FieldKind, FieldPlan, Source, literal
from a2a_bridge.codec.structs import LEVELS, read_struct
from a2a_bridge.codec.text import Irregular
from a2a_bridge.codec.values import LENGTH_WIRE, VARINT, VARINT_WIRE, tag
from a2a_bridge.dialects import scalars
from a2a_bridge.dialects.members import Inline, Member, fields_of, reader_of
from a2a_bridge.dialects.pair import set_field
from a2a_bridge.dialects.reader import Fact, Names, Shape, mark_tree, restore_tree, text_of
from a2a_bridge.dialects.unmapped import KEY

_LIBRARY: dict[str, Any] = {
    "Irregular": Irregular,
    "KEY": KEY,
    "LEVELS": LEVELS,
    "VARINT": VARINT,
    "marked": mark_tree,
    "metadata_entry": scalars.metadata_entry,
    "read_struct": read_struct,
    "restored": restore_tree,
    "spend_on": spend_on,
    "strings": scalars.strings,
    "struct": scalars.struct,
    "text_of": text_of,
    "timestamp_wire": values.timestamp_wire,
    "timestamp_text": values.timestamp_text,
}
"""All compiled functions and their names."""

#: the two bool Values on the wire
_BOOLS = {False: " \0", True: " \1"}

_COMPILERS: dict[Shape | Inline, _Compiler] = {}


#: what `lacks` can name: these are JSON as they are
_PLAIN = (FieldKind.STRING, FieldKind.BOOL, FieldKind.INTEGER, FieldKind.ENUM)


def unit(
    cls: type[Message],
    *members: Member,
    kind: str = "",
    lacks: Collection[str] = (),
    elsewhere: Collection[str] = (),
) -> Shape:
    """The shape of a message with metadata. kind: the value of its member `kind`, if it has one.

    lacks: JSON names of members of the hub that the version lacks; they are facts of the unit. They hold
    texts, integers or bools, or lists of them. elsewhere: those that the code around the shape handles, such
    as a tenant in the path. Raises TypeError for a member of the hub that none of these covers.
    """
    _require_places(cls, members, lacks, elsewhere)
    compiler = _Compiler(cls, members, kind, lacks)
    shape = Shape(
        cls,
        tag(compiler.fields["metadata"].number, LENGTH_WIRE),
        reader_of(cls, members, kind),
        compiler.write,
        compiler.encode,
        lambda tree: _units(members, tree),
        facts={one.member.name: one.fact() for one in _enums(cls, members)}
        | {field.json_name: _lacking_fact(cls, field) for field in compiler.lacking},
    )
    _LIBRARY[f"shape_{compiler.label}"] = shape
    _COMPILERS[shape] = compiler
    return shape


def inline(cls: type[Message], *members: Member, elsewhere: Collection[str] = ()) -> Inline:
    """The shape of a message without metadata. elsewhere: see `unit`. Raises TypeError like `unit`."""
    _require_places(cls, members, (), elsewhere)
    compiler = _Compiler(cls, members, "", ())
    shape = Inline(cls, members, compiler.write, compiler.encode, reader_of(cls, members))
    _COMPILERS[shape] = compiler
    return shape


def table_of(shape: Shape | Inline) -> tuple[tuple[Member, ...], str]:
    """The members of a compiled shape and the value of its `kind`, for generators of code and docs."""
    compiler = _COMPILERS[shape]
    return compiler.members, compiler.kind


class _Compiler:
    """Writes the functions of one shape on the first call, to keep imports fast."""

    def __init__(
        self, cls: type[Message], members: tuple[Member, ...], kind: str, lacks: Collection[str]
    ) -> None:
        self.cls = cls
        self.fields = fields_of(cls)
        self.lacking = [self.fields[name] for name in lacks]
        self.members = members
        self.kind = kind
        self.label = f"{cls.DESCRIPTOR.name}_{len(_COMPILERS)}"
        self.source = Source(_LIBRARY)
        self.notes = [self.source.keep("noted", one.noted) for one in members if one.noted]
        self._write, self._encode = f"write_{self.label}", f"encode_{self.label}"

    def write(self, tree: Any) -> str:
        """See `Shape.write`."""
        if self._encode not in _LIBRARY:  # `compile` defines this one last
            self.compile()
        text: str = _LIBRARY[self._write](tree)
        return text

    def encode(self, message: Any) -> JsonObject:
        """See `Shape.encode`."""
        if self._encode not in _LIBRARY:
            self.compile()
        tree: JsonObject = _LIBRARY[self._encode](message)
        return tree

    def compile(self) -> None:
        """Writes the functions, after the functions of the shapes within."""
        with BUILDING:
            if self._encode in _LIBRARY:
                return  # another thread has compiled it
            for member in self.members:
                inner = _COMPILERS.get(member.shape) if member.shape is not None else None
                if inner is not None and inner._encode not in _LIBRARY:  # noqa: SLF001 - of this very class
                    inner.compile()
            self.writer()
            self.texter()
            self.encoder()
            self.source.compile(self.label)

    def field(self, member: Member) -> FieldPlan:
        """The hub's field of a member."""
        found = member.field_in(self.fields)
        assert found is not None, f"{self.label} has no {member.name}"  # noqa: S101 - tables are ours
        return found

    # JSON -> wire

    def writer(self) -> None:
        line, block = self.source.line, self.source.block
        first = [one for one in self.members if one.always and not one.follows]
        last = [one for one in self.members if one.follows]
        with block(f"def {self._write}(tree):"):
            line("get = tree.get")
            if self.kind:
                with block(f'if get("kind") != "{self.kind}":'):
                    line("raise Irregular")
            line(f"rest = len(tree) - {len(first) + len(last) + bool(self.kind)}", 'out = ""')
            for member in first:
                line(f'value = get("{member.name}")')
                self.append(member)
            for member in self.members:
                if not member.always and not member.follows:
                    self.write_optional(member, check=not last)
            for member, note in zip(last, self.notes, strict=True):
                self.write_following(member, note)
            with block("if rest:"):
                line("raise Irregular")
            line("return out")

    def write_optional(self, member: Member, *, check: bool) -> None:
        line, block = self.source.line, self.source.block
        field = self.field(member)
        scalar = field.kind in (FieldKind.STRING, FieldKind.BOOL) or (
            field.kind is FieldKind.INTEGER and not field.presence
        )
        by_default = scalar and not field.repeated and member.chosen is None
        if check and not by_default:
            with block("if not rest:"):
                line("return out")
        line(f'value = get("{member.name}")')
        with block("if value:" if by_default else "if value is not None:"):
            line("rest -= 1")
            self.append(member)

    def append(self, member: Member) -> None:
        """Appends `value`."""
        line, block = self.source.line, self.source.block
        if member.flat:
            line(f"out += {self.text(member)}(value)")
            return
        field = self.field(member)
        prefix = literal(tag(field.number, LENGTH_WIRE))
        if member.names is not None:
            number = tag(field.number, VARINT_WIRE)
            written = {name: number + VARINT[value] for name, value in member.names.numbers.items()}
            line(f"out += {self.source.keep('written', written)}[value]")
        elif field.repeated and field.kind is FieldKind.STRING:
            with block("if value != []:") if member.always else nullcontext():
                line(f'out += strings(value, "{prefix}")')
        elif field.repeated:
            with block(
                "if type(value) is not list:" if member.always else "if type(value) is not list or not value:"
            ):
                line("raise Irregular")
            with block("for item in value:"):
                line(f"body = {self.text(member)}(item)", f'out += f"{prefix}{{VARINT[len(body)]}}{{body}}"')
        elif field.kind is FieldKind.STRING:
            if member.chosen is not None:
                with block("if type(value) is not list or len(value) != 1:"):
                    line("raise Irregular")
                line("(value,) = value")
            with block("if type(value) is not str:"):
                line("raise Irregular")
            with block("if not value.isascii():"):
                line('value = value.encode().decode("latin-1")')
            line(f'out += f"{prefix}{{VARINT[len(value)]}}{{value}}"')
        elif field.kind is FieldKind.BOOL:
            true = f'out += "{literal(tag(field.number, VARINT_WIRE))}\\1"'
            if member.inverted:
                with block("if value is False:"):
                    line(true)
            with block(f"{'elif' if member.inverted else 'if'} value is not True:"):
                line("raise Irregular")
            if not member.inverted:
                line(true)
        elif field.kind is FieldKind.INTEGER:
            with block(f"if type(value) is not int or not {field.low} <= value <= {field.high}:"):
                line("raise Irregular")
            line(f'out += f"{literal(tag(field.number, VARINT_WIRE))}{{VARINT[value]}}"')
        else:
            if field.kind is FieldKind.STRUCT:
                with block(f"if {' or '.join(f'{key} in value' for key in ('KEY', *self.notes))}:"):
                    line("raise Irregular")
                line("body = struct(value, LEVELS)")
            elif field.kind is FieldKind.TIMESTAMP:
                line("body = timestamp_wire(value)")
            else:
                line(f"body = {self.text(member)}(value)")
            line(f'out += f"{prefix}{{VARINT[len(body)]}}{{body}}"')

    def write_following(self, member: Member, note: str) -> None:
        line, block = self.source.line, self.source.block
        assert member.follows is not None  # noqa: S101 - for the type checker
        other, derive = member.follows
        line(f'value = get("{member.name}")')
        with block(f'if value is not {self.source.keep("derive", derive)}(get("{other}")):'):
            with block('if type(value) is not bool or get("metadata") == {}:'):
                line("raise Irregular")
            metadata = literal(tag(self.fields["metadata"].number, LENGTH_WIRE))
            bools = self.source.keep("bools", _BOOLS)
            line(f'out += metadata_entry("{metadata}", {note}, {bools}[value])')

    def text(self, member: Member) -> str:
        """The name of the function that writes the object, or the objects in the list, of a member."""
        shape = member.shape
        assert shape is not None, f"{self.label}.{member.name} needs a shape"  # noqa: S101 - tables are ours
        if shape in _COMPILERS:
            label = _COMPILERS[shape].label
            return f"text_{label}" if isinstance(shape, Shape) else f"write_{label}"
        return self.source.keep("text", shape.text if isinstance(shape, Shape) else shape.write)

    def texter(self) -> None:
        """The writer for any tree: `Shape.text`."""
        line, block = self.source.line, self.source.block
        with block(f"def text_{self.label}(tree):"):
            with block("try:"):
                line(f"return {self._write}(tree)")
            with block("except (ValueError, LookupError, AttributeError, TypeError):"):
                line(f"return text_of(shape_{self.label}, tree)")

    # message -> JSON

    def encoder(self) -> None:
        line, block = self.source.line, self.source.block
        guards = [
            f"message.{'.'.join(one.fields)} not in {self.source.keep('numbers', one.numbers)}"
            for one in _enums(self.cls, self.members)
        ] + [
            f'message.HasField("{one.name}")' if one.presence else f"message.{one.name}"
            for one in self.lacking
        ]
        with block(f"def {self._encode}(message):"):
            if guards and "metadata" in self.fields:
                with block(f"if {' or '.join(guards)}:"):
                    line(f"return marked(shape_{self.label}, message)")
            items = [f'"kind": "{self.kind}"'] if self.kind else []
            always = [one for one in self.members if one.always and not one.follows]
            items += [f'"{one.name}": {self.read(one)}' for one in always]
            line(f"tree = {{{', '.join(items)}}}")
            for member in self.members:
                if member.follows:
                    other, derive = member.follows
                    line(f'tree["{member.name}"] = {self.source.keep("derive", derive)}(tree["{other}"])')
            for member in self.members:
                if not member.always and not member.follows and member.name != "metadata":
                    self.encode_optional(member)
            if "metadata" in self.fields:
                self.encode_metadata()
            line("return tree")

    def encode_optional(self, member: Member) -> None:
        field = self.field(member)
        if field.presence:
            with self.source.block(f'if message.HasField("{field.name}"):'):
                self.source.line(f'tree["{member.name}"] = {self.read(member)}')
        else:
            self.source.line(f"value = message.{field.name}")
            with self.source.block("if value:"):
                self.source.line(f'tree["{member.name}"] = {self.read(member, "value")}')

    def encode_metadata(self) -> None:
        line, block = self.source.line, self.source.block
        with block('if message.HasField("metadata"):'):
            line("metadata = read_struct(message.metadata)")
            for note, member in zip(self.notes, [one for one in self.members if one.noted], strict=True):
                derived = f'tree["{member.name}"]'
                with block(f"if {note} in metadata:"):
                    with block(f"if metadata[{note}] is (not {derived}):"):
                        line(f"{derived} = not {derived}")
                    line(f"del metadata[{note}]")
                    with block("if not metadata:"):
                        line("return tree")
            line('tree["metadata"] = metadata')
            with block("if KEY in metadata:"):
                line(f"return restored(shape_{self.label}, tree)")

    def read(self, member: Member, value: str = "") -> str:
        """The expression for the JSON of a member."""
        if member.flat:
            assert member.shape is not None  # noqa: S101 - tables are ours
            return f"encode_{_COMPILERS[member.shape].label}(message)"
        field = self.field(member)
        value = value or f"message.{field.name}"
        if member.names is not None:
            names = {number: name for name, number in member.names.numbers.items()}
            return f"{self.source.keep('names', names)}[{value}]"
        if member.shape is not None:
            inner = _COMPILERS.get(member.shape)
            encode = (
                self.source.keep("encode", member.shape.encode) if inner is None else f"encode_{inner.label}"
            )
            return (
                f"[{encode}(item) for item in spend_on({value})[:]]"
                if field.repeated
                else f"{encode}({value})"
            )
        if field.kind is FieldKind.TIMESTAMP:
            return f"timestamp_text({value})"
        if member.chosen is not None:
            return f"[{value}]"
        return f"{value}[:]" if field.repeated else f"not {value}" if member.inverted else value


class _Enum(NamedTuple):
    """An enum in a unit. A number without a name is a fact."""

    member: Member
    #: the members that lead to the object with the member
    place: tuple[str, ...]
    #: the fields that lead to its value
    fields: tuple[str, ...]

    @property
    def names(self) -> Names:
        assert self.member.names is not None  # noqa: S101 - for the type checker
        return self.member.names

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.names.numbers.values())

    def fact(self) -> Fact:
        """The fact of this enum."""
        names, numbers = self.names, self.numbers
        *owners, field = self.fields

        def owner(message: Any) -> Any:
            for name in owners:
                message = getattr(message, name)
            return message

        def take(message: Any) -> Json:
            number: int = getattr(owner(message), field)
            if number in numbers:
                return None
            setattr(owner(message), field, names.numbers[names.default])
            return number

        def fits(tree: JsonObject, value: Any) -> bool:
            for name in self.place:
                tree = tree.get(name) or {}
            in_range = type(value) is int and -(2**31) <= value < 2**31
            return in_range and value not in numbers and tree.get(self.member.name) == names.default

        return Fact(take, lambda message, value: setattr(owner(message), field, value), fits)


def _enums(
    cls: type[Message], members: tuple[Member, ...], place: tuple[str, ...] = (), fields: tuple[str, ...] = ()
) -> Iterator[_Enum]:
    """The enums of messages of a class, also in objects that are always there."""
    plans = fields_of(cls)
    for member in members:
        field = member.field_in(plans)
        if field is None:
            continue
        if member.names is not None:
            yield _Enum(member, place, (*fields, field.name))
        elif member.always and isinstance(member.shape, Inline) and field.presence:
            inner = (*place, member.name), (*fields, field.name)
            yield from _enums(member.shape.cls, member.shape.members, *inner)


def _lacking_fact(cls: type[Message], field: FieldPlan) -> Fact:
    """The fact of a member of the hub that the version lacks."""

    def take(message: Any) -> Json:
        value: Any = getattr(message, field.name)
        if not (message.HasField(field.name) if field.presence else value):
            return None
        kept: Json = list(value) if field.repeated else value
        message.ClearField(field.name)
        return kept

    def fits(_: JsonObject, value: Any) -> bool:
        probe: Any = cls()
        set_field(probe, field.name, value)
        return bool(take(probe) == value)

    return Fact(take, lambda message, value: set_field(message, field.name, value), fits)


def _require_places(
    cls: type[Message], members: tuple[Member, ...], lacks: Collection[str], elsewhere: Collection[str]
) -> None:
    """Raises TypeError for a member of the hub without a place, and for one that `lacks` cannot name."""
    fields = fields_of(cls)
    hub = cls.DESCRIPTOR.full_name
    missing = fields.keys() - {*_list_names(members), *lacks, *elsewhere}
    if missing:
        raise TypeError(
            f"{hub} has no place for {', '.join(sorted(missing))}: add a Member, or name it in lacks= (it is"
            " kept in the metadata) or in elsewhere= (the code around the shape handles it)"
        )
    for name in (*lacks, *elsewhere):
        if name not in fields:
            raise TypeError(f"{hub} has no member {name}")
    wrong = [name for name in lacks if fields[name].kind not in _PLAIN]
    if wrong or (lacks and "metadata" not in fields):
        raise TypeError(f"{hub}: lacks= cannot keep {', '.join(wrong or lacks)} in metadata")


def _list_names(members: tuple[Member, ...]) -> Iterator[str]:
    """The JSON names in the hub of the members of a table."""
    for member in members:
        if member.flat and isinstance(member.shape, Inline):
            yield from _list_names(member.shape.members)
        else:
            yield member.of or member.name


def _units(members: tuple[Member, ...], tree: JsonObject) -> Iterator[tuple[str, Shape, Any]]:
    """Path, shape and tree of each unit directly within a canonical tree."""
    for member in members:
        shape, found = member.shape, tree.get(member.name)
        if shape is None or found is None:
            continue
        if isinstance(shape, Inline):
            for path, inner, value in _units(shape.members, found):
                yield f"{member.name}.{path}", inner, value
        elif type(found) is list:
            for index, value in enumerate(found):
                yield f"{member.name}[{index}]", shape, value
        else:
            yield member.name, shape, found
