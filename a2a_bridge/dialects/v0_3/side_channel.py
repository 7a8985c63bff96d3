"""Unmapped content of messages without metadata, in both shapes of 0.x: it travels beside the message (see
`Beside`).

Rules:
1. The text holds entries of the source KIND or PROTO. It has at most LARGEST characters: it is a header.
2. The text of a list is a JSON array: one text for each item, or null.
3. A shape restores entries of its own source. Of the other one it only restores entries about several schemes
   of a configuration: both shapes have them at the same place, and 1.0 has one scheme.
4. The entries of a configuration to register in a2a.v1 also fit the configuration in responses: entries about
   the surrounding request are stored under WRAPPER.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from a2a_bridge.codec import DecodeError, JsonSyntaxError, decoder, dumps_ascii, encoder, loads
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.dialects.dialect import Beside
from a2a_bridge.dialects.members import Inline
from a2a_bridge.dialects.pair import Pair
from a2a_bridge.dialects.unmapped import KIND, PROTO, Entry, difference, read, restore, write
from a2a_bridge.dialects.unmapped_fields import (
    UNKNOWN,
    WRAPPER,
    collect_members,
    collect_unknown,
    merge_unknown,
)
from a2a_bridge.dialects.v0_3.push import usable_scheme

LARGEST = 4096

Parameters = Mapping[str, str]

_AUTHENTICATION = "/pushNotificationConfig/authentication"
_SCHEMES = f"{_AUTHENTICATION}/schemes"


@dataclass(frozen=True, slots=True)
class Channel:
    """How the unmapped content of one message is written as a text, and restored from it."""

    #: a message on the wire -> the text with its unmapped content; empty if it has none
    text: Callable[[Any], str]
    #: (a message on the wire, a text that is not empty) -> the message with that content. May change it in
    #: place
    restored: Callable[[Any, str], Any]

    def request(self) -> Beside[Any]:
        """Of a request: `extract` raises INVALID_PARAMS for too much content."""
        return Beside(partial(self._extract, lambda: invalid_params("", _TOO_LARGE)), self._restore)

    def response(self) -> Beside[Any]:
        """Of a response: `extract` raises INVALID_AGENT_RESPONSE for too much content."""
        return Beside(partial(self._extract, _answer_too_large), self._restore)

    def _extract(self, too_large: Callable[[], A2AError], wire: Any) -> Parameters:
        text = self.text(wire)
        if len(text) > LARGEST:
            raise too_large()
        return {SIDE_CHANNEL: text} if text else {}

    def _restore(self, wire: Any, parameters: Parameters) -> Any:
        text = parameters.get(SIDE_CHANNEL)
        return self.restored(wire, text) if text else wire


_TOO_LARGE = f"holds more than {LARGEST} bytes that A2A 1.0 has no place for"


def _answer_too_large() -> A2AError:
    return A2AError(Reason.INVALID_AGENT_RESPONSE, f"the agent's answer {_TOO_LARGE}", blame=Blame.PEER)


def of_kind(shape: Inline) -> Channel:
    """The channel of an object in the shape of JSON-RPC."""

    def text(tree: Any) -> str:
        reader = shape.reader(tree)
        # The decoder of the row reports the problems.
        return _text(KIND, [] if reader.problems else difference(reader.tree, reader.source))

    return Channel(text, lambda tree, text: restore(tree, _entries(text, KIND, PROTO)))


def of_tree(pair: Pair) -> Channel:
    """The channel of a message of a2a.v1 as ProtoJSON."""

    def text(tree: Any) -> str:
        try:
            message = decoder(pair.wire)(tree)
        except DecodeError:
            return ""  # the decoder of the row reports it
        return _text(PROTO, _of_message(message, collect_members(message, tree)))

    def put_back(tree: Any, text: str) -> Any:
        return restore(tree, [one for one in _to_message(pair, text) if not one[0].endswith(UNKNOWN)])

    return Channel(text, put_back)


def of_bytes(pair: Pair) -> Channel:
    """The channel of a message of a2a.v1 as bytes."""

    def text(wire: bytes) -> str:
        message = pair.wire.FromString(wire)
        return _text(PROTO, _of_message(message, collect_unknown(message)))

    def put_back(wire: bytes, text: str) -> bytes:
        message = pair.wire.FromString(wire)
        entries = _to_message(pair, text)
        known = [entry for entry in entries if not entry[0].endswith(UNKNOWN)]
        if known:
            message = decoder(pair.wire)(restore(encoder(pair.wire)(message), known))
        for entry in entries:
            if len(entry) > 1 and entry[0].endswith(UNKNOWN):
                merge_unknown(message, entry[0], entry[1])
        raw_bytes: bytes = message.SerializeToString()
        return raw_bytes

    return Channel(text, put_back)


def of_list(
    item: Channel, items: Callable[[Any], list[Any]], replaced: Callable[[Any, list[Any]], Any]
) -> Channel:
    """The channel of a list. items: the items of a list on the wire. replaced: a list with other items."""

    def text(wire: Any) -> str:
        texts = [item.text(one) or None for one in items(wire)]
        return dumps_ascii(texts) if any(texts) else ""

    def put_back(wire: Any, text: str) -> Any:
        wire_items = items(wire)
        try:
            texts = loads(text)
        except JsonSyntaxError:
            return wire
        if type(texts) is not list or len(texts) != len(wire_items):
            return wire
        made = [
            item.restored(one, preserved) if type(preserved) is str and preserved else one
            for one, preserved in zip(wire_items, texts, strict=True)
        ]
        return replaced(wire, made)

    return Channel(text, put_back)


def _text(source: str, entries: list[Entry]) -> str:
    return write(source, entries) if entries else ""


def _entries(text: str, own: str, other: str) -> list[Entry]:
    return read(text, own) or [one for one in read(text, other) or () if one[0].startswith(_SCHEMES)]


def _of_message(message: Any, entries: list[Entry]) -> list[Entry]:
    """The entries of a message of a2a.v1, with those about schemes that the hub cannot hold."""
    config = message
    if "config" in message.DESCRIPTOR.fields_by_name:
        config = message.config
        entries = [[_of_config(pointer), *rest] for pointer, *rest in entries]
    if "push_notification_config" in config.DESCRIPTOR.fields_by_name:
        authentication = config.push_notification_config.authentication
        schemes = list(authentication.schemes)
        if len(schemes) > 1:
            entries.append([_SCHEMES, schemes, [usable_scheme(schemes)]])
        elif config.push_notification_config.HasField("authentication") and not any(schemes):
            entries = [one for one in entries if not one[0].startswith(f"{_AUTHENTICATION}/")]
            entries.append(
                [_AUTHENTICATION, encoder(type(authentication))(authentication) | {"schemes": schemes}]
            )
    return entries


def _to_message(pair: Pair, text: str) -> list[Entry]:
    """The entries in a text, for a message of a2a.v1."""
    entries = _entries(text, PROTO, KIND)
    if "config" not in pair.wire.DESCRIPTOR.fields_by_name:
        return entries
    return [[_of_request(pointer), *rest] for pointer, *rest in entries]


def _of_config(pointer: str) -> str:
    within = pointer.startswith("/config/")
    return pointer.removeprefix("/config") if within else f"/{WRAPPER}{pointer}"


def _of_request(pointer: str) -> str:
    apart = f"/{WRAPPER}/"
    return pointer.removeprefix(apart[:-1]) if pointer.startswith(apart) else f"/config{pointer}"
