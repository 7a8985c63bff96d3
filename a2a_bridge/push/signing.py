"""Signatures of notifications, which prove sender and content. There are two kinds; delivery requires
neither.

Rules:
1. With keys of the operator: a JWT whose public key is in the published JWKS. It contains the digest of the
   body as `request_body_sha256`, and its `jti` is the notification's id, so a receiver can detect
   repetitions. It is sent in SIGNATURE_HEADER, and as a Bearer token if the config has no credentials of its
   own.
2. With a secret of the receiver (a token that begins with `whsec_`): the HMAC of Standard Webhooks. That
   secret is then not sent.
3. Several keys are a rotation: the first signs, all are published.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Any

from a2a_bridge.core.extras import load
from a2a_bridge.signing.keys import SMALLEST_RSA, key_set, signing_key

SIGNATURE_HEADER = "X-A2A-Notification-Signature"
SECRET_PREFIX = "whsec_"  # noqa: S105  only the prefix

#: seconds for which a signature is valid
LIFETIME = 300


class Signer:
    """Signs with private keys, each as PEM or JWK: EC P-256 or P-384, or RSA.

    issuer: the `iss` of tokens. now: seconds since the epoch. Raises ValueError for other keys,
    MissingExtraError without `joserfc`.
    """

    def __init__(self, keys: Sequence[str], issuer: str, *, now: Callable[[], float] = time.time) -> None:
        if not keys:
            raise ValueError("signing needs a key")
        # An extra, and slow to import: only needed for signing.
        self._jwt: Any = load("joserfc.jwt", "signing")
        accepted = "a key to sign with", "RSA", f"EC P-256, EC P-384, or RSA of {SMALLEST_RSA} bits"
        self._keys = [signing_key(text, *accepted) for text in keys]
        self._issuer = issuer
        self._now = now

    def sign(self, body: bytes, audience: str, webhook_id: str, task_id: str) -> str:
        """A JWT about a body. audience: its receiver."""
        key, algorithm, kid = self._keys[0]
        now = int(self._now())
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": webhook_id,
            "taskId": task_id,
            "request_body_sha256": hashlib.sha256(body).hexdigest(),
        }
        signed: str = self._jwt.encode({"alg": algorithm, "kid": kid}, claims, key, algorithms=[algorithm])
        return signed

    def jwks(self) -> bytes:
        """The JSON Web Key Set for verification."""
        return key_set(self._keys)


def secret_of(token: str) -> bytes | None:
    """The signing secret in a token; None if the token is not one."""
    if not token.startswith(SECRET_PREFIX):
        return None
    try:
        return base64.b64decode(token[len(SECRET_PREFIX) :], validate=True) or None
    except ValueError:
        return None


def standard_signature(secret: bytes, webhook_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature` in Standard Webhooks."""
    signed = b"%s.%d.%s" % (webhook_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
