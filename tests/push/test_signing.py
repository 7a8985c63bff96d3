"""Signatures of notifications, verified by other libraries: joserfc with our JWKS, and standardwebhooks."""

import base64
import hashlib
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey
from standardwebhooks import Webhook as StandardWebhook
from standardwebhooks import WebhookVerificationError

from a2a_bridge.push.notification import LIFETIME, Signer
from a2a_bridge.testing.each import each
from tests.push.delivery_scene import author, delivering, receiving, register

HEADER = "x-a2a-notification-signature"


def pem(key: Any) -> str:
    text: str = key.as_pem(private=True).decode()
    return text


def jwk(key: Any, **members: str) -> str:
    return json.dumps(key.as_dict(private=True) | members)


@pytest.fixture(scope="module")
def rsa() -> RSAKey:
    return RSAKey.generate_key(2048)


def verified(signer: Signer, token: str) -> Any:
    return jwt.decode(
        token, KeySet.import_key_set(json.loads(signer.jwks())), algorithms=["ES256", "ES384", "RS256"]
    )


@pytest.mark.parametrize("curve", ["P-256", "P-384"])
@pytest.mark.parametrize("form", [pem, jwk])
def test_elliptic_keys(curve: Any, form: Any) -> None:
    signer = Signer([form(ECKey.generate_key(curve))], "us", now=lambda: 1000.5)
    token = verified(signer, signer.sign(b"body", "https://hook.example:443", "id-1", "t"))
    assert token.claims == {
        "iss": "us",
        "aud": "https://hook.example:443",
        "iat": 1000,
        "exp": 1000 + LIFETIME,
        "jti": "id-1",
        "taskId": "t",
        "request_body_sha256": hashlib.sha256(b"body").hexdigest(),
    }


@pytest.mark.parametrize("form", [pem, jwk])
def test_rsa_keys(rsa: RSAKey, form: Any) -> None:
    signer = Signer([form(rsa)], "us")
    assert verified(signer, signer.sign(b"", "x", "i", "t")).header["alg"] == "RS256"


def test_the_first_key_signs_and_all_are_published(rsa: RSAKey) -> None:
    old, new = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
    before, after = Signer([pem(old)], "us"), Signer([jwk(new, kid="mine"), pem(old), pem(rsa)], "us")
    assert verified(after, before.sign(b"", "x", "i", "t")).claims["iss"] == "us"
    token = verified(after, after.sign(b"", "x", "i", "t"))
    assert token.header == {"alg": "ES256", "kid": "mine", "typ": "JWT"}
    with pytest.raises((JoseError, ValueError)):
        verified(before, after.sign(b"", "x", "i", "t"))


def test_nothing_private_is_published(rsa: RSAKey) -> None:
    keys = json.loads(Signer([pem(rsa), jwk(ECKey.generate_key("P-256"))], "us").jwks())["keys"]
    assert {"d", "p", "q", "dp", "dq", "qi"}.isdisjoint(set().union(*keys))
    assert [(key["alg"], key["use"]) for key in keys] == [("RS256", "sig"), ("ES256", "sig")]
    assert len({key["kid"] for key in keys}) == 2


@each(
    "text",
    [
        "",
        "nonsense",
        "{}",
        '{"kty": "EC"}',
        "{",
        json.dumps(OctKey.generate_key(256).as_dict(private=True)),
        pem(OKPKey.generate_key("Ed25519")),
        pem(ECKey.generate_key("P-521")),
        ECKey.generate_key("P-256").as_pem(private=False).decode(),
        json.dumps(ECKey.generate_key("P-256").as_dict(private=False)),
    ],
)
def test_an_invalid_signing_key_is_rejected_and_not_printed(text: str) -> None:
    with pytest.raises(ValueError, match=r"a key to sign with has to be") as caught:
        Signer([text], "us")
    assert len(str(caught.value)) < 100
    with pytest.raises(ValueError, match="needs a key"):
        Signer([], "us")


async def test_notifications_are_signed_and_a_config_without_credentials_gets_a_bearer() -> None:
    signer = Signer([pem(ECKey.generate_key("P-256"))], "https://agent.example")
    async with receiving() as receiver, delivering(signer=signer) as (store, _):
        await register(store, receiver.url)
        await register(
            store, receiver.url + "/own", "q", authentication={"scheme": "Basic", "credentials": "x"}
        )
        receiver.statuses = [500]
        await author(store)
        posted = await receiver.arrived(3)
    for one in posted:
        claims = verified(signer, one.headers[HEADER]).claims
        assert claims["request_body_sha256"] == hashlib.sha256(one.body).hexdigest()
        assert claims["aud"] == receiver.url.removesuffix("/hook")
        assert claims["jti"] == one.headers["webhook-id"]
        bearer = "Basic x" if one.path.endswith("/own") else f"Bearer {one.headers[HEADER]}"
        assert one.headers["authorization"] == bearer


async def test_a_secret_signs_as_standard_webhooks_has_it_and_is_not_sent() -> None:
    secret = "whsec_" + base64.b64encode(b"k" * 24).decode()
    async with receiving() as receiver, delivering() as (store, _):
        await register(store, receiver.url, token=secret)
        receiver.statuses = [500]
        await author(store)
        posted = await receiver.arrived(2)
    for one in posted:
        assert StandardWebhook(secret).verify(one.body, one.headers) == one.tree
        assert secret not in str(one.headers)
        with pytest.raises(WebhookVerificationError):
            StandardWebhook(secret).verify(one.body + b" ", one.headers)


@pytest.mark.parametrize("token", ["whsec_", "whsec_?", "plain"])
async def test_a_value_that_is_no_secret_is_a_token(token: str) -> None:
    async with receiving() as receiver, delivering() as (store, _):
        await register(store, receiver.url, token=token)
        await author(store)
        (posted,) = await receiver.arrived(1)
    assert posted.headers["x-a2a-notification-token"] == token
    assert "webhook-signature" not in posted.headers
