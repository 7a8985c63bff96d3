"""The members of a 0.x agent card and their hub counterparts. Content without a hub member is not kept here.

Rules (A2A 0.3, 5.5):
1. `decode_members` accepts every card that the schema allows. Unknown members, and null for an optional
   member, count as absent.
2. `encode_members` writes the card that a 0.x agent would have written, always with the REQUIRED members.
3. The two are inverse for content that both versions can express; `card` carries the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
from a2a_bridge.codec.structs import ARRAY_LEVELS, LEVELS, OBJECT_LEVELS
from a2a_bridge.codec.values import describe
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.dialects.v0_3.card_interfaces import decode_interfaces, encode_interfaces
from a2a_bridge.dialects.v0_3.security import (
    Alternatives,
    alternatives_of,
    decode_requirements,
    decode_schemes,
    encode_requirements,
    encode_schemes,
    pick,
)
from a2a_bridge.pb import lf_a2a_v1 as hub

_decode = decoder(hub.AgentCard)
_encode = encoder(hub.AgentCard)

_EXTENDED = "supportsAuthenticatedExtendedCard"

_CARD = (
    "name",
    "description",
    "version",
    "documentationUrl",
    "iconUrl",
    "defaultInputModes",
    "defaultOutputModes",
)
_PROVIDER = ("organization", "url")
_CAPABILITIES = ("streaming", "pushNotifications")
_EXTENSION = ("uri", "description", "required")
_SKILL = ("id", "name", "description", "tags", "examples", "inputModes", "outputModes")
_SIGNATURE = ("protected", "signature")


def decode_members(tree: JsonObject, version: str) -> hub.AgentCard:
    """JSON → card, without content that has no hub member. Raises DecodeError.

    version: the version of a card that names none.
    """
    tree = plain(tree)
    picked: dict[str, Any] = {name: tree[name] for name in _CARD if tree.get(name) is not None}
    if tree.get("provider") is not None:
        picked["provider"] = pick(tree["provider"], _PROVIDER)
    picked["capabilities"] = _capabilities(tree)
    skills = tree.get("skills")
    if skills is not None:
        picked["skills"] = _each(skills, lambda one: pick(one, _SKILL))
    if tree.get("signatures") is not None:
        picked["signatures"] = _each(tree["signatures"], lambda one: _with_struct(one, _SIGNATURE, "header"))
    schemes, alternatives = decode_schemes(tree.get("securitySchemes"))
    requirements = decode_requirements(tree.get("security"), "security", alternatives)
    interfaces = decode_interfaces(tree, version)
    card = _decode(picked)
    card.supported_interfaces.extend(interfaces)
    for name, scheme in schemes.items():
        card.security_schemes[name].CopyFrom(scheme)
    card.security_requirements.extend(requirements)
    for index, skill in enumerate(skills or ()):
        path = f"skills[{index}].security"
        card.skills[index].security_requirements.extend(
            decode_requirements(skill.get("security"), path, alternatives)
        )
    return card


def encode_members(card: hub.AgentCard, version: str, *, apart: bool = False) -> JsonObject:
    """Card → JSON, without content that has no 0.x member. Raises EncodeError for numbers that JSON lacks.

    apart: keep schemes of one flow each separate, as in 1.0.
    """
    alternatives = {} if apart else alternatives_of(card.security_schemes)
    if alternatives and not _agree(card, alternatives):
        alternatives = {}
    members = _members(card, version, alternatives)
    if alternatives and decode_schemes(members["securitySchemes"])[0] != dict(card.security_schemes):
        return _members(card, version, {})
    return members


def plain(tree: Any, levels: int = 100) -> Any:
    """The tree restricted to text that protobuf can hold: no half surrogate pairs.

    levels: the depth of the search; nothing below it is decoded.
    """
    if type(tree) is str:
        return tree if tree.isascii() else tree.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if type(tree) is list and levels:
        return [plain(item, levels - 1) for item in tree]
    if type(tree) is dict and levels:
        return {plain(name): plain(item, levels - 1) for name, item in tree.items()}
    return tree


def struct(value: Json, levels: int = LEVELS) -> Json:
    """Free JSON as a Struct can hold it: numbers become doubles, values nested too deeply become null."""
    if type(value) is dict:
        if levels < OBJECT_LEVELS:
            return None
        return {name: struct(item, levels - OBJECT_LEVELS) for name, item in value.items()}
    if type(value) is list:
        if levels < ARRAY_LEVELS:
            return None
        return [struct(item, levels - ARRAY_LEVELS) for item in value]
    if type(value) is int:
        try:
            double = float(value)
        except OverflowError:
            return 0
        return value if double == value else double
    if isinstance(value, float):
        return value if value - value == 0 else 0
    return value


def _members(card: hub.AgentCard, version: str, alternatives: Alternatives) -> JsonObject:
    tree = _encode(card)
    capabilities = tree.setdefault("capabilities", {})
    members = encode_interfaces(card.supported_interfaces, version)
    members |= {name: tree[name] for name in (*_CARD, "provider", "signatures") if name in tree}
    members["capabilities"] = {name: capabilities[name] for name in _CAPABILITIES if name in capabilities}
    extensions = [{"uri": ""} | one for one in capabilities.get("extensions", ()) if one.get("uri") != KEY]
    if extensions:
        members["capabilities"]["extensions"] = extensions
    if "extendedAgentCard" in capabilities:
        members[_EXTENDED] = capabilities["extendedAgentCard"]
    if card.security_schemes:
        members["securitySchemes"] = encode_schemes(card.security_schemes, alternatives)
    if card.security_requirements:
        members["security"] = encode_requirements(card.security_requirements, alternatives)
    members["skills"] = [
        {name: one[name] for name in _SKILL if name in one} | _skill_security(skill, alternatives)
        for one, skill in zip(tree["skills"], card.skills, strict=True)
    ]
    return members


def _skill_security(skill: hub.AgentSkill, alternatives: Alternatives) -> JsonObject:
    if not skill.security_requirements:
        return {}
    return {"security": encode_requirements(skill.security_requirements, alternatives)}


def _agree(card: hub.AgentCard, alternatives: Alternatives) -> bool:
    lists: Sequence[Any] = [card.security_requirements, *(one.security_requirements for one in card.skills)]
    return all(encode_requirements(one, alternatives) is not None for one in lists)


def _capabilities(tree: JsonObject) -> Json:
    value = tree.get("capabilities")
    extended = tree.get(_EXTENDED)
    if extended is not None and type(extended) is not bool:
        raise DecodeError(_EXTENDED, f"expected true or false, got {describe(extended)}")
    members: dict[str, Any] = {}
    if value is not None:
        if type(value) is not dict:
            unexpected: Json = value  # the codec reports the error
            return unexpected
        members |= {name: value[name] for name in _CAPABILITIES if value.get(name) is not None}
        if value.get("extensions") is not None:
            members["extensions"] = _each(
                _without_carriers(value["extensions"]), lambda one: _with_struct(one, _EXTENSION, "params")
            )
    if extended is not None:
        members["extendedAgentCard"] = extended
    return members


def _without_carriers(value: Json) -> Json:
    if type(value) is not list:
        return value
    return [one for one in value if type(one) is not dict or one.get("uri") != KEY]


def _with_struct(tree: Json, names: Sequence[str], free: str) -> Json:
    picked = pick(tree, (*names, free))
    if type(picked) is dict and free in picked:
        picked[free] = struct(picked[free])
    return picked


def _each(value: Json, change: Any) -> Json:
    return [change(one) for one in value] if type(value) is list else value
