"""Signs the card that is served.

Rules:
1. What is signed is the document as it is sent, so a card for readers of several versions is signed with the
   members of all of them.
2. Readers that parse it into the message of 1.0 see less, and SDKs leave out what is empty. So there is one
   signature for each of these texts that differs: a verifier needs one that it can reproduce. The signature
   over a text that says less than the card is marked (see `canonical`).
3. Signatures of others are replaced: they cover other addresses.
4. Several keys are a rotation: the first signs, all are published.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, cast

from a2a_bridge.codec import JsonObject, dumps, loads
from a2a_bridge.core.extras import load
from a2a_bridge.signing.canonical import (
    INTERFACES,
    SIGNATURES,
    SPARSE,
    canonical,
    keep_filled,
    keep_known,
    lost,
    whole,
)
from a2a_bridge.signing.keys import SigningKey, key_set, signing_key


class CardSigner:
    """Signs with private keys, each as PEM or JWK: EC P-256 or P-384, or Ed25519.

    jku: URL of the published keys, for the header; empty: none. Raises ValueError for other keys,
    MissingExtraError without joserfc or rfc8785.
    """

    def __init__(self, keys: Sequence[str], *, jku: str = "") -> None:
        if not keys:
            raise ValueError("signing needs a key")
        accepted = "a key to sign cards with", "Ed25519", "EC P-256, EC P-384 or Ed25519"
        self._keys: list[SigningKey] = [signing_key(text, *accepted) for text in keys]
        if len({one.kid for one in self._keys}) < len(self._keys):
            raise ValueError("two keys have the same id")
        self._jku = jku
        load("rfc8785", "signing")
        self._model: Any = load("joserfc.jws", "signing").JWSRegistry.algorithms[self._keys[0].algorithm]

    def sign(self, document: bytes) -> bytes:
        """A card as JSON with its signatures. Raises ValueError for one that has no canonical form."""
        card = cast("JsonObject", loads(document))
        forms = [whole(card)]
        if INTERFACES in card:
            forms += [keep_known(card), keep_filled(card)]
        texts = dict.fromkeys(map(canonical, forms), False)
        if len(texts) > 1 and lost(card):
            texts[canonical(forms[-1])] = True
        rows = [self._signature(text, is_sparse=is_sparse) for text, is_sparse in texts.items()]
        return dumps({**card, SIGNATURES: rows})

    def jwks(self) -> bytes:
        """The JSON Web Key Set for verification."""
        return key_set(self._keys)

    def _signature(self, text: bytes, *, is_sparse: bool) -> JsonObject:
        first = self._keys[0]
        header: JsonObject = {"alg": first.algorithm, "kid": first.kid, "typ": "JOSE"}
        if is_sparse:
            header[SPARSE] = True
        if self._jku:
            header["jku"] = self._jku
        protected = _encode(dumps(header))
        signature = self._model.sign(f"{protected}.{_encode(text)}".encode(), first.key)
        return {"protected": protected, "signature": _encode(signature)}


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
