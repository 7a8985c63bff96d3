"""What a message of the hub says and no canonical tree of an older version can: an enum number without a name, an object
that is not there, although the older version requires it.
"""

# ruff: noqa: ARG002  the facts have one signature

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import JsonObject, decoder, encoder
from a2a_bridge.codec.source import Source
from a2a_bridge.dialects.irregular import Facts
from a2a_bridge.dialects.members import Inline, Member, Names, fields_of
from a2a_bridge.pb.google_protobuf import Value

_decode_value = decoder(Value)
_encode_value = encoder(Value)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a message of the hub may say beyond its canonical tree. This one: an enum number without a name."""

    #: as it is called where it is kept
    name: str
    member: Member
    #: the member's field in the hub
    field: str
    #: the members that lead to the object with the member
    place: tuple[str, ...]
    #: their fields in the hub
    owner: tuple[str, ...]

    def guard(self, source: Source) -> str:
        """The expression that is true of messages with this fact."""
        return f"{self.of('message')}.{self.field} not in {source.keep('numbers', self.numbers)}"

    def check(self, tree: JsonObject, value: Any) -> bool:
        """Whether a canonical tree can mean the fact."""
        number = type(value) is int and -(2**31) <= value < 2**31
        return number and value not in self.numbers and self.found(tree) == self.names.default

    def impose(self, message: Any, value: Any) -> None:
        """Put the fact into a message."""
        setattr(self.inside(message), self.field, value)

    def take(self, message: Any, encode: Callable[[Any], JsonObject]) -> Facts:
        """The fact of a message, if it has this one, taken out of it. encode: the encoder of the unit."""
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


class Absence(Fact):
    """An object that is not there, although the older version requires it."""

    def guard(self, source: Source) -> str:
        return f'not {self.of("message")}.HasField("{self.field}")'

    def check(self, tree: JsonObject, value: Any) -> bool:
        assert self.member.shape is not None  # noqa: S101 - for the type checker
        return value is True and self.found(tree) == self.member.shape.encode(self.member.shape.cls())

    def impose(self, message: Any, value: Any) -> None:
        self.inside(message).ClearField(self.field)

    def take(self, message: Any, encode: Callable[[Any], JsonObject]) -> Facts:
        owner = self.inside(message)
        if owner.HasField(self.field):
            return {}
        getattr(owner, self.field).SetInParent()
        return {self.name: True}


class Note(Fact):
    """A value under the key of a note, which is not the opposite of what follows: the bridge did not note it."""

    def guard(self, source: Source) -> str:
        return ""

    def check(self, tree: JsonObject, value: Any) -> bool:
        assert self.member.follows is not None  # noqa: S101 - for the type checker
        other, derive = self.member.follows
        derived = derive(tree[other])
        return self.found(tree) is derived and value is not (not derived)

    def impose(self, message: Any, value: Any) -> None:
        message.metadata.fields[self.member.noted].CopyFrom(_decode_value(value))

    def take(self, message: Any, encode: Callable[[Any], JsonObject]) -> Facts:
        noted = self.member.noted
        if not message.HasField("metadata") or noted not in message.metadata.fields:
            return {}
        value: Any = _encode_value(message.metadata.fields[noted])
        bare = type(message)()
        bare.CopyFrom(message)
        bare.ClearField("metadata")
        if value is (not encode(bare)[self.member.name]):
            return {}
        del message.metadata.fields[noted]
        return {self.name: value}


def facts_of(
    cls: type[Message], members: tuple[Member, ...], place: tuple[str, ...] = (), owner: tuple[str, ...] = ()
) -> Iterator[Fact]:
    """The facts that messages of a class may have, in the order in which they are taken out."""
    fields = fields_of(cls)
    for member in members:
        field = fields.get(member.name)
        if member.follows:
            yield Note("said", member, "", place, owner)
        elif field is None:
            continue
        elif member.names is not None:
            yield Fact(member.name, member, field.name, place, owner)
        elif member.always and member.shape is not None and field.presence:
            name = f"no{member.name[0].upper()}{member.name[1:]}"
            yield Absence(name, member, field.name, place, owner)
            if isinstance(member.shape, Inline):
                inner = (*place, member.name), (*owner, field.name)
                yield from facts_of(member.shape.cls, member.shape.members, *inner)
