"""The common base of all 0.x models: names, tolerance, conversion from and to JSON trees. It declares no type
of the specification.

Rules:
1. Attributes are snake_case, JSON members camelCase. Constructors and attributes accept both, JSON does not.
2. Undeclared members are kept (`model_extra`) and written again.
3. null for a member that is optional or has a default means absence, and is not written.
4. Nothing is converted: 1 is neither "1" nor true. As in JSON Schema, 1.0 is an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from itertools import chain
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin

import pydantic
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError, PydanticUndefined

from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.codec.inspect import member
from a2a_bridge.codec.values import describe
from a2a_bridge.core.errors import A2AError, Reason, Violation

#: The prefix of tags of unions, which pydantic mixes into its paths. No member begins with it.
_TAG = "\0"
#: The type of our own errors about scalars, and the prefix of those about unions: a member name follows.
_SCALAR = "a2a scalar"
_UNION = "a2a union "
#: the package of our models
_DIALECTS = __name__.rpartition(".")[0].rpartition(".")[0]
#: maximum number of findings per tree; a thousand errors of the same kind help no reader
_MOST = 20


class Null:
    """Marks a member that is written even when it is null."""


def wire_name(attribute: str) -> str:
    """The member name of an attribute. `in_` has an underscore because `in` is a keyword."""
    return to_camel(attribute.removesuffix("_"))


class A2ABaseModel(pydantic.BaseModel):
    """The base class of all models."""

    model_config = pydantic.ConfigDict(
        alias_generator=wire_name,
        extra="allow",
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _null_is_absence(cls, tree: Any) -> Any:
        if isinstance(tree, Mapping) and None in tree.values():
            known = _defaults(cls)
            return {name: value for name, value in tree.items() if value is not None or name not in known}
        return tree

    if not TYPE_CHECKING:  # type checkers know the snake_case names only, and are right to

        def __getattr__(self, name: str) -> Any:
            attribute = _attributes(type(self)).get(name)
            return super().__getattr__(name) if attribute is None else getattr(self, attribute)

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(_attributes(type(self)).get(name, name), value)


M = TypeVar("M", bound=pydantic.BaseModel)


def read(model: type[M], tree: Json) -> M:
    """A tree as a model. Raises A2AError INVALID_PARAMS with the paths of the members at fault."""
    try:
        return model.model_validate(tree, by_alias=True, by_name=False)
    except pydantic.ValidationError as error:
        violations = _violations(error)
    first = violations[0]  # the text names the first one, as everywhere; the others are attached
    text = f"{first.field}: {first.description}" if first.field else first.description
    raise A2AError(Reason.INVALID_PARAMS, text, violations=violations)


def check(model: type[pydantic.BaseModel], tree: Json) -> list[Violation]:
    """The errors in a tree, at most twenty; empty if it is a valid `model`."""
    try:
        model.model_validate(tree, by_alias=True, by_name=False)
    except pydantic.ValidationError as error:
        return _violations(error)
    return []


def write(model: pydantic.BaseModel) -> Any:
    """A model as a JSON tree: an object for all but a few roots."""
    if isinstance(model, pydantic.RootModel):
        return _written(model.root)
    tree: JsonObject = {}
    for name, wire, free, null in _layout(type(model)):
        value = getattr(model, name)
        if value is not None:
            tree[wire] = value if free and not isinstance(value, pydantic.BaseModel) else _written(value)
        elif null:
            tree[wire] = None
    if model.model_extra:
        tree.update(model.model_extra)
    return tree


def _written(value: Any) -> Any:
    if isinstance(value, pydantic.BaseModel):
        return write(value)
    if isinstance(value, list):
        return [_written(item) for item in value]
    if isinstance(value, dict):
        return {name: _written(item) for name, item in value.items()}
    return value.value if isinstance(value, Enum) else value


@cache
def _attributes(model: type[pydantic.BaseModel]) -> Mapping[str, str]:
    """Wire name -> attribute, for names that differ."""
    return {
        field.alias: name
        for name, field in model.model_fields.items()
        if field.alias is not None and field.alias != name
    }


@cache
def _defaults(model: type[pydantic.BaseModel]) -> frozenset[str]:
    """The members and attributes with a default other than null."""
    found = [
        (name, field.alias or name)
        for name, field in model.model_fields.items()
        if field.default is not None and field.default is not PydanticUndefined
    ]
    return frozenset(chain.from_iterable(found))


@cache
def _layout(model: type[pydantic.BaseModel]) -> tuple[tuple[str, str, bool, bool], ...]:
    """Per field: attribute, member, whether any JSON is allowed, whether null is written."""
    return tuple(
        (
            name,
            field.alias or name,
            _free(field.annotation),
            any(isinstance(item, Null) for item in field.metadata),
        )
        for name, field in model.model_fields.items()
    )


def _free(annotation: Any) -> bool:
    if annotation is Any:
        return True
    composed = get_origin(annotation) in (dict, Union, UnionType, Annotated)
    return composed and any(map(_free, get_args(annotation)))


# Scalars


def _integer(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PydanticCustomError(_SCALAR, "{text}", {"text": f"expected an integer, got {describe(value)}"})
    if isinstance(value, float) and not value.is_integer():
        raise PydanticCustomError(_SCALAR, "expected an integer, got a fraction")
    return int(value)


def _request_id(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        text = f"expected a string or an integer, got {describe(value)}"
        raise PydanticCustomError(_SCALAR, "{text}", {"text": text})
    return value


def _nullable_id(value: Any) -> Any:
    return value if value is None else _request_id(value)


Text: TypeAlias = Annotated[str, pydantic.Strict()]
Flag: TypeAlias = Annotated[bool, pydantic.Strict()]
Integer: TypeAlias = Annotated[int, pydantic.BeforeValidator(_integer)]
RequestId: TypeAlias = Annotated[str | int, pydantic.BeforeValidator(_request_id)]
ResponseId: TypeAlias = Annotated[str | int | None, pydantic.BeforeValidator(_nullable_id), Null()]


# Unions


def tag(name: str) -> pydantic.Tag:
    """Marks a branch of a union; `name` is the class."""
    return pydantic.Tag(_TAG + name)


def by(
    find: Callable[[Mapping[str, Any]], str], branches: Mapping[str, str], expected: str, about: str = ""
) -> pydantic.Discriminator:
    """The discriminator of a union.

    find: an object -> its discriminating value, such as its `kind`; "" for none. branches: value ->
    class; `*` is any other value.
    expected: the problem text if there is no value. about: the member with the value; if it is present and
    wrong, the problem text lists the valid values instead.
    """

    def decide(value: Any) -> str | None:
        if isinstance(value, pydantic.BaseModel):
            # The same type of another version has the same name; a user's own subclass does not.
            ours = (cls.__name__ for cls in type(value).__mro__ if cls.__module__.startswith(_DIALECTS))
            return _TAG + next(ours, "")
        found = find(value) if isinstance(value, Mapping) else None
        name = None if found is None else branches.get(found, branches.get("*"))
        return _TAG + name if name else None

    # One text for both cases: a context would make the annotation unhashable.
    known = "all that methods answer" if about == "result" else ", ".join(branches)
    texts = f"{expected}{_TAG}is none of {known}"
    return pydantic.Discriminator(decide, custom_error_type=_UNION + about, custom_error_message=texts)


def has(tree: Mapping[str, Any], *names: str) -> bool:
    """Whether all these members are present; null counts as absent."""
    return all(tree.get(name) is not None for name in names)


def _text(tree: Mapping[str, Any], name: str) -> str:
    value = tree.get(name)
    return value if isinstance(value, str) else ""


# Discriminators of unions: an object -> the value in the table of types


def part_kind(tree: Mapping[str, Any]) -> str:
    """The kind of a part. Examples in the specification write `type`, or omit it."""
    name = "type" if tree.get("kind") is None else "kind"
    if tree.get(name) is not None:
        return _text(tree, name)
    return next((kind for kind in ("text", "file", "data") if kind in tree), "")


def file_content(tree: Mapping[str, Any]) -> str:
    """The member with the content of a file."""
    return next((name for name in ("bytes", "uri") if has(tree, name)), "")


def result_kind(tree: Mapping[str, Any]) -> str:
    """The `kind` of a result; without one, the kind that matches its members."""
    if tree.get("kind") is not None:
        return _text(tree, "kind")
    if has(tree, "status", "contextId", "id"):
        return "task"
    if has(tree, "role", "parts"):
        return "message"
    if has(tree, "artifact", "taskId"):
        return "artifact-update"
    return "status-update" if has(tree, "status", "taskId") else ""


def scheme_type(tree: Mapping[str, Any]) -> str:
    """The `type` of a security scheme."""
    return _text(tree, "type")


def method_of(tree: Mapping[str, Any]) -> str:
    """The `method` of a request."""
    return _text(tree, "method")


def error_code(tree: Mapping[str, Any]) -> str:
    """The `code` of an error."""
    code = tree.get("code")
    return str(code) if type(code) is int else ""


def config_params(tree: Mapping[str, Any]) -> str:
    """Whether params name a push notification config."""
    return "named" if has(tree, "pushNotificationConfigId") else ""


def answer(tree: Mapping[str, Any]) -> str:
    """Whether a response is an error."""
    return "error" if has(tree, "error") else ""


def response_result(tree: Mapping[str, Any]) -> str:
    """The kind of the result of a response."""
    if has(tree, "error"):
        return "error"
    result = tree.get("result")
    if isinstance(result, list):
        return "list"
    if not isinstance(result, Mapping):
        return "null" if result is None and "result" in tree else ""
    if has(result, "pushNotificationConfig"):
        return "config"
    if has(result, "skills", "capabilities"):
        return "card"
    return "event" if result_kind(result).endswith("-update") else "message"


# Errors


def _violations(error: pydantic.ValidationError) -> list[Violation]:
    return [_violation(one) for one in error.errors(include_url=False)[:_MOST]]


def _violation(error: ErrorDetails) -> Violation:
    path = _path(error["loc"])
    kind, value = error["type"], error["input"]
    if not kind.startswith(_UNION):
        return Violation(path, _problem(error))
    if not isinstance(value, Mapping):
        return Violation(path, f"expected an object, got {describe(value)}")
    about = kind.removeprefix(_UNION)
    expected, _, none_of = error["msg"].partition(_TAG)
    if about and has(value, about):
        return Violation(member(path, about), none_of)
    return Violation(path, expected)


def _path(location: Iterable[int | str]) -> str:
    path = ""
    for item in location:
        if isinstance(item, int):
            path = f"{path}[{item}]"
        elif not item.startswith(_TAG):
            path = member(path, item)
    return path


def _problem(error: ErrorDetails) -> str:
    got = describe(error["input"])
    match error["type"]:
        case "missing":
            return "is required"
        case "string_type" | "string_sub_type":
            return f"expected a string, got {got}"
        case "bool_type":
            return f"expected true or false, got {got}"
        case "list_type":
            return f"expected an array, got {got}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"expected an object, got {got}"
        case "literal_error":
            return f"must be {error['ctx']['expected'].replace(chr(39), chr(34))}"
        case "enum" if isinstance(error["input"], str):
            return f"is none of {error['ctx']['expected'].replace(chr(39), '').replace(' or ', ', ')}"
        case "enum":
            return f"expected a string, got {got}"
        case "none_required":
            return f"expected null, got {got}"
    return error["msg"]
