"""The slow path of the `kind` shape: reads what the quick functions do not take, and keeps what the hub cannot. It
knows no particular object: those are `Shape`s, which the modules beside it define.

Rules:
1. A *canonical* tree is one that encoding a hub message gives. Reading makes the canonical tree of a given one;
   decoding is total on what the specification's schema allows, and on much else that can be understood.
2. *Facts* are what a hub message says and no canonical tree can, such as a role that is not given. They stand in
   the 0.x metadata as the residue of source `hub`, in every version of the bridge the same.
3. What a given tree says beyond canonical tree and facts is the residue of source `kind`, in the hub's metadata.
4. Both count only if they are what this module would write itself. What is not is the user's own: it is kept, as a
   fact or in a residue, and comes back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
from a2a_bridge.codec.errors import Violation
from a2a_bridge.codec.inspect import member
from a2a_bridge.codec.structs import TOO_DEEP
from a2a_bridge.codec.values import describe
from a2a_bridge.dialects import residue, scalars
from a2a_bridge.dialects.residue import HUB, KEY, KIND
from a2a_bridge.pb.google_protobuf import Value

M = TypeVar("M", bound=Message)
Facts = dict[str, Any]

_MOST = 20
"""Violations that an error carries at most, as in the codec."""

_decode_value = decoder(Value)
_encode_value = encoder(Value)


class Refused(Exception):  # noqa: N818 - control flow, never seen outside: `explain` finds the words
    """A tree cannot be understood, or more would have to be carried than may be."""


class Reader:
    """Reads one object, member by member: `tree` becomes its canonical form."""

    def __init__(self, given: JsonObject, path: str = "") -> None:
        self.given = given
        self.path = path
        self.tree: JsonObject = {}
        self.facts: Facts = {}
        self.problems: list[Violation] = []
        self.mark: Json = None
        #: pointers to members that are not carried, since they would be content that only the receiver sees
        self.dropped: set[str] = set()

    def wrong(self, name: str, problem: str) -> None:
        """Notes that a member cannot be understood."""
        self.problems.append((member(self.path, name) if name else self.path, problem))

    def expected(self, name: str, what: str) -> None:
        """Notes that a member is of another type than it has to be."""
        self.wrong(name, f"expected {what}, got {describe(self.given.get(name))}")

    def kind(self, name: str) -> None:
        """The member `kind`, where the place tells what it has to be: its absence is bearable."""
        found = self.given.get("kind")
        if found is not None and found != name:
            self.wrong("kind", f'expected "{name}"')
        self.tree["kind"] = name

    def string(self, name: str, *, required: bool = False) -> None:
        """A string; left out when empty, unless required."""
        value = self.given.get(name)
        if value is not None and type(value) is not str:
            self.expected(name, "a string")
            return
        text = scalars.canonical_text(value or "")
        if text or required:
            self.tree[name] = text

    def later(self, name: str) -> None:
        """A string that only later versions define: of any other type it is a stranger's."""
        value = self.given.get(name)
        if type(value) is str and value and scalars.canonical_text(value) is value:
            self.tree[name] = value

    def strings(self, name: str, *, required: bool = False) -> None:
        """A list of strings; left out when empty, unless required."""
        items = self.array(name)
        for index, item in enumerate(items):
            if type(item) is not str:
                self.problems.append(
                    (f"{member(self.path, name)}[{index}]", f"expected a string, got {describe(item)}")
                )
                return
        texts = [scalars.canonical_text(item) for item in items]
        if items or required:
            self.tree[name] = items if texts == items else texts

    def flag(self, name: str) -> bool | None:
        """True or false, or None; left out unless true."""
        value = self.given.get(name)
        if value is not None and type(value) is not bool:
            self.expected(name, "true or false")
            return None
        if value:
            self.tree[name] = True
        return value

    def units(self, name: str, *, required: bool = False) -> None:
        """A list of objects that are read on their own; left out when empty, unless required."""
        items = self.array(name)
        if items or required:
            self.tree[name] = items

    def unit(self, name: str) -> None:
        """An object that is read on its own."""
        value = self.given.get(name)
        if value is not None:
            self.tree[name] = value

    def array(self, name: str) -> list[Any]:
        """The list that a member is; empty for none."""
        value = self.given.get(name)
        if value is not None and type(value) is not list:
            self.expected(name, "an array")
        return value if type(value) is list else []

    def object(self, name: str) -> JsonObject | None:
        """The object that a member is; None for none."""
        value = self.given.get(name)
        if value is not None and type(value) is not dict:
            self.expected(name, "an object")
        return value if type(value) is dict else None

    def metadata(self, *ours: str) -> None:
        """The member `metadata`: left out when empty, and without the members that are ours, KEY and others."""
        given = self.object("metadata")
        if not given:
            return
        try:
            found = scalars.canonical_free(given)
        except scalars.TooDeepError:
            self.wrong("metadata", TOO_DEEP)
            return
        if type(found) is dict and any(key in found for key in (KEY, *ours)):
            self.mark = found.get(KEY)
            found = {key: value for key, value in found.items() if key != KEY and key not in ours}
        if found:
            self.tree["metadata"] = found

    def within(self, other: Reader) -> JsonObject:
        """Takes over what a reader of an object inside this one found."""
        self.problems += other.problems
        return other.tree


def _any(_: JsonObject, __: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One kind of unit.

    cls: its message in the hub. metadata_tag: of that message's field. read: fills a Reader.
    write: a canonical tree as wire text, quickly. encode: the message as a canonical tree, quickly.
    inside: the units within a tree: path, shape and tree of each.
    checks: which facts it may have, and whether one can be meant by a tree.
    show, impose: a fact put into a canonical tree; into a message. facts_of: the facts of a message, which it
    takes out, so that `encode` can do the rest.
    """

    cls: type[Message]
    metadata_tag: str
    read: Callable[[Reader], None]
    write: Callable[[Any], str]
    encode: Callable[[Any], JsonObject]
    inside: Callable[[JsonObject], Iterable[tuple[str, Shape, Any]]] = lambda _: ()
    checks: Mapping[str, Callable[[JsonObject, Any], bool]] = field(default_factory=dict)
    show: Callable[[JsonObject, Facts], None] = lambda _, __: None
    impose: Callable[[Any, Facts], None] = lambda _, __: None
    facts_of: Callable[[Any], Facts] = lambda _: {}


def text_with(shape: Shape) -> Callable[[Any], str]:
    """The writer of a shape: any JSON tree → wire text, quickly where it is canonical. Raises Refused."""
    write = shape.write

    def text(tree: Any) -> str:
        try:
            return write(tree)
        except (ValueError, LookupError, AttributeError, TypeError):
            return text_of(shape, tree)

    return text


def decode_with(shape: Shape, text: Callable[[Any], str]) -> Callable[[Any], Any]:
    """The decoder of a shape: JSON tree → message. It raises DecodeError."""
    from_string = shape.cls.FromString

    def decode(tree: Json) -> Any:
        try:
            return from_string(text(tree).encode("latin-1"))
        except (Refused, ValueError, RecursionError, ProtobufDecodeError):
            pass
        raise explained(shape, tree)

    return decode


def text_of(shape: Shape, given: Any) -> str:
    """The wire text of any tree, residue included. Raises Refused."""
    if type(given) is not dict:
        raise Refused
    reader = read(shape, given)
    if reader.problems:
        raise Refused
    shown = presented(shape, reader.tree, reader.facts)
    text = shape.write(reader.tree)
    if reader.facts:
        message = shape.cls.FromString(text.encode("latin-1"))
        _impose(shape, message, reader.facts)
        text = message.SerializeToString().decode("latin-1")
    entries = [one for one in residue.diff(shown, given) if one[0] not in reader.dropped]
    if not entries:
        return text
    try:
        kept = residue.write(KIND, entries)
    except residue.TooMuch:
        raise Refused from None
    return text + scalars.metadata_entry(shape.metadata_tag, KEY, scalars.value_of(kept, 1))


def read(shape: Shape, given: JsonObject, path: str = "") -> Reader:
    """Reads one unit, but not those within it."""
    reader = Reader(given, path)
    shape.read(reader)
    mark, tree = reader.mark, reader.tree
    facts = residue.heard(mark, HUB) if mark is not None else None
    if isinstance(facts, dict) and residue.said(HUB, _sorted(facts)) == mark:
        checks = {"key": _any, "bare": _any, **shape.checks}
        both = reader.facts | facts
        if all(name in checks and checks[name](tree, value) for name, value in facts.items()):
            # It is one of ours only if we would write the same: else there is no telling what it means. And
            # what stands under KEY in the hub's metadata, or keeps it empty, leaves no room for a residue there.
            plain = without_flag(tree, both)
            shown = presented(shape, plain, both)
            alone = facts.keys() & {"key", "bare"}
            fits = facts.keys() != {"bare"} and (facts.get("bare", True) is True and len(alone) < 2)
            if "bare" in facts and "metadata" in plain:
                fits = False
            if fits and _is_ours(shown, mark) and (not alone or residue.same(shown, given)):
                reader.tree, reader.facts = plain, both
    return reader


def _is_ours(shown: JsonObject, mark: Json) -> bool:
    metadata = shown.get("metadata")
    return isinstance(metadata, dict) and metadata.get(KEY) == mark


def presented(shape: Shape, tree: JsonObject, facts: Facts) -> JsonObject:
    """The canonical tree with its facts, as a 0.x peer gets it."""
    if not facts:
        return tree
    tree = dict(tree)
    tree["metadata"] = dict(tree.get("metadata") or {})
    shape.show(tree, facts)
    tree["metadata"][KEY] = residue.said(HUB, _sorted(facts))
    return tree


def without_flag(tree: JsonObject, facts: Facts) -> JsonObject:
    """The tree without the flag that stands beside a wrapped value for peers that know no facts."""
    if facts.get("wrapped") is not True or WRAPPED not in tree.get("metadata", {}):
        return tree
    metadata = {key: value for key, value in tree["metadata"].items() if key != WRAPPED}
    rest = {key: value for key, value in tree.items() if key != "metadata"}
    return rest | {"metadata": metadata} if metadata else rest


#: how the SDK marks a data part whose value it has wrapped into an object
WRAPPED = "data_part_compat"


def restored(shape: Shape, tree: JsonObject, facts: Facts | None = None) -> JsonObject:
    """What a peer gets for a message whose metadata holds KEY, or that has facts: the tree that it once was, if
    there is a residue that fits.

    tree: canonical, with KEY in its metadata as the message has it.
    """
    facts = dict(facts or {})
    metadata = tree.get("metadata") or {}
    if KEY not in metadata:
        return presented(shape, tree, facts)
    text = metadata[KEY]
    rest = {key: value for key, value in metadata.items() if key != KEY}
    tree = {key: value for key, value in tree.items() if key != "metadata"}
    if rest:
        tree["metadata"] = rest
    shown = presented(shape, tree, facts)
    entries = residue.read(text, KIND)
    if entries is None:
        if _of_others(text):
            return shown
    else:
        given = residue.patch(shown, entries)
        if type(given) is dict and _means(shape, given, tree, facts):
            return given
    return presented(shape, tree, facts | {"key": text})


def _means(shape: Shape, given: JsonObject, tree: JsonObject, facts: Facts) -> bool:
    try:
        again = read(shape, given)
        return not again.problems and again.facts == facts and residue.same(again.tree, tree)
    except RecursionError:  # of a depth that only forgers reach, in units within this one
        return False


def marked(shape: Shape, message: Any) -> JsonObject:
    """What a peer gets for a message that has facts."""
    copy: Any = shape.cls()
    copy.CopyFrom(message)
    facts = shape.facts_of(copy)
    key: Json = None
    if copy.HasField("metadata"):
        if KEY in copy.metadata.fields:
            key = _encode_value(copy.metadata.fields[KEY])
            del copy.metadata.fields[KEY]
        elif not copy.metadata.fields:
            facts["bare"] = True
        if not copy.metadata.fields:
            copy.ClearField("metadata")
    tree = shape.encode(copy)
    if key is not None:
        tree["metadata"] = {**tree.get("metadata", {}), KEY: key}
    return restored(shape, tree, facts)


def explained(shape: Shape, tree: Json) -> DecodeError:
    """Everything that is wrong with a tree, the units within it included."""
    problems: list[Violation] = []
    _explain(shape, tree, "", problems)
    if not problems:
        problems = [("", "is not JSON that protobuf can carry")]
    return DecodeError.of(problems[:_MOST])


def _explain(shape: Shape, given: Json, path: str, problems: list[Violation]) -> None:
    if len(problems) >= _MOST:
        return
    if type(given) is not dict:
        problems.append((path, f"expected an object, got {describe(given)}"))
        return
    reader = read(shape, given, path)
    problems += reader.problems
    if not reader.problems:
        try:
            residue.write(KIND, residue.diff(presented(shape, reader.tree, reader.facts), given))
        except residue.TooMuch as error:
            problems.append((path, str(error)))
    for name, inner, value in shape.inside(reader.tree):
        _explain(inner, value, f"{path}.{name}" if path else name, problems)


def _impose(shape: Shape, message: Any, facts: Facts) -> None:
    shape.impose(message, facts)
    if "key" in facts:
        message.metadata.fields[KEY].CopyFrom(_decode_value(facts["key"]))
    if "bare" in facts:
        message.metadata.SetInParent()


def _of_others(text: Json) -> bool:
    """Whether a text under KEY is a residue that says nothing of this shape.

    It stays behind here: writers of ProtoJSON write `1.0` for 1 as a matter of course, and nearly everything of
    theirs would come with an entry that no reader of this shape has a use for.
    """
    return residue.heard(text, residue.PROTO) is not None


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
