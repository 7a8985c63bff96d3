"""Keys, cards and signatures made by hand. No tests."""

import base64
import json
from typing import Any

import rfc8785
from joserfc import jwk, jws

from a2a_bridge.codec import JsonObject
from a2a_bridge.signing import ReceivedCard, VerifiedCard

NOW = 1_800_000_000.0
CARD: JsonObject = {
    "name": "Weather",
    "description": "Says é and \u20ac",
    "version": "1",
    "supportedInterfaces": [
        {"url": "https://agent.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "capabilities": {
        "streaming": False,
        "extensions": [{"uri": "urn:x", "params": {"n": 1.5, "deep": {"s": "é"}}}],
    },
    "securitySchemes": {
        "oauth": {
            "oauth2SecurityScheme": {
                "flows": {
                    "clientCredentials": {
                        "tokenUrl": "https://idp.example/token",
                        "scopes": {"read": "reads", "write": "writes"},
                    }
                }
            }
        }
    },
    "securityRequirements": [{"schemes": {"oauth": {"list": ["read"]}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "s", "description": "d", "tags": ["a", "b"]}],
}
#: what a card for readers of several versions has beside it
OLDER: JsonObject = {
    "protocolVersion": "0.3.0",
    "url": "https://agent.example/",
    "preferredTransport": "JSONRPC",
    "security": [{"oauth": ["read"]}],
}


def new_key(kind: str = "ES256", kid: str = "k1", **members: Any) -> Any:
    """A private key for an algorithm."""
    made: Any
    if kind.startswith("ES"):
        made = jwk.ECKey.generate_key({"ES256": "P-256", "ES384": "P-384"}[kind])
    elif kind == "EdDSA":
        made = jwk.OKPKey.generate_key("Ed25519")
    else:
        made = jwk.RSAKey.generate_key(2048)
    return jwk.import_key({**made.as_dict(private=True), "kid": kid, **members})


def public(key: Any) -> Any:
    return jwk.import_key({**key.as_dict(private=False)})


def text_of(key: Any) -> str:
    return json.dumps(key.as_dict(private=True))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signature(card: JsonObject, key: Any, header: Any = None, **more: Any) -> JsonObject:
    """A signature over the canonical form of a card as it is. header: in place of the usual one."""
    head = {"alg": "ES256", "kid": key.get("kid"), "typ": "JOSE"} | more if header is None else header
    protected = encoded(head if isinstance(head, bytes) else json.dumps(head).encode())
    text = rfc8785.dumps({name: value for name, value in card.items() if name != "signatures"})
    model = jws.JWSRegistry.algorithms[
        "EdDSA"
        if key.key_type == "OKP"
        else {"P-256": "ES256", "P-384": "ES384"}.get(key.get("crv"), "RS256")
    ]
    signed = model.sign(f"{protected}.{encoded(text)}".encode(), key)
    return {"protected": protected, "signature": encoded(signed)}


def signed(card: JsonObject, key: Any, header: Any = None, **more: Any) -> JsonObject:
    return {**card, "signatures": [signature(card, key, header, **more)]}


def verified(card: JsonObject | bytes, *keys: Any, now: float = NOW) -> VerifiedCard:
    raw = card if isinstance(card, bytes) else json.dumps(card).encode()
    return ReceivedCard(raw).verify(lambda _: [public(key) for key in keys], now)
