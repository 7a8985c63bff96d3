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

Rules for members (A2A 0.3, 5.5):
1. `decode_members` accepts every card that the schema allows. Unknown members, and null for an optional
   member, count as absent.
2. `encode_members` writes the card that a 0.x agent would have written, always with the REQUIRED members.

Rules for interfaces, a main address and additional ones of one version (A2A 0.3, 5.5.5 and 5.6):
1. `url` with `preferredTransport` comes first, then `additionalInterfaces` in order, including repetitions.
   All have the card's `protocolVersion`, as written there. An absent transport means JSONRPC.
2. In the other direction the 0.x interfaces are listed, the main one first. Content that these members cannot
   express (tenants, several versions, interfaces of 1.0) is written beside them in the `supportedInterfaces`
   of 1.0, and read from there.
3. In case of a contradiction the members of 0.x take precedence, because other readers use them.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
from a2a_bridge.codec.values import describe
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.boundary import card_decoder
from a2a_bridge.dialects.dialect import CardForm
from a2a_bridge.dialects.known import normalise
from a2a_bridge.dialects.scalars import a_string, an_array, an_object
from a2a_bridge.dialects.unmapped import HUB, KEY, KIND
from a2a_bridge.dialects.v0_3.security import (
    Alternatives,
    alternatives_of,
    decode_requirements,
    decode_schemes,
    encode_requirements,
    encode_schemes,
)
from a2a_bridge.pb import lf_a2a_v1 as hub

INTERFACE_MEMBERS = (
    "protocolVersion",
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "supportedInterfaces",
)
DEFAULT_TRANSPORT = "JSONRPC"

_decode_interface = decoder(hub.AgentInterface)
_encode_interface = encoder(hub.AgentInterface)

#: the text of a version in `protocolVersion`, for interfaces that give only Major.Minor
_ENCODED = {"0.3": "0.3.0", "0.2": "0.2.5"}
_TEXTS = ("url", "protocolBinding", "protocolVersion", "tenant")


def decode_interfaces(tree: JsonObject, version: str) -> list[hub.AgentInterface]:
    """The interfaces of a 0.x card. `version`: the version of a card that names none. Raises DecodeError."""
    old = _decode_interfaces(tree, version)
    supported = _read_supported(tree.get("supportedInterfaces"))
    if supported is not None and _decode_interfaces(_interface_members(supported, version), version) == old:
        return supported
    return old


def encode_interfaces(interfaces: Sequence[hub.AgentInterface], version: str) -> JsonObject:
    """The members about interfaces of a 0.x card, for a reader of `version`, such as "0.3.0"."""
    members = _interface_members(interfaces, version)
    if _decode_interfaces(members, version) != list(interfaces):
        members["supportedInterfaces"] = [_encode_interface(one) for one in interfaces]
    return members


def is_old(interface: hub.AgentInterface) -> bool:
    """Whether an interface speaks a version before 1.0."""
    return (normalise(interface.protocol_version) or "").startswith("0.")


def main_interface(interfaces: Sequence[hub.AgentInterface], version: str = "") -> hub.AgentInterface | None:
    """The interface for `url`: the first of `version`, else of the newest 0.x version, else the first."""
    # Without any 0.x interface an address still helps the reader: the server may accept its version too.
    old = [one for one in interfaces if is_old(one)] or list(interfaces[:1])
    family = normalise(version)
    of_family = [one for one in old if normalise(one.protocol_version) == family]
    return max(of_family or old, key=_minor, default=None)  # of equals, the first


def places(interfaces: Iterable[hub.AgentInterface]) -> list[hub.AgentInterface]:
    """The 0.x interfaces that one version can list: per transport the interfaces of the newest version, each
    address once.
    """
    # One version is written for all of them, and some readers use the last address of a transport.
    old = [one for one in interfaces if is_old(one)]
    newest: dict[str, int] = {}
    for one in old:
        newest[one.protocol_binding] = max(_minor(one), newest.get(one.protocol_binding, -1))
    listed: dict[tuple[str, str], hub.AgentInterface] = {}
    for one in old:
        if _minor(one) == newest[one.protocol_binding]:
            listed.setdefault((one.url, one.protocol_binding), one)
    return list(listed.values())


def format_version(version: str) -> str:
    """The text of a version in `protocolVersion`: with its patch, if known."""
    return _ENCODED.get(version.strip(), version)


def _text(tree: JsonObject, name: str, path: str = "") -> str:
    """A string member of the object at `path`, empty when absent. Raises DecodeError."""
    value = tree.get(name)
    return "" if value is None else a_string(value, f"{path}.{name}" if path else name)


def _decode_interfaces(tree: JsonObject, version: str) -> list[hub.AgentInterface]:
    version = _text(tree, "protocolVersion") or version
    found = []
    url = _text(tree, "url")
    transport = _text(tree, "preferredTransport")
    if url:
        found.append(_interface(url, transport, version))
    more = tree.get("additionalInterfaces")
    if more is None:
        return found
    for index, one in enumerate(an_array(more, "additionalInterfaces")):
        path = f"additionalInterfaces[{index}]"
        an_object(one, path)
        found.append(_interface(_text(one, "url", path), _text(one, "transport", path), version))
    return found


def _interface_members(interfaces: Sequence[hub.AgentInterface], version: str) -> JsonObject:
    main = main_interface(interfaces, version)
    if main is None:
        return {"protocolVersion": version, "url": "", "preferredTransport": DEFAULT_TRANSPORT}
    members: JsonObject = {
        "protocolVersion": format_version(main.protocol_version) if is_old(main) else version,
        "url": main.url,
        "preferredTransport": main.protocol_binding,
    }
    others = [one for one in interfaces if is_old(one) and one is not main]
    if any(one.protocol_version != main.protocol_version for one in others):
        here = main.url, main.protocol_binding
        others = [one for one in places(interfaces) if (one.url, one.protocol_binding) != here]
    if others:
        members["additionalInterfaces"] = [
            {"url": one.url, "transport": one.protocol_binding} for one in others
        ]
    return members


def _minor(interface: hub.AgentInterface) -> int:
    version = normalise(interface.protocol_version)
    return int(version.partition(".")[2]) if version else -1


def _interface(url: str, transport: str, version: str) -> hub.AgentInterface:
    return hub.AgentInterface(
        url=url, protocol_binding=transport or DEFAULT_TRANSPORT, protocol_version=version
    )


def _read_supported(value: Json) -> list[hub.AgentInterface] | None:
    # In a 0.x card this is an unknown member, which may hold anything.
    if type(value) is not list or not value:
        return None
    found: list[hub.AgentInterface] = []
    for one in value:
        if type(one) is not dict:
            return None
        picked: dict[str, Any] = {name: one[name] for name in _TEXTS if name in one}
        if any(type(member) is not str for member in picked.values()):
            return None
        try:
            found.append(_decode_interface(picked))
        except DecodeError:
            return None
    return found


_decode_hub = decoder(hub.AgentCard)
_encode_hub = encoder(hub.AgentCard)

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
#: the members of a card that hold objects or lists of objects, but no free JSON
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
    """A card whose members in snake_case have the names of the specification. Names that others choose stay,
    and so does a member that stands beside the member with its standard name.
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
    """JSON → card, as far as the hub has members. version: of a card that names none. Raises DecodeError."""
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
    card = _decode_hub(picked)
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
    """Card → JSON, as far as 0.x has members. apart: keep schemes of one flow each separate, as in 1.0.
    Raises EncodeError for numbers that JSON lacks.
    """
    alternatives = {} if apart else alternatives_of(card.security_schemes)
    if alternatives and not _agree(card, alternatives):
        alternatives = {}
    members = _members_of(card, version, alternatives)
    if alternatives and decode_schemes(members["securitySchemes"])[0] != dict(card.security_schemes):
        return _members_of(card, version, {})
    return members


def _members_of(card: hub.AgentCard, version: str, alternatives: Alternatives) -> JsonObject:
    tree = _encode_hub(card)
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
    """The value without the members that the table does not name; values of other types stay as they are. It
    keeps the 1.0 codec from reading members and variants that 0.x does not have.
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


#: the path in 0.3, and the one in 0.2
WELL_KNOWN_PATH = "/.well-known/agent-card.json"
OLD_WELL_KNOWN_PATH = "/.well-known/agent.json"

VERSION = "0.3.0"


def encode_card(card: hub.AgentCard, version: str = VERSION) -> JsonObject:
    """Card → JSON, for a reader of `version`, whose interfaces come first. Raises EncodeError."""
    tree = encode_members(card, version)
    patched = _patch(card, tree, version)
    if patched is None:
        return _mirror(tree, card, version)
    return _mirror(patched, without_carrier(card), version)


def encode_beside(card: hub.AgentCard, version: str = VERSION) -> JsonObject:
    """Card → JSON, to be merged with the members of 1.0, which express what 0.x cannot. OAuth schemes have
    one flow each, because readers of 1.0 reject any other number.
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
    if decoded == card:
        return tree
    entries = unmapped.difference(_encode_hub(decoded), _encode_hub(card), whole=True)
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
        card = _decode_hub(unmapped.restore(_encode_hub(decoded), entries))
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


FORM = card_form(VERSION, WELL_KNOWN_PATH)
