"""The agent card of 0.1 ↔ the card of 0.3, which `v0_3.card` reads and writes. It fetches nothing.

Rules:
1. A card of 0.1 names no version. It is recognised by `authentication`, which no later version has, and by
   the absence of members that later versions introduced. The absence of others says nothing: many cards of
   later versions lack required members.
2. Members that became required later get defaults on conversion to 0.3: description "", tags [], modes
   ["text"].
3. For an agent that also speaks other versions of 0.x there is one document for all: theirs, with
   `authentication`, which they ignore.

Rules for AgentAuthentication, which is `securitySchemes` and `security` in 0.3:
1. Each name in `schemes` is one scheme of that name and one alternative: Bearer, Basic and unknown names are
   HTTP schemes, ApiKey is a key in the header X-API-Key, OAuth2 has flows.
2. `credentials` may be JSON with further, non-secret details: `in` and `name` of the key, `flows`; at the
   top level, or under the name of the scheme. Other content is for people.
3. The reverse lists the schemes in the order in which they are required.
"""

from typing import Any

from a2a_bridge.codec import EncodeError, JsonObject, JsonSyntaxError, dumps, loads
from a2a_bridge.codec.values import string_wire
from a2a_bridge.dialects.boundary import card_decoder
from a2a_bridge.dialects.dialect import CardForm
from a2a_bridge.dialects.known import normalise
from a2a_bridge.dialects.scalars import a_string, an_array, an_object
from a2a_bridge.dialects.unmapped import same
from a2a_bridge.dialects.v0_1.parts import Unit, coders, decode_unit, encode_unit, without_nulls
from a2a_bridge.dialects.v0_3.card import decode_card, encode_card
from a2a_bridge.pb import lf_a2a_v1 as hub

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
