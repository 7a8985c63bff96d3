"""Authentication of preserved data on the wire: only bridges with our key can write it. Version-independent.

Dialects carry content that has no place in another version: a text under KEY in the metadata of a message
(see `unmapped`), a text in an extension of a card, or the service parameter SIDE_CHANNEL. Inside the
process these texts are plain. Rules:
1. On every wire a preserved text is prefixed with a code (HMAC-SHA256 of the text and its owner). The code is
   added where bytes are written and checked where bytes are read. A text without a valid code is removed.
2. The owner of a text is the unit that holds it, by its ids or its content (_OWNERS), or the request about
   this task. With any other owner the same text is rejected.
3. There is one key per process. It is random, or set once before the process serves requests (`use_key`), so
   that several bridges accept each other's texts and texts stored by an agent stay valid after a restart.
4. Without preserved data the cost is one search of the bytes.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge import codec
from a2a_bridge.codec import EncodeError, Json, JsonObject, encoder
from a2a_bridge.codec.budget import spend
from a2a_bridge.dialects.unmapped import BYTES_PER_VALUE, KEY, messages_in
from a2a_bridge.pb._pool import POOL, method_classes

#: keys of preserved texts: in metadata, and in the card of a2a.v1
CARD_KEY = "urn:a2a-bridge:card:1"
NAMES = (KEY, CARD_KEY)

_MARK, _CARD_MARK = KEY.encode(), CARD_KEY.encode()
#: the common prefix of both keys: one search finds the rare bytes with preserved texts. It is a `find`,
#: because `in` first tries its left side as a number, and for bytes that costs several times the search
_BEGINNING = b"urn:a2a-bridge:"
#: the escape by which JSON may write a letter of a name
_ESCAPE = b"\\u00"
#: bytes above which a document with at most _FEW containers is not searched
_LONG, _FEW = 1 << 16, 256
_CODE = 32
#: the content members of a part, in every version
_CONTENT = ("text", "raw", "url", "data", "file")
#: the members of a message that hold texts
_HOLDERS = ("metadata", "params")
#: minimum length of a shared secret, in bytes
SHORTEST_SECRET = 16

_key = secrets.token_bytes(32)


def use_key(secret: bytes) -> None:
    """Sets the key of the process from a secret that bridges share. Raises ValueError if it is too short."""
    global _key  # noqa: PLW0603  the one place where it is held, see rule 3
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"a shared key has at least {SHORTEST_SECRET} bytes")
    _key = blake2b(secret, digest_size=32, person=b"a2a-bridge key").digest()


# --- JSON ---


def loads(data: bytes) -> Json:
    """`codec.loads`. Preserved texts are verified and become plain; invalid ones are removed."""
    tree = codec.loads(data)
    named = _names_texts(tree) if len(data) > _LONG else None
    if named is None:
        named = data.find(_BEGINNING) >= 0 or (data.find(b"\\") >= 0 and data.find(_ESCAPE) >= 0)
    if named:
        _each_text(tree, _unseal)
    return tree


def dumps(tree: Json) -> bytes:
    """`codec.dumps` with a code before each preserved text. May change the tree: the caller must own it."""
    data = codec.dumps(tree)
    if len(data) > _LONG and _names_texts(tree) is False:
        return data
    if data.find(_BEGINNING) >= 0 and _carries(data):
        spend(len(data) // BYTES_PER_VALUE)
        _each_text(tree, _seal)
        data = codec.dumps(tree)
    return data


# --- protobuf ---


def open_request(wire: bytes, method: str) -> bytes:
    """The bytes of a request of a gRPC method (`/package.Service/Method`) with verified, plain preserved
    texts. Invalid preserved texts are removed.
    """
    return _protobuf(wire, method, _unseal, 0) if wire.find(_BEGINNING) >= 0 and _carries(wire) else wire


def open_response(wire: bytes, method: str) -> bytes:
    """The same for a response."""
    return _protobuf(wire, method, _unseal, 1) if wire.find(_BEGINNING) >= 0 and _carries(wire) else wire


def seal_request(wire: bytes, method: str) -> bytes:
    """The bytes of a request with a code before each preserved text."""
    return _protobuf(wire, method, _seal, 0) if wire.find(_BEGINNING) >= 0 and _carries(wire) else wire


def seal_response(wire: bytes, method: str) -> bytes:
    """The same for a response."""
    return _protobuf(wire, method, _seal, 1) if wire.find(_BEGINNING) >= 0 and _carries(wire) else wire


# --- service parameters ---


def seal_side_channel(text: str, request: Message) -> str:
    """The value of SIDE_CHANNEL on the wire, in a request or in the response to it."""
    return _seal(text, _about(request)) or ""


def open_side_channel(value: str, request: Message) -> str:
    """The text in SIDE_CHANNEL; empty unless a bridge with our key wrote it for this request."""
    return _unseal(value, _about(request)) or ""


# --- the code ---


def _code(text: str, owner: bytes) -> str:
    raw_bytes = b"%d:%b%b" % (len(owner), owner, text.encode("utf-8", "surrogatepass"))
    # Not hexadecimal: a search for ids in texts would match it.
    return urlsafe_b64encode(hmac.digest(_key, raw_bytes, "sha256"))[:_CODE].decode()


def _seal(text: object, owner: bytes) -> str | None:
    return f"{_code(text, owner)}.{text}" if isinstance(text, str) else None


def _unseal(value: object, owner: bytes) -> str | None:
    if not isinstance(value, str) or value[_CODE : _CODE + 1] != ".":
        return None
    text = value[_CODE + 1 :]
    code = value[:_CODE].encode("utf-8", "surrogatepass")
    return text if hmac.compare_digest(code, _code(text, owner).encode()) else None


def _names_texts(tree: Json) -> bool | None:
    """Whether a tree has one of our keys; None if it has too many containers for a look at each. Long
    documents are mostly few long strings, in which a search would take longer than the parser.
    """
    rest: list[Any] = [[tree]]
    for _ in range(_FEW):
        if not rest:
            return False
        place: Any = rest.pop()
        if len(place) > _FEW:
            return None
        if type(place) is dict:
            if any(name in place for name in NAMES):
                return True
            place = place.values()
        rest += [one for one in place if type(one) is dict or type(one) is list]
    return None


def _carries(data: bytes) -> bool:
    return _MARK in data or _CARD_MARK in data


Change = Callable[[object, bytes], "str | None"]


def _each_text(tree: Json, change: Change) -> None:
    """Changes each preserved text in a tree, or removes it if `change` returns None. Iterative, because the
    tree may be deep.
    """
    rest: list[Any] = [tree]
    while rest:
        place = rest.pop()
        if type(place) is list:
            rest += place
            continue
        if type(place) is not dict:
            continue
        for name, value in list(place.items()):
            # Metadata, data and params of extensions belong to users, except for our own keys.
            if name == "metadata" or (name == "params" and "uri" in place):
                if type(value) is dict and any(key in value for key in NAMES):
                    _change(place, name, value, change)
            elif name != "data" and type(value) in (dict, list):
                rest.append(value)


def _change(unit: JsonObject, name: str, texts: JsonObject, change: Change) -> None:
    owner = _owner_of(unit)
    changed = {key: change(text, owner) if key in NAMES else text for key, text in texts.items()}
    opened = {key: text for key, text in changed.items() if key not in NAMES or text is not None}
    if opened or name == "params":
        unit[name] = opened
    else:
        del unit[name]


def _protobuf(wire: bytes, method: str, change: Change, side: int) -> bytes:
    spend(len(wire) // BYTES_PER_VALUE)
    cls = _classes(method)[side]
    try:
        message = cls.FromString(wire)
    except ProtobufDecodeError:
        return wire  # not such a message: the decoder reports the error
    for unit, field in list(_owners(message)):
        try:
            owner = _owner_of(encoder(type(unit))(unit))
        except EncodeError:
            owner = b""  # content that JSON cannot express: all such content has one owner
        fields = getattr(unit, field).fields
        for key in NAMES:
            if key in fields:
                text = change(fields[key].string_value, owner)
                if text is None:
                    del fields[key]
                else:
                    fields[key].string_value = text
        if not fields and field == "metadata":
            unit.ClearField(field)
    raw_bytes: bytes = message.SerializeToString()
    return raw_bytes


def _owners(message: Any) -> Iterator[tuple[Any, str]]:
    """The messages that hold preserved texts, each with the name of the field that holds them."""
    for unit in messages_in(message):
        for name in _HOLDERS:
            if name in unit.DESCRIPTOR.fields_by_name and unit.HasField(name):
                fields = getattr(unit, name).fields
                if any(key in fields for key in NAMES):
                    yield unit, name


_classes = lru_cache(maxsize=256)(method_classes)


# --- owners of texts ---


class _Owner(NamedTuple):
    """What the code of a text covers of the message that holds it. name: in the code. has: the members that
    tell JSON of this message from that of later rows. ids: what names the owner. Both as `_read` takes them.
    """

    name: str
    has: tuple[str, ...]
    ids: tuple[str, ...]


#: the messages with metadata or params
_OWNERS = {
    "Message": _Owner("message", ("messageId",), ("messageId", "sender")),
    "Artifact": _Owner("artifact", ("artifactId",), ("artifactId",)),
    "TaskArtifactUpdateEvent": _Owner(
        "artifact-update", ("artifact",), ("taskId", "id", "artifact/artifactId")
    ),
    "TaskStatusUpdateEvent": _Owner("status-update", ("status", "taskId"), ("taskId",)),
    "Task": _Owner("task", ("status",), ("id",)),
    "SendMessageRequest": _Owner("send", ("message",), ("message/messageId", "id")),
    "AgentExtension": _Owner("card", ("params", "uri"), ()),
    "Part": _Owner("part", ("content",), ("content",)),
    # and messages and artifacts of 0.1, which have no ids
    "CancelTaskRequest": _Owner("other", (), ("id", "name", "role", "contents")),
}


def _require_owners() -> None:
    """Raises TypeError for a message that can hold texts and has no row."""
    for file in ("lf/a2a/v1/a2a.proto", "a2a/v1/a2a.proto"):
        for name, message in POOL.FindFileByName(file).message_types_by_name.items():
            if name not in _OWNERS and any(holder in message.fields_by_name for holder in _HOLDERS):
                raise TypeError(f"_OWNERS does not say what owns the texts in {message.full_name}")


def _owner_of(unit: JsonObject) -> bytes:
    """The owner of a text in the metadata of a unit, independent of the encoding of the rest of the unit."""
    for owner in _OWNERS.values():
        if all(_read(unit, name) is not None for name in owner.has):
            break
    return _digest([owner.name, *(_read(unit, name) for name in owner.ids)])


#: values made of members, the same for all versions
_MADE: dict[str, Callable[[JsonObject], Json]] = {
    "sender": lambda unit: str(unit.get("role")).lower().removeprefix("role_"),
    "content": lambda unit: _content(unit) or None,
    "contents": lambda unit: [_content(part) for part in _list(unit.get("parts")) if type(part) is dict],
}


def _read(unit: JsonObject, name: str) -> Json:
    """A value of _MADE, a member of a unit, or a member of that; None if absent."""
    if name in _MADE:
        return _MADE[name](unit)
    value: Any = unit
    for step in name.split("/"):
        value = value.get(step) if type(value) is dict else None
    return value  # type: ignore[no-any-return]


def _list(value: Json) -> list[Json]:
    return value if type(value) is list else []


def _content(part: JsonObject) -> list[Json]:
    return [[name, part[name]] for name in _CONTENT if name in part]


def _about(request: Any) -> bytes:
    """The owner of a text that travels beside a request or beside its response."""
    fields = request.DESCRIPTOR.fields_by_name
    ids = [getattr(request, name) if name in fields else "" for name in ("task_id", "id")]
    return _digest(["extract", request.DESCRIPTOR.name, *ids])


def _digest(value: Any) -> bytes:
    """Equal for equal trees, independent of the order of members and the variant of numbers."""
    found = blake2b(digest_size=16)
    rest: list[Any] = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            text = f"{{{len(item)}"
            for name in sorted(item, reverse=True):
                rest += [item[name], name]
        elif isinstance(item, list):
            text = f"[{len(item)}"
            rest += reversed(item)
        elif isinstance(item, str):
            text = f'"{len(item)}:{item}'
        elif isinstance(item, bool) or item is None:
            text = repr(item)
        else:
            text = _number(item)
        found.update(text.encode("utf-8", "surrogatepass"))
    return found.digest()


def _number(value: float) -> str:
    try:
        return repr(float(value))
    except OverflowError:  # outside the range of a double
        return "inf"


_require_owners()
