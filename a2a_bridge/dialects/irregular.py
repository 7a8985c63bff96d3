"""Units of JSON of older versions that the fast functions reject: their facts and their unmapped content. It
knows no particular object: the modules beside it define the `Shape`s.

Rules:
1. `reader` makes the canonical tree of any tree with a clear meaning, and the errors of any other.
2. *Facts* are content of a hub message that no canonical tree can express, such as a number without a name.
   They are stored in the 0.x metadata, as source HUB (see `unmapped`).
3. Content of a source tree beyond canonical tree and facts is stored in the hub's metadata, as source KIND.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject, dumps_ascii
from a2a_bridge.codec.errors import Violation
from a2a_bridge.codec.structs import read_value
from a2a_bridge.codec.values import describe
from a2a_bridge.dialects import scalars, unmapped
from a2a_bridge.dialects.reader import Reader, Rejected
from a2a_bridge.dialects.unmapped import EMPTY, HUB, KEY, KIND

M = TypeVar("M", bound=Message)
Facts = dict[str, Any]

_MOST = 20
"""Maximum number of violations in an error, as in the codec."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Content of hub messages that no canonical tree can express (rule 2)."""

    #: removes it from a message, so that `Shape.encode` can handle the rest, and returns it; None if the
    #: message does not have it
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
