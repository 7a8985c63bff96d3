"""What tables of JSON members are made of. `shape` compiles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import JsonObject
from a2a_bridge.codec.plan import FieldPlan, plan_of
from a2a_bridge.dialects.irregular import Reader, Shape


@dataclass(frozen=True, slots=True)
class Names:
    """The spellings of an enum."""

    #: names in JSON and numbers in the hub
    numbers: Mapping[str, int]
    #: the name that is written for numbers without a name
    default: str
    #: further spellings that are read, and the name each stands for
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Inline:
    """An object without metadata, which is part of a unit."""

    #: its message in the hub
    cls: type[Message]
    #: its members
    members: tuple[Member, ...]
    #: a canonical tree as wire text; raises Irregular, LookupError, AttributeError and TypeError for all else
    write: Callable[[Any], str]
    #: the message as a canonical tree; raises KeyError for enum numbers without a name
    encode: Callable[[Any], JsonObject]
    #: the tolerant reader
    read: Callable[[Reader], None]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object in JSON."""

    #: its name in JSON
    name: str
    #: the shape of the object that it is, or of the objects in the list that it is
    shape: Shape | Inline | None = None
    #: the hub's name of the member in JSON, where it is another one
    of: str = ""
    #: whether the hub's fields of the object are those of the message around it
    flat: bool = False
    #: whether true is false in the hub
    inverted: bool = False
    #: whether only later versions define the text: a member of another type is then an unknown one
    later: bool = False
    #: which of a list of texts is the hub's only one
    chosen: Callable[[list[str]], str] | None = None
    #: whether a canonical tree has it even when it is empty
    always: bool = False
    #: whether a tree without it is refused
    required: bool = False
    #: the spellings of an enum
    names: Names | None = None
    #: another member and the function of that one's value that this one follows from: the hub has no field
    #: for it
    follows: tuple[str, Callable[[Any], bool]] | None = None
    #: where the hub's metadata notes a value that does not follow
    noted: str = ""

    def field_in(self, fields: Mapping[str, FieldPlan]) -> FieldPlan | None:
        """The hub's field, of those by their names in JSON; None for members that have none."""
        return fields.get(self.of or self.name)


def fields_of(cls: type[Message]) -> dict[str, FieldPlan]:
    """The fields of a message by their names in JSON."""
    return {field.json_name: field for field in plan_of(cls).fields}
