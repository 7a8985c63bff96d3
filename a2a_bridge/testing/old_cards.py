"""Hypothesis strategies for agent cards of 0.3 and 0.2.5, as JSON trees: valid by the schema, and unusual.

Needs `hypothesis`, which the product itself does not depend on.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from a2a_bridge.codec import ExactFloat, Json, JsonObject

#: variants of numbers in JSON: those that a double loses, and those that it keeps but writes differently
_NUMBERS: tuple[Json, ...] = (
    *(0, -1, 2**53, 2**53 + 1, 2**64 - 1),
    *map(
        ExactFloat,
        ("0.5", "1.0", "-0.0", "1e0", "1E+2", "1e22", "0.10000000000000000555", "123456789.123456789"),
    ),
)
_WORDS = (
    "",
    "a",
    "é ✓ 😀",
    "text/plain",
    "urn:x:y",
    "1.0",
    "a#password",
    "~/",
    "\u0000",
)
_NAMES = ("a", "b", "a#password")
_URLS = (
    "http://agent.example/",
    "http://agent.example/",
    "https://agent.example/a2a/v1",
    "agent.example:443",
    "",
)


@cache
def texts() -> st.SearchStrategy[str]:
    """Strings that JSON can write."""
    return st.sampled_from(_WORDS) | st.text(max_size=8)


@cache
def free_json() -> st.SearchStrategy[Json]:
    """JSON of any shape, with extreme numbers, sometimes nested deeply."""
    plain = st.none() | st.booleans() | st.sampled_from(_NUMBERS) | texts()
    mixed: st.SearchStrategy[Json] = st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts(), inner, max_size=2),
        max_leaves=4,
    )
    return st.one_of(mixed, mixed, mixed, st.builds(_nest, st.integers(5, 20), mixed))


@cache
def free_objects() -> st.SearchStrategy[JsonObject]:
    """JSON objects of any content."""
    return st.dictionaries(texts(), free_json(), max_size=3)


@cache
def card_trees(version: str = "0.3.0") -> st.SearchStrategy[JsonObject]:
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
            "defaultInputModes": _lists(texts()),
            "defaultOutputModes": _lists(texts()),
            "skills": _lists(_skill(new=new)),
        },
        {
            "additionalInterfaces": _lists(_objects({"url": urls, "transport": transports}, {})),
            "preferredTransport": transports,
            "documentationUrl": urls,
            "iconUrl": urls,
            "provider": _objects({"organization": texts(), "url": urls}, {}),
            "security": _requirements(),
            "securitySchemes": _schemes(new=new),
            "supportsAuthenticatedExtendedCard": st.booleans(),
        }
        | ({"signatures": _lists(signature)} if new else {}),
    )


def _nest(levels: int, leaf: Json) -> Json:
    for level in range(levels):
        leaf = [leaf] if level % 2 else {"deep": leaf}
    return leaf


def _object(draw: st.DrawFn, required: dict[str, Any], optional: dict[str, Any]) -> JsonObject:
    tree = {name: draw(values) for name, values in required.items()}
    for name, values in optional.items():
        if draw(st.booleans()):
            tree[name] = draw(st.one_of(values, values, values, st.none()))
    if draw(st.integers(0, 5)) == 0:
        # Also names that only 1.0 or only the protobuf variant has: here they have no meaning.
        unknown = st.sampled_from(
            (
                "x-unknown",
                "supportedInterfaces",
                "extendedAgentCard",
                "icon_url",
                "securityRequirements",
                "deviceCode",
            )
        )
        tree.setdefault(draw(unknown | texts()), draw(free_json()))
    return tree


def _objects(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[JsonObject]:
    return st.composite(_object)(required, optional)


def _lists(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, max_size=2)


def _requirements() -> st.SearchStrategy[list[JsonObject]]:
    return _lists(st.dictionaries(st.sampled_from(_NAMES) | texts(), _lists(texts()), max_size=2))


def _flow(*urls: str) -> st.SearchStrategy[JsonObject]:
    required = dict.fromkeys(urls, texts()) | {"scopes": st.dictionaries(texts(), texts(), max_size=2)}
    return _objects(required, {"refreshUrl": texts()})


def _schemes(*, new: bool) -> st.SearchStrategy[JsonObject]:
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


def _skill(*, new: bool) -> st.SearchStrategy[JsonObject]:
    return _objects(
        {"id": texts(), "name": texts(), "description": texts(), "tags": _lists(texts())},
        dict.fromkeys(("inputModes", "outputModes", "examples"), _lists(texts()))
        | ({"security": _requirements()} if new else {}),
    )


def _capabilities() -> st.SearchStrategy[JsonObject]:
    extension = _objects(
        {"uri": texts()}, {"description": texts(), "required": st.booleans(), "params": free_objects()}
    )
    switches = dict.fromkeys(("streaming", "pushNotifications", "stateTransitionHistory"), st.booleans())
    return _objects({}, switches | {"extensions": _lists(extension)})
