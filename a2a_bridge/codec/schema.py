"""Messages as JSON Schema (2020-12): the ProtoJSON that `encode` writes.

`decode` reads more: names of the proto, numbers of enums, null for absent members. Schemas show one form.
"""

from collections.abc import Collection, Mapping
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of
from a2a_bridge.codec.required import can_be_missed

Schema = dict[str, Any]

_PLAIN: dict[FieldKind, Schema] = {
    FieldKind.STRING: {"type": "string"},
    FieldKind.BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldKind.BOOL: {"type": "boolean"},
    FieldKind.STRUCT: {"type": "object"},
    FieldKind.VALUE: {},
    FieldKind.LIST: {"type": "array"},
    FieldKind.TIMESTAMP: {"type": "string", "format": "date-time"},
}


#: of a 64-bit integer, which stands in quotes
_INTEGER = "^-?(0|[1-9][0-9]*)$"
#: the prefix of references in OpenAPI documents
PLACE = "#/components/schemas/"


def schemas(
    *classes: type[Message],
    names: Mapping[str, str] | None = None,
    responses: Collection[type[Message]] = (),
) -> dict[str, Schema]:
    """The schemas of messages and of all messages in them, by name, with references to each other.

    names: other names of members, such as `TaskStatus.message`. classes: of requests, in which required
    members are not empty. responses: further classes, in which required members may be empty.
    """
    asked = {plan.descriptor.name: plan for cls in classes for plan in plan_of(cls).list_nested()}
    shown = {plan.descriptor.name: plan for cls in responses for plan in plan_of(cls).list_nested()}
    return {
        name: _message(plan, names or {}, filled=name in asked)
        for name, plan in sorted((shown | asked).items())
        if plan.kind is FieldKind.MESSAGE
    }


def _message(plan: MessagePlan, names: Mapping[str, str], *, filled: bool) -> Schema:
    named = {
        field.json_name: names.get(f"{plan.descriptor.name}.{field.json_name}", field.json_name)
        for field in plan.fields
    }
    members = {
        named[field.json_name]: _field(field, filled=filled and can_be_missed(field)) for field in plan.fields
    }
    schema: Schema = {"type": "object", "properties": members}
    required = [named[field.json_name] for field in plan.fields if field.required]
    if required:
        schema["required"] = required
    unions: dict[str, list[str]] = {}
    for field in plan.fields:
        if field.oneof is not None:
            unions.setdefault(field.oneof, []).append(named[field.json_name])
    choices = [_one_of(found, needed=name in plan.required_oneofs) for name, found in unions.items()]
    if choices:
        schema["allOf"] = choices
    return schema


def _one_of(members: list[str], *, needed: bool) -> Schema:
    """At most one of some members; exactly one if it is needed."""
    each: list[Schema] = [{"required": [name]} for name in members]
    return {"oneOf": each if needed else [*each, {"not": {"anyOf": each}}]}


def _field(field: FieldPlan, *, filled: bool = False) -> Schema:
    if field.map_value is not None:
        return {"type": "object", "additionalProperties": _field(field.map_value)}
    one = _value(field)
    if field.repeated:
        return {"type": "array", "items": one, **({"minItems": 1} if filled else {})}
    if filled and field.enum is not None:
        one["enum"] = [name for number, name in field.enum.names.items() if number]
    return {**one, "minLength": 1} if filled and one == _PLAIN[FieldKind.STRING] else one


def _value(field: FieldPlan) -> Schema:
    if field.enum is not None:
        return {"type": "string", "enum": list(field.enum.names.values())}
    if field.kind is FieldKind.INTEGER:
        if field.quoted:
            return {"type": "string", "format": "int64", "pattern": _INTEGER}
        # All of them are lengths and numbers of things.
        return {"type": "integer", "minimum": 0, "maximum": field.high}
    if field.kind is FieldKind.MESSAGE:
        assert field.message is not None  # noqa: S101  for the type checker
        return {"$ref": PLACE + field.message.descriptor.name}
    return dict(_PLAIN[field.kind])
