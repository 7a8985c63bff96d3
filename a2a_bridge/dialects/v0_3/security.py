"""Security schemes and requirements as 0.x cards encode them. Authentication itself is elsewhere.

Rules (A2A 0.3, 5.5.3; A2A 1.0, 4.5):
1. `type` determines a scheme. An unknown type becomes a scheme without content. All other members are those
   of ProtoJSON, except `in`, which the hub calls `location`.
2. An OAuth 2 scheme of 1.0 has one flow, one of 0.x has any number. The first flow in the order of FLOWS
   stays under the name of the scheme, each other becomes a scheme `<name>#<flow>`. After every requirement
   that names the scheme follow the same requirements with the other flows: alternatives, as all requirements
   are.
3. In the other direction such schemes are merged again, if all requirements agree.
4. `deviceCode` and `pkceRequired` of 1.0 are further members.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
from a2a_bridge.codec.inspect import member
from a2a_bridge.dialects.scalars import a_string, an_array, an_object
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the name in a requirement → the names of equivalent schemes, itself first
Alternatives = Mapping[str, Sequence[str]]

#: the flows of OAuth 2, best first: the first one keeps the name of the scheme
FLOWS = ("authorizationCode", "clientCredentials", "deviceCode", "password", "implicit")
#: `type` → the member of SecurityScheme in ProtoJSON, which a2a.v1 and the hub have in common
TYPES = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}

_TYPE_OF_MEMBER = {name: kind for kind, name in TYPES.items()}
_FLOW_OF_FIELD = {field.name: field.json_name for field in hub.OAuthFlows.DESCRIPTOR.fields}
#: the members that 0.3 requires, by type of the scheme and by flow
_REQUIRED: Mapping[str, JsonObject] = {
    "apiKey": {"in": "", "name": ""},
    "http": {"scheme": ""},
    "oauth2": {"flows": {}},
    "openIdConnect": {"openIdConnectUrl": ""},
    "authorizationCode": {"authorizationUrl": "", "tokenUrl": "", "scopes": {}},
    "clientCredentials": {"tokenUrl": "", "scopes": {}},
    "deviceCode": {"tokenUrl": "", "scopes": {}},
    "password": {"tokenUrl": "", "scopes": {}},
    "implicit": {"authorizationUrl": "", "scopes": {}},
}

_decode = decoder(hub.SecurityScheme)
_encode = encoder(hub.SecurityScheme)


def _members_of(cls: type[Message]) -> dict[str, list[str]]:
    """The member names of the messages in the fields of a message, by the name of the field in ProtoJSON."""
    return {
        field.json_name: [inner.json_name for inner in field.message_type.fields]
        for field in cls.DESCRIPTOR.fields
        if field.message_type is not None
    }


_SCHEME_MEMBERS = _members_of(hub.SecurityScheme)
_FLOW_MEMBERS = _members_of(hub.OAuthFlows)

_MOST_ALTERNATIVES = 16
"""Maximum number of alternatives made from one requirement, so that a hostile card stays small."""


def add_type(scheme: JsonObject) -> JsonObject:
    """A scheme of 0.x, from ProtoJSON of the hub or of a2a.v1."""
    for name, content in scheme.items():
        if kind := _TYPE_OF_MEMBER.get(name):
            members = {"in" if name == "location" else name: value for name, value in content.items()}
            if kind == "oauth2":
                flows = members.get("flows", {})
                members["flows"] = {name: _REQUIRED[name] | flow for name, flow in flows.items()}
            return {"type": kind} | _REQUIRED.get(kind, {}) | members
    return {}


def proto_scheme(scheme: JsonObject) -> JsonObject:
    """ProtoJSON of the hub or of a2a.v1, from a scheme of a known type."""
    content = {
        "location" if name == "in" else name: value
        for name, value in scheme.items()
        if name not in ("type", "location")
    }
    return {TYPES[scheme["type"]]: content}


def is_known(scheme: Any) -> bool:
    """Whether a scheme of 0.x has one of the types that all versions know."""
    return type(scheme) is dict and type(scheme.get("type")) is str and scheme["type"] in TYPES


def decode_schemes(value: Json) -> tuple[dict[str, hub.SecurityScheme], Alternatives]:
    """`securitySchemes` as schemes of one flow each, and the groups of equivalent ones. Raises
    DecodeError.
    """
    if value is None:
        return {}, {}
    schemes: dict[str, hub.SecurityScheme] = {}
    further: list[tuple[str, str, hub.SecurityScheme]] = []
    for name, tree in an_object(value, "securitySchemes").items():
        path = member("securitySchemes", name)
        a_string(name, path)
        (_, schemes[name]), *others = _decode_scheme(an_object(tree, path), path)
        further += [(name, f"{name}#{flow}", scheme) for flow, scheme in others]
    alternatives: dict[str, list[str]] = {}
    for name, other, scheme in further:
        if other not in schemes:  # the card's own names take precedence
            schemes[other] = scheme
            alternatives.setdefault(name, [name]).append(other)
    return schemes, alternatives


def encode_schemes(schemes: Mapping[str, hub.SecurityScheme], alternatives: Alternatives) -> JsonObject:
    """The `securitySchemes` of 0.x; the alternatives of a scheme become its flows."""
    absorbed = {other for names in alternatives.values() for other in names[1:]}
    members: JsonObject = {}
    for name, scheme in schemes.items():
        if name in absorbed:
            continue
        members[name] = add_type(_encode(scheme))
        for other in alternatives.get(name, ())[1:]:
            members[name]["flows"] |= add_type(_encode(schemes[other]))["flows"]
    return members


def decode_requirements(value: Json, path: str, alternatives: Alternatives) -> list[hub.SecurityRequirement]:
    """A `security` member: a list of alternatives. Raises DecodeError."""
    if value is None:
        return []
    found: list[hub.SecurityRequirement] = []
    for index, tree in enumerate(an_array(value, path)):
        requirement = _decode_requirement(tree, f"{path}[{index}]")
        found.append(requirement)
        found.extend(_others(requirement, alternatives))
    return found


def encode_requirements(
    requirements: Sequence[hub.SecurityRequirement], alternatives: Alternatives
) -> list[JsonObject] | None:
    """The `security` member of 0.x; None if the requirements do not treat the alternatives as equivalent."""
    found: list[JsonObject] = []
    absorbed = {other for names in alternatives.values() for other in names[1:]}
    index = 0
    while index < len(requirements):
        requirement = requirements[index]
        others = _others(requirement, alternatives)
        index += 1
        if list(requirements[index : index + len(others)]) != others:
            return None
        index += len(others)
        if not absorbed.isdisjoint(requirement.schemes):
            return None
        found.append({name: list(scopes.list) for name, scopes in requirement.schemes.items()})
    return found


def alternatives_of(schemes: Mapping[str, hub.SecurityScheme]) -> Alternatives:
    """The schemes that look like flows of one 0.x scheme."""
    found: dict[str, list[str]] = {}
    for name, scheme in schemes.items():
        base, _, flow = name.rpartition("#")
        if base in schemes and _is_flow_of(schemes[base], scheme, flow):
            found.setdefault(base, [base]).append(name)
    # In the order of decoding, so that the requirements can be compared one by one.
    return {
        base: [base, *sorted(others, key=lambda name: FLOWS.index(name.rpartition("#")[2]))]
        for base, (_, *others) in found.items()
    }


def _decode_scheme(tree: JsonObject, path: str) -> list[tuple[str, hub.SecurityScheme]]:
    """The names of the flows of a scheme, best first, each with a scheme of one flow. A scheme without flows
    gives one scheme, with an empty name.
    """
    if not is_known(tree):
        return [("", hub.SecurityScheme())]
    if tree["type"] != "oauth2":
        return [("", _read(tree, path))]
    flows = tree.get("flows")
    flows = {} if flows is None else an_object(flows, f"{path}.flows")
    found = []
    for name in FLOWS:
        if flows.get(name) is None:
            continue
        try:
            scheme = _read({**tree, "flows": {name: _strip_flow(name, flows[name])}}, path)
        except DecodeError:
            if name == "deviceCode":  # an unknown member in 0.x, which may hold anything
                continue
            raise
        found.append((name, scheme))
    return found or [("", _read({**tree, "flows": {}}, path))]


def _strip_flow(name: str, flow: Any) -> Any:
    """A flow without members that 0.x does not define, except for a valid `pkceRequired`."""
    if type(flow) is not dict:
        return flow
    return {
        name: flow[name]
        for name in _FLOW_MEMBERS[name]
        if flow.get(name) is not None and (name != "pkceRequired" or type(flow[name]) is bool)
    }


def _read(tree: JsonObject, path: str) -> hub.SecurityScheme:
    """The scheme of an object of a known type. Raises DecodeError that names the member of 0.x."""
    ((field, content),) = proto_scheme(tree).items()
    known = {name: content[name] for name in _SCHEME_MEMBERS[field] if content.get(name) is not None}
    try:
        return _decode({field: known})
    except DecodeError as error:
        place = error.path.removeprefix(f"{field}.")
        raise DecodeError(f"{path}.{'in' if place == 'location' else place}", error.problem) from None


def _decode_requirement(tree: Json, path: str) -> hub.SecurityRequirement:
    requirement = hub.SecurityRequirement()
    for name, scopes in an_object(tree, path).items():
        here = member(path, name)
        a_string(name, here)
        for index, scope in enumerate(an_array(scopes, here)):
            a_string(scope, f"{here}[{index}]")
        requirement.schemes[name].list.extend(scopes)
    return requirement


def _others(
    requirement: hub.SecurityRequirement, alternatives: Alternatives
) -> list[hub.SecurityRequirement]:
    """The same requirement with every other combination of flows."""
    names = sorted(requirement.schemes)
    choices = [alternatives.get(name, (name,)) for name in names]
    if not 1 < prod(map(len, choices)) <= _MOST_ALTERNATIVES:
        return []
    others = []
    for choice in list(product(*choices))[1:]:
        other = hub.SecurityRequirement()
        for name, chosen in zip(names, choice, strict=True):
            other.schemes[chosen].CopyFrom(requirement.schemes[name])
        others.append(other)
    return others


def _is_flow_of(base: hub.SecurityScheme, scheme: hub.SecurityScheme, flow: str) -> bool:
    one, other = base.oauth2_security_scheme, scheme.oauth2_security_scheme
    first, second = (_FLOW_OF_FIELD.get(content.flows.WhichOneof("flow") or "") for content in (one, other))
    return (
        first is not None
        and second == flow
        and FLOWS.index(first) < FLOWS.index(second)
        and (one.description, one.oauth2_metadata_url) == (other.description, other.oauth2_metadata_url)
    )
