"""The agent card of 0.1 ↔ the card of 0.3, which `v0_3.card` reads and writes. It fetches nothing.

Rules:
1. A card of 0.1 names no version. It is recognised by `authentication`, which no later version has, and by
   the absence of members that later versions introduced. The absence of others says nothing: many cards of
   later versions lack required members.
2. Members that became required later get defaults on conversion to 0.3: description "", tags [], modes
   ["text"].
3. For an agent that also speaks other versions of 0.x there is one document for all: theirs, with
   `authentication`, which they ignore.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import JsonObject
from a2a_bridge.dialects.boundary import card_decoder
from a2a_bridge.dialects.dialect import CardForm
from a2a_bridge.dialects.known import normalise
from a2a_bridge.dialects.unmapped import same
from a2a_bridge.dialects.v0_1.security import decode_authentication, encode_authentication
from a2a_bridge.dialects.v0_1.stash import Unit, coders, decode_unit, encode_unit, without_nulls
from a2a_bridge.dialects.v0_3.card import decode_card, encode_card
from a2a_bridge.pb import lf_a2a_v1 as hub

WELL_KNOWN_PATH = "/.well-known/agent.json"
VERSION = "0.1.0"

#: the version of the document that older versions share
_SHARED_VERSION = "0.2.5"
_MODES = ("defaultInputModes", "defaultOutputModes")
_LATER = frozenset(
    {
        "protocolVersion",
        "preferredTransport",
        "additionalInterfaces",
        "supportedInterfaces",
        "iconUrl",
        "security",
        "securitySchemes",
        "signatures",
        "supportsAuthenticatedExtendedCard",
    }
)
_NULLABLE = frozenset({"description", "provider", "documentationUrl", "authentication", *_MODES})
_NULLABLE_SKILL = frozenset({"description", "tags", "examples", "inputModes", "outputModes"})
_SECURITY = ("securitySchemes", "security")


def claims(tree: JsonObject) -> bool:
    """Whether this is a card of 0.1 and of no later version."""
    return "authentication" in tree and not tree.keys() & _LATER


def _decode(tree: JsonObject) -> hub.AgentCard:
    card: hub.AgentCard = decode_card(decode_tree(tree) if type(tree) is dict else tree, VERSION)
    return card


#: JSON → card
decode = card_decoder(_decode)


def encode(card: hub.AgentCard) -> JsonObject:
    """Card → JSON."""
    alone = all(
        normalise(one.protocol_version) in ("0.1", "1.0")
        for one in card.supported_interfaces  # the other 0.x versions read the same document
    )
    return encode_tree(encode_card(card, VERSION if alone else _SHARED_VERSION))


def decode_tree(wire: JsonObject) -> JsonObject:
    """A card of 0.1 as one of 0.3. Raises DecodeError."""
    skills = wire.get("skills")
    if type(skills) is not list:
        return decode_unit(wire, _up, _down)
    made = decode_unit({**wire, "skills": []}, _up, _down)
    made["skills"] = list(map(_decode_skill, skills))
    return made


def encode_tree(tree: JsonObject) -> JsonObject:
    """A card of 0.3 as one of 0.1."""
    skills = tree.get("skills")
    if type(skills) is not list:
        return encode_unit(tree, _up, _down)
    made = encode_unit({**tree, "skills": []}, _up, _down)
    made["skills"] = list(map(_encode_skill, skills))
    return made


def _up(wire: Unit) -> Unit:
    made = without_nulls(wire, _NULLABLE)
    made.setdefault("protocolVersion", VERSION)
    made.setdefault("preferredTransport", "JSONRPC")
    made.setdefault("description", "")
    for name in _MODES:
        made.setdefault(name, ["text"])
    provider = made.get("provider")
    if type(provider) is dict and provider.get("url") is None:
        made["provider"] = {**provider, "url": ""}
    if "authentication" in made:
        required = decode_authentication(made.pop("authentication"))
        if not made.keys() & set(_SECURITY):
            made |= required
    return made


def _down(tree: Unit) -> Unit:
    made = dict(tree)
    authentication = encode_authentication(made)
    alone = made.get("protocolVersion") == VERSION and made.get("preferredTransport") == "JSONRPC"
    if authentication is not None:
        made["authentication"] = authentication
        security = {name: made[name] for name in _SECURITY if name in made}
        if alone and same(decode_authentication(authentication), security):
            for name in security:
                del made[name]
    if not alone:
        return made
    del made["protocolVersion"], made["preferredTransport"]
    if made.get("description") == "":
        del made["description"]
    provider: Any = made.get("provider")
    if type(provider) is dict and provider.get("url") == "":
        made["provider"] = {name: value for name, value in provider.items() if name != "url"}
    return made


def _up_skill(wire: Unit) -> Unit:
    made = without_nulls(wire, _NULLABLE_SKILL)
    made.setdefault("description", "")
    made.setdefault("tags", [])
    return made


def _down_skill(tree: Unit) -> Unit:
    empty = {"description": "", "tags": []}
    return {name: value for name, value in tree.items() if name not in empty or value != empty[name]}


_decode_skill, _encode_skill = coders(_up_skill, _down_skill)

FORM = CardForm(paths=(WELL_KNOWN_PATH,), encode=encode, decode=decode, claims=claims)
