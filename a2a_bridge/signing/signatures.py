"""Signs a card as it is served, and verifies the signatures of a card on its JSON as it was received. Pure:
the caller has the keys and the clock.

Rules for signing:
1. The signed text is the document as it is sent, with the members of all of its versions.
2. Readers that parse it into the message of 1.0 see less, and SDKs leave out what is empty. So there is one
   signature for each of these texts that differs: a verifier needs one that it can reproduce. The signature
   over a text that says less than the card is marked (see `canonical`).
3. Signatures of others are replaced: they cover other addresses.
4. Several keys are a rotation: the first signs, all are published.

Rules for verifying:
1. The document is parsed strictly: a member that stands twice is rejected, because readers may differ.
2. The algorithm comes from a list of asymmetric ones, and has to be that of the key.
3. `kid` is required, and only compared with the ids of the given keys. `jku` is told to the caller, who
   decides whether to trust it; `x5u`, `x5c` and `jwk` are ignored.
4. A header with `crit` is rejected, because no extension is understood, as is one with `b64`.
5. A key with a member `exp` (seconds since the epoch) counts until then.
6. One valid signature is enough. The result is the part of the document that it covers, and only that may be
   read. Members outside of it are rejected unless they are members of 0.x beside 1.0, or empty members
   without a meaning (see `canonical`). A signature that is marked (`SPARSE`), because it
   covers less than the card says, does not count.
"""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, cast

from a2a_bridge.codec import JsonObject, dumps, loads
from a2a_bridge.core.extras import load
from a2a_bridge.signing.canonical import (
    INTERFACES,
    SIGNATURES,
    SPARSE,
    canonical,
    foreign,
    keep_filled,
    keep_known,
    lost,
    parse_object,
    remove_signatures,
    whole,
)
from a2a_bridge.signing.keys import ALGORITHMS, SigningKey, key_set, signing_key, suits


class CardSigner:
    """Signs with private keys, each as PEM or JWK: EC P-256 or P-384, or Ed25519. jku: URL of the published
    keys, or empty. Raises ValueError for other keys, MissingExtraError without joserfc or rfc8785.
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


#: signatures of a card that are looked at
_MOST = 16
#: characters of a protected header and of a signature
_LONGEST = 8192
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
_UNDERSTOOD_NOT = ("crit", "b64")


class UnverifiedCardError(ValueError):
    """No signature of a card is valid. is_signed: False if it has none."""

    def __init__(self, text: str, *, is_signed: bool = True) -> None:
        super().__init__(text)
        self.is_signed = is_signed


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature whose header can be used."""

    algorithm: str
    kid: str
    #: where its signer publishes keys; empty if it does not say
    jku: str
    protected: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class VerifiedCard:
    """A card with a valid signature."""

    #: the JSON that the signature covers, with `signatures`; nothing else may be read
    document: bytes
    #: whether that is all of the received document
    is_complete: bool
    kid: str
    algorithm: str


#: the members of a card that a text does not cover, and that must not be there
_Outside = Callable[[JsonObject], list[str]]


class _Form(NamedTuple):
    """One text that may have been signed."""

    #: in base64url
    payload: bytes
    #: the part of the card that the text covers
    covered: JsonObject
    outside: _Outside


class ReceivedCard:
    """A card as JSON with its signatures. Raises UnverifiedCardError if it is no card, or ambiguous."""

    def __init__(self, document: bytes) -> None:
        self._card = _parse(document, "the card")
        #: the signatures with usable headers
        self.signatures: list[Signature] = []
        #: why the others cannot
        self.problems: list[str] = []
        rows = self._card.get(SIGNATURES)
        if rows is not None and type(rows) is not list:
            _reject("`signatures` is no list")
        self._count = len(rows or ())
        if self._count > _MOST:
            _reject(f"it has more than {_MOST} signatures")
        for row in rows or ():
            try:
                self.signatures.append(_signature(row))
            except UnverifiedCardError as error:
                self.problems.append(str(error))

    def verify(self, keys_for: Callable[[Signature], Sequence[Any]], now: float) -> VerifiedCard:
        """The card with its first valid signature. keys_for: the keys that may have made it. now: seconds
        since 1970. Raises UnverifiedCardError with the reasons, MissingExtraError without joserfc or rfc8785.
        """
        if not self._count:
            raise UnverifiedCardError("it has no signature", is_signed=False)
        problems = list(self.problems)
        forms = self._forms() if self.signatures else []
        for one in self.signatures:
            keys = [key for key in keys_for(one) if key.get("kid") == one.kid]
            try:
                document = self._document(one, keys, forms, now)
            except UnverifiedCardError as error:
                problems.append(str(error))
                continue
            return VerifiedCard(dumps(document), document == self._card, one.kid, one.algorithm)
        raise UnverifiedCardError("; ".join(dict.fromkeys(problems)))

    def _forms(self) -> list[_Form]:
        """The texts that may have been signed, without repetitions."""
        card = self._card
        trees: list[tuple[JsonObject, JsonObject, _Outside]] = [
            (remove_signatures(card), card, _nothing),
            (whole(card), card, _nothing),
        ]
        if INTERFACES in card:
            more = {SIGNATURES: card[SIGNATURES]}
            known, filled = keep_known(card), keep_filled(card)
            trees.append((known, {**known, **more}, foreign))
            trees.append((filled, {**filled, **more}, lambda card: [*foreign(card), *lost(card)]))
        made: list[_Form] = []
        try:
            for index, (tree, covered, outside) in enumerate(trees):
                if not any(tree == one for one, _, _ in trees[:index]):
                    payload = base64.urlsafe_b64encode(canonical(tree)).rstrip(b"=")
                    made.append(_Form(payload, covered, outside))
        except (ValueError, RecursionError) as error:
            _reject(f"it has no canonical form: {error}")
        return made

    def _document(
        self, one: Signature, keys: Sequence[Any], forms: Sequence[_Form], now: float
    ) -> JsonObject:
        """The part of the card that a signature covers. Raises UnverifiedCardError."""
        if not keys:
            _reject(f"the key {one.kid[:64]!r} is not one of the configured keys")
        suitable = [key for key in keys if suits(key, one.algorithm)]
        if not suitable:
            _reject(f"the key {one.kid[:64]!r} is not one for {one.algorithm}")
        valid = [key for key in suitable if not _is_over(key, now)]
        if not valid:
            _reject(f"the key {one.kid[:64]!r} has expired")
        model: Any = load("joserfc.jws", "signing").JWSRegistry.algorithms[one.algorithm]
        for key in valid:
            for form in forms:
                if model.verify(one.protected.encode() + b"." + form.payload, one.signature, key):
                    if outside := form.outside(self._card):
                        _reject(f"the signature does not cover {', '.join(outside[:5])[:200]}")
                    return form.covered
        raise UnverifiedCardError(f"the signature by {one.kid[:64]!r} is not one of this card")


def _nothing(_card: JsonObject) -> list[str]:
    return []


def _signature(row: Any) -> Signature:
    """A signature with a header that can be used. Raises UnverifiedCardError."""
    if type(row) is not dict:
        _reject("a signature is no object")
    protected, signature, beside = row.get("protected"), row.get("signature"), row.get("header") or {}
    if type(protected) is not str or type(signature) is not str or type(beside) is not dict:
        _reject("a signature has no `protected` or `signature`, or a `header` that is no object")
    header = _parse(_decode(protected), "a header")
    for name in _UNDERSTOOD_NOT:
        if name in header or name in beside:
            _reject(f"a header has `{name}`, which is not understood")
    if SPARSE in header:
        _reject("a signature is only for readers that leave out empty members")
    if header.keys() & beside.keys():
        _reject("a header has a member both protected and not")
    algorithm, kid, jku = header.get("alg"), header.get("kid"), header.get("jku", "")
    if type(algorithm) is not str or algorithm not in ALGORITHMS:
        _reject(f"the algorithm {algorithm!r:.40} is not allowed")
    if type(kid) is not str or not kid:
        _reject("a header has no `kid`")
    return Signature(algorithm, kid, jku if type(jku) is str else "", protected, _decode(signature))


def _decode(text: str) -> bytes:
    if len(text) > _LONGEST or not _BASE64URL.fullmatch(text):
        _reject("a signature or its header is not base64url")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        _reject("a signature or its header is not base64url")


def _parse(document: bytes, what: str) -> JsonObject:
    """See `parse_object`. Raises UnverifiedCardError."""
    try:
        return parse_object(document)
    except ValueError as error:
        _reject(f"{what} {error}")


def _is_over(key: Any, now: float) -> bool:
    end = key.get("exp")
    if end is None:
        return False
    return type(end) not in (int, float) or now >= end


def _reject(text: str) -> NoReturn:
    raise UnverifiedCardError(text)
