"""The HTTP+JSON binding of a version as an OpenAPI 3.1 document, made from its rows and its messages.

The schemas (JSON Schema 2020-12) are of the ProtoJSON that `encode` writes. `decode` reads more: names of the
proto, numbers of enums, null for absent members. Schemas show one form.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of
from a2a_bridge.codec.required import can_be_missed
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import Streaming
from a2a_bridge.dialects.dialect import HTTP_JSON, Dialect, Form, HttpAddress, HttpRule, Row
from a2a_bridge.pb.google_protobuf import Empty

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

_VARIABLE = re.compile(r"\{(\w+)\}")
_TEXT: Schema = {"type": "string"}
_QUERY: dict[str, Schema] = {
    "string": _TEXT,
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "enum": _TEXT,
    "timestamp": {"type": "string", "format": "date-time"},
}
_MEDIA = "application/json"
#: 1.0 has a media type of its own, too (spec 11.1)
_A2A_MEDIA = "application/a2a+json"
#: the name of the schema of errors
_ERROR = "Error"


@cache
def openapi(dialect: Dialect) -> JsonObject | None:
    """The document; None for a version without this binding. Its server is the folder of the document, which
    is right behind every proxy and mount path.
    """
    form: Form[HttpAddress, Any] | None = dialect.form(HTTP_JSON)
    if form is None:
        return None
    paths: dict[str, JsonObject] = {}
    bodies: dict[str, Schema] = {}
    example = form.encode_error(A2AError(Reason.TASK_NOT_FOUND, "there is no such task")).body
    requests: set[type[Message]] = set()
    responses: set[type[Message]] = set()
    for row in form.rows:
        if form.messages and row.operation not in form.messages:
            continue
        request, response = _messages(form, row)
        requests.add(request)
        responses |= {response} - {Empty}
        for number, rule in enumerate(row.address.rules, 1):
            id_ = row.operation.name if number == 1 else f"{row.operation.name}{number}"
            operation = _operation(dialect, form, row, rule, id_)
            operation["responses"]["default"] = _error(dialect, example)
            if rule.body:
                operation["requestBody"] = _body(request, rule, id_, bodies)
            paths.setdefault(rule.template, {})[rule.method.lower()] = operation
    # Generators of clients make a class of each schema with a name; those without one clash.
    named = schemas(*requests, names=form.json_names, responses=responses)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"A2A {dialect.version} over HTTP+JSON",
            "version": dialect.version,
            "description": "The card of the agent, at .well-known/agent-card.json, has its skills, its"
            " extensions and its security schemes.",
        },
        "servers": [{"url": "."}],
        "paths": paths,
        "components": {"schemas": {**named, **bodies, _ERROR: _shape(example)}},
    }


def _messages(
    form: Form[HttpAddress, Any], row: Row[HttpAddress, Any]
) -> tuple[type[Message], type[Message]]:
    """The request and the response of a row as ProtoJSON has them."""
    operation = row.operation
    return form.messages.get(operation, (operation.request, operation.response))


def _operation(
    dialect: Dialect, form: Form[HttpAddress, Any], row: Row[HttpAddress, Any], rule: HttpRule, id_: str
) -> JsonObject:
    request, response = _messages(form, row)
    bound = _VARIABLE.findall(rule.template)
    known = {field.json_name: field for field in plan_of(request).fields}
    shown = schemas(request)[request.DESCRIPTOR.name]["properties"]
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in bound
    ]
    for name, kind in rule.query.items():
        one = shown[name] if name in known else _QUERY[kind.removeprefix("[]")]
        if kind.startswith("[]") and name not in known:
            one = {"type": "array", "items": one}
        parameters.append({"name": name, "in": "query", "schema": one})
    if dialect.declares:
        version = {"type": "string", "enum": [dialect.version]}
        parameters.append({"name": "A2A-Version", "in": "header", "required": True, "schema": version})
    return {
        "operationId": id_,
        "tags": [row.operation.name],
        "parameters": parameters,
        "responses": {"200": _success(row, response, _media(dialect))},
    }


def _media(dialect: Dialect) -> tuple[str, ...]:
    """The media types of responses."""
    return (_MEDIA, _A2A_MEDIA) if dialect.declares else (_MEDIA,)


def _body(request: type[Message], rule: HttpRule, id_: str, bodies: dict[str, Schema]) -> JsonObject:
    """The request body: the whole message, or a schema for the members that the path does not have, which is
    added to `bodies`. The server takes other media types of JSON, too; generators make faulty clients of two.
    """
    bound = _VARIABLE.findall(rule.template)
    name = request.DESCRIPTOR.name
    required = True
    if bound:
        whole = schemas(request)[name]
        rest: Schema = {
            "type": "object",
            "properties": {key: value for key, value in whole["properties"].items() if key not in bound},
        }
        missing = [key for key in whole.get("required", ()) if key not in bound]
        if missing:
            rest["required"] = missing
        required = bool(missing)
        name = f"{id_}Body"
        bodies[name] = rest
    return {"required": required, "content": {_MEDIA: {"schema": {"$ref": PLACE + name}}}}


def _success(row: Row[HttpAddress, Any], response: type[Message], media: tuple[str, ...]) -> JsonObject:
    name = response.DESCRIPTOR.name
    if isinstance(row.operation, Streaming):
        text = f"A stream of server-sent events. The data of each of them is JSON of the schema {name}."
        return {"description": text, "content": {"text/event-stream": {}}}  # 3.1 has no schema of events
    if response is Empty:
        return {"description": "Done.", "content": {one: {"schema": {"type": "object"}} for one in media}}
    reference: Schema = {"$ref": PLACE + name}
    return {"description": name, "content": {one: {"schema": reference} for one in media}}


def _error(dialect: Dialect, example: Json) -> JsonObject:
    """Errors, with an example."""
    one: JsonObject = {"schema": {"$ref": PLACE + _ERROR}, "example": example}
    content = dict.fromkeys(_media(dialect), one)
    return {"description": "An error; the status of HTTP depends on it.", "content": content}


def _shape(example: Json) -> Schema:
    """The schema of an example: its members, and objects of any kind in lists."""
    if isinstance(example, dict):
        return {"type": "object", "properties": {key: _shape(value) for key, value in example.items()}}
    if isinstance(example, list):
        return {"type": "array", "items": {"type": "object"}}
    return {"type": "integer"} if isinstance(example, int) else _TEXT


def schemas(
    *classes: type[Message],
    names: Mapping[str, str] | None = None,
    responses: Collection[type[Message]] = (),
) -> dict[str, Schema]:
    """The schemas of messages and all messages in them, by name, with references to each other. names: other
    names of members, such as `TaskStatus.message`. classes: of requests, in which required members are not
    empty. responses: further classes, in which required members may be empty.
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
