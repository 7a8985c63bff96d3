"""Long texts and files in JSON trees: kept out of the wire text, and assigned to the message afterwards.

The wire text of a message is written from the inside out, so that a text is copied once per level, and once
more for the bytes. A long text is cheaper to assign: one copy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from a2a_bridge.codec import values
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan

LONG = 1 << 14
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


def without_long_texts(plan: MessagePlan, tree: Any, found: list[LongText]) -> Any:
    """The tree with empty texts instead of long ones, which are added to `found`. The tree stays as it is."""
    return _shorten(plan, tree, (), found)


def assign(message: Any, found: list[LongText]) -> None:
    """Puts the texts into the message. Raises ValueError for an invalid one."""
    for path, field, text in found:
        target = message
        for step in path:
            target = target[step] if type(step) is int else getattr(target, str(step))
        setattr(target, field.name, text if field.kind is FieldKind.STRING else values.base64_bytes(text))


def _shorten(plan: MessagePlan, tree: Any, path: tuple[str | int, ...], found: list[LongText]) -> Any:
    if type(tree) is not dict:
        return tree
    short = dict(tree)
    for field in plan.fields:
        value = tree.get(field.json_name)
        if value is None or field.map_value is not None:
            continue
        below = field.message if field.kind is FieldKind.MESSAGE else None
        if type(value) is str:
            if len(value) > LONG and is_text(field):
                found.append(LongText(path, field, value))
                short[field.json_name] = ""
        elif below is None:
            continue
        elif type(value) is dict:
            if not field.repeated:
                short[field.json_name] = _shorten(below, value, (*path, field.name), found)
        elif type(value) is list and field.repeated:
            here = (*path, field.name)
            short[field.json_name] = [
                _shorten(below, item, (*here, index), found) for index, item in enumerate(value)
            ]
    return short


def is_text(field: FieldPlan) -> bool:
    """True for fields whose long texts are assigned."""
    return (
        field.kind in (FieldKind.STRING, FieldKind.BYTES) and not field.repeated and field.map_value is None
    )
