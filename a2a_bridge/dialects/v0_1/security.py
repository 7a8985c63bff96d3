"""AgentAuthentication of 0.1 ↔ `securitySchemes` and `security` of 0.3. Authentication itself is elsewhere.

Rules:
1. Each name in `schemes` is one scheme of that name and one alternative: Bearer, Basic and unknown names are
   HTTP schemes, ApiKey is a key in the header X-API-Key, OAuth2 has flows.
2. `credentials` may be JSON with further, non-secret details: `in` and `name` of the key, `flows`; at the
   top level, or under the name of the scheme. Other content is for people.
3. The reverse lists the schemes in the order in which they are required.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import EncodeError, JsonSyntaxError, dumps, loads
from a2a_bridge.codec.values import string_wire
from a2a_bridge.dialects.scalars import a_string, an_array, an_object
from a2a_bridge.dialects.unmapped import same
from a2a_bridge.dialects.v0_1.stash import Unit

API_KEY_HEADER = "X-API-Key"

_PLACES = ("header", "query", "cookie")
_FLOWS = ("authorizationCode", "clientCredentials", "implicit", "password")
_NAMES = {
    "apiKey": "ApiKey",
    "oauth2": "OAuth2",
    "openIdConnect": "OpenIdConnect",
    "mutualTLS": "MutualTLS",
}


def decode_authentication(authentication: Any) -> Unit:
    """The members `securitySchemes` and `security`; empty if nothing is required. Raises DecodeError."""
    names = an_object(authentication, "authentication").get("schemes")
    if names is None:
        # Required by its schema, and omitted by agents that require nothing.
        return {}
    for place, name in enumerate(an_array(names, "authentication.schemes")):
        a_string(name, f"authentication.schemes[{place}]")
    if not names:
        return {}
    details = _details(authentication.get("credentials"))
    return {
        "securitySchemes": {name: _scheme(name, details) for name in names},
        "security": [{name: []} for name in dict.fromkeys(names)],
    }


def encode_authentication(tree: Unit) -> Unit | None:
    """The `authentication` of a card of 0.3; None if it has no schemes."""
    schemes = tree.get("securitySchemes")
    if type(schemes) is not dict or not schemes:
        return None
    required = [name for one in tree.get("security") or () if type(one) is dict for name in one]
    named: dict[str, Any] = {}
    details: dict[str, Any] = {}
    for key in dict.fromkeys(required or schemes):
        scheme = schemes.get(key)
        if type(scheme) is not dict:
            continue
        name = key if same(scheme, _scheme(key, {})) else _name(key, scheme)
        named[name] = None
        hints = _hints(scheme)
        if hints and not same(_scheme(name, {}), scheme):
            details[name] = hints
    made: Unit = {"schemes": list(named)}
    if details:
        made["credentials"] = dumps(details).decode()
    return made


def _scheme(name: str, details: Unit) -> Unit:
    hints = details.get(name)
    hints = hints if type(hints) is dict else details
    match name.lower().replace("-", "").replace("_", ""):
        case "apikey":
            place, header = hints.get("in"), hints.get("name")
            return {
                "type": "apiKey",
                "in": place if place in _PLACES else "header",
                "name": header if header and _is_text(header) else API_KEY_HEADER,
            }
        case "oauth2":
            flows = hints.get("flows", hints)
            flows = flows if type(flows) is dict else {}
            return {
                "type": "oauth2",
                "flows": {key: flows[key] for key in _FLOWS if _is_flow(flows.get(key))},
            }
    return {"type": "http", "scheme": name}


def _is_flow(flow: Any) -> bool:
    """Whether it can be in a card: an invalid hint must not make the card unreadable."""
    if type(flow) is not dict or type(flow.get("scopes", {})) is not dict:
        return False
    texts = [flow.get(name, "") for name in ("authorizationUrl", "tokenUrl", "refreshUrl")]
    scopes = flow.get("scopes", {})
    return all(map(_is_text, [*texts, *scopes, *scopes.values()]))


def _is_text(value: Any) -> bool:
    try:
        string_wire(value)
    except ValueError:
        return False
    return True


def _name(key: str, scheme: Unit) -> str:
    kind = scheme.get("type")
    if kind == "http" and type(scheme.get("scheme")) is str:
        text: str = scheme["scheme"]
        return {"bearer": "Bearer", "basic": "Basic"}.get(text.lower(), text)
    return _NAMES.get(kind, key) if type(kind) is str else key


def _hints(scheme: Unit) -> Unit:
    """The content of a scheme that its name does not imply."""
    hints = {name: value for name, value in scheme.items() if name not in ("type", "scheme", "description")}
    return hints if hints.get("flows") != {} or len(hints) > 1 else {}


def _details(credentials: Any) -> Unit:
    if type(credentials) is not str or not credentials.lstrip().startswith("{"):
        return {}
    try:
        tree = loads(credentials)
    except (JsonSyntaxError, EncodeError, UnicodeEncodeError):
        return {}
    return tree if type(tree) is dict else {}
