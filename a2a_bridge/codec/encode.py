"""Messages to JSON trees. Compiles one function per message type. `text.dumps` writes the text.

Names are camelCase. REQUIRED members are always present, even with their default value. Of messages that are
not set, only those for readers of 1.0 are (`whole`): elsewhere an empty status would be content that nobody
wrote. `optional` members are present exactly if they are set. Other defaults are never present. Members are
in the order of their field numbers.

For Task the generated function looks like this:

    def Task(message):
        out = {}
        out["id"] = message.id
        value = message.context_id
        if value:
            out["contextId"] = value
        if message.HasField("status"):
            out["status"] = TaskStatus(message.status)
        value = message.artifacts
        if value:
            out["artifacts"] = [Artifact(item) for item in value[:]]
        …
        return out
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.codec import structs, values
from a2a_bridge.codec.budget import LONG, spend_on
from a2a_bridge.codec.inspect import member
from a2a_bridge.codec.plan import BUILDING, FieldKind, FieldPlan, MessagePlan, Source, attribute, plan_of
from a2a_bridge.codec.text import EncodeError, JsonObject
from a2a_bridge.codec.unknown import FIRST, KEPT, holds_members, restore_members

M = TypeVar("M", bound=Message)

_ENCODERS: dict[tuple[type[Message], bool, bool], Callable[[Any], Any]] = {}


def encoder(cls: type[M], *, keeps: bool = False, whole: bool = False) -> Callable[[M], JsonObject]:
    """The function that encodes messages of a class as JSON trees. Compiled once, on its first call. A Value
    without a kind becomes null. The function raises `EncodeError` for content that JSON cannot express: NaN
    and infinity inside Struct or Value, and timestamps outside the years 1 to 9999.

    keeps: also write the unknown members that a message keeps (see `unknown`). whole: also write the REQUIRED
    messages that are not set, because strict readers reject a message without them.
    """
    found = _ENCODERS.get((cls, keeps, whole))
    if found is None:
        with BUILDING:
            found = _ENCODERS[cls, keeps, whole] = _encoder(plan_of(cls), keeps=keeps, whole=whole)
    return found


_NAMES: dict[str, Any] = {
    "base64_text": values.base64_text,
    "read_list": structs.read_list,
    "read_struct": structs.read_struct,
    "read_value": structs.read_value,
    "spend_on": spend_on,
    "timestamp_text": values.timestamp_text,
}
_LIBRARIES: dict[bool, dict[str, Any]] = {False: {**_NAMES}, True: {**_NAMES}}
"""All compiled functions and their names, by whether they write the REQUIRED messages that are not set."""


def _encoder(plan: MessagePlan, *, keeps: bool, whole: bool) -> Callable[[Any], Any]:
    root = FieldPlan("", "", 0, plan.kind, message=plan)
    compiled: Callable[[Any], Any] | None = None

    def encode(message: Any) -> Any:
        nonlocal compiled
        if compiled is None:
            with BUILDING:  # on the first call, to keep imports fast
                compiled = _compile(plan, root, whole=whole)
        try:
            tree = compiled(message)
        except ValueError as error:
            for path, problem in _problems(root, message, ""):
                raise EncodeError(path, problem) from None
            raise EncodeError("", str(error)) from None
        if keeps and KEPT.count:
            wire = message.SerializeToString()
            if wire.find(FIRST) >= 0 and holds_members(wire):
                return restore_members(plan, message, tree)
        return tree

    return encode


def _compile(plan: MessagePlan, root: FieldPlan, *, whole: bool) -> Callable[[Any], Any]:
    library = _LIBRARIES[whole]
    if plan.label not in library:
        source = Source(library)
        for one in plan.list_nested():
            if one.kind is FieldKind.MESSAGE and one.label not in library:
                _message(source, one, whole=whole)
        if plan.kind is not FieldKind.MESSAGE:
            with source.block(f"def {plan.label}(message):"):
                source.line(f"return {_expression(source, root, 'message')}")
        source.compile(f"encode {plan.descriptor.full_name}")
    compiled: Callable[[Any], Any] = library[plan.label]
    return compiled


def _message(source: Source, plan: MessagePlan, *, whole: bool) -> None:
    line, block = source.line, source.block
    with block(f"def {plan.label}(message):"):
        line("out = {}")
        done: set[str] = set()
        for field in plan.fields:
            if field.oneof is None:
                _field(source, field, always=field.required and (whole or not field.presence))
            elif field.oneof not in done:
                done.add(field.oneof)
                _oneof(source, [one for one in plan.fields if one.oneof == field.oneof])
        line("return out")


def _oneof(source: Source, members: list[FieldPlan]) -> None:
    line, block = source.line, source.block
    first = members[0]
    if first.kind is FieldKind.STRING:
        # A text that is not empty is the member that is set. Nearly all parts have a text, and `WhichOneof`
        # takes twice as long.
        line(f"value = {attribute(first.name)}")
        with block("if value:"):
            line(f"out[{first.json_name!r}] = value")
        with block("else:"):
            _set_member(source, members)
    else:
        _set_member(source, members)


def _set_member(source: Source, members: list[FieldPlan]) -> None:
    source.line(f'which = message.WhichOneof("{members[0].oneof}")')
    keyword = "if"
    for one in members:
        with source.block(f'{keyword} which == "{one.name}":'):
            read = _expression(source, one, attribute(one.name))
            source.line(f"out[{one.json_name!r}] = {read}")
        keyword = "elif"


def _field(source: Source, field: FieldPlan, *, always: bool) -> None:
    line, block = source.line, source.block
    place, read = f"out[{field.json_name!r}]", attribute(field.name)
    if field.presence and not always:
        with block(f'if message.HasField("{field.name}"):'):
            line(f"{place} = {_expression(source, field, read)}")
        return
    if field.presence:
        line(f"{place} = {_expression(source, field, read)}")
        return
    line(f"value = {read}")
    if field.map_value is not None:
        item = _expression(source, field.map_value, "value[key]")
        filled = f"{place} = {{key: {item} for key in value}}"
    elif field.repeated:
        # value[:] makes a list in one step; iterating a repeated field costs an IndexError at its end.
        item = _expression(source, field, "item")
        filled = f"{place} = " + ("value[:]" if item == "item" else f"[{item} for item in value]")
        if field.kind is FieldKind.MESSAGE:
            line("value = value[:]")
            with block(f"if len(value) > {LONG}:"):
                line("spend_on(value)")
        elif item != "item":
            line("value = value[:]")
    else:
        filled = f"{place} = {_expression(source, field, 'value')}"
    if always:
        line(filled)
    else:
        with block("if value:"):
            line(filled)


def _expression(source: Source, field: FieldPlan, name: str) -> str:
    """The JSON of one value of a field."""
    match field.kind:
        case FieldKind.STRING | FieldKind.BOOL:
            return name
        case FieldKind.INTEGER:
            return f"str({name})" if field.quoted else name
        case FieldKind.BYTES:
            return f"base64_text({name})"
        case FieldKind.ENUM:
            assert field.enum is not None  # noqa: S101 - for the type checker
            names = source.keep("names", field.enum.names)
            return f"{names}.get({name}, {name})"  # a number of a later version stays a number
        case FieldKind.TIMESTAMP:
            return f"timestamp_text({name})"
        case FieldKind.STRUCT:
            return f"read_struct({name})"
        case FieldKind.VALUE:
            return f"read_value({name})"
        case FieldKind.LIST:
            return f"read_list({name})"
    assert field.message is not None  # noqa: S101 - for the type checker
    return f"{field.message.label}({name})"


def _problems(field: FieldPlan, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The places in a message that JSON cannot express, by the same rules as the generated functions."""
    match field.kind:
        case FieldKind.TIMESTAMP:
            try:
                values.timestamp_text(value)
            except ValueError as error:
                yield path, str(error)
        case FieldKind.STRUCT:
            for key in value.fields:
                yield from _value_problems(value.fields[key], member(path, key))
        case FieldKind.LIST:
            for index, item in enumerate(value.values):
                yield from _value_problems(item, f"{path}[{index}]")
        case FieldKind.VALUE:
            yield from _value_problems(value, path)
        case FieldKind.MESSAGE:
            assert field.message is not None  # noqa: S101 - for the type checker
            for one in field.message.fields:
                here, content = member(path, one.json_name), getattr(value, one.name)
                if one.map_value is not None:
                    for key in content:
                        yield from _problems(one.map_value, content[key], member(here, key))
                elif one.repeated:
                    for index, item in enumerate(content):
                        yield from _problems(one, item, f"{here}[{index}]")
                elif not one.presence or value.HasField(one.name):
                    yield from _problems(one, content, here)


def _value_problems(value: Any, path: str) -> Iterator[tuple[str, str]]:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        try:
            structs.number(value.number_value)
        except ValueError as error:
            yield path, str(error)
    elif kind == "struct_value":
        for key in value.struct_value.fields:
            yield from _value_problems(value.struct_value.fields[key], member(path, key))
    elif kind == "list_value":
        for index, item in enumerate(value.list_value.values):
            yield from _value_problems(item, f"{path}[{index}]")
