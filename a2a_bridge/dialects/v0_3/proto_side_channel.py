"""Unmapped content of messages of a2a.v1 without metadata: it travels beside the message (see Row.extract).

Rules:
1. The text is a list of entries of source PROTO, at most LARGEST_SIDE_CHANNEL characters long.
2. The entries of a configuration to register also fit the configuration in answers: entries about the
   surrounding request are stored separately, under WRAPPER.
3. The text for a list is a JSON array: one text for each configuration, or null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from a2a_bridge.codec import DecodeError, JsonObject, JsonSyntaxError, decoder, dumps_ascii, encoder, loads
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects.pair import Pair
from a2a_bridge.dialects.unmapped import KIND, PROTO, Entry, read, restore, write
from a2a_bridge.dialects.unmapped_fields import (
    UNKNOWN,
    WRAPPER,
    collect_members,
    collect_unknown,
    merge_unknown,
)
from a2a_bridge.dialects.v0_3.push_configs import schemes_told, usable_scheme

LARGEST_SIDE_CHANNEL = 4096
Told = Mapping[str, str]

NOTHING: Told = {}

_AUTHENTICATION = "/pushNotificationConfig/authentication"


def extract(pair: Pair, tree: JsonObject) -> Told:
    """The unmapped content of a tree of a2a.v1. Raises INVALID_PARAMS if the tree is unreadable or the
    content is too large.
    """
    message = _read(pair, tree)
    return _told(_text(pair, message, collect_members(message, tree)))


def extract_list(pair: Pair, tree: JsonObject, items: str) -> Told:
    """The same for each item of a list."""
    texts = [_item_text(pair, item) for item in tree.get(items) or () if type(item) is dict]
    return _told(dumps_ascii(texts)) if any(texts) else NOTHING


def restore_tree(pair: Pair, tree: JsonObject, told: Told) -> JsonObject:
    """The tree with the extracted content restored. Changes it in place."""
    return _with(pair, tree, told.get(SIDE_CHANNEL))


def restore_list(pair: Pair, tree: JsonObject, told: Told, items: str) -> JsonObject:
    """The same for each item of a list."""
    for item, text in _told_of_items(tree.get(items), told):
        _with(pair, item, text)
    return tree


def extract_bytes(pair: Pair, wire: bytes) -> Told:
    """`extract` of a row whose wire is bytes."""
    message = pair.wire.FromString(wire)
    return _told(_text(pair, message, collect_unknown(message)))


def restore_bytes(pair: Pair, wire: bytes, told: Told) -> bytes:
    """`restore` of a row whose wire is bytes."""
    text = told.get(SIDE_CHANNEL)
    return _bytes_with(pair, pair.wire.FromString(wire), text).SerializeToString() if text else wire


def extract_list_bytes(list_pair: Pair, pair: Pair, wire: bytes) -> Told:
    """`extract` of a row whose wire is bytes of a list of configs."""
    texts = [
        _text(pair, one, collect_unknown(one)) or None for one in list_pair.wire.FromString(wire).configs
    ]
    return _told(dumps_ascii(texts)) if any(texts) else NOTHING


def restore_list_bytes(list_pair: Pair, pair: Pair, wire: bytes, told: Told) -> bytes:
    """`restore` of a row whose wire is bytes of a list of configs."""
    if not told.get(SIDE_CHANNEL):
        return wire
    message = list_pair.wire.FromString(wire)
    for one, text in _told_of_items(list(message.configs), told):
        one.CopyFrom(_bytes_with(pair, one, text))
    octets: bytes = message.SerializeToString()
    return octets


def _read(pair: Pair, tree: JsonObject) -> Any:
    try:
        return decoder(pair.wire)(tree)
    except DecodeError as error:
        raise invalid_params(error.path, error.problem) from None


def _item_text(pair: Pair, item: JsonObject) -> str | None:
    message = _read(pair, item)
    return _text(pair, message, collect_members(message, item)) or None


def _told_of_items(items: Any, told: Told) -> list[tuple[Any, Any]]:
    try:
        texts = loads(told.get(SIDE_CHANNEL) or "null")
    except JsonSyntaxError:
        return []
    if type(texts) is not list or type(items) is not list or len(texts) != len(items):
        return []
    return [(item, text) for item, text in zip(items, texts, strict=True) if text]


def _text(pair: Pair, message: Any, entries: list[Entry]) -> str:
    config = message
    if _registers(pair):
        config = message.config
        entries = [_of_config(entry) for entry in entries]
    if "push_notification_config" in config.DESCRIPTOR.fields_by_name:
        authentication = config.push_notification_config.authentication
        schemes = list(authentication.schemes)
        if len(schemes) > 1:
            entries.append([f"{_AUTHENTICATION}/schemes", schemes, [usable_scheme(schemes)]])
        elif config.push_notification_config.HasField("authentication") and not any(schemes):
            entries = [one for one in entries if not one[0].startswith(f"{_AUTHENTICATION}/")]
            entries.append(
                [_AUTHENTICATION, encoder(type(authentication))(authentication) | {"schemes": schemes}]
            )
    return write(PROTO, entries) if entries else ""


def _with(pair: Pair, tree: JsonObject, text: object) -> JsonObject:
    entries = [entry for entry in _entries(pair, text) if not entry[0].endswith(UNKNOWN)]
    made: JsonObject = restore(tree, entries)
    return made


def _bytes_with(pair: Pair, message: Any, text: object) -> Any:
    entries = _entries(pair, text)
    known = [entry for entry in entries if not entry[0].endswith(UNKNOWN)]
    if known:
        message = decoder(pair.wire)(restore(encoder(pair.wire)(message), known))
    for entry in entries:
        if entry[0].endswith(UNKNOWN):
            merge_unknown(message, entry[0], entry[1])
    return message


def _entries(pair: Pair, text: object) -> list[Entry]:
    entries = read(text, PROTO) or schemes_told(text, KIND)
    if not _registers(pair):
        return entries
    return [[_of_request(pointer), *rest] for pointer, *rest in entries]


def _of_config(entry: Entry) -> Entry:
    pointer, *rest = entry
    if pointer.startswith("/config/"):
        return [pointer.removeprefix("/config"), *rest]
    return [f"/{WRAPPER}{pointer}", *rest]


def _of_request(pointer: str) -> str:
    apart = f"/{WRAPPER}/"
    return pointer.removeprefix(apart[:-1]) if pointer.startswith(apart) else f"/config{pointer}"


def _registers(pair: Pair) -> bool:
    return "config" in pair.wire.DESCRIPTOR.fields_by_name


def _told(text: str) -> Told:
    if len(text) > LARGEST_SIDE_CHANNEL:
        raise invalid_params(
            "", f"holds more than {LARGEST_SIDE_CHANNEL} bytes that A2A 1.0 has no place for"
        )
    return {SIDE_CHANNEL: text} if text else NOTHING


def of_bytes(pair: Pair) -> dict[str, Callable[..., Any]]:
    """`extract` and `restore` of a row whose wire is bytes."""
    return {
        "extract": lambda wire: extract_bytes(pair, wire),
        "restore": lambda wire, told: restore_bytes(pair, wire, told),
    }
