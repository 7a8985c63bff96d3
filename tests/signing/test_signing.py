"""Signatures that count: ours, and those of signers with other canonical forms."""

import json
from typing import Any

import pytest
import rfc8785
from joserfc.jwk import KeySet

from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.codec import JsonObject
from a2a_bridge.signing import CardSigner, UnverifiedCardError, merge_key_sets
from a2a_bridge.signing.canonical import keep_filled, keep_known, whole
from a2a_bridge.testing.each import each
from tests.signing.scene import CARD, NOW, OLDER, new_key, signature, signed, text_of, verified

DUAL: JsonObject = {**CARD, **OLDER}
EMPTY = {**CARD, "description": "", "skills": [], "capabilities": {}}


@each("kind", ["ES256", "ES384", "EdDSA"])
@each(("card", "count"), [(CARD, 1), (DUAL, 2), (EMPTY, 2), ({**EMPTY, **OLDER}, 3)])
def test_each_text_that_differs_has_a_signature(kind: str, card: JsonObject, count: int) -> None:
    key = new_key(kind)
    made = CardSigner([text_of(key)]).sign(json.dumps(card).encode())
    tree = json.loads(made)
    assert len(tree["signatures"]) == count
    assert {name: value for name, value in tree.items() if name != "signatures"} == card
    found = verified(made, key)
    assert (found.is_complete, found.algorithm, found.kid) == (True, kind, "k1")
    assert json.loads(found.document) == tree
    for row in tree["signatures"]:
        verified({**card, "signatures": [row]}, key)


def test_signatures_of_others_are_replaced() -> None:
    key = new_key()
    made = json.loads(CardSigner([text_of(key)]).sign(json.dumps(signed(CARD, new_key(kid="x"))).encode()))
    assert len(made["signatures"]) == 1


def test_layout_is_not_content() -> None:
    key = new_key()
    made = signed(CARD, key)
    turned = dict(reversed(made.items()))
    assert verified(json.dumps(turned, indent=3).encode(), key).kid == "k1"
    assert verified(json.dumps(made, ensure_ascii=False).encode(), key).kid == "k1"


def test_members_that_nobody_knows_can_be_signed() -> None:
    key = new_key()
    card = {**CARD, "x-more": {"b": [1, None, ""], "a": 1.0}}
    found = verified(signed(card, key), key)
    assert found.is_complete
    assert json.loads(found.document)["x-more"] == card["x-more"]
    verified(CardSigner([text_of(key)]).sign(json.dumps(card).encode()), key)


def test_what_a_signature_does_not_cover_is_not_read() -> None:
    """SDKs sign the members of 1.0 and serve those of 0.3 beside them."""
    key = new_key()
    evil = {
        **OLDER,
        "url": "https://evil.example/",
        "additionalInterfaces": [{"url": "https://evil.example/x"}],
    }
    found = verified({**signed(CARD, key), **evil}, key)
    assert not found.is_complete
    assert b"evil" not in found.document
    urls = [one.url for one in parse_bytes(found.document, "here").supported_interfaces]
    assert urls == ["https://agent.example/"]


def test_defaults_are_left_out_of_the_text_and_required_members_are_not() -> None:
    card = {
        **EMPTY,
        "iconUrl": "",
        "provider": None,
        "securityRequirements": [],
        "unknown": "",
        "skills": [{"id": "", "examples": [], "tags": [], "name": "n", "description": "d"}],
        "capabilities": {
            "streaming": False,
            "extensions": [{"uri": "u", "required": False, "params": {"x": ""}}],
        },
    }
    kept = whole(card)
    assert "securityRequirements" not in kept
    assert "provider" not in kept
    assert kept["iconUrl"] == ""  # it is `optional`, and set
    assert kept["unknown"] == ""
    assert kept["skills"] == [{"id": "", "tags": [], "name": "n", "description": "d"}]
    assert kept["capabilities"] == {"streaming": False, "extensions": [{"uri": "u", "params": {"x": ""}}]}
    assert keep_known(card) == {name: value for name, value in kept.items() if name != "unknown"}
    sparse = keep_filled(card)
    assert "iconUrl" not in sparse
    assert sparse["skills"] == [{"name": "n", "description": "d"}]
    assert sparse["capabilities"] == {"streaming": False, "extensions": [{"uri": "u"}]}


def test_what_the_sparse_text_leaves_out_is_not_read() -> None:
    """An empty member is nowhere in that text, so anybody could add it."""
    key = new_key()
    row = signature(json.loads(rfc8785.dumps(keep_filled(CARD))), key)
    added = {**CARD, "iconUrl": "", "provider": {}, "signatures": [row]}
    found = json.loads(verified(added, key).document)
    assert "iconUrl" not in found
    assert "provider" not in found


KEYED: JsonObject = {**CARD, "securityRequirements": [{"schemes": {"oauth": {"list": []}}}]}


def test_a_requirement_without_scopes_cannot_be_taken_away() -> None:
    """The text for the SDKs does not cover it, so the signature over that text is marked."""
    key = new_key()
    made = json.loads(CardSigner([text_of(key)]).sign(json.dumps(KEYED).encode()))
    assert json.loads(verified(made, key).document) == made
    del made["securityRequirements"]
    with pytest.raises(UnverifiedCardError, match="only for readers that leave out empty members"):
        verified(made, key)


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"securityRequirements": [*CARD["securityRequirements"], {}]}, r"securityRequirements\[1\]"),
        ({"securitySchemes": {**CARD["securitySchemes"], "m": {"mtlsSecurityScheme": {}}}}, "Schemes.m"),
        ({"skills": [{**CARD["skills"][0], "securityRequirements": [{}]}]}, r"skills\[0\].securityReq"),
        ({"capabilities": {**CARD["capabilities"], "extensions": [{}]}}, "not one of this card"),
    ],
)
def test_an_empty_member_with_a_meaning_cannot_be_added(changed: JsonObject, path: str) -> None:
    key = new_key()
    row = signature(json.loads(rfc8785.dumps(keep_filled(CARD))), key)
    with pytest.raises(UnverifiedCardError, match=path):
        verified({**CARD, **changed, "signatures": [row]}, key)


def test_an_empty_value_of_another_type_is_no_default() -> None:
    """A reader may leave out the interface that has it."""
    key = new_key()
    made = signed(CARD, key)

    def changed(value: Any) -> JsonObject:
        return {**made, "supportedInterfaces": [{**CARD["supportedInterfaces"][0], "tenant": value}]}

    for value in (False, 0):
        with pytest.raises(UnverifiedCardError):
            verified(changed(value), key)
    for value in ([], {}):  # they are not in the text for the SDKs, and not in what is read either
        assert "tenant" not in json.loads(verified(changed(value), key).document)["supportedInterfaces"][0]
    assert verified(changed(""), key).is_complete


def test_a_card_of_0_3_alone_is_signed_as_a_whole() -> None:
    key = new_key()
    card = {"name": "n", "description": "", **OLDER, "skills": []}
    made = CardSigner([text_of(key)]).sign(json.dumps(card).encode())
    assert len(json.loads(made)["signatures"]) == 1
    assert verified(made, key).is_complete


def test_one_good_signature_is_enough() -> None:
    key, other = new_key(), new_key(kid="other")
    rows = [{"protected": "!", "signature": "!"}, signature(CARD, other), signature(CARD, key)]
    assert verified({**CARD, "signatures": rows}, key).kid == "k1"


def test_a_rotation() -> None:
    old, new = new_key(kid="old"), new_key("EdDSA", kid="new")
    signer = CardSigner([text_of(new), text_of(old)])
    keys = KeySet.import_key_set(json.loads(signer.jwks())).keys
    assert [key.get("kid") for key in keys] == ["new", "old"]
    assert not any(key.is_private for key in keys)
    made = signer.sign(json.dumps(CARD).encode())
    assert verified(made, *keys).kid == "new"
    assert verified(CardSigner([text_of(old)]).sign(json.dumps(CARD).encode()), *keys).kid == "old"
    with pytest.raises(UnverifiedCardError):
        verified(made, old)
    both = merge_key_sets([signer.jwks(), CardSigner([text_of(old)]).jwks()])
    assert [row["kid"] for row in json.loads(both)["keys"]] == ["new", "old"]


def test_a_key_until_its_end() -> None:
    key = new_key(exp=int(NOW))
    made = signed(CARD, key)
    assert verified(made, key, now=NOW - 1).kid == "k1"
    for now in (NOW, NOW + 1):
        with pytest.raises(UnverifiedCardError, match="has expired"):
            verified(made, key, now=now)


@pytest.mark.parametrize("kind", ["pem", "jwk"])
@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA"])
def test_private_keys_as_files_have_them(kind: str, algorithm: str) -> None:
    key = new_key(algorithm)
    text = key.as_pem(private=True).decode() if kind == "pem" else text_of(key)
    signer = CardSigner([text])
    keys = KeySet.import_key_set(json.loads(signer.jwks())).keys
    verified(signer.sign(json.dumps(CARD).encode()), *keys)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "needs a key"),
        (["nonsense"], "private EC or Ed25519"),
        (['{"kty": "oct", "k": "c2VjcmV0"}'], "EC P-256, EC P-384 or Ed25519|private EC"),
        ([json.dumps(new_key().as_dict(private=False))], "private EC or Ed25519"),
        ([text_of(new_key("RS256"))], "EC P-256, EC P-384 or Ed25519"),
        ([text_of(new_key()), text_of(new_key())], "the same id"),
    ],
)
def test_other_keys_are_rejected(texts: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        CardSigner(texts)
    private: list[Any] = [json.loads(text).get("d") for text in texts if text.startswith("{")]
    assert not any(part in str(caught.value) for part in private if part)
