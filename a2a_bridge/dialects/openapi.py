"""The HTTP+JSON binding of a version as an OpenAPI 3.1 document, made from its rows and its messages."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.codec.plan import plan_of
from a2a_bridge.codec.schema import PLACE, Schema, schemas
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import Streaming
from a2a_bridge.dialects.dialect import HTTP_JSON, Dialect, Form, HttpAddress, HttpRule, Row
from a2a_bridge.pb.google_protobuf import Empty

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


@cache
def openapi(dialect: Dialect) -> JsonObject | None:
    """The document; None for a version without this binding. Its server is the folder of the document, so
    that it holds behind every proxy and mount path.
    """
    form: Form[HttpAddress, Any] | None = dialect.form(HTTP_JSON)
    if form is None:
        return None
    paths: dict[str, JsonObject] = {}
    requests: set[type[Message]] = set()
    responses: set[type[Message]] = set()
    for row in form.rows:
        if form.messages and row.operation not in form.messages:
            continue
        request, response = _messages(form, row)
        requests.add(request)
        responses |= {response} - {Empty}
        for rule, id_ in _named(row):
            operation = _operation(dialect, form, row, rule, id_)
            paths.setdefault(rule.template, {})[rule.method.lower()] = operation
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
        "components": {"schemas": schemas(*requests, names=form.json_names, responses=responses)},
    }


def _messages(
    form: Form[HttpAddress, Any], row: Row[HttpAddress, Any]
) -> tuple[type[Message], type[Message]]:
    """The request and the response of a row as ProtoJSON has them."""
    operation = row.operation
    return form.messages.get(operation, (operation.request, operation.response))


def _named(row: Row[HttpAddress, Any]) -> Iterator[tuple[HttpRule, str]]:
    """The rules of a row, each with an id of its own."""
    for number, rule in enumerate(row.address.rules, 1):
        yield rule, row.operation.name if number == 1 else f"{row.operation.name}{number}"


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
    media = (_MEDIA, _A2A_MEDIA) if dialect.declares else (_MEDIA,)
    described: JsonObject = {
        "operationId": id_,
        "tags": [row.operation.name],
        "parameters": parameters,
        "responses": {"200": _success(row, response, media), "default": _error(form, media)},
    }
    if rule.body:
        body = _body(request, bound)
        described["requestBody"] = {
            "required": bool(body.get("required")) or "$ref" in body,
            "content": {one: {"schema": body} for one in media},
        }
    return described


def _body(request: type[Message], bound: list[str]) -> Schema:
    """The members that a path does not have."""
    name = request.DESCRIPTOR.name
    if not bound:
        return {"$ref": PLACE + name}
    whole = schemas(request)[name]
    members = {key: value for key, value in whole["properties"].items() if key not in bound}
    required = [key for key in whole.get("required", ()) if key not in bound]
    rest: Schema = {"type": "object", "properties": members}
    return {**rest, "required": required} if required else rest


def _success(row: Row[HttpAddress, Any], response: type[Message], media: tuple[str, ...]) -> JsonObject:
    name = response.DESCRIPTOR.name
    if isinstance(row.operation, Streaming):
        text = f"A stream of server-sent events. The data of each of them is JSON of the schema {name}."
        return {"description": text, "content": {"text/event-stream": {}}}  # 3.1 has no schema of events
    if response is Empty:
        return {"description": "Done.", "content": {one: {"schema": {"type": "object"}} for one in media}}
    reference: Schema = {"$ref": PLACE + name}
    return {"description": name, "content": {one: {"schema": reference} for one in media}}


def _error(form: Form[HttpAddress, Any], media: tuple[str, ...]) -> JsonObject:
    """Errors, with an example."""
    example = form.encode_error(A2AError(Reason.TASK_NOT_FOUND, "there is no such task")).body
    content = {one: {"schema": {"type": "object"}, "example": example} for one in media}
    return {"description": "An error; the status of HTTP depends on it.", "content": content}
