r"""JSON trees to messages. Compiles one function per message type; `inspect` determines the path of an error.

The generated functions write the message's wire bytes (as wire text, see `values`), which protobuf parses:
faster than setting attributes one by one. They expect the regular case: camelCase names, no nulls, no unknown
members. They count down the members that they recognise and return after the last one; if some are left over,
the object is tidied and read again. A long text is not written but assigned to the message afterwards: the
wire text is written from the inside out and copies a text once per level, and an assignment copies it once.
For any error the functions raise without a path, and the slow, path-aware walker inspects the tree again.

For Message the generated function looks like this:

    def Message(tree):
        if type(tree) is not dict:
            raise Irregular
        get = tree.get
        rest = len(tree)
        out = ""
        value = get("messageId")
        if value is not None:
            if type(value) is not str:
                raise Irregular
            if not value.isascii():
                value = value.encode().decode("latin-1")
            out += f"\n{VARINT[len(value)]}{value}"
            rest -= 1
            if not rest:
                return out
        …
        if rest:
            return Message(tidy(tree, _variants_9))
        return out
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge.codec import structs, values
from a2a_bridge.codec.inspect import findings
from a2a_bridge.codec.plan import (
    BUILDING,
    FieldKind,
    FieldPlan,
    MessagePlan,
    Source,
    literal,
    plan_of,
    variants,
)
from a2a_bridge.codec.structs import rounded
from a2a_bridge.codec.text import DecodeError, Irregular, Json, Violation, loads
from a2a_bridge.codec.unknown import folded_names, kept_members
from a2a_bridge.codec.values import LENGTH_WIRE, VARINT, VARINT_WIRE, tag

LONG_TEXT = 1 << 14
"""Minimum length of a text that is assigned, in characters."""


class LongTextError(ValueError):
    """A field of the tree holds a long text."""


class LongText(NamedTuple):
    """A text that was taken out of a tree."""

    #: the way from the whole message to the one with the text: names of fields, and positions in lists
    path: tuple[str | int, ...]
    #: its field
    field: FieldPlan
    #: the text; base64 for bytes
    text: str


def assign(message: Any, found: list[LongText]) -> None:
    """Puts the texts into the message. Raises ValueError for an invalid one."""
    for path, field, text in found:
        target = message
        for step in path:
            target = target[step] if type(step) is int else getattr(target, str(step))
        setattr(target, field.name, text if field.kind is FieldKind.STRING else values.base64_bytes(text))


def without_long_texts(
    plan: MessagePlan, tree: Any, found: list[LongText], path: tuple[str | int, ...] = ()
) -> Any:
    """The tree with empty texts instead of long ones, which are added to `found`. The tree stays as it is."""
    if type(tree) is not dict:
        return tree
    short = dict(tree)
    for field in plan.fields:
        value = tree.get(field.json_name)
        if value is None or field.map_value is not None:
            continue
        below = field.message if field.kind is FieldKind.MESSAGE else None
        if type(value) is str:
            if len(value) > LONG_TEXT and is_text(field):
                found.append(LongText(path, field, value))
                short[field.json_name] = ""
        elif below is None:
            continue
        elif type(value) is dict:
            if not field.repeated:
                short[field.json_name] = without_long_texts(below, value, found, (*path, field.name))
        elif type(value) is list and field.repeated:
            here = (*path, field.name)
            short[field.json_name] = [
                without_long_texts(below, item, found, (*here, index)) for index, item in enumerate(value)
            ]
    return short


def is_text(field: FieldPlan) -> bool:
    """True for fields whose long texts are assigned."""
    return (
        field.kind in (FieldKind.STRING, FieldKind.BYTES) and not field.repeated and field.map_value is None
    )


M = TypeVar("M", bound=Message)
Body = Callable[[Any], str]

_REPORTED = 20
"""Maximum number of violations in an error: a hostile document must not cause a large answer."""

_DECODERS: dict[tuple[type[Message], bool], Callable[[Json], Any]] = {}


def decoder(cls: type[M], *, keeps: bool = False) -> Callable[[Json], M]:
    """The function that decodes JSON trees, as returned by `loads`, to messages of a class, or raises
    `DecodeError`. Compiled once.

    Unknown members are left out, or with `keeps` kept in the message (see `unknown`). An integer inside
    Struct or Value that a double cannot hold is rounded as protobuf does and counted in `rounded`.
    """
    found = _DECODERS.get((cls, keeps))
    if found is None:
        with BUILDING:
            found = _decoder(cls, keeps=keeps)
            _DECODERS[cls, keeps] = found
    return found


def decode_bytes(cls: type[M], data: bytes | str) -> M:
    """Decodes a message from JSON text. Raises `JsonSyntaxError` or `DecodeError`."""
    return decoder(cls)(loads(data))


def _decoder(cls: type[M], *, keeps: bool) -> Callable[[Json], M]:
    plan = plan_of(cls)
    body: Body | None = None
    from_string = cls.FromString

    def decode(tree: Json) -> M:
        nonlocal body
        if body is None:
            with BUILDING:  # on the first call, to keep imports fast
                body = compile_body(plan, structs.exactly, apart=True, keeps=keeps)
        try:
            return from_string(body(tree).encode("latin-1"))
        except LongTextError:
            long: list[LongText] | None = []
        except (ValueError, RecursionError, ProtobufDecodeError):
            long = None
        # Outside of the handler: the first exception is not the context of another one.
        if long is not None:
            try:
                message = from_string(body(without_long_texts(plan, tree, long)).encode("latin-1"))
                assign(message, long)
            except (ValueError, RecursionError, ProtobufDecodeError):
                pass
            else:
                return message
        return slowly(tree)

    def slowly(tree: Json) -> M:
        if rounded.count or rounded.on_first is None:
            # The path of the first rounded number is not needed: most trees need no inspection then.
            with BUILDING:
                lenient = compile_body(plan, _round, keeps=keeps)
            _roundings.count = 0
            try:
                message = from_string(lenient(tree).encode("latin-1"))
            except (ValueError, RecursionError, ProtobufDecodeError):
                pass
            else:
                rounded.count += _roundings.count
                return message
        return inspect_tree(tree)

    def inspect_tree(tree: Json) -> M:
        problems: list[Violation] = []
        roundings: list[str] = []
        for found in findings(plan, tree):
            if found.rounding:
                roundings.append(found.path)
                continue
            problems.append((found.path, found.problem))
            if len(problems) == _REPORTED:
                break
        if problems:
            raise DecodeError.of(problems)
        try:
            with BUILDING:
                lenient = compile_body(plan, structs.nearest, keeps=keeps)
            message = from_string(lenient(tree).encode("latin-1"))
        except (ValueError, RecursionError, ProtobufDecodeError):
            raise DecodeError("", "is not JSON that protobuf can carry") from None
        for path in roundings:
            rounded.note(path)
        return message

    return decode


class _Roundings(threading.local):
    count = 0


_roundings = _Roundings()


def _round(number: int) -> float:
    """As `structs.nearest`; counts the numbers that are rounded in this thread."""
    double = structs.nearest(number)
    if double != number:
        _roundings.count += 1
    return double


def whole_decoder(cls: type[M]) -> Callable[[Json], tuple[M, bool]]:
    """A decoder that also returns whether the message holds all of the tree. The message does not hold
    unknown members, empty lists, nulls, names in snake_case, or integers that no double holds. The decoder
    raises `DecodeError`.
    """
    plan = plan_of(cls)
    with BUILDING:
        strict = compile_body(plan, structs.exactly, strict=True)
        lenient = compile_body(plan, structs.nearest)
    explain = decoder(cls)
    from_string = cls.FromString

    def decode(tree: Json) -> tuple[M, bool]:
        try:
            return from_string(strict(tree).encode("latin-1")), True
        except (ValueError, RecursionError, ProtobufDecodeError):
            pass
        try:
            return from_string(lenient(tree).encode("latin-1")), False
        except (ValueError, RecursionError, ProtobufDecodeError):
            pass
        return explain(tree), False

    return decode


_LIBRARIES: dict[tuple[Callable[[int], float], bool, bool, bool], dict[str, Any]] = {}
"""All compiled functions and their names, by the conversion of large integers, by strictness, and by what
becomes of long texts and of unknown members.
"""


def compile_body(
    plan: MessagePlan,
    to_double: Callable[[int], float],
    *,
    strict: bool = False,
    apart: bool = False,
    keeps: bool = False,
) -> Body:
    """The function that writes the wire text of a message; `to_double` converts large integers. strict: raise
    `Irregular` for members that the message cannot hold. apart: raise `LongTextError` for a long text, which
    is assigned to the message instead. keeps: keep unknown members (see `unknown`).
    """
    names = _LIBRARIES.get((to_double, strict, apart, keeps))
    if names is None:
        struct, value, array = structs.writers(to_double)
        names = _LIBRARIES[to_double, strict, apart, keeps] = {
            "Irregular": Irregular,
            "LongTextError": LongTextError,
            "LEVELS": structs.LEVELS,
            "BARE_LEVELS": structs.BARE_LEVELS,
            "VARINT": VARINT,
            "array": array,
            "base64_wire": values.base64_wire,
            "enum_number": values.enum_number,
            "integer": values.integer,
            "kept_members": kept_members,
            "struct": struct,
            "tidy": tidy,
            "timestamp_wire": values.timestamp_wire,
            "value_of": value,
        }
    if plan.label not in names:
        _Generator(Source(names), strict=strict, apart=apart, keeps=keeps).run(plan)
    body: Body = names[plan.label]
    return body


def tidy(tree: dict[str, Any], names: dict[str, FieldPlan]) -> dict[str, Any]:
    """An object with camelCase names only, without nulls and unknown members. A null that is a value counts
    only if nothing else of its oneof has one: some writers write all members of a oneof. Raises `Irregular`
    for two variants of one field, and for two members of a oneof.
    """
    tidied: dict[str, Any] = {}
    taken: set[str] = set()
    nulls: list[FieldPlan] = []
    for key, value in tree.items():
        field = names.get(key)
        if field is None:
            continue
        if field.name in taken:
            raise Irregular
        taken.add(field.name)
        if value is None:
            if field.takes_null:
                nulls.append(field)
            continue
        if field.oneof is not None:
            if f"oneof {field.oneof}" in taken:
                raise Irregular
            taken.add(f"oneof {field.oneof}")
        tidied[field.json_name] = value
    return tidied | {one.json_name: None for one in nulls if f"oneof {one.oneof}" not in taken}


class _Generator:
    """Writes the functions of a message type and of all nested types."""

    def __init__(self, source: Source, *, strict: bool, apart: bool, keeps: bool) -> None:
        self.source = source
        self.keeps = keeps
        self.strict = strict
        self.apart = apart

    def run(self, plan: MessagePlan) -> None:
        for one in plan.list_nested():
            if one.kind is FieldKind.MESSAGE and one.label not in self.source.names:
                self.message(one)
        if plan.kind is not FieldKind.MESSAGE:
            with self.source.block(f"def {plan.label}(tree):"):
                self.body(FieldPlan("", "", 0, plan.kind, message=plan), "tree")
                self.source.line("return tree")
        self.source.compile(f"decode {plan.descriptor.full_name}")

    def message(self, plan: MessagePlan) -> None:
        known = variants(plan)
        names = self.source.keep("variants", known)
        line, block = self.source.line, self.source.block
        with block(f"def {plan.label}(tree):"):
            with block("if type(tree) is not dict:"):
                line("raise Irregular")
            line("get = tree.get", "rest = len(tree)", 'out = ""')
            done: set[str] = set()
            for field in plan.fields:
                if field.oneof is None:
                    self.members([field])
                elif field.oneof not in done:
                    done.add(field.oneof)
                    self.members([one for one in plan.fields if one.oneof == field.oneof])
            with block("if rest:"):
                if self.strict:
                    line("raise Irregular")
                else:
                    kept = ""
                    if self.keeps:
                        alike = self.source.keep("alike", folded_names(known))
                        kept = f" + kept_members(tree, {names}, {alike})"
                    line(f"return {plan.label}(tidy(tree, {names})){kept}")
            line("return out")

    def members(self, fields: list[FieldPlan]) -> None:
        """One field, or the fields of a oneof: the first field that is present is used, and a second one
        makes the count wrong.
        """
        line, block = self.source.line, self.source.block
        field, *others = fields
        if field.takes_null:
            condition = f"if {field.json_name!r} in tree:"
            fetch = f"value = tree[{field.json_name!r}]"
        else:
            line(f"value = get({field.json_name!r})")
            condition = "if value is not None:"
            fetch = None
        with block(condition):
            if fetch:
                line(fetch)
            self.field(field)
            line("rest -= 1")
            with block("if not rest:"):
                line("return out")
        if others:
            with block("else:"):
                self.members(others)

    def field(self, field: FieldPlan) -> None:
        line, block = self.source.line, self.source.block
        if field.map_value is not None:
            self.map(field, field.map_value)
        elif field.repeated:
            with block(
                "if type(value) is not list or not value:" if self.strict else "if type(value) is not list:"
            ):
                line("raise Irregular")
            with block("for item in value:"):
                self.value(field, "item", "out")
        else:
            self.value(field, "value", "out")

    def map(self, field: FieldPlan, value: FieldPlan) -> None:
        line, block = self.source.line, self.source.block
        with block("if type(value) is not dict:"):
            line("raise Irregular")
        with block("for key, item in value.items():"):
            self.utf8("key")
            line('entry = f"\\n{VARINT[len(key)]}{key}"')
            self.value(value, "item", "entry")
            prefix = literal(tag(field.number, LENGTH_WIRE))
            line(f'out += f"{prefix}{{VARINT[len(entry)]}}{{entry}}"')

    def value(self, field: FieldPlan, name: str, target: str) -> None:
        """Appends one value with its tag."""
        line, block = self.source.line, self.source.block
        if field.kind is FieldKind.BOOL:
            prefix = literal(tag(field.number, VARINT_WIRE))
            with block(f"if {name} is True:"):
                line(f'{target} += f"{prefix}\\1"')
            with block(f"elif {name} is False:"):
                line(f'{target} += f"{prefix}\\0"')
            with block("else:"):
                line("raise Irregular")
        elif field.kind is FieldKind.ENUM:
            assert field.enum is not None  # noqa: S101 - for the type checker
            prefix = tag(field.number, VARINT_WIRE)
            written = {name: prefix + VARINT[number] for name, number in field.enum.numbers.items()}
            known, enum = self.source.keep("written", written), self.source.keep("enum", field.enum)
            with block(f"if type({name}) is str and {name} in {known}:"):
                line(f"{target} += {known}[{name}]")
            with block("else:"):
                number = f"VARINT[enum_number({name}, {enum})]"
                line(f'{target} += f"{literal(prefix)}{{{number}}}"')
        elif field.kind is FieldKind.INTEGER:
            prefix = literal(tag(field.number, VARINT_WIRE))
            line(f'{target} += f"{prefix}{{VARINT[integer({name}, {field.low}, {field.high})]}}"')
        else:
            prefix = literal(tag(field.number, LENGTH_WIRE))
            self.body(field, name)
            line(f'{target} += f"{prefix}{{VARINT[len({name})]}}{{{name}}}"')

    def body(self, field: FieldPlan, name: str) -> None:
        """Replaces a JSON value by its wire text, for kinds with a length prefix."""
        line, block = self.source.line, self.source.block
        match field.kind:
            case FieldKind.STRING:
                with block(f"if type({name}) is not str:"):
                    line("raise Irregular")
                self.long(field, name)
                self.utf8(name)
            case FieldKind.BYTES:
                with block(f"if type({name}) is not str:"):
                    line("raise Irregular")
                self.long(field, name)
                line(f"{name} = base64_wire({name})")
            case FieldKind.TIMESTAMP:
                line(f"{name} = timestamp_wire({name})")
            case FieldKind.STRUCT:
                line(f"{name} = struct({name}, LEVELS)")
            case FieldKind.VALUE:
                line(f"{name} = value_of({name}, LEVELS if type({name}) is dict else BARE_LEVELS)")
            case FieldKind.LIST:
                line(f"{name} = array({name}, BARE_LEVELS)")
            case _:
                assert field.message is not None  # noqa: S101 - for the type checker
                line(f"{name} = {field.message.label}({name})")

    def long(self, field: FieldPlan, name: str) -> None:
        if self.apart and is_text(field):
            with self.source.block(f"if len({name}) > {LONG_TEXT}:"):
                self.source.line("raise LongTextError")

    def utf8(self, name: str) -> None:
        with self.source.block(f"if not {name}.isascii():"):
            self.source.line(f'{name} = {name}.encode().decode("latin-1")')
