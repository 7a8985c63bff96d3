"""a2a.v1 ↔ hub with nothing lost: what one side has no place for travels in metadata (see residue). Not the mapping.

Rules:
1. The quick way is taken where the mapping alone keeps everything, and it pays only for finding that out.
2. Otherwise the message is compared with what would come back, unit by unit. PROTO residues stand in the hub and say
   how the a2a.v1 side was; HUB residues stand in a2a.v1, in the same metadata entry, and say how the hub was.
3. A residue is believed where the unit it makes means what the other side says. One that does not pass is the
   user's own metadata.
4. Bytes of files are compared as content; how they were written (see proto_files) is one word beside it.
5. What the JSON shapes of 0.x said stays under the key on both sides, so that a message that came as JSON and leaves as
   JSON is the same with a2a.v1 between. Whether it is believed is for those shapes to say.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message

from a2a_bridge.codec import (
    DecodeError,
    EncodeError,
    JsonObject,
    JsonSyntaxError,
    decoder,
    dumps_ascii,
    encoder,
    loads,
)
from a2a_bridge.codec.depth import may_be_deep, too_deep
from a2a_bridge.codec.free import fill_nulls
from a2a_bridge.codec.structs import TOO_DEEP
from a2a_bridge.dialects import residue
from a2a_bridge.dialects.residue import HUB, KEY, PROTO, Entry
from a2a_bridge.dialects.v0_3 import proto_messages as m
from a2a_bridge.dialects.v0_3 import proto_requests as r
from a2a_bridge.dialects.v0_3.proto_files import decode_octets, encode_octets, usual
from a2a_bridge.dialects.v0_3.proto_messages import Notes
from a2a_bridge.dialects.v0_3.proto_trees import (
    alone,
    bare,
    cut,
    has_unknown,
    join,
    message_of,
    tree_of,
    units,
    unknown_in,
    without_unknown,
)
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files

#: beside a file's bytes in a piece: how they are written, where that is not what the peer is known for
_WRITTEN = "urn:a2a-bridge:written"
#: the value of that for a base64 peer's JSON member that is not canonical base64: the text as it came
_TEXT = "text"
#: in a hub part's piece: its data is the member `value` of the object that stands there
_BARE = "urn:a2a-bridge:bare"
#: in a hub part's piece: its content is the base64 text that stands there, not what that text says
_LITERAL = "urn:a2a-bridge:literal"


class Pair(NamedTuple):
    """A message of a2a.v1, the one of the hub that means the same, and the mapping between them."""

    wire: type[Any]
    hub: type[Any]
    decode: Callable[[Any, Any, Notes], None]
    encode: Callable[[Any, Any, Notes], None]


PART = Pair(v0.Part, hub.Part, m.decode_part, m.encode_part)
MESSAGE = Pair(v0.Message, hub.Message, m.decode_message, m.encode_message)
ARTIFACT = Pair(v0.Artifact, hub.Artifact, m.decode_artifact, m.encode_artifact)
TASK = Pair(v0.Task, hub.Task, m.decode_task, m.encode_task)
STATUS_UPDATE = Pair(
    v0.TaskStatusUpdateEvent, hub.TaskStatusUpdateEvent, m.decode_status_update, m.encode_status_update
)
ARTIFACT_UPDATE = Pair(
    v0.TaskArtifactUpdateEvent,
    hub.TaskArtifactUpdateEvent,
    m.decode_artifact_update,
    m.encode_artifact_update,
)
SEND = Pair(v0.SendMessageRequest, hub.SendMessageRequest, r.decode_send, r.encode_send)
SENT = Pair(v0.SendMessageResponse, hub.SendMessageResponse, m.decode_response, m.encode_response)
EVENT = Pair(v0.StreamResponse, hub.StreamResponse, m.decode_response, m.encode_response)

_UNITS = {
    pair.wire.DESCRIPTOR.name: pair
    for pair in (PART, MESSAGE, ARTIFACT, TASK, STATUS_UPDATE, ARTIFACT_UPDATE, SEND)
}


# --- what rows call --------------------------------------------------------------------------------------------


def decode_bytes(pair: Pair, wire: bytes, files: Files) -> Any:
    """Protobuf bytes → hub. Raises protobuf's DecodeError, codec.DecodeError and INVALID_PARAMS."""
    given = pair.wire.FromString(wire)
    if may_be_deep(wire) and (deep := too_deep(given)):
        raise DecodeError.of([(path, TOO_DEEP) for path in deep])
    unknown = has_unknown(wire, given)
    message, odd = _decoded(pair, given, files)
    fill_nulls(wire, message)
    if not (unknown or odd):
        return message
    if unknown:
        given = pair.wire.FromString(wire)
    return _decode_slowly(pair, given, _printed(given), message, files)


def encode_bytes(pair: Pair, message: Any, files: Files) -> bytes:
    """Hub → protobuf bytes. Raises codec.DecodeError when too much would have to be carried."""
    plain, odd = _encoded(pair, message, files)
    if odd or unknown_in(message):
        plain = message_of(pair.wire, _encode_slowly(pair, message, plain, files))
    octets: bytes = plain.SerializeToString()
    return octets


def decode_tree(pair: Pair, tree: JsonObject, files: Files) -> Any:
    """ProtoJSON → hub. Raises codec.DecodeError and INVALID_PARAMS."""
    given = decoder(pair.wire)(tree)
    message, odd = _decoded(pair, given, files)
    # What is not odd comes back as the same message: it remains to see whether it was spelled as one.
    if not odd and residue.equal(encoder(pair.wire)(given), tree):
        return message
    return _decode_slowly(pair, given, tree, message, files)


def encode_tree(pair: Pair, message: Any, files: Files) -> JsonObject:
    """Hub → ProtoJSON. Raises codec.EncodeError, and codec.DecodeError when too much would have to be carried."""
    plain, odd = _encoded(pair, message, files)
    if odd or unknown_in(message):
        slow: JsonObject = without_unknown(_encode_slowly(pair, message, plain, files))
        return slow
    quick: JsonObject = encoder(pair.wire)(plain)
    return quick


def _decoded(pair: Pair, given: Any, files: Files) -> tuple[Any, bool]:
    notes = Notes(files)
    message = pair.hub()
    pair.decode(given, message, notes)
    return message, notes.odd


def _encoded(pair: Pair, message: Any, files: Files) -> tuple[Any, bool]:
    notes = Notes(files)
    plain = pair.wire()
    pair.encode(message, plain, notes)
    return plain, notes.odd


def _printed(message: Any) -> JsonObject:
    try:
        return tree_of(message)
    except EncodeError as error:
        raise DecodeError(error.path, error.problem) from None


# --- a2a.v1 → hub ----------------------------------------------------------------------------------------------


def _decode_slowly(pair: Pair, given: Any, tree: JsonObject, message: Any, files: Files) -> Any:
    if _residues(given, HUB):
        message = _recall_hub(pair, given, message, files)
    owners = units(message)
    if not owners:
        return message  # such a thing travels beside the message, see Row.aside
    wanted = [_normal(piece, files) for piece in cut(pair.wire, tree)]
    plain, _ = _encoded(pair, message, files)
    others = [_others(unit) for unit in units(given)]
    mirrored = _mirrored(pair, plain, message, others, files)
    canonical = [_normal(piece, files) for piece in cut(pair.wire, mirrored)]
    for owner, was, piece, other in zip(owners, canonical, wanted, others, strict=True):
        entries = _entries(was, piece, owner)
        if other:
            owner.metadata.fields[KEY].string_value = _text({}, other)
        if entries:
            _carry(owner, PROTO, entries)
    return message


def _recall_hub(pair: Pair, given: Any, message: Any, files: Files) -> Any:
    """The message with what HUB residues say, where they are believed."""
    pieces = [_hub_normal(piece) for piece in cut(pair.hub, tree_of(message))]
    for index, (wire, owner) in enumerate(zip(units(given), units(message), strict=True)):
        entries = residue.carried(wire, HUB)
        if entries:
            pieces[index] = _believed_hub(wire, owner, pieces[index], entries, files)
    tree = join(pair.hub, [_hub_natural(piece) for piece in pieces], _payload(message))
    return message_of(pair.hub, tree)


def _believed_hub(wire: Any, owner: Any, piece: JsonObject, entries: list[Entry], files: Files) -> JsonObject:
    patched: Any = residue.patch(piece, entries)
    unit = _UNITS[type(owner).DESCRIPTOR.name]
    try:
        told = message_of(unit.hub, _hub_natural(alone(unit.hub, patched)))
        says, _ = _encoded(unit, told, files)
    except (ValueError, TypeError, KeyError):
        return piece
    known = _unmarked(wire)
    known.DiscardUnknownFields()
    return patched if _octets(says) == _octets(known) else piece


# --- hub → a2a.v1 ----------------------------------------------------------------------------------------------


def _encode_slowly(pair: Pair, message: Any, plain: Any, files: Files) -> JsonObject:
    tree = tree_of(plain)
    if not units(plain):
        return tree
    pieces = cut(pair.wire, tree)
    own = pair.hub()
    own.CopyFrom(message)
    others: list[JsonObject] = [{} for _ in pieces]
    for index, (owner, copy) in enumerate(zip(units(message), units(own), strict=True)):
        if not owner.HasField("metadata") or KEY not in owner.metadata.fields:
            continue
        entries = residue.carried(owner, PROTO)
        if entries:
            patched = _believed_proto(owner, pieces[index], entries, files)
            if patched is None:
                continue  # the user's own, which goes the way of all that a2a.v1 has no place for
            pieces[index] = patched
        others[index] = _others(owner)
        if not entries and not others[index]:
            continue  # the user's own as well
        del copy.metadata.fields[KEY]
        if not copy.metadata.fields:
            copy.ClearField("metadata")
    _mirror(pair, plain, own, pieces, others, files)
    return join(pair.wire, pieces, _payload(plain))


def _mirrored(pair: Pair, plain: Any, message: Any, others: Sequence[JsonObject], files: Files) -> JsonObject:
    """The a2a.v1 tree of a message without PROTO residues, with HUB residues where they are needed, and others."""
    pieces = cut(pair.wire, tree_of(plain))
    _mirror(pair, plain, message, pieces, others, files)
    return join(pair.wire, pieces, _payload(plain))


def _others(unit: Any) -> JsonObject:
    """What the JSON shapes say in the metadata of a unit of either side, by source; nothing if a person wrote it."""
    if not unit.HasField("metadata") or KEY not in unit.metadata.fields:
        return {}
    text = unit.metadata.fields[KEY].string_value
    said = _read(text)
    if HUB in said and list(said).index(HUB) != 1:
        return {}
    others = {source: what for source, what in said.items() if source not in ("v", PROTO, HUB)}
    return others if others and dumps_ascii(said) == text else {}


def _read(text: Any) -> JsonObject:
    if not residue.is_residue(text) or len(text) > residue.LARGEST:
        return {}
    try:
        tree = loads(text)
    except JsonSyntaxError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _text(mirrored: JsonObject, other: JsonObject) -> str:
    text = dumps_ascii({"v": 1, **mirrored, **other})
    if len(text) > residue.LARGEST:
        raise DecodeError("", f"holds more than {residue.LARGEST} bytes that a2a.v1 has no place for")
    return text


def _mirror(
    pair: Pair,
    plain: Any,
    message: Any,
    pieces: list[JsonObject],
    others: Sequence[JsonObject],
    files: Files,
) -> None:
    """Puts HUB residues into the pieces of `plain`, where that alone does not say the whole message, and others."""
    back, _ = _decoded(pair, plain, files)
    canonical = [_hub_normal(piece) for piece in cut(pair.hub, tree_of(back))]
    wanted = [_hub_normal(piece) for piece in cut(pair.hub, _printed(message))]
    owners = units(plain)
    for index, (was, piece) in enumerate(zip(canonical, wanted, strict=True)):
        _say_literal(was, piece)
        if piece.get("configuration") == {} and "configuration" not in was and not others[index]:
            del piece["configuration"]  # none and an empty one mean the same
        # In one order, because `_decode_slowly` compares this text with the one that came.
        entries: Any = residue.with_sorted_members(_entries(was, piece, owners[index]))
        if entries:
            carrier = hub.Part()
            _carry(carrier, HUB, entries)
            _write(pieces[index], carrier.metadata.fields[KEY].string_value)
        if others[index]:
            mirrored = {HUB: entries} if entries else {}
            _write(pieces[index], _text(mirrored, others[index]))


def _write(piece: Any, text: str) -> None:
    metadata = dict(piece.get("metadata") or {})
    metadata[KEY] = text
    piece["metadata"] = metadata


def _believed_proto(owner: Any, piece: JsonObject, entries: list[Entry], files: Files) -> JsonObject | None:
    patched: Any = _natural(residue.patch(_normal(piece, files), entries), files)  # type: ignore[arg-type]
    unit = _UNITS[type(owner).DESCRIPTOR.name]
    try:
        told = message_of(unit.wire, alone(unit.wire, patched))
        says, _ = _decoded(unit, told, files)
    except (ValueError, TypeError, KeyError):
        return None
    if says.DESCRIPTOR.name == "Part" and says.raw != owner.raw:
        # Another peer may have written it; its reading of the content is not ours.
        return None
    if _octets(_known(says)) != _octets(_known(_unmarked(owner))):
        return None
    return patched  # type: ignore[no-any-return]


# --- small things ----------------------------------------------------------------------------------------------


def _entries(canonical: JsonObject, wanted: JsonObject, owner: Any) -> list[Entry]:
    try:
        entries = residue.diff(canonical, wanted)
    except residue.TooMuch as error:
        raise DecodeError("", str(error)) from None
    if entries and owner.HasField("metadata") and not owner.metadata.fields:
        # The residue's own entry would hide that there was an empty metadata.
        entries.append(["/metadata", None, {}])
        owner.ClearField("metadata")
    return entries


def _carry(owner: Any, source: str, entries: list[Entry]) -> None:
    try:
        residue.carry(owner, source, entries)
    except residue.TooMuch as error:
        raise DecodeError(f"{owner.DESCRIPTOR.name}", str(error)) from None


def _residues(message: Any, source: str) -> bool:
    return any(residue.carried(unit, source) for unit in units(message))


def _payload(message: Any) -> str:
    """The JSON name of a wrapper's member; empty for others."""
    if "payload" not in message.DESCRIPTOR.oneofs_by_name:
        return ""
    which = message.WhichOneof("payload")
    return message.DESCRIPTOR.fields_by_name[which].json_name if which else ""


def _unmarked(unit: Any) -> Any:
    copy = bare(unit)
    if copy.HasField("metadata") and KEY in copy.metadata.fields:
        del copy.metadata.fields[KEY]
    if copy.HasField("metadata") and not copy.metadata.fields:
        copy.ClearField("metadata")
    return copy


def _known(unit: Any) -> Any:
    unit.DiscardUnknownFields()
    if unit.HasField("metadata") and not unit.metadata.fields:
        unit.ClearField("metadata")
    return unit


def _octets(message: Message) -> bytes:
    if message.HasField("metadata") and not message.metadata.fields:  # type: ignore[attr-defined]
        message.ClearField("metadata")
    return message.SerializeToString(deterministic=True)


def _normal(piece: JsonObject, files: Files) -> JsonObject:
    """A piece of a2a.v1 with the content of a file in place of its bytes."""
    file = piece.get("file")
    if type(file) is not dict:
        return piece
    name = next((name for name in ("fileWithBytes", "file_with_bytes") if type(file.get(name)) is str), None)
    if name is None or not file[name]:
        return piece
    text: str = file[name]
    try:
        octets = b64decode(text, validate=True)
        plain = b64encode(octets).decode("ascii") == text
    except ValueError:
        octets, plain = b"", False
    if not plain:
        return piece if files is not Files.BASE64 else {**piece, "file": {**file, _WRITTEN: _TEXT}}
    media_type = file.get("mimeType") or file.get("mime_type") or ""
    content, written = decode_octets(octets, media_type, files)
    file = {**file, name: b64encode(content).decode("ascii")}
    if written is not usual(files):
        file[_WRITTEN] = written.value
    return {**piece, "file": file}


def _natural(piece: JsonObject, files: Files) -> JsonObject:
    """The reverse of `_normal`."""
    file = piece.get("file")
    if type(file) is not dict:
        return piece
    file = dict(file)
    written = file.pop(_WRITTEN, files.value)
    if files is Files.RAW:
        written = files.value  # a peer known for content gets content, whatever the writer of the file wrote
    name = next((name for name in ("fileWithBytes", "file_with_bytes") if type(file.get(name)) is str), None)
    if name is not None and written == Files.BASE64.value:
        octets = encode_octets(b64decode(file[name]), Files.BASE64)
        file[name] = b64encode(octets).decode("ascii")
    return {**piece, "file": file}


def _hub_normal(piece: JsonObject) -> JsonObject:
    """A piece of the hub whose data is an object."""
    if "data" in piece and type(piece["data"]) is not dict:
        return {**piece, "data": {"value": piece["data"]}, _BARE: True}
    return piece


def _say_literal(was: JsonObject, piece: JsonObject) -> None:
    """Content that a2a.v1 reads as base64 although it is none is told in one word."""
    if was.get("raw") and piece.get("raw") == b64encode(was["raw"].encode()).decode("ascii"):
        piece["raw"] = was["raw"]
        piece[_LITERAL] = True


def _hub_natural(piece: JsonObject) -> JsonObject:
    """The reverse of `_hub_normal` and `_say_literal`."""
    if _BARE in piece:
        piece = dict(piece)
        del piece[_BARE]
        piece["data"] = piece["data"]["value"]
    if _LITERAL in piece:
        piece = dict(piece)
        del piece[_LITERAL]
        piece["raw"] = b64encode(piece["raw"].encode()).decode("ascii")
    return piece
