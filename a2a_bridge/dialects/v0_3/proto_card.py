"""The agent card of a2a.v1 ↔ the JSON card of 0.3, and thereby ↔ hub. `card` defines the meaning of a card.

Rules:
1. The two differ in security only: in a2a.v1 schemes are a oneof and requirements are wrapped; in JSON
   schemes have a `type`. Everything else is ProtoJSON, with empty values for members that 0.3 requires.
2. Content of the JSON card that a2a.v1 lacks is stored in one more extension, the last, with the URI CARRIER.
   It is accepted if the card has the same meaning without it.
3. Over HTTP+JSON some implementations read the card as JSON and others as ProtoJSON: both can read the
   written card.
"""

from typing import Any

from a2a_bridge.codec import DecodeError, EncodeError, JsonObject, decoder, encoder
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.scalars import an_object
from a2a_bridge.dialects.signed_extras import CARD_KEY
from a2a_bridge.dialects.unmapped import PROTO
from a2a_bridge.dialects.v0_3 import card
from a2a_bridge.dialects.v0_3.security import FLOWS, TYPES, add_type, is_known, proto_scheme
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub

CARRIER = CARD_KEY

_decode_plain = decoder(v0.AgentCard)
_encode_plain = encoder(v0.AgentCard)

_REQUIRED: tuple[tuple[str, Any], ...] = (
    ("name", ""),
    ("description", ""),
    ("url", ""),
    ("version", ""),
    ("defaultInputModes", []),
    ("defaultOutputModes", []),
    ("skills", []),
)
_REQUIRED_OF_SKILL: tuple[tuple[str, Any], ...] = (
    ("id", ""),
    ("name", ""),
    ("description", ""),
    ("tags", []),
)


def decode_bytes(wire: bytes) -> hub.AgentCard:
    """Protobuf bytes → hub. Raises protobuf's DecodeError, codec.DecodeError and A2AError."""
    return card.FORM.decode(_json_card(v0.AgentCard.FromString(wire)))


def encode_bytes(message: hub.AgentCard) -> bytes:
    """Hub → protobuf bytes. Raises codec.EncodeError."""
    tree = card.FORM.encode(message)
    wire: v0.AgentCard = _message(tree)
    entries = unmapped.difference(_tree(wire), tree, whole=True)
    if entries:
        unmapped.carry_in_card(wire, CARRIER, unmapped.write(PROTO, entries))
    return wire.SerializeToString()


def encode_json(message: hub.AgentCard) -> JsonObject:
    """Hub → the card over HTTP+JSON."""
    tree = card.FORM.encode(message)
    schemes = tree.get("securitySchemes")
    if schemes:
        tree = {**tree, "securitySchemes": {name: _both(scheme) for name, scheme in schemes.items()}}
    return tree


def decode_json(tree: Any) -> hub.AgentCard:
    """The card over HTTP+JSON, JSON or ProtoJSON → hub. Raises DecodeError and A2AError."""
    an_object(tree)
    schemes = tree.get("securitySchemes") or tree.get("security_schemes") or {}
    wrapped = [one for one in schemes.values() if type(one) is dict] if type(schemes) is dict else []
    if any("type" in one for one in wrapped):
        tree = {**tree, "securitySchemes": {name: _json_alone(one) for name, one in schemes.items()}}
    elif wrapped or _is_protojson(tree):
        return card.FORM.decode(_json_card(_decode_plain(tree)))
    return card.FORM.decode(tree)


def _is_protojson(tree: JsonObject) -> bool:
    """Whether a card without schemes is ProtoJSON."""
    security = tree.get("security")
    if type(security) is list and any(
        type(one) is dict and type(one.get("schemes")) is dict for one in security
    ):
        return True
    return any("_" in name and name in v0.AgentCard.DESCRIPTOR.fields_by_name for name in tree)


# --- a2a.v1 ↔ JSON card ---


def _json_card(message: v0.AgentCard) -> JsonObject:
    """The JSON card of a message, including CARRIER."""
    entries = unmapped.read(unmapped.text_in_card(message, CARRIER), PROTO)
    if not entries:
        return _tree(message)
    bare = unmapped.without_text(message, CARRIER)
    patched: Any = unmapped.restore(_tree(bare), entries)
    try:
        converted = _message(patched)
    except (ValueError, TypeError, AttributeError):
        return _tree(message)
    for one in (converted, bare):
        if not one.capabilities.ByteSize():
            one.ClearField("capabilities")  # our extension may have been its only content
    same = converted.SerializeToString(deterministic=True) == bare.SerializeToString(deterministic=True)
    return patched if same else _tree(message)


def _tree(message: v0.AgentCard) -> JsonObject:
    try:
        tree = _encode_plain(message)
    except EncodeError as error:
        raise DecodeError(error.path, error.problem) from None
    for name, default in _REQUIRED:
        tree.setdefault(name, default)
    if "securitySchemes" in tree:
        tree["securitySchemes"] = {name: add_type(scheme) for name, scheme in tree["securitySchemes"].items()}
    if "security" in tree:
        tree["security"] = [_json_security(one) for one in tree["security"]]
    for skill in tree["skills"]:
        for name, default in _REQUIRED_OF_SKILL:
            skill.setdefault(name, default)
        if "security" in skill:
            skill["security"] = [_json_security(one) for one in skill["security"]]
    return tree


def _message(tree: JsonObject) -> v0.AgentCard:
    """The message of a JSON card, with as much of its content as the message can hold."""
    tree = dict(tree)
    if type(tree.get("securitySchemes")) is dict:
        tree["securitySchemes"] = {
            name: _one_flow(one) for name, one in tree["securitySchemes"].items() if is_known(one)
        }
    tree["security"] = _proto_securities(tree.get("security"))
    tree["skills"] = [
        {**skill, "security": _proto_securities(skill.get("security"))} for skill in tree.get("skills") or ()
    ]
    made: v0.AgentCard = _decode_plain(tree)
    return made


def _one_flow(scheme: JsonObject) -> JsonObject:
    """ProtoJSON of a scheme. a2a.v1 holds one flow; the carrier restores the others."""
    flows = scheme.get("flows")
    if type(flows) is dict and len(flows) > 1:
        first = next((name for name in FLOWS if name in flows and name != "deviceCode"), None)
        scheme = {**scheme, "flows": {first: flows[first]} if first else {}}
    return proto_scheme(scheme)


def _json_security(security: JsonObject) -> JsonObject:
    return {name: scopes.get("list", []) for name, scopes in security.get("schemes", {}).items()}


def _proto_securities(securities: Any) -> list[JsonObject]:
    return [{"schemes": {name: {"list": scopes} for name, scopes in one.items()}} for one in securities or ()]


def _both(scheme: Any) -> Any:
    """A scheme that readers of both kinds understand."""
    return {**scheme, **_one_flow(scheme)} if is_known(scheme) else scheme


def _json_alone(scheme: Any) -> Any:
    """The reverse of `_both`."""
    if not is_known(scheme):
        return scheme
    alone = {name: value for name, value in scheme.items() if name not in TYPES.values()}
    return alone if _both(alone) == scheme else scheme
