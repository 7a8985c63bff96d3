"""Security schemes and requirements as 0.x cards spell them. Authentication itself is elsewhere.

Rules (A2A 0.3, 5.5.3; A2A 1.0, 4.5):
1. `type` determines a scheme. An unknown type becomes a scheme without content.
2. An OAuth 2 scheme of 1.0 has one flow, one of 0.x has any number. The first flow in the order of FLOWS
   stays under the name of the scheme, each other becomes a scheme `<name>#<flow>`. After every requirement
   that names the scheme follow the same requirements with the other flows: alternatives, as all requirements
   are.
3. In the other direction such schemes are merged again, if all requirements agree.
4. `deviceCode` and `pkceRequired` of 1.0 are further members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from google.protobuf.message import Message

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
from a2a_bridge.codec.inspect import member
from a2a_bridge.codec.values import describe
from a2a_bridge.dialects.v0_3.card_interfaces import check_unicode
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the name in a requirement → the names of equivalent schemes, itself first
Alternatives = Mapping[str, Sequence[str]]

#: members of the flows of OAuth 2, best first: the first one keeps the name of the scheme
FLOWS: dict[str, tuple[str, type[Message], tuple[str, ...]]] = {
    "authorizationCode": (
        "authorization_code",
        hub.AuthorizationCodeOAuthFlow,
        ("authorizationUrl", "tokenUrl", "refreshUrl", "scopes"),
    ),
    "clientCredentials": (
        "client_credentials",
        hub.ClientCredentialsOAuthFlow,
        ("tokenUrl", "refreshUrl", "scopes"),
    ),
    "deviceCode": (
        "device_code",
        hub.DeviceCodeOAuthFlow,
        ("deviceAuthorizationUrl", "tokenUrl", "refreshUrl", "scopes"),
    ),
    "password": ("password", hub.PasswordOAuthFlow, ("tokenUrl", "refreshUrl", "scopes")),
    "implicit": ("implicit", hub.ImplicitOAuthFlow, ("authorizationUrl", "refreshUrl", "scopes")),
}
_REQUIRED_IN_FLOWS = ("authorizationUrl", "tokenUrl")
_FLOW_OF_FIELD = {field: name for name, (field, _, _) in FLOWS.items()}
_RANK = {name: index for index, name in enumerate(FLOWS)}

#: type → field of SecurityScheme, class, members by their 0.x names
TYPES: dict[str, tuple[str, type[Message], dict[str, str]]] = {
    "apiKey": (
        "api_key_security_scheme",
        hub.APIKeySecurityScheme,
        {"description": "description", "in": "location", "name": "name"},
    ),
    "http": (
        "http_auth_security_scheme",
        hub.HTTPAuthSecurityScheme,
        {"description": "description", "scheme": "scheme", "bearerFormat": "bearerFormat"},
    ),
    "oauth2": (
        "oauth2_security_scheme",
        hub.OAuth2SecurityScheme,
        {"description": "description", "oauth2MetadataUrl": "oauth2MetadataUrl"},
    ),
    "openIdConnect": (
        "open_id_connect_security_scheme",
        hub.OpenIdConnectSecurityScheme,
        {"description": "description", "openIdConnectUrl": "openIdConnectUrl"},
    ),
    "mutualTLS": ("mtls_security_scheme", hub.MutualTlsSecurityScheme, {"description": "description"}),
}
_TYPE_OF_FIELD = {field: name for name, (field, _, _) in TYPES.items()}

_MOST_ALTERNATIVES = 16
"""Maximum number of alternatives made from one requirement, so that a hostile card stays small."""


def decode_schemes(value: Json) -> tuple[dict[str, hub.SecurityScheme], Alternatives]:
    """`securitySchemes` as schemes of one flow each, and the groups of equivalent ones.

    Raises DecodeError.
    """
    if value is None:
        return {}, {}
    if type(value) is not dict:
        raise DecodeError("securitySchemes", f"expected an object, got {describe(value)}")
    schemes: dict[str, hub.SecurityScheme] = {}
    further: dict[str, dict[str, hub.SecurityScheme]] = {}
    for name, tree in value.items():
        path = member("securitySchemes", name)
        check_unicode(name, path)
        if type(tree) is not dict:
            raise DecodeError(path, f"expected an object, got {describe(tree)}")
        schemes[name], others = _decode_scheme(tree, path)
        if others:
            further[name] = {f"{name}#{flow}": scheme for flow, scheme in others.items()}
    alternatives: dict[str, list[str]] = {}
    for name, others in further.items():
        for other, scheme in others.items():
            if other not in value:  # the card's own names take precedence
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
        members[name] = _encode_scheme(scheme)
        for other in alternatives.get(name, ())[1:]:
            members[name]["flows"] |= _encode_flows(schemes[other].oauth2_security_scheme.flows)
    return members


def decode_requirements(value: Json, path: str, alternatives: Alternatives) -> list[hub.SecurityRequirement]:
    """A `security` member: a list of alternatives. Raises DecodeError."""
    if value is None:
        return []
    if type(value) is not list:
        raise DecodeError(path, f"expected an array, got {describe(value)}")
    found: list[hub.SecurityRequirement] = []
    for index, tree in enumerate(value):
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
        base: [base, *sorted(others, key=lambda name: _RANK[name.rpartition("#")[2]])]
        for base, (_, *others) in found.items()
    }


def _decode_scheme(tree: JsonObject, path: str) -> tuple[hub.SecurityScheme, dict[str, hub.SecurityScheme]]:
    kind = tree.get("type")
    known = TYPES.get(kind) if type(kind) is str else None
    scheme = hub.SecurityScheme()
    if known is None:
        return scheme, {}
    field, cls, names = known
    content: Any = _read(cls, tree, names, path)
    getattr(scheme, field).CopyFrom(content)
    getattr(scheme, field).SetInParent()
    if kind != "oauth2":
        return scheme, {}
    first, *rest = _decode_flows(tree.get("flows"), f"{path}.flows") or [("", hub.OAuthFlows())]
    others: dict[str, hub.SecurityScheme] = {}
    for flow, flows in rest:
        others[flow] = hub.SecurityScheme()
        others[flow].CopyFrom(scheme)
        others[flow].oauth2_security_scheme.flows.CopyFrom(flows)
    scheme.oauth2_security_scheme.flows.CopyFrom(first[1])
    scheme.oauth2_security_scheme.flows.SetInParent()
    return scheme, others


def _decode_flows(value: Json, path: str) -> list[tuple[str, hub.OAuthFlows]]:
    """The present flows, best first, each in a message of its own."""
    if value is None:
        return []
    if type(value) is not dict:
        raise DecodeError(path, f"expected an object, got {describe(value)}")
    found = []
    for name, (field, cls, members) in FLOWS.items():
        tree = value.get(name)
        if tree is None:
            continue
        try:
            content: Any = _read(cls, tree, {one: one for one in members}, f"{path}.{name}")
        except DecodeError:
            if name == "deviceCode":  # an unknown member in 0.x, which may hold anything
                continue
            raise
        if name == "authorizationCode" and type(tree.get("pkceRequired")) is bool:
            content.pkce_required = tree["pkceRequired"]
        flows = hub.OAuthFlows()
        getattr(flows, field).CopyFrom(content)
        getattr(flows, field).SetInParent()
        found.append((name, flows))
    return found


def _read(cls: type[Message], tree: Json, names: Mapping[str, str], path: str) -> Any:
    """A message from members of an object by their 0.x names; errors name the member."""
    if type(tree) is not dict:
        raise DecodeError(path, f"expected an object, got {describe(tree)}")
    named = {new: tree[old] for old, new in names.items() if tree.get(old) is not None}
    try:
        return decoder(cls)(named)
    except DecodeError as error:
        head = error.path.partition(".")[0].partition("[")[0]
        old = next((old for old, new in names.items() if new == head), head)
        raise DecodeError(f"{path}.{old}{error.path[len(head) :]}", error.problem) from None


def _encode_scheme(scheme: hub.SecurityScheme) -> JsonObject:
    field = scheme.WhichOneof("scheme")
    if field is None:
        return {}
    kind = _TYPE_OF_FIELD[field]
    _, cls, names = TYPES[kind]
    content = getattr(scheme, field)
    tree = encoder(cls)(content)
    members: JsonObject = {"type": kind}
    members |= {old: tree[new] for old, new in names.items() if new in tree}
    if kind == "oauth2":
        members["flows"] = _encode_flows(content.flows)
    return members


def _encode_flows(flows: hub.OAuthFlows) -> JsonObject:
    field = flows.WhichOneof("flow")
    if field is None:
        return {}
    name = _FLOW_OF_FIELD[field]
    _, cls, members = FLOWS[name]
    required: JsonObject = {one: "" for one in _REQUIRED_IN_FLOWS if one in members} | {"scopes": {}}
    return {name: required | encoder(cls)(getattr(flows, field))}


def _decode_requirement(tree: Json, path: str) -> hub.SecurityRequirement:
    if type(tree) is not dict:
        raise DecodeError(path, f"expected an object, got {describe(tree)}")
    requirement = hub.SecurityRequirement()
    for name, scopes in tree.items():
        here = member(path, name)
        check_unicode(name, here)
        if type(scopes) is not list:
            raise DecodeError(here, f"expected an array, got {describe(scopes)}")
        for index, scope in enumerate(scopes):
            if type(scope) is not str:
                raise DecodeError(f"{here}[{index}]", f"expected a string, got {describe(scope)}")
            check_unicode(scope, f"{here}[{index}]")
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
        and _RANK[first] < _RANK[second]
        and (one.description, one.oauth2_metadata_url) == (other.description, other.oauth2_metadata_url)
    )
