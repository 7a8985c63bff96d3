"""The tolerant reader for JSON of older versions: it reads one object, member by member, and knows no
particular object. Units of JSON that the fast functions reject are read with it (`Shape`): the canonical
tree, the facts, and the unmapped content.

Rules:
1. A *canonical* tree is one that encoding a hub message produces. Reading converts a source tree to the
   canonical tree.
2. Everything is accepted that the specification's schema allows, and much other input with a clear meaning.
   All other input is an error.
3. *Facts* are content of a hub message that no canonical tree can express, such as a number without a name.
   They are stored in the 0.x metadata, as source HUB (see `unmapped`).
4. Content of a source tree beyond canonical tree and facts is stored in the hub's metadata, as source KIND.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject, dumps_ascii
from a2a_bridge.codec.inspect import member
from a2a_bridge.codec.plan import FieldPlan
from a2a_bridge.codec.structs import read_value
from a2a_bridge.codec.text import Violation
from a2a_bridge.codec.unknown import folded
from a2a_bridge.codec.values import describe, lenient_timestamp, string_wire
from a2a_bridge.dialects import scalars, unmapped
from a2a_bridge.dialects.unmapped import EMPTY, HUB, KEY, KIND


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
    """Reads one object; `tree` becomes its canonical form. Empty members are left out of `tree`, unless
    `always` is set.
    """

    def __init__(self, source: JsonObject, path: str = "", *, explains: bool = False) -> None:
        self.source = source
        self.path = path
        #: whether errors in free JSON are reported; otherwise the writer rejects it
        self.explains = explains
        self.tree: JsonObject = {}
        #: content of the hub that no canonical tree can express (a fact)
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


M = TypeVar("M", bound=Message)
Facts = dict[str, Any]

_MOST = 20
"""Maximum number of violations in an error, as in the codec."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Content of hub messages that no canonical tree can express (rule 2)."""

    #: removes the content from a message, so that `Shape.encode` can handle the rest, and returns it; None if
    #: the message does not have it
    take: Callable[[Any], Json]
    #: puts it into a message
    put: Callable[[Any, Any], None]
    #: whether a canonical tree is compatible with a value
    fits: Callable[[JsonObject, Any], bool]
    #: puts a hint for peers that do not know facts into a canonical tree
    show: Callable[[JsonObject, Any], None] = lambda _, __: None


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One kind of unit."""

    #: its message class in the hub
    cls: type[Message]
    #: the tag of that message's metadata field
    metadata_tag: str
    #: fills a Reader
    read: Callable[[Reader], None]
    #: fast: canonical tree -> wire text
    write: Callable[[Any], str]
    #: fast: message -> canonical tree
    encode: Callable[[Any], JsonObject]
    #: the units within a tree: path, shape and tree of each
    inside: Callable[[JsonObject], Iterable[tuple[str, Shape, Any]]] = lambda _: ()
    #: its possible facts
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def text(self, tree: Any) -> str:
        """The wire text of any tree, fast for canonical ones. Raises Rejected."""
        try:
            return self.write(tree)
        except (ValueError, LookupError, AttributeError, TypeError):
            return text_of(self, tree)

    def decode(self, tree: Json) -> Any:
        """The message of a tree. Raises DecodeError."""
        try:
            return self.cls.FromString(self.text(tree).encode("latin-1"))
        except (Rejected, ValueError, RecursionError, ProtobufDecodeError):
            pass
        raise explain(self, tree)


def text_of(shape: Shape, source: Any) -> str:
    """The wire text of any tree, with unmapped content in the message's metadata. Raises Rejected."""
    if type(source) is not dict:
        raise Rejected
    reader = read(shape, source)
    if reader.problems:
        raise Rejected
    try:
        text = shape.write(reader.tree)
    except ValueError:
        raise Rejected from None  # free JSON that no Value can hold
    if reader.facts:
        message = shape.cls.FromString(text.encode("latin-1"))
        for name, value in reader.facts.items():
            shape.facts[name].put(message, value)
        if EMPTY in unmapped.sources(reader.mark):
            message.metadata.SetInParent()  # type: ignore[attr-defined]
        text = message.SerializeToString().decode("latin-1")
    presented_tree = present(shape, reader.tree, reader.facts)
    apart = bool(reader.facts) and reader.mark is None  # facts that the peer expressed in its own format
    entries = unmapped.difference(presented_tree, _without_mark(reader), whole=apart)
    entries = [one for one in entries if one[0] not in reader.dropped]
    if not entries:
        return text
    preserved = unmapped.write(KIND, entries)
    return text + scalars.metadata_entry(shape.metadata_tag, KEY, scalars.value_of(preserved, 1))


def read(shape: Shape, source: JsonObject, path: str = "", *, explains: bool = False) -> Reader:
    """Reads one unit, but not the units within it."""
    reader = Reader(source, path, explains=explains)
    shape.read(reader)
    facts = unmapped.sources(reader.mark).get(HUB)
    if isinstance(facts, dict) and all(
        name in shape.facts and shape.facts[name].fits(reader.tree, value) for name, value in facts.items()
    ):
        reader.facts |= facts
        reader.tree = without_flag(reader.tree, reader.facts)
    return reader


def _without_mark(reader: Reader) -> JsonObject:
    """The tree that was read, without the text under KEY, which belongs to this module."""
    source = reader.source
    if reader.mark is None:
        return source
    metadata = {key: value for key, value in source["metadata"].items() if key != KEY}
    rest = {key: value for key, value in source.items() if key != "metadata"}
    return rest | {"metadata": metadata} if metadata else rest


def present(shape: Shape, tree: JsonObject, facts: Facts) -> JsonObject:
    """The canonical tree with its facts, as sent to a 0.x peer."""
    if not facts:
        return tree
    tree = dict(tree)
    tree["metadata"] = dict(tree.get("metadata") or {})
    for name, value in facts.items():
        shape.facts[name].show(tree, value)
    tree["metadata"][KEY] = unmapped.write(HUB, facts)
    return tree


def without_flag(tree: JsonObject, facts: Facts) -> JsonObject:
    """The tree without the flag beside a wrapped value, which is for peers that do not know facts."""
    if facts.get("wrapped") is not True or WRAPPED not in tree.get("metadata", {}):
        return tree
    metadata = {key: value for key, value in tree["metadata"].items() if key != WRAPPED}
    rest = {key: value for key, value in tree.items() if key != "metadata"}
    return rest | {"metadata": metadata} if metadata else rest


#: the flag with which the SDK marks a data part whose value it has wrapped into an object
WRAPPED = "data_part_compat"


def restore_tree(shape: Shape, tree: JsonObject, facts: Facts | None = None) -> JsonObject:
    """The tree as sent to a peer, with the preserved content of this shape; for messages with KEY or facts.
    tree: canonical, with KEY in its metadata as in the message. It may be changed.
    """
    metadata = tree.get("metadata") or {}
    text = metadata.pop(KEY, None)
    if not metadata:
        tree.pop("metadata", None)
    presented_tree = present(shape, tree, facts or {})
    entries = unmapped.read(text, KIND)
    if not entries:
        return presented_tree
    made: JsonObject = unmapped.restore(presented_tree, entries)
    return made


def mark_tree(shape: Shape, message: Any) -> JsonObject:
    """The tree of a message that has facts, as sent to a peer."""
    copy: Any = shape.cls()
    copy.CopyFrom(message)
    facts = {name: value for name, fact in shape.facts.items() if (value := fact.take(copy)) is not None}
    empty = copy.HasField("metadata") and not copy.metadata.fields
    key: Json = None
    if copy.HasField("metadata") and KEY in copy.metadata.fields:
        key = read_value(copy.metadata.fields[KEY])
        del copy.metadata.fields[KEY]
        if not copy.metadata.fields:
            copy.ClearField("metadata")
    tree = shape.encode(copy)
    if key is not None:
        tree["metadata"] = {**tree.get("metadata", {}), KEY: key}
    made = restore_tree(shape, tree, facts)
    if empty and facts:
        made["metadata"][KEY] = dumps_ascii({HUB: facts, EMPTY: True})
    return made


def explain(shape: Shape, tree: Json) -> DecodeError:
    """All errors in a tree, including the units within it."""
    problems: list[Violation] = []
    _explain(shape, tree, "", problems)
    if not problems:
        problems = [("", "is not JSON that protobuf can carry")]
    return DecodeError.of(problems[:_MOST])


def _explain(shape: Shape, source: Json, path: str, problems: list[Violation]) -> None:
    if len(problems) >= _MOST:
        return
    if type(source) is not dict:
        problems.append((path, f"expected an object, got {describe(source)}"))
        return
    reader = read(shape, source, path, explains=True)
    problems += reader.problems
    for name, inner, value in shape.inside(reader.tree):
        _explain(inner, value, f"{path}.{name}" if path else name, problems)
