"""The agent card as 0.3 spells it, and 0.2.5 with it. Which interfaces an agent really has is not decided here.

What the members of the other version cannot say is carried, so that a card that comes back is the card that left:

1. JSON → hub → JSON: unknown members, null, empty lists, numbers that are no doubles. They stand as a residue in an
   AgentExtension of the hub's card, the last one, with the URI `residue.KEY`, which no 0.x card ever shows.
2. Hub → JSON → hub: most has a natural place (`supportedInterfaces`, `deviceCode`, `pkceRequired`). What has none
   (a `capabilities` that is not there, say) stands in the same way in an extension of the 0.x card.
3. A residue changes nothing but what the other version cannot say: one that would is somebody's own extension, and
   treated as such. So is one that did not come from here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from a2a_bridge.codec import DecodeError, InexactNumber, Json, JsonObject, decoder, encoder
from a2a_bridge.codec.values import describe
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import residue
from a2a_bridge.dialects.dialect import CardForm
from a2a_bridge.dialects.residue import KEY
from a2a_bridge.dialects.v0_3.card_members import decode_members, encode_members
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct

#: where 0.3 looks, and where 0.2 did
WELL_KNOWN_PATH = "/.well-known/agent-card.json"
OLD_WELL_KNOWN_PATH = "/.well-known/agent.json"

VERSION = "0.3.0"

#: the trees that residues speak of
JSON, MIRROR = "kind", "hub"

_encode_hub = encoder(hub.AgentCard)
_decode_hub = decoder(hub.AgentCard)


def decode_card(tree: JsonObject, version: str = VERSION) -> hub.AgentCard:
    """JSON → card. `version`: of a card that names none.

    Raises A2AError INVALID_AGENT_RESPONSE naming the member at fault, and InexactNumber for a tree that should be
    read again by `loads_exact`.
    """
    try:
        return _decode(tree, version)
    except DecodeError as error:
        text = f"not an agent card: {error}"
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER) from None


def encode_card(card: hub.AgentCard, version: str = VERSION) -> JsonObject:
    """Card → JSON, for a reader of `version`, whose interfaces come first."""
    carrier = _carrier(card)
    tree = encode_members(card, version)
    if carrier is None:
        return _mirrored(tree, card, version)
    bare = without_residue(card)
    patched = residue.recall(carrier.params, JSON, tree)
    if patched is None or _says(patched, version) not in (bare, _says(tree, version)):
        return _mirrored(tree, card, version)
    return _mirrored(patched, bare, version)


def card_form(version: str, *paths: str) -> CardForm:
    """The card of a 0.x version that spells it as 0.3 does."""
    encode: Callable[[hub.AgentCard], JsonObject] = partial(encode_card, version=version)
    return CardForm(paths=paths, encode=encode, decode=partial(decode_card, version=version))


def without_residue(card: hub.AgentCard) -> hub.AgentCard:
    """The card without what only 0.x says; the same object if there is nothing of the kind."""
    if _carrier(card) is None:
        return card
    bare = hub.AgentCard()
    bare.CopyFrom(card)
    del bare.capabilities.extensions[-1]
    return bare


def _decode(tree: JsonObject, version: str) -> hub.AgentCard:
    if type(tree) is not dict:
        raise DecodeError("", f"expected an object, got {describe(tree)}")
    _refuse_inexact(tree)
    card = _unmirrored(tree, version)
    return card if card is not None else _carried(_says(tree, version), tree, version)


def _says(tree: JsonObject, version: str) -> hub.AgentCard:
    """What the members of a card say to the hub."""
    return decode_members(tree, version)


def _carrier(card: hub.AgentCard) -> hub.AgentExtension | None:
    extensions = card.capabilities.extensions
    return extensions[-1] if extensions and extensions[-1].uri == KEY else None


def _carried(card: hub.AgentCard, tree: JsonObject, version: str) -> hub.AgentCard:
    """The card, with what else the tree holds."""
    params = Struct()
    residue.carry(params, JSON, encode_members(card, version), tree)
    if params.fields:
        card.capabilities.extensions.add(uri=KEY, params=params)
    return card


def _mirrored(tree: JsonObject, card: hub.AgentCard, version: str) -> JsonObject:
    """The tree, with what else the card holds."""
    said = _says(tree, version)
    if said == card:
        return tree
    params = Struct()
    residue.carry(params, MIRROR, _encode_hub(said), _encode_hub(card))
    if not params.fields:
        return tree
    capabilities = dict(tree.get("capabilities") or {})
    extension = {"uri": KEY, "params": {KEY: params.fields[KEY].string_value}}
    capabilities["extensions"] = [*(capabilities.get("extensions") or ()), extension]
    return tree | {"capabilities": capabilities}


def _unmirrored(tree: JsonObject, version: str) -> hub.AgentCard | None:
    """The card that `_mirrored` made the tree of; None if it was not."""
    capabilities = tree.get("capabilities")
    extensions = capabilities.get("extensions") if type(capabilities) is dict else None
    if type(extensions) is not list or not extensions or type(extensions[-1]) is not dict:
        return None
    match extensions[-1]:
        case {"uri": residue.KEY, "params": {residue.KEY: str(text)}}:
            pass
        case _:
            return None
    rest = dict(capabilities)
    if len(extensions) > 1:
        rest["extensions"] = extensions[:-1]
    else:
        del rest["extensions"]
    bare = tree | {"capabilities": rest}
    said = _says(bare, version)
    params = Struct()
    params.fields[KEY].string_value = text
    meant = residue.recall(params, MIRROR, _encode_hub(said))
    if meant is None:
        return None
    try:
        card = _decode_hub(meant)
    except (DecodeError, InexactNumber):
        return None
    members = encode_members(said, version)
    if encode_members(card, version) != members:
        return None
    made = _carried(card, bare, version)
    return made if residue.same(encode_card(made, version), tree) else None


def _refuse_inexact(tree: Json) -> None:
    # What is carried is carried as it was written, which a plain double does not tell.
    below: list[Json] = [tree]
    while below:
        one = below.pop()
        if type(one) is float:
            raise InexactNumber("a number may have been rounded by the JSON parser")
        if type(one) is dict:
            below.extend(one.values())
        elif type(one) is list:
            below.extend(one)


FORM = card_form(VERSION, WELL_KNOWN_PATH)
