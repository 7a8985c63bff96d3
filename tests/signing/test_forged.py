"""Forged cards: each one is rejected with a reason, and nothing of it is read."""

import base64
import copy
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import JsonObject
from a2a_bridge.signing import UnverifiedCardError
from a2a_bridge.testing.each import each
from tests.signing.scene import CARD, NOW, OLDER, encoded, new_key, public, signature, signed, verified

KEY = new_key()
OTHER = new_key(kid="k1")
RSA = new_key("RS256", kid="rsa")
EXPIRED = new_key(kid="old", exp=int(NOW) - 1)
FOR_ENCRYPTION = new_key(kid="enc", use="enc")
SIGNED = signed(CARD, KEY)


def _changed(change: Callable[[Any], None], card: JsonObject = SIGNED) -> bytes:
    made = copy.deepcopy(card)
    change(made)
    return json.dumps(made).encode()


def _with_header(header: Any) -> bytes:
    return json.dumps(signed(CARD, KEY, header)).encode()


def _without_signature(algorithm: str) -> bytes:
    protected = encoded(json.dumps({"alg": algorithm, "kid": "k1"}).encode())
    return json.dumps({**CARD, "signatures": [{"protected": protected, "signature": ""}]}).encode()


def _none_with_bytes() -> bytes:
    row = signature(CARD, KEY, {"alg": "none", "kid": "k1"})
    return json.dumps({**CARD, "signatures": [row]}).encode()


def _shared_secret(algorithm: str, digest: str) -> bytes:
    """HMAC with the public key as the secret, as PEM and as it is published."""
    rows = []
    for secret in (public(RSA).as_pem(private=False), json.dumps(RSA.as_dict(private=False)).encode()):
        protected = encoded(json.dumps({"alg": algorithm, "kid": "rsa"}).encode())
        signed_text = f"{protected}.{encoded(rfc8785.dumps(CARD))}".encode()
        rows.append(
            {"protected": protected, "signature": encoded(hmac.new(secret, signed_text, digest).digest())}
        )
    return json.dumps({**CARD, "signatures": rows}).encode()


def _der(text: str) -> str:
    raw = base64.urlsafe_b64decode(text + "==")
    return encoded(encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:])))


def _twice(name: str, value: str) -> bytes:
    """A member a second time, before and after the one that is signed."""
    text = json.dumps(SIGNED)
    return f'{{"{name}": {value}, {text[1:]}'.encode()


def _nested_twice() -> bytes:
    return json.dumps(SIGNED).replace('"url":', '"url": "https://evil.example/", "url":', 1).encode()


#: what a forger changes in the signed card, so that the signature is one of another card
CHANGES: dict[str, Callable[[Any], Any]] = {
    "signature cut off": lambda card: card["signatures"][0].update(signature="AAAA"),
    "signature of zeros": lambda card: card["signatures"][0].update(signature=encoded(bytes(64))),
    "signature in DER": lambda card: card["signatures"][0].update(
        signature=_der(card["signatures"][0]["signature"])
    ),
    "another name": lambda card: card.update(name="Evil"),
    "another URL": lambda card: card["supportedInterfaces"][0].update(url="https://evil.example/"),
    "an interface more": lambda card: card["supportedInterfaces"].append({"url": "https://evil.example/"}),
    "items in another order": lambda card: card["skills"][0]["tags"].reverse(),
    "a scope more": lambda card: card["securityRequirements"][0]["schemes"]["oauth"]["list"].append("write"),
    "no security": lambda card: card.pop("securityRequirements"),
    "a false dropped": lambda card: card["capabilities"].pop("streaming"),
    "a false turned": lambda card: card["capabilities"].update(streaming=True),
    "a number changed": lambda card: card["capabilities"]["extensions"][0]["params"].update(n=1.25),
}
FORGED: dict[str, tuple[bytes, str]] = {
    **{name: (_changed(change), "is not one of this card") for name, change in CHANGES.items()},
    "crit": (
        _with_header({"alg": "ES256", "kid": "k1", "crit": ["x"], "x": 1}),
        "`crit`, which is not under",
    ),
    "crit empty": (
        _with_header({"alg": "ES256", "kid": "k1", "crit": []}),
        "`crit`, which is not understood",
    ),
    "b64 false": (
        _with_header({"alg": "ES256", "kid": "k1", "b64": False}),
        "`b64`, which is not understood",
    ),
    "no signature": (json.dumps(CARD).encode(), "it has no signature"),
    "an empty list": (json.dumps({**CARD, "signatures": []}).encode(), "it has no signature"),
    "none": (_without_signature("none"), "not allowed|not base64url"),
    "none with bytes": (_none_with_bytes(), "the algorithm 'none' is not allowed"),
    "None": (_with_header({"alg": "NoNe", "kid": "k1"}), "not allowed"),
    "no alg": (_with_header({"kid": "k1"}), "the algorithm None is not allowed"),
    "alg a list": (_with_header({"alg": ["ES256"], "kid": "k1"}), "not allowed"),
    "HS256 with the public key": (_shared_secret("HS256", "sha256"), "the algorithm 'HS256' is not allowed"),
    "HS512 with the public key": (_shared_secret("HS512", "sha512"), "the algorithm 'HS512' is not allowed"),
    "RS256 named for an EC key": (_with_header({"alg": "RS256", "kid": "k1"}), "is not one for RS256"),
    "ES384 named for P-256": (_with_header({"alg": "ES384", "kid": "k1"}), "is not one for ES384"),
    "another key with the same id": (json.dumps(signed(CARD, OTHER)).encode(), "is not one of this card"),
    "an unknown key": (
        json.dumps(signed(CARD, new_key(kid="x"))).encode(),
        "'x' is not one of the configured",
    ),
    "kid a path": (
        _with_header({"alg": "ES256", "kid": "../../../../dev/null"}),
        "not one of the configured",
    ),
    "kid a file": (_with_header({"alg": "ES256", "kid": "file:///etc/passwd"}), "not one of the configured"),
    "kid SQL": (_with_header({"alg": "ES256", "kid": "k1' OR '1'='1"}), "not one of the configured"),
    "kid a number": (_with_header({"alg": "ES256", "kid": 1}), "has no `kid`"),
    "no kid": (_with_header({"alg": "ES256"}), "has no `kid`"),
    "jwk in the header": (
        json.dumps(signed(CARD, new_key(kid="me"), jwk=new_key().as_dict(private=False))).encode(),
        "'me' is not one of the configured",
    ),
    "jku of the forger": (
        json.dumps(signed(CARD, OTHER, jku="https://evil.example/jwks.json")).encode(),
        "is not one of this card",
    ),
    "x5u of the forger": (
        json.dumps(signed(CARD, OTHER, x5u="https://evil.example/chain.pem")).encode(),
        "is not one of this card",
    ),
    "crit beside": (
        _changed(lambda card: card["signatures"][0].update(header={"crit": ["x"]})),
        "`crit`, which is not understood",
    ),
    "alg beside too": (
        _changed(lambda card: card["signatures"][0].update(header={"alg": "none"})),
        "both protected and not",
    ),
    "alg twice in the header": (
        _with_header(b'{"alg":"none","kid":"k1","alg":"ES256"}'),
        "a header has the member 'alg' twice",
    ),
    "header no JSON": (_with_header(b"text"), "a header is not JSON"),
    "header no object": (_with_header(b"[]"), "a header is no object"),
    "header no base64url": (
        _changed(lambda card: card["signatures"][0].update(protected="e30=")),
        "not base64url",
    ),
    "signature no base64url": (
        _changed(lambda card: card["signatures"][0].update(signature="+/==")),
        "not base64url",
    ),
    "signatures no list": (json.dumps({**CARD, "signatures": {}}).encode(), "is no list"),
    "a signature no object": (json.dumps({**CARD, "signatures": [1]}).encode(), "is no object"),
    "too many": (
        json.dumps({**CARD, "signatures": SIGNED["signatures"] * 17}).encode(),
        "more than 16 signatures",
    ),
    "expired key": (json.dumps(signed(CARD, EXPIRED)).encode(), "'old' has expired"),
    "key for encryption": (json.dumps(signed(CARD, FOR_ENCRYPTION)).encode(), "is not one for ES256"),
    "a member twice, first": (_twice("name", '"Evil"'), "the card has the member 'name' twice"),
    "an equal member twice": (_twice("name", '"Weather"'), "the card has the member 'name' twice"),
    "signatures twice": (_twice("signatures", "[]"), "the card has the member 'signatures' twice"),
    "a nested member twice": (_nested_twice(), "the card has the member 'url' twice"),
    "an unknown member": (_changed(lambda card: card.update({"x-trust": "all"})), "does not cover x-trust"),
    "an unknown member inside": (
        _changed(lambda card: card["skills"][0].update({"endpoint": "https://evil.example"})),
        r"does not cover skills\[0\]\.endpoint",
    ),
    "the variant of the proto": (
        _changed(lambda card: card.update(supported_interfaces=[{"url": "https://evil.example"}])),
        "does not cover supported_interfaces",
    ),
    "a changed member of a signed dual card": (
        _changed(lambda card: card.update(preferredTransport=7, other=1), signed({**CARD, **OLDER}, KEY)),
        "is not one of this card",
    ),
    "no JSON": (b"<html>", "the card is not JSON"),
    "NaN": (_changed(lambda card: card.update(x=float("nan"))), "the card is not JSON"),
    "no UTF-8": (b'{"name": "\xff"}', "the card is not JSON"),
    "no object": (b"[]", "the card is no object"),
    "deep": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    "an integer without a double": (_changed(lambda card: card.update(x=2**60)), "has no canonical form"),
    "half a surrogate pair": (_changed(lambda card: card.update(x="\ud800")), "has no canonical form"),
}


@each("name", FORGED)
def test_a_forged_card_is_rejected(name: str) -> None:
    document, words = FORGED[name]
    with pytest.raises(UnverifiedCardError, match=words):
        verified(document, KEY, RSA, EXPIRED, FOR_ENCRYPTION)


def test_the_true_card_is_not() -> None:
    assert verified(SIGNED, KEY, RSA).kid == "k1"


def test_a_digest_of_the_card_is_not_enough() -> None:
    digest = encoded(hashlib.sha256(json.dumps(CARD).encode()).digest())
    forged = _changed(lambda card: card["signatures"][0].update(signature=digest))
    with pytest.raises(UnverifiedCardError):
        verified(forged, KEY)


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [here for key, value in items for here in ((*path, key), *_paths(value, (*path, key)))]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(_paths(CARD)), st.none() | st.booleans() | st.integers(2, 9) | st.text("abé", min_size=1)
)
def test_no_change_of_any_member_passes(path: tuple[Any, ...], value: Any) -> None:
    made = copy.deepcopy(SIGNED)
    inner: Any = made
    for key in path[:-1]:
        inner = inner[key]
    if inner[path[-1]] == value:
        return
    inner[path[-1]] = value
    with pytest.raises(UnverifiedCardError):
        verified(made, KEY)
