"""Keys of signatures: algorithms, private keys to sign with, and public key sets (JWKS)."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from a2a_bridge.core.extras import load

#: the algorithms of each kind of key (RFC 7518, RFC 8037). No `none`, and none with a shared secret: a public
#: key must never become one
_BY_KIND = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("OKP", "Ed25519"): ("EdDSA", "Ed25519"),
}
ALGORITHMS = tuple(name for names in _BY_KIND.values() for name in names)
#: those to sign with
_SIGNING = {
    ("EC", "P-256"): "ES256",
    ("EC", "P-384"): "ES384",
    ("OKP", "Ed25519"): "EdDSA",
    ("RSA", ""): "RS256",
}
SMALLEST_RSA = 2048


class SigningKey(NamedTuple):
    """A private key."""

    key: Any
    algorithm: str
    kid: str

    def public(self) -> dict[str, Any]:
        """Its public part as a JWK."""
        part: dict[str, Any] = self.key.as_dict(private=False)
        return part | {"kid": self.kid, "alg": self.algorithm, "use": "sig"}


def signing_key(text: str, what: str, other: str, exactly: str) -> SigningKey:
    """A private key as PEM or JWK: EC P-256 or P-384, or of one `other` kind: `Ed25519` or `RSA`. what,
    exactly: for messages. Raises ValueError without parts of the key, MissingExtraError without joserfc.
    """
    registry = load("joserfc.jwk", "signing").JWKRegistry
    found: Any = None
    is_jwk = text.lstrip().startswith("{")
    kinds = ("EC", "OKP" if other == "Ed25519" else other)
    for kind in [None] if is_jwk else kinds:
        # The library reports invalid keys with many exceptions, and with texts that may contain the key.
        with suppress(Exception):
            found = registry.import_key(json.loads(text) if is_jwk else text, kind)
            break
    if found is None or not found.is_private:
        raise ValueError(f"{what} has to be a private EC or {other} key, as PEM or JWK")
    public = found.as_dict(private=False)
    algorithm = _SIGNING.get((public["kty"], public.get("crv", "")))
    is_small = public["kty"] == "RSA" and found.public_key.key_size < SMALLEST_RSA
    if public["kty"] not in kinds or algorithm is None or is_small:
        raise ValueError(f"{what} has to be {exactly}")
    return SigningKey(found, algorithm, public.get("kid") or found.thumbprint())


def suits(key: Any, algorithm: str) -> bool:
    """Whether a key may verify signatures of an algorithm: its kind, size and what it says about itself."""
    if algorithm not in _BY_KIND.get((key.key_type, key.get("crv", "")), ()):
        return False
    if key.get("alg", algorithm) != algorithm or key.get("use", "sig") != "sig":
        return False
    if "verify" not in (key.get("key_ops") or ["verify"]):
        return False
    return key.key_type != "RSA" or bool(key.public_key.key_size >= SMALLEST_RSA)


def key_set(keys: Sequence[SigningKey]) -> bytes:
    """The JWKS with the public parts of private keys."""
    return json.dumps({"keys": [one.public() for one in keys]}).encode()


def merge_key_sets(documents: Sequence[bytes]) -> bytes:
    """One JWKS with the keys of several, each once."""
    rows: list[Any] = []
    for document in documents:
        rows += [row for row in json.loads(document)["keys"] if row not in rows]
    return json.dumps({"keys": rows}).encode()
