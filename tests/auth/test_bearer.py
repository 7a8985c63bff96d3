"""Bearer tokens: only those count that the issuer signed for this audience, and that are valid now."""

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from joserfc import jws

from a2a_bridge.auth import BearerTokens, KeySetSource
from a2a_bridge.auth.key_set import REFRESH
from a2a_bridge.core.call import Joined, Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError
from a2a_bridge.core.errors import A2AError, Reason
from tests.auth.identity_provider import AUDIENCE, Provider, new_key, provider_running
from tests.patience import PATIENCE


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with provider_running() as running:
        yield running


def tokens_of(provider: Provider, clock: Any = time.monotonic, **options: Any) -> BearerTokens:
    keys = KeySetSource(provider.issuer, clock=clock)
    return BearerTokens(provider.issuer, [AUDIENCE, "other"], keys, **options)


async def identified(tokens: BearerTokens, token: str) -> Principal | None:
    return await tokens.identify(Presented({"authorization": f"Bearer {token}"}))


async def keys_are_read() -> None:
    """Waits for the keys that are being read."""
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(one for one in asyncio.all_tasks() if one.get_name() == "read JWKS"))


async def is_rejected(tokens: BearerTokens, token: str) -> bool:
    try:
        return await identified(tokens, token) is None
    except UnauthenticatedError as error:
        problem = error.message, error.challenges
    assert problem == ("The bearer token is not valid", ('Bearer realm="a2a", error="invalid_token"',))
    return True


@pytest.mark.parametrize("host", ["127.0.0.2", "169.254.169.254", "10.0.0.7", "localhost"])
async def test_a_discovery_document_cannot_lead_into_the_network(
    provider: Provider, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    inner = provider.issuer.replace("127.0.0.1", host)
    document = {"issuer": provider.issuer, "jwks_uri": f"{inner}/keys"}
    provider.answers["/.well-known/openid-configuration"] = 200, json.dumps(document).encode()
    with pytest.raises(A2AError) as failed:
        await identified(tokens_of(provider), provider.token())
    assert failed.value.reason is Reason.UNAVAILABLE
    assert f"leads to {host}, which is not public" in caplog.text
    assert "/keys" not in provider.asked


@pytest.mark.parametrize(
    ("kind", "size"), [("EC", "P-256"), ("RSA", 2048), ("OKP", "Ed25519")], ids=["ES256", "RS256", "EdDSA"]
)
async def test_a_token_identifies_its_subject(provider: Provider, kind: str, size: Any) -> None:
    provider.keys = [new_key(kind, size)]
    tokens = tokens_of(provider)
    for claims in (
        {"scope": "read send"},
        {"scp": ["read", "send"]},
        {"aud": ["x", "other"], "scope": "read send"},
    ):
        principal = await identified(tokens, provider.token(**claims))
        assert principal is not None
        assert principal.name == f"{provider.issuer}#ann"
        assert principal.scopes == {"read", "send"}
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("header", ["", "Basic YTpi", "bearer", "Bearer ", "Token x"])
async def test_other_credentials_are_none(provider: Provider, header: str) -> None:
    assert await tokens_of(provider).identify(Presented({"authorization": header} if header else {})) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example"},
        {"iss": None},
        {"iss": ["{issuer}"]},
        {"aud": "https://else.example"},
        {"aud": None},
        {"aud": []},
        {"aud": {"0": AUDIENCE}},
        {"exp": None},
        {"exp": 1},
        {"exp": "9999999999"},
        {"exp": True},
        {"exp": 1e400},
        {"nbf": 9_999_999_999},
        {"iat": 9_999_999_999},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
    ],
    ids=str,
)
async def test_claims_have_to_fit(provider: Provider, claims: dict[str, Any]) -> None:
    assert await is_rejected(tokens_of(provider), provider.token(**claims))


async def test_clocks_may_differ_by_a_minute(provider: Provider) -> None:
    now, tokens = int(time.time()), tokens_of(provider)
    assert not await is_rejected(tokens, provider.token(exp=now - 30, nbf=now + 30, iat=now + 30))
    assert await is_rejected(tokens, provider.token(exp=now - 90))


async def test_the_principal_can_be_another_claim(provider: Provider) -> None:
    principal = await identified(tokens_of(provider, claim="client_id"), provider.token(client_id="app"))
    assert principal is not None
    assert principal.name == f"{provider.issuer}#app"


@pytest.mark.parametrize(
    "header", [{"typ": "dpop+jwt"}, {"typ": "logout+jwt"}, {"kid": "unknown"}, {"b64": True}], ids=str
)
async def test_headers_have_to_fit(provider: Provider, header: dict[str, Any]) -> None:
    registry = jws.JWSRegistry(strict_check_header=False)
    key = provider.keys[0]
    payload = provider.token().split(".")[1]
    head = {"alg": "ES256", "kid": key.kid, **header}
    body = base64.urlsafe_b64decode(payload + "==")
    token = jws.serialize_compact(head, body, key, registry=registry, algorithms=["ES256"])
    rejected = await is_rejected(tokens_of(provider), token)
    assert rejected is (header != {"b64": True})


def segment(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(provider: Provider) -> dict[str, str]:
    """Tokens that no check may let through."""
    key = provider.keys[0]
    good = provider.token()
    head, body, signature = good.split(".")
    confused = f"{segment({'alg': 'HS256', 'kid': key.kid})}.{body}"
    digest = hmac.new(key.as_pem(private=False), confused.encode(), "sha256").digest()
    own = new_key()
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    twice = b'{"sub":"eve",' + json.dumps(claims).encode()[1:]

    def signed(payload: bytes, header: dict[str, Any], with_key: Any = own) -> str:
        registry = jws.JWSRegistry(strict_check_header=False, algorithms=["ES256"])
        return jws.serialize_compact(header, payload, with_key, registry=registry)

    data = json.dumps(claims).encode()
    return {
        "none": f"{segment({'alg': 'none'})}.{body}.",
        "None": f"{segment({'alg': 'None', 'kid': key.kid})}.{body}.",
        "no algorithm": f"{segment({'kid': key.kid})}.{body}.{signature}",
        "no signature": f"{head}.{body}.",
        "HS256 with the public key": f"{confused}.{segment(digest)}",
        "a key of its own": signed(data, {"alg": "ES256", "jwk": own.as_dict(private=False)}),
        "a key of its own by jku": signed(data, {"alg": "ES256", "jku": "http://127.0.0.1:1/keys"}),
        "a known key id": signed(data, {"alg": "ES256", "kid": key.kid}),
        "kid is a path": signed(data, {"alg": "ES256", "kid": "../../../../dev/null"}),
        "kid is a list": f"{segment({'alg': 'ES256', 'kid': [key.kid]})}.{body}.{signature}",
        "algorithms as a list": f"{segment({'alg': ['ES256'], 'kid': key.kid})}.{body}.{signature}",
        "another payload": f"{head}.{segment(claims | {'sub': 'eve'})}.{signature}",
        "a member twice": signed(twice, {"alg": "ES256", "kid": key.kid}, key),
        "crit": f"{segment({'alg': 'ES256', 'kid': key.kid, 'crit': ['exp']})}.{body}.{signature}",
        "five parts": f"{good}.a.b",
        "two parts": f"{head}.{body}",
        "nested": f"{segment({'alg': 'ES256', 'cty': 'JWT'})}.{segment(good.encode())}.{signature}",
        "a list": signed(b"[]", {"alg": "ES256", "kid": key.kid}, key),
        "NaN": signed(data[:-1] + b',"exp":NaN}', {"alg": "ES256", "kid": key.kid}, key),
        "endless": signed(data.replace(str(claims["exp"]).encode(), b"Infinity"), {"alg": "ES256"}, key),
        "deep": signed(b"[" * 50_000, {"alg": "ES256", "kid": key.kid}, key)[:16_000],
        "long": good + "a" * 20_000,
        "not ASCII": good + "é",
    }


async def test_forged_tokens(provider: Provider) -> None:
    tokens = tokens_of(provider)
    assert not await is_rejected(tokens, provider.token())
    accepted = [name for name, token in forged(provider).items() if not await is_rejected(tokens, token)]
    assert accepted == []


async def test_two_headers_are_rejected(provider: Provider) -> None:
    token = provider.token()
    both = Joined([f"Bearer {token}", f"Bearer {token}"])
    with pytest.raises(UnauthenticatedError):
        await tokens_of(provider).identify(Presented({"authorization": both}))


async def test_rotation(provider: Provider) -> None:
    """A new key works at once, an old one ends with the next look at the keys, also for known tokens."""
    clock = Clock()
    tokens = tokens_of(provider, clock)
    before = provider.token()
    assert not await is_rejected(tokens, before)
    provider.keys = [new_key(), *provider.keys]
    assert not await is_rejected(tokens, provider.token())
    assert not await is_rejected(tokens, before)
    provider.keys = [new_key()]
    assert await is_rejected(tokens, provider.token())  # the second unknown id within a minute
    assert not await is_rejected(tokens, before)
    clock.now += 61
    assert not await is_rejected(tokens, provider.token())
    assert await is_rejected(tokens, before)


@pytest.mark.parametrize("count", [150, 1100])
async def test_every_key_of_a_large_set_counts(
    provider: Provider, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Up to a limit, which the log tells. Keys for other uses take no room."""
    row = provider.keys[0].as_dict(private=False)
    others = [{"kty": "oct", "k": "AAAA"}] * 10 + [
        {**row, "kid": f"k{number}"} for number in range(count - 11)
    ]
    for place, is_used in ((0, True), (len(others), count < 1000)):
        rows = [*others[:place], row, *others[place:]]
        provider.answers["/keys"] = 200, json.dumps({"keys": rows}).encode()
        assert await is_rejected(tokens_of(provider), provider.token()) is not is_used
    texts = [one.getMessage() for one in caplog.records if "are not used" in one.getMessage()]
    told = f"90 of {count} keys of {provider.issuer} are not used: at most 1000 count"
    assert [told in text for text in texts] == ([] if count < 1000 else [True, True])


async def test_a_remembered_token_ends_with_its_key_without_other_callers(provider: Provider) -> None:
    clock = Clock()
    tokens = tokens_of(provider, clock)
    token = provider.token()
    assert not await is_rejected(tokens, token)
    provider.keys = [new_key()]
    clock.now += REFRESH
    await identified(tokens, token)  # the keys are read beside this call
    await keys_are_read()
    assert await is_rejected(tokens, token)


async def test_a_provider_that_is_down_is_not_asked_by_each_call(provider: Provider) -> None:
    clock = Clock()
    tokens = tokens_of(provider, clock)
    assert not await is_rejected(tokens, provider.token())
    provider.answers = {"/keys": (500, b"")}
    provider.asked.clear()
    clock.now += REFRESH
    for number in range(5):
        assert not await is_rejected(tokens, provider.token(sub=f"s{number}"))
        await keys_are_read()
    assert provider.asked.count("/keys") == 1


async def test_unknown_ids_do_not_ask_the_provider_each_time(provider: Provider) -> None:
    tokens = tokens_of(provider)
    for number in range(20):
        assert await is_rejected(tokens, provider.token(header={"kid": f"none {number}"}))
    assert provider.asked.count("/keys") == 2


async def test_a_provider_that_is_down(provider: Provider) -> None:
    """Without keys the answer is UNAVAILABLE and never a rejection; known keys stay good."""
    clock = Clock()
    tokens = tokens_of(provider, clock)
    provider.answers = {"/keys": (500, b"")}
    with pytest.raises(A2AError) as failed:
        await identified(tokens, provider.token())
    assert failed.value.reason is Reason.UNAVAILABLE
    assert failed.value.retry_after
    provider.answers.clear()
    clock.now += 3
    assert not await is_rejected(tokens, provider.token())
    provider.answers = {"/keys": (500, b"")}
    clock.now += 1000
    assert not await is_rejected(tokens, provider.token(sub="bob"))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"issuer": "https://other.example", "jwks_uri": "{issuer}/keys"}',
        b'{"issuer": "{issuer}"}',
        b'{"issuer": "{issuer}", "jwks_uri": "http://localhost:1/keys"}',
        b'{"issuer": "{issuer}", "jwks_uri": "http://169.254.169.254/keys"}',
        b'{"issuer": "{issuer}", "jwks_uri": "file:///etc/passwd"}',
    ],
)
async def test_a_provider_that_lies(provider: Provider, answer: bytes) -> None:
    body = answer.replace(b"{issuer}", provider.issuer.encode())
    provider.answers = {"/.well-known/openid-configuration": (200, body)}
    with pytest.raises(A2AError) as failed:
        await identified(tokens_of(provider), provider.token())
    assert failed.value.reason is Reason.UNAVAILABLE


@pytest.mark.parametrize(
    "row",
    [
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "XX"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "EC", "key_ops": None},
        {"kty": "EC", "key_ops": 5},
        "text",
    ],
    ids=str,
)
async def test_bad_keys_in_a_set_do_not_hide_good_ones(provider: Provider, row: Any) -> None:
    good = provider.keys[0].as_dict(private=False)
    small = new_key("RSA", 1024)
    rows = [row, small.as_dict(private=False), good | {"use": "enc"}, good]
    provider.answers = {"/keys": (200, json.dumps({"keys": rows}).encode())}
    tokens = tokens_of(provider)
    assert not await is_rejected(tokens, provider.token())
    assert await is_rejected(tokens, provider.token(small))


@pytest.mark.parametrize("algorithms", [["none"], ["HS256"], [], ["RS256", "HS512"]])
def test_symmetric_algorithms_cannot_be_allowed(algorithms: list[str]) -> None:
    with pytest.raises(ValueError, match="allowed are RS256"):
        BearerTokens("https://i.example", ["a"], KeySetSource("https://i.example"), algorithms=algorithms)


async def test_only_allowed_algorithms_count(provider: Provider) -> None:
    assert await is_rejected(tokens_of(provider, algorithms=["RS256"]), provider.token())


def test_issuer_and_audience_are_required() -> None:
    with pytest.raises(ValueError, match="both are required"):
        BearerTokens("https://i.example", [], KeySetSource("https://i.example"))
    with pytest.raises(ValueError, match="name their URL or file"):
        KeySetSource("issuer")


async def test_keys_from_a_file(provider: Provider, tmp_path: Any) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [provider.keys[0].as_dict(private=False)]}))
    tokens = BearerTokens("me", [AUDIENCE], KeySetSource("me", str(path)), discovery=False)
    provider.issuer = "me"
    assert not await is_rejected(tokens, provider.token())
    assert provider.asked == []
