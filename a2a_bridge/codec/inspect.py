"""Walks a JSON tree along a plan and reports its errors with their paths. It makes no message.

This is the slow counterpart of the generated decoders, which raise without a path so that the regular case
costs nothing. Both use the same rules for single values, and therefore agree about errors.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from a2a_bridge.codec import structs, values
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, variants
from a2a_bridge.codec.text import Irregular, Json

_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_MESSAGE_LEVELS = 100

ROUNDED = "is an integer that a double cannot hold exactly"


@dataclass(frozen=True, slots=True)
class Finding:
    """An error in a tree."""

    #: the JSON path
    path: str
    #: the error text
    problem: str
    #: whether the only error is an integer that loses digits, which may be tolerated
    rounding: bool = False


def findings(plan: MessagePlan, tree: Json) -> Iterator[Finding]:
    """All errors in a tree, in document order."""
    return _inspect(FieldPlan("", "", 0, plan.kind, message=plan), tree, "", _MESSAGE_LEVELS)


def member(path: str, name: str) -> str:
    """The path of a member of the object at a path."""
    if not _PLAIN_NAME.fullmatch(name):
        quoted = name.encode("ascii", "backslashreplace").decode().replace('"', '\\"')
        return f'{path}["{quoted}"]'
    return f"{path}.{name}" if path else name


def _inspect(field: FieldPlan, value: Json, path: str, levels: int) -> Iterator[Finding]:
    """One value of a field, repeated or not."""
    match field.kind:
        case FieldKind.MESSAGE:
            assert field.message is not None  # noqa: S101 - for the type checker
            if levels <= 0:
                yield Finding(path, structs.TOO_DEEP)
            elif type(value) is not dict:
                yield Finding(path, f"expected an object, got {values.describe(value)}")
            else:
                yield from _members(field.message, value, path, levels - 1)
        case FieldKind.STRUCT if type(value) is not dict:
            yield Finding(path, f"expected an object, got {values.describe(value)}")
        case FieldKind.LIST if type(value) is not list:
            yield Finding(path, f"expected an array, got {values.describe(value)}")
        case FieldKind.STRUCT | FieldKind.VALUE | FieldKind.LIST:
            yield from free_findings(
                value, path, structs.LEVELS if type(value) is dict else structs.BARE_LEVELS
            )
        case _:
            problem = _scalar_problem(field, value)
            if problem is not None:
                yield Finding(path, problem)


def _members(plan: MessagePlan, tree: dict[str, Any], path: str, levels: int) -> Iterator[Finding]:
    names = variants(plan)
    encoded_as: dict[str, str] = {}
    oneofs: dict[str, str] = {}
    for name, value in tree.items():
        field = names.get(name)
        if field is None:
            continue
        here = member(path, field.json_name)
        if field.name in encoded_as:
            yield Finding(here, f"is given twice, as {encoded_as[field.name]} and as {name}")
            continue
        encoded_as[field.name] = name
        if value is None:
            continue
        if field.oneof is not None:
            if field.oneof in oneofs:
                yield Finding(
                    here, f"cannot stand beside {oneofs[field.oneof]}: only one of them may be given"
                )
                continue
            oneofs[field.oneof] = field.json_name
        yield from _field(field, value, here, levels)


def _field(field: FieldPlan, value: Json, path: str, levels: int) -> Iterator[Finding]:
    if field.map_value is not None:
        if type(value) is not dict:
            yield Finding(path, f"expected an object, got {values.describe(value)}")
            return
        for key, item in value.items():
            here = member(path, key)
            yield from _name_problem(key, here)
            yield from _inspect(field.map_value, item, here, levels - 1)
    elif field.repeated:
        if type(value) is not list:
            yield Finding(path, f"expected an array, got {values.describe(value)}")
            return
        for index, item in enumerate(value):
            yield from _inspect(field, item, f"{path}[{index}]", levels)
    else:
        yield from _inspect(field, value, path, levels)


def _scalar_problem(field: FieldPlan, value: Json) -> str | None:
    try:
        match field.kind:
            case FieldKind.STRING:
                values.string_wire(value)
            case FieldKind.BYTES:
                values.base64_wire(value)
            case FieldKind.INTEGER:
                values.integer(value, field.low, field.high)
            case FieldKind.ENUM:
                assert field.enum is not None  # noqa: S101 - for the type checker
                values.enum_number(value, field.enum)
            case FieldKind.TIMESTAMP:
                values.timestamp_wire(value)
            case _:
                if type(value) is not bool:
                    return f"expected true or false, got {values.describe(value)}"
    except ValueError as error:
        return str(error)
    return None


def free_findings(value: Any, path: str, levels: int) -> Iterator[Finding]:
    """Errors in a Struct or Value, which may hold any JSON up to the depth limit, with numbers that a double
    holds.
    """
    match value:
        case None | bool():
            return
        case str():
            yield from _name_problem(value, path)
        case int():
            try:
                structs.exactly(value)
            except Irregular:
                yield _large_integer(value, path)
        case float():
            if value - value != 0:
                yield Finding(path, "is not a finite number")
        case list():
            if levels < structs.ARRAY_LEVELS:
                yield Finding(path, structs.TOO_DEEP)
                return
            for index, item in enumerate(value):
                yield from free_findings(item, f"{path}[{index}]", levels - structs.ARRAY_LEVELS)
        case dict():
            if levels < structs.OBJECT_LEVELS:
                yield Finding(path, structs.TOO_DEEP)
                return
            for key, item in value.items():
                here = member(path, key)
                yield from _name_problem(key, here)
                yield from free_findings(item, here, levels - structs.OBJECT_LEVELS)
        case _:
            yield Finding(path, "is not a JSON value")


def _large_integer(value: int, path: str) -> Finding:
    try:
        float(value)
    except OverflowError:
        return Finding(path, "is a number too large for a double")
    return Finding(path, ROUNDED, rounding=True)


def _name_problem(name: str, path: str) -> Iterator[Finding]:
    try:
        values.string_wire(name)
    except ValueError as error:
        yield Finding(path, str(error))
