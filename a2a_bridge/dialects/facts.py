"""Facts: content of hub messages that no canonical tree of an older version can express. There is one kind:
an enum number without a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import JsonObject
from a2a_bridge.codec.source import Source
from a2a_bridge.dialects.irregular import Facts
from a2a_bridge.dialects.members import Inline, Member, Names, fields_of


@dataclass(frozen=True, slots=True)
class Fact:
    """An enum number without a name, which a message of the hub may have."""

    #: its key among the carried facts
    name: str
    member: Member
    #: the member's field in the hub
    field: str
    #: the members that lead to the object with the member
    place: tuple[str, ...]
    #: their fields in the hub
    owner: tuple[str, ...]

    def guard(self, source: Source) -> str:
        """An expression that is true for messages with this fact."""
        return f"{self.of('message')}.{self.field} not in {source.keep('numbers', self.numbers)}"

    def check(self, tree: JsonObject, value: Any) -> bool:
        """Whether a canonical tree is compatible with the fact."""
        number = type(value) is int and -(2**31) <= value < 2**31
        return number and value not in self.numbers and self.found(tree) == self.names.default

    def impose(self, message: Any, value: Any) -> None:
        """Sets the fact in a message."""
        setattr(self.inside(message), self.field, value)

    def take(self, message: Any) -> Facts:
        """Removes the fact from a message and returns it; empty if the message does not have it."""
        number: int = getattr(self.inside(message), self.field)
        if number in self.numbers:
            return {}
        setattr(self.inside(message), self.field, self.names.numbers[self.names.default])
        return {self.name: number}

    @property
    def names(self) -> Names:
        assert self.member.names is not None  # noqa: S101 - for the type checker
        return self.member.names

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.names.numbers.values())

    def of(self, name: str) -> str:
        return ".".join((name, *self.owner))

    def inside(self, message: Any) -> Any:
        for name in self.owner:
            message = getattr(message, name)
        return message

    def found(self, tree: JsonObject) -> Any:
        for name in self.place:
            tree = tree.get(name) or {}
        return tree.get(self.member.name)


def facts_of(
    cls: type[Message], members: tuple[Member, ...], place: tuple[str, ...] = (), owner: tuple[str, ...] = ()
) -> Iterator[Fact]:
    """The possible facts of messages of a class, in the order in which they are extracted."""
    fields = fields_of(cls)
    for member in members:
        field = member.field_in(fields)
        if field is None:
            continue
        if member.names is not None:
            yield Fact(member.name, member, field.name, place, owner)
        elif member.always and isinstance(member.shape, Inline) and field.presence:
            inner = (*place, member.name), (*owner, field.name)
            yield from facts_of(member.shape.cls, member.shape.members, *inner)
