"""The absent REQUIRED members of a message. Compiles one function per message type; it does not check values.

Proto3 cannot distinguish an empty string, list or enum from an absent one, so these count as absent. Numbers,
bools and maps never do: 0, false and "no scopes" are meaningful values.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec.inspect import member
from a2a_bridge.codec.plan import (
    BUILDING,
    FieldKind,
    FieldPlan,
    MessagePlan,
    Source,
    attribute,
    literal,
    plan_of,
)

_CHECKERS: dict[type[Message], Callable[[Any], list[str]]] = {}

_NEVER_MISSED = {FieldKind.BOOL, FieldKind.INTEGER}


def missing_required(message: Message) -> list[str]:
    """The JSON paths of REQUIRED members that are absent, also inside the sub-messages that are set. A part
    without content is reported by its own path, such as `message.parts[0]`.
    """
    check = _CHECKERS.get(type(message))
    return compile_required(type(message))(message) if check is None else check(message)


def compile_required(cls: type[Message]) -> Callable[[Any], list[str]]:
    """The function behind `missing_required` for one class. Compiled once."""
    found = _CHECKERS.get(cls)
    if found is None:
        with BUILDING:
            found = _CHECKERS[cls] = _checker(plan_of(cls))
    return found


_LIBRARY: dict[str, Any] = {}
"""All compiled functions and their names."""


def _checker(plan: MessagePlan) -> Callable[[Any], list[str]]:
    demanding = _find_demanding(plan)
    if plan.label not in demanding:
        return lambda _: []
    if plan.label not in _LIBRARY:
        _LIBRARY.update(member=member, below=_below)
        source = Source(_LIBRARY)
        for one in plan.list_nested():
            if one.label in demanding and one.label not in _LIBRARY:
                _message(source, one, demanding)
        source.compile(f"required {plan.descriptor.full_name}")
    check: Callable[[Any], list[str]] = _LIBRARY[plan.label]
    return check


def _find_demanding(plan: MessagePlan) -> set[str]:
    """The message types that can lack a REQUIRED member, themselves or in a nested message."""
    plans = [one for one in plan.list_nested() if one.kind is FieldKind.MESSAGE]
    demanding = {one.label for one in plans if one.required_oneofs or any(map(can_be_missed, one.fields))}
    grown = True
    while grown:
        more = {
            one.label
            for one in plans
            if any((field.map_value or field).message and _label(field) in demanding for field in one.fields)
        }
        grown = not more <= demanding
        demanding |= more
    return demanding


def can_be_missed(field: FieldPlan) -> bool:
    """Whether an empty value of a field is an absent REQUIRED member."""
    return field.required and field.map_value is None and (field.repeated or field.kind not in _NEVER_MISSED)


def _label(field: FieldPlan) -> str:
    message = (field.map_value or field).message
    return message.label if message is not None else ""


def _message(source: Source, plan: MessagePlan, demanding: set[str]) -> None:
    # Paths are built only for missing members: each function appends paths relative to its message, and the
    # caller prefixes the added ones (`below`).
    line, block = source.line, source.block
    with block(f"def {plan.label}(message, found=None):"):
        with block("if found is None:"):
            line("found = []")
        for oneof in plan.required_oneofs:
            with block(f'if message.WhichOneof("{oneof}") is None:'):
                line('found.append("")')
        for field in plan.fields:
            name, json_name = field.name, field.json_name
            deeper = _label(field) in demanding
            if not deeper and not can_be_missed(field):
                continue
            if not field.repeated and field.map_value is None and field.message is not None:
                with block(f'if message.HasField("{name}"):'):
                    if deeper:
                        line("known = len(found)", f"{_label(field)}({attribute(name)}, found)")
                        _prefix(source, repr(json_name))
                    else:
                        line("pass")
                if field.required:
                    with block("else:"):
                        line(f"found.append({json_name!r})")
                continue
            line(f"value = {attribute(name)}")
            if can_be_missed(field):
                with block("if not value:"):
                    line(f"found.append({json_name!r})")
            if deeper and field.map_value is not None:
                with block("for key in value:"):
                    line("known = len(found)", f"{_label(field)}(value[key], found)")
                    _prefix(source, f"member({json_name!r}, key)")
            elif deeper and (only := _only_oneof(field.message)):
                # Parts, of which every message has some, without a call for each. See `encode` on slices.
                with (
                    block("for index, item in enumerate(value[:]):"),
                    block(f'if item.WhichOneof("{only}") is None:'),
                ):
                    line(f'found.append(f"{literal(json_name)}[{{index}}]")')
            elif deeper:
                with block("for index, item in enumerate(value):"):
                    line("known = len(found)", f"{_label(field)}(item, found)")
                    _prefix(source, f'f"{literal(json_name)}[{{index}}]"')

        line("return found")


def _only_oneof(plan: MessagePlan | None) -> str | None:
    """The name of the required oneof of a message that lacks nothing else."""
    if plan is None or len(plan.required_oneofs) != 1 or any(map(can_be_missed, plan.fields)):
        return None
    return None if any(_label(field) for field in plan.fields if _nests(field)) else plan.required_oneofs[0]


def _nests(field: FieldPlan) -> bool:
    message = (field.map_value or field).message
    return message is not None and message.kind is FieldKind.MESSAGE


def _prefix(source: Source, path: str) -> None:
    with source.block("if len(found) != known:"):
        source.line(f"found[known:] = below({path}, found[known:])")


def _below(path: str, found: list[str]) -> list[str]:
    joined = (f"{path}{one}" if one.startswith("[") else f"{path}.{one}" if one else path for one in found)
    return list(joined)
