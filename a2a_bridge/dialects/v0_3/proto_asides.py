"""What messages of a2a.v1 without metadata say beyond the hub: told beside them (see Row.aside). Not their mapping.

Rules:
1. Told is the difference between what came and what the hub's message would give, as a residue of source PROTO, of at
   most LARGEST_ASIDE characters. It is believed where the outcome still means the same message.
2. What is told of a configuration to be registered fits the configuration in answers: members of the request around
   it, and its ids, stand apart, under WRAPPER.
3. What is told of a list is one text per configuration, or null, as a JSON array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from a2a_bridge.codec import DecodeError, JsonObject, JsonSyntaxError, decoder, dumps_ascii, loads
from a2a_bridge.core.call import ASIDE_PARAMETER
from a2a_bridge.core.errors import A2AError, invalid_params
from a2a_bridge.dialects import residue
from a2a_bridge.dialects.residue import KIND, PROTO
from a2a_bridge.dialects.v0_3.proto_messages import Notes
from a2a_bridge.dialects.v0_3.proto_residue import Pair
from a2a_bridge.dialects.v0_3.proto_trees import WRAPPER, message_of, tree_of
from a2a_bridge.dialects.v0_3.push_configs import schemes_told

LARGEST_ASIDE = 4096
Told = Mapping[str, str]

NOTHING: Told = {}


def tell(pair: Pair, tree: JsonObject) -> Told:
    """What a tree of a2a.v1 says beyond the hub. Raises INVALID_PARAMS for what cannot be read or is too much."""
    canonical = _canonical(pair, tree)
    return _told(_text(_shown(canonical, pair), _shown(_with_name(tree, canonical), pair)))


def _with_name(tree: JsonObject, canonical: JsonObject) -> JsonObject:
    """A request to register a configuration with the name of the configuration in it.

    a2a-go leaves it out (2.3.1, a2apb/v0/pbconv/to_proto.go:148), and agents in Java read the task from nowhere else.
    """
    given, named = tree.get("config"), canonical.get("config")
    if type(given) is not dict or type(named) is not dict or given.get("name") or "name" not in named:
        return tree
    return {**tree, "config": {**given, "name": named["name"]}}


def tell_list(pair: Pair, tree: JsonObject, items: str) -> Told:
    """The same for each item of a list."""
    texts: list[str | None] = [
        _text(_canonical(pair, item), item) or None for item in tree.get(items) or () if type(item) is dict
    ]
    return _told(dumps_ascii(texts)) if any(texts) else NOTHING


def recall(pair: Pair, tree: JsonObject, told: Told) -> JsonObject:
    """The tree with what was told of it, where that means the same."""
    text = told.get(ASIDE_PARAMETER)
    return _with(pair, tree, text) if text else tree


def recall_list(pair: Pair, tree: JsonObject, told: Told, items: str) -> JsonObject:
    """The same for each item of a list."""
    try:
        texts = loads(told.get(ASIDE_PARAMETER) or "null")
    except JsonSyntaxError:
        return tree
    found = tree.get(items)
    if type(texts) is not list or type(found) is not list or len(texts) != len(found):
        return tree
    return {**tree, items: [_with(pair, item, text) for item, text in zip(found, texts, strict=True)]}


def _with(pair: Pair, tree: JsonObject, text: object) -> JsonObject:
    entries = residue.read(text, PROTO) or schemes_told(text, KIND)
    if not entries:
        return tree
    patched: Any = residue.patch(_shown(tree, pair), entries)
    try:
        patched = _hidden(patched, pair)
        if _means(pair, patched) == _means(pair, tree):
            return patched  # type: ignore[no-any-return]
    except (ValueError, TypeError, KeyError, AttributeError, A2AError):
        pass
    return tree


def _means(pair: Pair, tree: JsonObject) -> bytes:
    message = pair.hub()
    pair.decode(message_of(pair.wire, tree), message, Notes())
    octets: bytes = message.SerializeToString(deterministic=True)
    return octets


def _canonical(pair: Pair, tree: JsonObject) -> JsonObject:
    try:
        message = pair.hub()
        pair.decode(decoder(pair.wire)(tree), message, Notes())
    except DecodeError as error:
        raise invalid_params(error.path, error.problem) from None
    plain = pair.wire()
    pair.encode(message, plain, Notes())
    return tree_of(plain)


def _shown(tree: JsonObject, pair: Pair) -> JsonObject:
    """A request to register a configuration as that configuration, with the rest of the request apart.

    So are the ids, which every answer has to say in full, wherever the request said them.
    """
    if not _registers(pair):
        return tree
    apart: JsonObject = {name: value for name, value in tree.items() if name != "config"}
    config = tree.get("config")
    if type(config) is not dict:
        return {WRAPPER: {**apart, "bare": True}}
    config = dict(config)
    apart["name"] = config.pop("name", None)
    webhook = config.get("pushNotificationConfig")
    if type(webhook) is dict:
        config["pushNotificationConfig"] = {name: value for name, value in webhook.items() if name != "id"}
        apart["id"] = webhook.get("id")
    return {**config, WRAPPER: apart}


def _hidden(tree: JsonObject, pair: Pair) -> JsonObject:
    """The reverse of `_shown`."""
    config = {name: value for name, value in tree.items() if name != WRAPPER}
    if not _registers(pair):
        return config
    apart = dict(tree[WRAPPER])
    name, identifier, bare = (apart.pop(name, None) for name in ("name", "id", "bare"))
    if bare:
        return apart
    if name is not None:
        config["name"] = name
    if identifier is not None:
        config["pushNotificationConfig"] = {**config["pushNotificationConfig"], "id": identifier}
    return {**apart, "config": config}


def _registers(pair: Pair) -> bool:
    return "config" in pair.wire.DESCRIPTOR.fields_by_name


def _text(canonical: JsonObject, given: JsonObject) -> str:
    try:
        entries = residue.diff(canonical, given)
        text = residue.write(PROTO, entries) if entries else ""
    except residue.TooMuch as error:
        raise invalid_params("", str(error)) from None
    return text


def _told(text: str) -> Told:
    if len(text) > LARGEST_ASIDE:
        raise invalid_params("", f"holds more than {LARGEST_ASIDE} bytes that A2A 1.0 has no place for")
    return {ASIDE_PARAMETER: text} if text else NOTHING


# --- the same for bytes ----------------------------------------------------------------------------------------


def of_bytes(
    pair: Pair, inner: Callable[[JsonObject], Told], *, quick: bool = True
) -> Callable[[bytes], Told]:
    """`aside` of a row whose wire is bytes. quick: nothing is told of what encodes to the same bytes again."""

    def aside(wire: bytes) -> Told:
        given = pair.wire.FromString(wire)
        if quick:
            message, plain = pair.hub(), pair.wire()
            pair.decode(given, message, Notes())
            pair.encode(message, plain, Notes())
            if plain.SerializeToString() == wire:
                return NOTHING
        return inner(tree_of(given))

    return aside


def to_bytes(pair: Pair, inner: Callable[[JsonObject, Told], JsonObject]) -> Callable[[bytes, Told], bytes]:
    """`recall` of a row whose wire is bytes."""

    def recall_bytes(wire: bytes, told: Told) -> bytes:
        if not told.get(ASIDE_PARAMETER):
            return wire
        tree = tree_of(pair.wire.FromString(wire))
        recalled = inner(tree, told)
        if recalled is tree:
            return wire
        octets: bytes = message_of(pair.wire, recalled).SerializeToString()
        return octets

    return recall_bytes
