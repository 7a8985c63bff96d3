"""The elements of tables of JSON members. `shape` compiles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject
from a2a_bridge.codec.plan import FieldPlan, plan_of
from a2a_bridge.codec.values import describe
from a2a_bridge.dialects.irregular import Shape
from a2a_bridge.dialects.reader import Names, Reader


@dataclass(frozen=True, slots=True, eq=False)
class Inline:
    """An object without metadata. It belongs to a unit."""

    #: its message in the hub
    cls: type[Message]
    #: its members
    members: tuple[Member, ...]
    #: a canonical tree as wire text; raises Irregular, LookupError, AttributeError and TypeError otherwise
    write: Callable[[Any], str]
    #: the message as a canonical tree; raises KeyError for enum numbers without a name
    encode: Callable[[Any], JsonObject]
    #: the tolerant reader
    read: Callable[[Reader], None]

    def reader(self, tree: Json) -> Reader:
        """Reads a tree outside of any unit: its canonical form, or its problems."""
        if type(tree) is not dict:
            reader = Reader({})
            reader.wrong("", f"expected an object, got {describe(tree)}")
            return reader
        reader = Reader(tree)
        self.read(reader)
        return reader

    def decode(self, tree: Json) -> Any:
        """The message of a tree outside of any unit. Raises DecodeError."""
        try:
            text = self.write(tree)
        except (ValueError, LookupError, AttributeError, TypeError):
            reader = self.reader(tree)
            if reader.problems:
                raise DecodeError.of(reader.problems) from None
            text = self.write(reader.tree)
        return self.cls.FromString(text.encode("latin-1"))


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object in JSON."""

    #: its name in JSON
    name: str
    #: the shape of its object, or of the objects in its list
    shape: Shape | Inline | None = None
    #: the JSON name of the member in the hub, if different
    of: str = ""
    #: whether the fields of the object belong to the surrounding message in the hub
    flat: bool = False
    #: whether the hub stores the negated value
    inverted: bool = False
    #: whether only later versions define this text or integer: any other value is then an unknown member
    later: bool = False
    #: selects the one text of a list that the hub stores
    chosen: Callable[[list[str]], str] | None = None
    #: whether a canonical tree includes it even if it is empty
    always: bool = False
    #: whether a tree without it is rejected
    required: bool = False
    #: the variants of an enum
    names: Names | None = None
    #: for a member without a field in the hub: the name of another member, and the function that computes
    #: this member's value from it
    follows: tuple[str, Callable[[Any], bool]] | None = None
    #: the key in the hub's metadata for a value that differs from the computed one
    noted: str = ""

    def field_in(self, fields: Mapping[str, FieldPlan]) -> FieldPlan | None:
        """The hub's field, from fields by JSON name; None for members without a field."""
        return fields.get(self.of or self.name)


def fields_of(cls: type[Message]) -> dict[str, FieldPlan]:
    """The fields of a message by JSON name."""
    return {field.json_name: field for field in plan_of(cls).fields}
