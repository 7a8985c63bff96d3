"""Hypothesis strategies for cards of 0.3 and 0.2.5, as JSON trees: valid by the schema, and unusual."""

from functools import cache, partial

from hypothesis import strategies as st

from tests.strategies_v0 import Strategy, free_objects, lists, objects
from tests.strategies_v0 import texts as any_texts

_WORDS = ("", "a", "é ✓ 😀", "text/plain", "urn:x:y", "1.0", "a#password", "~/", "\u0000")
_NAMES = ("a", "b", "a#password")
_URLS = (
    "http://agent.example/",
    "http://agent.example/",
    "https://agent.example/a2a/v1",
    "agent.example:443",
    "",
)


#: names that only 1.0 or only the protobuf variant has: here they have no meaning
_STRANGERS = (
    "x-unknown",
    "supportedInterfaces",
    "extendedAgentCard",
    "icon_url",
    "securityRequirements",
    "deviceCode",
)

_objects = partial(objects, strangers=_STRANGERS)


@cache
def texts() -> Strategy:
    """Strings that JSON can write."""
    return st.sampled_from(_WORDS) | any_texts()


@cache
def card_trees(version: str = "0.3.0") -> Strategy:
    """Cards of 0.3.0 or 0.2.5 with any members, unknown ones and null for optional ones included."""
    new = version.startswith("0.3")
    urls = st.sampled_from(_URLS) | texts()
    transports = st.sampled_from(("JSONRPC", "GRPC", "HTTP+JSON")) | texts()
    signature = _objects({"protected": texts(), "signature": texts()}, {"header": free_objects()})
    return _objects(
        {
            "protocolVersion": st.sampled_from((version, version, "0.2.6", "0.3")) | texts(),
            "name": texts(),
            "description": texts(),
            "url": urls,
            "version": texts(),
            "capabilities": _capabilities(),
            "defaultInputModes": lists(texts()),
            "defaultOutputModes": lists(texts()),
            "skills": lists(_skill(new=new)),
        },
        {
            "additionalInterfaces": lists(_objects({"url": urls, "transport": transports}, {})),
            "preferredTransport": transports,
            "documentationUrl": urls,
            "iconUrl": urls,
            "provider": _objects({"organization": texts(), "url": urls}, {}),
            "security": _requirements(),
            "securitySchemes": _schemes(new=new),
            "supportsAuthenticatedExtendedCard": st.booleans(),
        }
        | ({"signatures": lists(signature)} if new else {}),
    )


def _requirements() -> Strategy:
    return lists(st.dictionaries(st.sampled_from(_NAMES) | texts(), lists(texts()), max_size=2))


def _flow(*urls: str) -> Strategy:
    required = dict.fromkeys(urls, texts()) | {"scopes": st.dictionaries(texts(), texts(), max_size=2)}
    return _objects(required, {"refreshUrl": texts()})


def _schemes(*, new: bool) -> Strategy:
    described = {"description": texts()}
    flows = _objects(
        {},
        {
            "authorizationCode": _flow("authorizationUrl", "tokenUrl"),
            "clientCredentials": _flow("tokenUrl"),
            "implicit": _flow("authorizationUrl"),
            "password": _flow("tokenUrl"),
        },
    )
    oauth2 = _objects(
        {"type": st.just("oauth2"), "flows": flows},
        described | ({"oauth2MetadataUrl": texts()} if new else {}),
    )
    kinds = [
        _objects(
            {
                "type": st.just("apiKey"),
                "name": texts(),
                "in": st.sampled_from(("cookie", "header", "query")),
            },
            described,
        ),
        _objects({"type": st.just("http"), "scheme": texts()}, described | {"bearerFormat": texts()}),
        oauth2,
        oauth2,
        _objects({"type": st.just("openIdConnect"), "openIdConnectUrl": texts()}, described),
    ]
    if new:
        kinds.append(_objects({"type": st.just("mutualTLS")}, described))
    return st.dictionaries(st.sampled_from(_NAMES) | texts(), st.one_of(kinds), max_size=3)


def _skill(*, new: bool) -> Strategy:
    return _objects(
        {"id": texts(), "name": texts(), "description": texts(), "tags": lists(texts())},
        dict.fromkeys(("inputModes", "outputModes", "examples"), lists(texts()))
        | ({"security": _requirements()} if new else {}),
    )


def _capabilities() -> Strategy:
    extension = _objects(
        {"uri": texts()}, {"description": texts(), "required": st.booleans(), "params": free_objects()}
    )
    switches = dict.fromkeys(("streaming", "pushNotifications", "stateTransitionHistory"), st.booleans())
    return _objects({}, switches | {"extensions": lists(extension)})
