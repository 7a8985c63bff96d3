"""The members of a 0.x agent card and their hub counterparts. Content without a hub member is not kept here.

Rules (A2A 0.3, 5.5):
1. `decode_members` accepts every card that the schema allows. Unknown members, and null for an optional
   member, count as absent.
2. `encode_members` writes the card that a 0.x agent would have written, always with the REQUIRED members.
3. The two are inverse for content that both versions can express; `card` carries the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
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
)
from a2a_bridge.pb import lf_a2a_v1 as hub

_decode = decoder(hub.AgentCard)
_encode = encoder(hub.AgentCard)

_EXTENDED = "supportsAuthenticatedExtendedCard"


def _object(*names: str, **tables: Any) -> dict[str, Any]:
    """The table of an object. tables: of the members with objects, or with lists of objects."""
    return dict.fromkeys(names) | tables


#: the members that 0.x and the hub have under the same names
_CARD = _object(
    "name",
    "description",
    "version",
    "documentationUrl",
    "iconUrl",
    "defaultInputModes",
    "defaultOutputModes",
    provider=_object("organization", "url"),
    capabilities=_object(
        "streaming", "pushNotifications", extensions=[_object("uri", "description", "required", "params")]
    ),
    skills=[_object("id", "name", "description", "tags", "examples", "inputModes", "outputModes")],
    signatures=[_object("protected", "signature", "header")],
)


#: other spellings of members, as writers in Python use them, and the standard ones
_SPELLED = {
    re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name): name
    for name in (
        *(name for table in (_CARD, _CARD["capabilities"], _CARD["skills"][0]) for name in table),
        *("protocolVersion", "preferredTransport", "additionalInterfaces", "supportedInterfaces"),
        *("securitySchemes", _EXTENDED, "stateTransitionHistory", "bearerFormat", "openIdConnectUrl"),
        *("oauth2MetadataUrl", "authorizationCode", "clientCredentials", "authorizationUrl", "tokenUrl"),
        "refreshUrl",
    )
    if not name.islower()
}
_ANY = "*"
#: the members of a card that hold objects or lists of objects, other than those of free JSON
_OBJECTS: dict[str, Any] = {
    "capabilities": {"extensions": {}},
    "skills": {},
    "provider": {},
    "additionalInterfaces": {},
    "securitySchemes": {
        _ANY: {"flows": {"authorizationCode": {}, "clientCredentials": {}, "implicit": {}, "password": {}}}
    },
}


def with_standard_names(tree: Json, below: Any = _OBJECTS) -> Any:
    """A card whose members in snake_case have the names of the specification. Names of others stay, and so
    does one beside the standard one.
    """
    if type(tree) is list:
        return [with_standard_names(one, below) for one in tree]
    if type(tree) is not dict:
        return tree
    made: dict[str, Any] = {}
    for name, value in tree.items():
        own = name if _ANY in below else _SPELLED.get(name, name)
        own = name if own in tree else own
        inner = below.get(own, below.get(_ANY))
        made[own] = value if inner is None else with_standard_names(value, inner)
    return made


def decode_members(tree: JsonObject, version: str) -> hub.AgentCard:
    """JSON → card, without content that has no hub member. Raises DecodeError.

    version: the version of a card that names none.
    """
    named = with_standard_names(tree)
    try:
        return _decode_named(named, version)
    except DecodeError:
        if named == tree:
            raise
        return _decode_named(tree, version)  # its other names are of unknown members


def _decode_named(tree: JsonObject, version: str) -> hub.AgentCard:
    extended = tree.get(_EXTENDED)
    if extended is not None and type(extended) is not bool:
        raise DecodeError(_EXTENDED, f"expected true or false, got {describe(extended)}")
    picked: Any = {"capabilities": {}} | _pick(tree, _CARD)
    capabilities = picked["capabilities"]
    if type(capabilities) is dict:
        if type(capabilities.get("extensions")) is list:
            capabilities["extensions"] = _without_carriers(capabilities["extensions"])
        if extended is not None:
            capabilities["extendedAgentCard"] = extended
    schemes, alternatives = decode_schemes(tree.get("securitySchemes"))
    requirements = decode_requirements(tree.get("security"), "security", alternatives)
    interfaces = decode_interfaces(tree, version)
    card = _decode(picked)
    card.supported_interfaces.extend(interfaces)
    for name, scheme in schemes.items():
        card.security_schemes[name].CopyFrom(scheme)
    card.security_requirements.extend(requirements)
    for index, skill in enumerate(tree.get("skills") or ()):
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


def _members(card: hub.AgentCard, version: str, alternatives: Alternatives) -> JsonObject:
    tree = _encode(card)
    members = encode_interfaces(card.supported_interfaces, version)
    members |= {"capabilities": {}} | _pick(tree, _CARD)
    extensions = members["capabilities"].pop("extensions", ())
    if extensions := [{"uri": ""} | one for one in _without_carriers(extensions)]:
        members["capabilities"]["extensions"] = extensions
    capabilities = tree.get("capabilities", {})
    if "extendedAgentCard" in capabilities:
        members[_EXTENDED] = capabilities["extendedAgentCard"]
    if card.security_schemes:
        members["securitySchemes"] = encode_schemes(card.security_schemes, alternatives)
    if card.security_requirements:
        members["security"] = encode_requirements(card.security_requirements, alternatives)
    for member, skill in zip(members["skills"], card.skills, strict=True):
        if skill.security_requirements:
            member["security"] = encode_requirements(skill.security_requirements, alternatives)
    return members


def _agree(card: hub.AgentCard, alternatives: Alternatives) -> bool:
    lists: Sequence[Any] = [card.security_requirements, *(one.security_requirements for one in card.skills)]
    return all(encode_requirements(one, alternatives) is not None for one in lists)


def _pick(value: Json, table: Any) -> Any:
    """The value without the members that the table does not name. Values of other types stay as they are.

    It keeps the 1.0 codec from reading members and variants that 0.x does not have.
    """
    if type(table) is list and type(value) is list:
        return [_pick(one, table[0]) for one in value]
    if type(table) is dict and type(value) is dict:
        return {
            name: found if inner is None else _pick(found, inner)
            for name, inner in table.items()
            if (found := value.get(name)) is not None
        }
    return value


def _without_carriers(extensions: Sequence[Any]) -> list[Any]:
    return [one for one in extensions if type(one) is not dict or one.get("uri") != KEY]
