"""The tolerant reader for JSON of older versions: it reads one object, member by member, and knows no
particular object.

Rules:
1. A *canonical* tree is one that encoding a hub message produces. Reading converts a source tree to the
   canonical tree.
2. Everything is accepted that the specification's schema allows, and much other input with a clear meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.codec.errors import Violation
from a2a_bridge.codec.inspect import member
from a2a_bridge.codec.plan import FieldPlan
from a2a_bridge.codec.unknown import folded
from a2a_bridge.codec.values import describe, lenient_timestamp, string_wire
from a2a_bridge.dialects import scalars
from a2a_bridge.dialects.unmapped import KEY


class Rejected(Exception):  # noqa: N818 - control flow, never seen outside: `explained` lists the errors
    """A tree cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Names:
    """The variants of an enum."""

    #: names in JSON and numbers in the hub
    numbers: Mapping[str, int]
    #: the name that is written for a number without a name
    default: str
    #: other accepted variants, and the standard name of each
    aliases: Mapping[str, str] = field(default_factory=dict)


class Reader:
    """Reads one object; `tree` becomes its canonical form.

    Members are left out of it when they are empty, unless `always` is set.
    """

    def __init__(self, source: JsonObject, path: str = "", *, explains: bool = False) -> None:
        self.source = source
        self.path = path
        #: whether errors in free JSON are reported; otherwise the writer rejects it
        self.explains = explains
        self.tree: JsonObject = {}
        #: content of the hub that no canonical tree can express (see `irregular`)
        self.facts: dict[str, Any] = {}
        self.problems: list[Violation] = []
        self.mark: Json = None
        #: pointers to members that are not preserved, because only the receiver would see their content
        self.dropped: set[str] = set()

    def wrong(self, name: str, problem: str) -> None:
        """Reports a member that cannot be decoded."""
        self.problems.append((member(self.path, name) if name else self.path, problem))

    def report_type(self, name: str, what: str) -> None:
        """Reports a member of the wrong type."""
        self.wrong(name, f"expected {what}, got {describe(self.source.get(name))}")

    def require(self, name: str) -> None:
        """Reports an absent member."""
        if self.source.get(name) is None:
            self.wrong(name, "is required")

    def spell(self, spelled: Mapping[str, str]) -> None:
        """Gives members the names that they look like: other readers may take `task_id` or `TaskId` for
        `taskId` (see codec.unknown), so it must not pass unread. Beside the member itself it is left out.

        spelled: the names by their `folded` form.
        """
        source = self.source
        others = {name: own for name in source if (own := spelled.get(folded(name), name)) != name}
        if others:
            self.source = {name: value for name, value in source.items() if name not in others}
            for name, own in others.items():
                self.source.setdefault(own, source[name])

    # --- members with a value ---

    def kind(self, name: str) -> None:
        """The member `kind`, where the position determines its value: it may be absent."""
        found = self.source.get("kind")
        if found is not None and found != name:
            self.wrong("kind", f'expected "{name}"')
        self.tree["kind"] = name

    def enum(self, name: str, names: Names) -> None:
        """A name of an enum; absent, the default."""
        value = self.source.get(name)
        known = names.default if value is None else value
        known = names.aliases.get(known, known) if type(known) is str else ""
        if known not in names.numbers:
            self.wrong(name, f"is none of {', '.join(names.numbers)}")
        self.tree[name] = known

    def string(self, name: str, *, always: bool = False) -> None:
        """A string."""
        value = self.source.get(name)
        if value is not None and type(value) is not str:
            self.report_type(name, "a string")
            return
        text = value or ""
        self._unicode(text, member(self.path, name))
        if text or always:
            self.tree[name] = text

    def later(self, name: str) -> None:
        """A string that only later versions define. With any other type it is an unknown member."""
        value = self.source.get(name)
        if type(value) is str and value:
            self.tree[name] = value

    def later_integer(self, name: str, field: FieldPlan) -> None:
        """The same for an integer. Without presence, 0 is an unknown member, too: the hub cannot hold it."""
        value = self.source.get(name)
        if type(value) is int and field.low <= value <= field.high and (value or field.presence):
            self.tree[name] = value

    def strings(self, name: str, *, always: bool = False) -> None:
        """A list of strings."""
        items = self.array(name)
        for index, item in enumerate(items):
            here = f"{member(self.path, name)}[{index}]"
            if type(item) is not str:
                self.problems.append((here, f"expected a string, got {describe(item)}"))
                return
            self._unicode(item, here)
        if items or always:
            self.tree[name] = items

    def integer(self, name: str) -> None:
        """An integer of 32 bits; others become the nearest."""
        value = self.source.get(name)
        if value is None:
            return
        number = scalars.int32(value)
        if number is None:
            got = "a fraction" if isinstance(value, float) else describe(value)
            self.wrong(name, f"expected an integer, got {got}")
        else:
            self.tree[name] = number

    def flag(self, name: str) -> bool | None:
        """True or false; None if absent. Only true is in the tree."""
        value = self.source.get(name)
        if value is not None and type(value) is not bool:
            self.report_type(name, "true or false")
            return None
        if value:
            self.tree[name] = True
        return value

    def time(self, name: str) -> None:
        """A date and time, in any usual format; a text that is none counts as an unknown member."""
        value = self.source.get(name)
        if type(value) is str:
            if lenient_timestamp(value) is not None:
                self.tree[name] = value
        elif value is not None:
            self.report_type(name, "a date and time")

    def _unicode(self, text: str, path: str) -> None:
        try:
            string_wire(text)
        except ValueError as error:
            self.problems.append((path, str(error)))

    # --- members with objects ---

    def units(self, name: str, *, always: bool = False) -> None:
        """A list of objects that are read separately."""
        items = self.array(name)
        if items or always:
            self.tree[name] = items

    def unit(self, name: str) -> None:
        """An object that is read separately."""
        value = self.source.get(name)
        if value is not None:
            self.tree[name] = value

    def array(self, name: str) -> list[Any]:
        """The list in a member; empty if absent."""
        value = self.source.get(name)
        if value is not None and type(value) is not list:
            self.report_type(name, "an array")
        return value if type(value) is list else []

    def object(self, name: str) -> JsonObject | None:
        """The object in a member; None if absent."""
        value = self.source.get(name)
        if value is not None and type(value) is not dict:
            self.report_type(name, "an object")
        return value if type(value) is dict else None

    def metadata(self, *ours: str) -> None:
        """The member `metadata`: left out when empty, without our own keys (KEY and `ours`)."""
        found = self.object("metadata")
        if not found:
            return
        if any(key in found for key in (KEY, *ours)):
            self.mark = found.get(KEY)
            found = {key: value for key, value in found.items() if key != KEY and key not in ours}
        metadata = self.free(found, member(self.path, "metadata"))
        if metadata:
            self.tree["metadata"] = metadata

    def free(self, value: Json, path: str) -> Json:
        """Free JSON after a round trip through a Value; the same object if equal, None for a problem."""
        try:
            if self.explains:
                scalars.check_free(value, path)
            made: Json = scalars.round_integers(value)
        except scalars.FreeJsonError as error:
            self.problems += error.problems
            return None
        except OverflowError:
            raise Rejected from None
        return made

    def inner(self, name: str, source: JsonObject) -> Reader:
        """A reader of the object in a member."""
        return Reader(source, f"{self.path}.{name}" if self.path else name)

    def within(self, other: Reader) -> JsonObject:
        """Takes over the findings of a reader of an object inside this one."""
        self.problems += other.problems
        return other.tree
