r"""Two protobuf messages with the same meaning, and the conversion between them, compiled from their
descriptors.

Fields of the same name are copied; a table holds only the differences. For TaskStatus, whose `update` is
`message` in the hub, the compiled function looks like this:

    def decode_TaskStatus(source, into, context):
        value = source.state
        if value:
            into.state = value
        if source.HasField('update'):
            inner = into.message
            inner.SetInParent()
            decode_Message(source.update, inner, context)
        if source.HasField('timestamp'):
            into.timestamp.CopyFrom(source.timestamp)

A conversion never fails for lack of a field: content that the older message lacks is stored under KEY in its
metadata (see `unmapped`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from a2a_bridge.codec.budget import spend_on
from a2a_bridge.codec.plan import Source, is_repeated
from a2a_bridge.dialects.unmapped import HUB, KEY, carry, find_content
from a2a_bridge.peers import Files

Convert = Callable[[Any, Any, "Context"], None]
#: (message, the message to fill, context, the content under HUB)
Custom = Callable[[Any, Any, "Context", dict[str, Any]], None]


@dataclass(slots=True, eq=False)
class Context:
    """The state of one conversion besides its message."""

    #: the peer's encoding of file bytes
    files: Files = Files.AUTO
    #: whether metadata of the hub holds text under KEY
    preserved: bool = False


@dataclass(slots=True, eq=False)
class Pair:
    """A wire message, the equivalent hub message, and the conversions between them."""

    wire: type[Any]
    hub: type[Any]
    #: (wire message, hub message to fill, context)
    decode: Convert
    #: (hub message, wire message to fill, context)
    encode: Convert


_NAMES: dict[str, Any] = {"KEY": KEY, "HUB": HUB, "carry": carry, "spend_on": spend_on}


def compile_pair(
    wire: type[Message],
    hub: type[Message],
    *,
    rename: Mapping[str, str] | None = None,
    lacks: tuple[str, ...] = (),
    custom: tuple[str, ...] = (),
    decode: Custom | None = None,
    encode: Custom | None = None,
) -> Pair:
    """Compiles a pair. The messages in its fields must be paired first.

    rename: wire fields -> hub fields. lacks: hub fields that are stored under HUB in the metadata of the
    wire. custom: fields of either side that `decode` and `encode` convert. Raises TypeError for a field that
    none of these covers.
    """
    names = dict(rename or {})
    fields: list[tuple[Any, Any]] = []
    theirs: dict[str, Any] = dict(hub.DESCRIPTOR.fields_by_name)
    for field in wire.DESCRIPTOR.fields:
        if field.name in custom:
            continue
        other = theirs.pop(names.get(field.name, field.name), None)
        if other is None:
            raise TypeError(f"{field.full_name} has no counterpart: name it in rename= or custom=")
        fields.append((field, other))
    missing = theirs.keys() - {*lacks, *custom}
    if missing:
        raise TypeError(
            f"{wire.DESCRIPTOR.full_name} has no place for {', '.join(sorted(missing))}: name it in"
            " rename= or custom=, or in lacks= (it is kept in the metadata)"
        )
    lacking = [hub.DESCRIPTOR.fields_by_name[name] for name in lacks]
    source = Source(_NAMES)
    name = wire.DESCRIPTOR.name
    for way, own in (("decode", decode), ("encode", encode)):
        pairs = fields if way == "decode" else [(other, field) for field, other in fields]
        with source.block(f"def {way}_{name}(source, into, context):"):
            _body(source, way, pairs, lacking, None if own is None else source.keep("custom", own))
    source.compile(f"pair {wire.DESCRIPTOR.full_name}")
    return Pair(wire, hub, _NAMES[f"decode_{name}"], _NAMES[f"encode_{name}"])


def _body(
    source: Source, way: str, fields: list[tuple[Any, Any]], lacking: list[Any], custom: str | None
) -> None:
    line, block = source.line, source.block
    has_extras = bool(lacking) or custom is not None
    if has_extras:
        line("extras = {}")
    line("pass")
    for field, other in fields:
        if field.name == "metadata":
            with block("if source.HasField('metadata'):"):
                line("into.metadata.CopyFrom(source.metadata)")
                then = (
                    "context.preserved = True"
                    if way == "encode"
                    else f"extras = {source.keep('taken', take)}(into)"
                )
                if has_extras or way == "encode":
                    with block("if KEY in into.metadata.fields:"):
                        line(then)
        else:
            _field(source, way, field, other)
    for field in lacking:
        value = f"list(source.{field.name})" if is_repeated(field) else f"source.{field.name}"
        if way == "encode":
            with block(f"if source.{field.name}:"):
                line(f"extras[{field.json_name!r}] = {value}")
        else:
            with block(f"if extras and {field.json_name!r} in extras:"):
                line(f"{source.keep('set', set_field)}(into, {field.name!r}, extras[{field.json_name!r}])")
    if custom is not None:
        line(f"{custom}(source, into, context, extras)")
    if has_extras and way == "encode":
        with block("if extras:"):
            line("carry(into, HUB, extras)")


def _field(source: Source, way: str, field: Any, other: Any) -> None:
    line, block = source.line, source.block
    mine, its = f"source.{field.name}", f"into.{other.name}"
    inner = field.message_type
    if inner is None:
        if field.has_presence:
            with block(f"if source.HasField({field.name!r}):"):
                line(f"{its} = {mine}")
        else:
            # An attribute of a message costs far more than a variable, and most fields are empty.
            line(f"value = {mine}")
            with block("if value:"):
                line(f"{its}.extend(value)" if is_repeated(field) else f"{its} = value")
    elif inner.full_name.startswith("google.protobuf."):
        with block(f"if source.HasField({field.name!r}):"):
            line(f"{its}.CopyFrom({mine})")
    else:
        convert = f"{way}_{(field if way == 'decode' else other).message_type.name}"
        if convert not in source.names:
            raise TypeError(f"{field.full_name} is not paired")
        if is_repeated(field):
            items = f"spend_on({mine})" if way == "encode" else mine
            # A slice, because the iteration of a repeated field ends with a formatted IndexError.
            with block(f"for one in {items}[:]:"):
                line(f"{convert}(one, {its}.add(), context)")
        else:
            with block(f"if source.HasField({field.name!r}):"):
                line(f"inner = {its}", "inner.SetInParent()", f"{convert}({mine}, inner, context)")


def take(unit: Any) -> dict[str, Any]:
    """Removes the content under HUB from the metadata of a unit and returns it."""
    extras = find_content(unit, HUB)
    if extras is not None:
        carry(unit, HUB, None)
    return extras if isinstance(extras, dict) else {}


def set_field(message: Any, name: str, value: Any) -> None:
    """Sets a field that the wire lacks, if the value has the type of the field."""
    field: FieldDescriptor = message.DESCRIPTOR.fields_by_name[name]
    try:
        if is_repeated(field):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    except (TypeError, ValueError):
        message.ClearField(name)  # authenticated, but written by a bridge of another version
