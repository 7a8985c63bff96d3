"""Parts of 0.1 ↔ parts of 0.3: JSON trees on both sides. The reader of 0.3 validates them.

0.1 distinguishes parts by `type`, 0.3 by `kind`. Text, file and data parts are the same otherwise. An early
description of 0.1 names further types without their members; these and all unknown types are read by general
rules:

1. A part with a reference or bytes becomes a file part; every other one becomes a data part, with a media
   type of our own unless it is plain JSON.
2. `origType` in the part's metadata holds the name of the type, with which the part is converted back
   unchanged.

The stash is content of an object of 0.1 that its 0.3 form cannot express, kept as one member of that form. A
unit is a JSON object without the units inside it: a part, a message without its parts, and so on. Each has
two pure functions, `decode` (0.1 → 0.3) and `encode` (0.3 → 0.1), which may both lose content. Rules:

1. On conversion to 0.3, content that encode(decode(x)) loses is recorded as entries (see `unmapped`). Regular
   input has no entries, and no stash.
2. On conversion to 0.1, an entry is used only if the object with it still decodes to the same 0.3 object. So
   a stash decides the variant and never the meaning, independent of its origin and of changes to the object
   since.
3. The stash is an unknown member in 0.3, which allows unknown members; it is preserved as these are.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from a2a_bridge.codec import DecodeError
from a2a_bridge.dialects.unmapped import difference, entries_in, restore_copy, same

#: the member of 0.3 objects that holds the entries, and the metadata key for content without another place on
#: 0.1 wires
STASH = "urn:a2a-bridge:v0.1"

#: maximum number of entries that are read; a stash written here is far shorter
MOST_ENTRIES = 1000
#: maximum number of entries that are tried one by one, because each costs as much as the whole object
MOST_SINGLY = 20

Unit = dict[str, Any]
Coding = Callable[[Unit], Unit]


def coders(decode: Coding, encode: Coding) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """`decode_unit` and `encode_unit` of one kind of unit. Other JSON than an object is unchanged."""
    return (
        lambda wire: decode_unit(wire, decode, encode) if type(wire) is dict else wire,
        lambda tree: encode_unit(tree, decode, encode) if type(tree) is dict else tree,
    )


def without_nulls(unit: Unit, names: Container[str]) -> Unit:
    """A copy without these members, as far as they are null."""
    return {name: value for name, value in unit.items() if value is not None or name not in names}


def decode_unit(wire: Unit, decode: Coding, encode: Coding) -> Unit:
    """A unit of 0.1 as one of 0.3, with a stash if needed."""
    made = decode({name: value for name, value in wire.items() if name != STASH})
    entries = difference(encode(made), wire, whole=True)
    if entries:
        made[STASH] = entries
    return made


def encode_unit(tree: Unit, decode: Coding, encode: Coding) -> Unit:
    """A unit of 0.3 as one of 0.1, in the variant of its stash as far as the stash still applies."""
    if STASH not in tree:
        return encode(tree)
    tree = dict(tree)
    entries = entries_in(tree.pop(STASH)) or []
    wire = encode(tree)
    if len(entries) > MOST_ENTRIES:
        return wire
    made: Unit = restore_copy(wire, entries)
    if _decodes_to(made, tree, decode):
        return made
    for entry in entries[:MOST_SINGLY]:
        made = restore_copy(wire, [entry])
        if _decodes_to(made, tree, decode):
            wire = made
    return wire


def _decodes_to(wire: Any, tree: Unit, decode: Coding) -> bool:
    if type(wire) is not dict:  # an entry may replace the whole object
        return False
    try:
        decoded = decode({name: value for name, value in wire.items() if name != STASH})
    except DecodeError:
        return False
    return same(decoded, tree)


ORIGINAL_TYPE = "origType"
FORM_MEDIA_TYPE = "application/x-a2a-form+json"
ACTION_MEDIA_TYPE = "application/x-a2a-action+json"
OTHER_MEDIA_TYPE = "application/x-a2a-part+json"
JSON_MEDIA_TYPE = "application/json"

_PLAIN = ("text", "file", "data")


@dataclass(frozen=True, slots=True)
class _Reference:
    """A part with external content, or bytes."""

    #: names of the member with the URI, the usual one first
    uri: Sequence[str]
    #: names of the member with the bytes, the usual one first
    raw_bytes: Sequence[str] = ()
    #: the media type; empty for none
    media_type: str = ""

    def decode(self, wire: Unit) -> Unit | None:
        """The members of a file part; None if the part has no such content."""
        rest = dict(wire)
        file: dict[str, Any] = {}
        for target, names in (("uri", self.uri), ("bytes", self.raw_bytes)):
            for name in names:
                if type(rest.get(name)) is str and not file:
                    file[target] = rest.pop(name)
        if not file:
            return None
        for name in ("name", "mimeType"):
            if type(rest.get(name)) is str:
                file[name] = rest.pop(name)
        if self.media_type:
            file.setdefault("mimeType", self.media_type)
        return {"kind": "file", "file": file, **without_nulls(rest, ("name", "mimeType"))}

    def encode(self, tree: Unit) -> Unit | None:
        """The reverse; None if `decode` cannot have made the file part."""
        rest = dict(tree)
        file = rest.pop("file", None)
        if rest.pop("kind", None) != "file" or type(file) is not dict:
            return None
        file = dict(file)
        if self.media_type and file.get("mimeType") == self.media_type:
            del file["mimeType"]
        if "uri" in file and "bytes" not in file:
            content = {self.uri[0]: file.pop("uri")}
        elif "bytes" in file and "uri" not in file and self.raw_bytes:
            content = {self.raw_bytes[0]: file.pop("bytes")}
        else:
            return None
        if not file.keys() <= {"name", "mimeType"} or (content | file).keys() & rest.keys():
            return None
        return content | file | rest


@dataclass(frozen=True, slots=True)
class _Json:
    """A part with any JSON value in one member."""

    names: Sequence[str] = ("json", "data")

    def decode(self, wire: Unit) -> Unit | None:
        rest = dict(wire)
        for name in self.names:
            # Only objects: no other JSON value can be the data of a part of 0.3.
            if type(rest.get(name)) is dict:
                return {"kind": "data", "data": rest.pop(name), "mediaType": JSON_MEDIA_TYPE, **rest}
        return None

    def encode(self, tree: Unit) -> Unit | None:
        rest = dict(tree)
        if rest.pop("kind", None) != "data" or rest.pop("mediaType", None) != JSON_MEDIA_TYPE:
            return None
        return {self.names[0]: rest.pop("data", None), **rest}


@dataclass(frozen=True, slots=True)
class _Members:
    """A part whose members are all data."""

    media_type: str

    def decode(self, wire: Unit) -> Unit:
        data = {name: value for name, value in wire.items() if name != "metadata"}
        made: Unit = {"kind": "data", "data": data, "mediaType": self.media_type}
        if "metadata" in wire:
            made["metadata"] = wire["metadata"]
        return made

    def encode(self, tree: Unit) -> Unit | None:
        rest = dict(tree)
        data = rest.pop("data", None)
        if rest.pop("kind", None) != "data" or rest.pop("mediaType", None) != self.media_type:
            return None
        if type(data) is not dict or data.keys() & {"type", "kind", "metadata", *rest}:
            return None
        return {**data, **rest}


_REFERENCE = _Reference(("uri", "url"))
_MEDIA = _Reference(("uri", "url"), ("bytes", "data"))
_OTHER = _Members(OTHER_MEDIA_TYPE)
#: the types of the early description by their names without "Part"
_RULES: dict[str, _Reference | _Json | _Members] = {
    "uri": _REFERENCE,
    "iframe": _Reference(("src", "url", "uri"), media_type="text/html"),
    "video": _MEDIA,
    "audio": _MEDIA,
    "json": _Json(),
    "form": _Members(FORM_MEDIA_TYPE),
    "action": _Members(ACTION_MEDIA_TYPE),
}


def _decode(wire: Unit) -> Unit:
    rest = dict(wire)
    if rest.get("type") is None:
        rest.pop("type", None)
        # Peers from the transition between the versions, and peers that omit the type.
        kind = rest.get("kind") or next((name for name in _PLAIN if name in rest), None)
        return _plain({**rest, "kind": kind}) if kind is not None else _other(rest, "")
    kind = rest.pop("type")
    if type(kind) is not str or kind in _PLAIN:
        return _plain({**rest, "kind": kind})
    return _other(rest, kind)


def _plain(part: Unit) -> Unit:
    file = part.get("file")
    if type(file) is dict:
        part["file"] = without_nulls(file, ("name", "mimeType", "bytes", "uri"))
    return without_nulls(part, ("metadata",))


def _other(wire: Unit, kind: str) -> Unit:
    rule = _rule(kind)
    made = (rule.decode(wire) if rule is not None else None) or _OTHER.decode(wire)
    metadata = made.get("metadata")
    if metadata is None or type(metadata) is dict:
        made["metadata"] = {**(metadata or {}), ORIGINAL_TYPE: kind}
    return made


def _encode(tree: Unit) -> Unit:
    rest = dict(tree)
    metadata = rest.get("metadata")
    if type(metadata) is dict and type(metadata.get(ORIGINAL_TYPE)) is str:
        kind = metadata[ORIGINAL_TYPE]
        inner = {name: value for name, value in metadata.items() if name != ORIGINAL_TYPE}
        if inner:
            rest["metadata"] = inner
        else:
            del rest["metadata"]
        for rule in (_rule(kind), _OTHER):
            made = rule.encode(rest) if rule is not None and kind not in _PLAIN else None
            # A part of another author that only resembles ours is unchanged.
            if made is not None and "type" not in made:
                return {"type": kind, **made}
        rest["metadata"] = metadata
    kind = rest.pop("kind", None)
    return {"type": kind, **rest}


def _rule(kind: str) -> _Reference | _Json | _Members | None:
    return _RULES.get(kind.lower().removesuffix("part"))


#: a part of 0.1 as one of 0.3, and the reverse
decode_part, encode_part = coders(_decode, _encode)
