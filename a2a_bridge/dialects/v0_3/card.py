"""The agent card as 0.3 and 0.2.5 encode it. Which interfaces an agent really has is decided elsewhere.

Content that the members of the other version cannot express is preserved, so that a card is the same after a
round trip:

1. JSON → hub → JSON: unknown members, null, empty lists, numbers that no double represents. They are stored
   as text in an AgentExtension of the hub's card, the last one, with the URI `unmapped.KEY`. It is not
   written to 0.x.
2. Hub → JSON → hub: most content has a natural place (`supportedInterfaces`, `deviceCode`, `pkceRequired`).
   Content without one (an absent `capabilities`, for example) is stored in the same way in an extension of
   the 0.x card.
3. That text may only change content that the other version cannot express. If it would change more, it is
   treated as an ordinary extension of another author. So is a text that was not written here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from a2a_bridge.codec import (
    DecodeError,
    Json,
    JsonObject,
    decoder,
    encoder,
)
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.boundary import card_decoder
from a2a_bridge.dialects.dialect import CardForm
from a2a_bridge.dialects.scalars import an_object
from a2a_bridge.dialects.unmapped import HUB, KEY, KIND
from a2a_bridge.dialects.v0_3.card_interfaces import INTERFACE_MEMBERS
from a2a_bridge.dialects.v0_3.card_members import decode_members, encode_members
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the path in 0.3, and the one in 0.2
WELL_KNOWN_PATH = "/.well-known/agent-card.json"
OLD_WELL_KNOWN_PATH = "/.well-known/agent.json"

VERSION = "0.3.0"

_encode_hub = encoder(hub.AgentCard)
_decode_hub = decoder(hub.AgentCard)


def encode_card(card: hub.AgentCard, version: str = VERSION) -> JsonObject:
    """Card → JSON, for a reader of `version`, whose interfaces come first. Raises EncodeError."""
    tree = encode_members(card, version)
    patched = _patch(card, tree, version)
    if patched is None:
        return _mirror(tree, card, version)
    return _mirror(patched, without_carrier(card), version)


def encode_beside(card: hub.AgentCard, version: str = VERSION) -> JsonObject:
    """Card → JSON, to be merged with the members of 1.0.

    The members of 1.0 express what 0.x cannot, and OAuth schemes have one flow each, because readers of 1.0
    reject any other number.
    """
    tree = encode_members(card, version, apart=True)
    return _patch(card, tree, version) or tree


def card_form(version: str, *paths: str) -> CardForm:
    """The card form of a 0.x version with the card format of 0.3."""
    encode: Callable[[hub.AgentCard], JsonObject] = partial(encode_card, version=version)
    return CardForm(
        paths=paths,
        encode=encode,
        decode=partial(decode_card, version=version),
        beside=partial(encode_beside, version=version),
    )


def without_carrier(card: hub.AgentCard) -> hub.AgentCard:
    """The card without content that only 0.x can express; the same object if there is none."""
    return unmapped.without_text(card, KEY)


def _decode(tree: JsonObject, version: str = VERSION) -> hub.AgentCard:
    an_object(tree)
    card = _unmirror(tree, version)
    return card if card is not None else _carry(decode_members(tree, version), tree, version)


#: JSON → card. `version`: the version of a card that names none
decode_card = card_decoder(_decode)


def _patch(card: hub.AgentCard, tree: JsonObject, version: str) -> JsonObject | None:
    """The tree with the content of this shape that the card carries; None if it carries none."""
    text = unmapped.text_in_card(card, KEY)
    if text is None:
        return None
    entries = unmapped.read(text, KIND)
    if entries is None:
        return tree  # content of another wire format, which this one does not show
    expected = (without_carrier(card), decode_members(tree, version))
    patched = unmapped.restore_copy(tree, entries)
    if _try_decode(patched, version) in expected:
        return patched  # type: ignore[no-any-return]
    # If the interfaces of a card have changed since, the entries about other members still apply.
    others = [one for one in entries if not _is_address(one[0])]
    patched = unmapped.restore_copy(tree, others)
    return patched if _try_decode(patched, version) in expected else tree


def _is_address(pointer: str) -> bool:
    """Whether a pointer refers to the interfaces of a card."""
    return any(name in INTERFACE_MEMBERS for name in pointer.split("/", 2)[1:2])


def _carry(card: hub.AgentCard, tree: JsonObject, version: str) -> hub.AgentCard:
    """The card with the content that only the tree holds."""
    entries = unmapped.difference(encode_members(card, version), tree, whole=True)
    if entries:
        unmapped.carry_in_card(card, KEY, unmapped.write(KIND, entries))
    return card


def _mirror(tree: JsonObject, card: hub.AgentCard, version: str) -> JsonObject:
    """The tree with the content that only the card holds."""
    decoded = decode_members(tree, version)
    entries = [] if decoded == card else unmapped.difference(_hub_tree(decoded), _hub_tree(card), whole=True)
    if not entries:
        return tree
    capabilities = dict(tree.get("capabilities") or {})
    extension = {"uri": KEY, "params": {KEY: unmapped.write(HUB, entries)}}
    capabilities["extensions"] = [*(capabilities.get("extensions") or ()), extension]
    return tree | {"capabilities": capabilities}


def _unmirror(tree: JsonObject, version: str) -> hub.AgentCard | None:
    """The card from which `_mirror` made the tree; None if it did not."""
    match tree:
        case {
            "capabilities": {
                "extensions": [*others, {"uri": unmapped.KEY, "params": {unmapped.KEY: str(text)}}],
                **capabilities,
            }
        }:
            entries = unmapped.read(text, HUB)
        case _:
            return None
    if entries is None:
        return None
    if others:
        capabilities["extensions"] = others
    bare = tree | {"capabilities": capabilities}
    decoded = decode_members(bare, version)
    try:
        card = _decode_hub(unmapped.restore(_hub_tree(decoded), entries))
    except DecodeError:
        return None
    if encode_members(card, version) != encode_members(decoded, version):
        return None
    card = _carry(card, bare, version)
    return card if unmapped.same(encode_card(card, version), tree) else None


def _try_decode(tree: Json, version: str) -> hub.AgentCard | None:
    """The hub card of the members of a tree; None if the tree is not a card."""
    try:
        return decode_members(tree, version) if type(tree) is dict else None
    except DecodeError:
        return None


def _hub_tree(card: hub.AgentCard) -> Json:
    """The card as 1.0 encodes it."""
    tree: Json = _encode_hub(card)
    return tree


FORM = card_form(VERSION, WELL_KNOWN_PATH)
