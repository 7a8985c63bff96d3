"""Tokens that are bound to a key of their sender are no bearer tokens (RFC 8705, RFC 9449)."""

import base64
import hashlib
import json
import random
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from a2a_bridge import Agent, connect, serve
from a2a_bridge.app.runtime import ServeOptions, serve_gateway
from a2a_bridge.auth import Authentication, BearerTokens, KeySetSource
from a2a_bridge.bindings.binding import DialOptions, TlsFiles
from a2a_bridge.bindings.server_tls import ServerTls
from a2a_bridge.cards.select import select
from a2a_bridge.core.callers import Presented, UnauthenticatedError
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Run
from tests.auth.identity_provider import AUDIENCE, Provider, new_key, provider_running
from tests.certificates import new_identity
from tests.patience import PATIENCE
from tests.runtime.scene import BINDINGS

SELF, OTHER = new_identity(), new_identity()


def der(certificate: bytes) -> bytes:
    return x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)


def thumbprint(certificate: bytes) -> str:
    digest = hashlib.sha256(der(certificate)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


BOUND = {"x5t#S256": thumbprint(SELF.certificate)}


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with provider_running() as running:
        yield running


def tokens_of(provider: Provider) -> BearerTokens:
    return BearerTokens(provider.issuer, [AUDIENCE], KeySetSource(provider.issuer))


@pytest.mark.parametrize(
    "bound",
    [
        {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"},
        {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I", "x5t#S256": "OWN"},
        {"jwk": {"kty": "EC"}},
        {"kid": "a key"},
        {"x5t#S256": ""},
        {"x5t#S256": ["OWN"]},
        {"x5t": "OWN"},
        {},
        [],
        "text",
        False,
    ],
    ids=str,
)
async def test_proofs_that_are_not_checked_are_rejected(provider: Provider, bound: Any) -> None:
    """With the certificate, too: a token that needs two proofs has not got both."""
    tokens = tokens_of(provider)
    token = provider.token(cnf=json.loads(json.dumps(bound).replace("OWN", BOUND["x5t#S256"])))
    for certificate in (None, lambda: None, lambda: der(SELF.certificate)):
        with pytest.raises(A2AError) as failed:
            await tokens.identify(Presented({"authorization": f"Bearer {token}"}, certificate=certificate))
        assert (failed.value.reason, failed.value.message) == (
            Reason.UNAUTHENTICATED,
            "The bearer token is not valid",
        )


async def test_a_remembered_token_is_bound_as_well(provider: Provider) -> None:
    tokens = tokens_of(provider)
    parameters = {"authorization": f"Bearer {provider.token(cnf=BOUND)}"}
    own = Presented(parameters, certificate=lambda: der(SELF.certificate))
    others = [
        Presented(parameters),
        Presented(parameters, certificate=lambda: None),
        Presented(parameters, certificate=lambda: der(OTHER.certificate)),
    ]
    for _ in range(2):
        principal = await tokens.identify(own)
        assert principal is not None
        for other in others:
            with pytest.raises(A2AError) as failed:
                await tokens.identify(other)
            assert failed.value.reason is Reason.UNAUTHENTICATED


class Naming:
    async def execute(self, run: Run) -> AsyncIterator[Any]:
        assert run.context.principal is not None
        yield run.reply(run.context.principal.name)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_on_a_connection_with_a_certificate(provider: Provider, binding: str, tmp_path: Path) -> None:
    """The server trusts the certificate; one token is bound to it, the other one to another certificate."""
    certificate, key = SELF.written(tmp_path, "self")
    options = ServeOptions(
        tls=ServerTls(certificate, key, certificate), authentication=Authentication([tokens_of(provider)])
    )
    files = TlsFiles(certificate, certificate, key)
    async with serve(Agent(Naming(), name="Naming"), options=options) as server:
        for bound, is_let_in in ((SELF, True), (OTHER, False)):
            token = provider.token(cnf={"x5t#S256": thumbprint(bound.certificate)})
            parameters = {"authorization": f"Bearer {token}"}
            dial = DialOptions(tls=files, parameters=parameters, timeout=PATIENCE)
            async with connect(server.card, binding=binding, version="1.0", options=dial) as peer:
                if is_let_in:
                    assert (await peer.send("hi")).text == f"{provider.issuer}#ann"
                    continue
                with pytest.raises(A2AError) as failed:
                    await peer.send("hi")
                assert failed.value.reason is Reason.UNAUTHENTICATED


# Tokens that are good somewhere, or nearly good, are rejected everywhere here, in the same words: at each of two


RED, BLUE = "https://red.example", "https://blue.example"


def options_of(provider: Provider, audience: str) -> ServeOptions:
    tokens = BearerTokens(provider.issuer, [audience], KeySetSource(provider.issuer))
    return ServeOptions(authentication=Authentication([tokens]))


class NamingCaller:
    async def execute(self, run: Run) -> AsyncIterator[Any]:
        principal = run.context.principal
        yield run.reply(principal.name if principal is not None else "nobody")


#: by name: a token for the red agent that has to be rejected there
BAD: dict[str, Callable[[Provider], str]] = {
    "for another agent": lambda one: one.token(aud=BLUE),
    "for nobody": lambda one: one.token(aud=None),
    "of another issuer": lambda one: one.token(aud=RED, iss="https://evil.example"),
    "of an issuer with a slash more": lambda one: one.token(aud=RED, iss=f"{one.issuer}/"),
    "expired": lambda one: one.token(aud=RED, exp=int(time.time()) - 3600),
    "of the future": lambda one: one.token(aud=RED, nbf=int(time.time()) + 3600),
    "forged": lambda one: one.token(new_key(), {"kid": one.keys[0].kid}, aud=RED),
    "with a key of its own": lambda one: one.token(new_key(), aud=RED),
    "bound to its sender": lambda one: one.token(aud=RED, cnf={"jkt": "x"}),
    "a proof of DPoP": lambda one: one.token(header={"typ": "dpop+jwt"}, aud=RED),
    "no token": lambda one: "x",
}


async def test_rejected_in_the_same_words_over_every_binding(provider: Provider) -> None:
    rejected = set()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        red = await enter(serve(Agent(NamingCaller(), name="red"), options=options_of(provider, RED)))
        far = await enter(serve(Agent(NamingCaller(), name="far")))
        gateway = await enter(
            serve_gateway(far.card, select(far.card, known=BINDINGS), options=options_of(provider, RED))
        )
        for server, name in ((red, f"{provider.issuer}#ann"), (gateway, "nobody")):
            for binding in BINDINGS:
                good = with_token(provider.token(aud=[RED, "https://else.example"]))
                async with connect(server.card, binding=binding, options=good) as peer:
                    assert (await peer.send("hi")).text == name
                for bad, made in BAD.items():
                    async with connect(
                        server.card, binding=binding, options=with_token(made(provider))
                    ) as peer:
                        with pytest.raises(A2AError) as failed:
                            await peer.send("hi")
                        with pytest.raises(A2AError) as broken:
                            [one async for one in peer.stream("hi")]
                    for error in (failed.value, broken.value):
                        assert error.reason is Reason.UNAUTHENTICATED, bad
                        rejected.add((error.message, tuple(sorted(error.metadata.items()))))
    assert rejected == {("The bearer token is not valid", ())}


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_token_is_not_replayed_to_another_agent(provider: Provider, binding: str) -> None:
    """Both agents trust the same issuer; each token has been accepted where it belongs."""
    async with (
        serve(Agent(NamingCaller(), name="red"), options=options_of(provider, RED)) as red,
        serve(Agent(NamingCaller(), name="blue"), options=options_of(provider, BLUE)) as blue,
    ):
        for own, other, audience in ((red, blue, RED), (blue, red, BLUE)):
            options = with_token(provider.token(aud=audience))
            async with connect(own.card, binding=binding, options=options) as peer:
                assert (await peer.send("hi")).text == f"{provider.issuer}#ann"
            async with connect(other.card, binding=binding, options=options) as peer:
                with pytest.raises(A2AError) as failed:
                    await peer.send("hi")
            assert failed.value.reason is Reason.UNAUTHENTICATED


def with_token(token: str) -> DialOptions:
    return DialOptions(parameters={"authorization": f"Bearer {token}"}, timeout=PATIENCE)


# ------------------------------------------------------------------ mutations

COUNT = 20_000
_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ {}"\x00é'
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1e308, 2**64, "", "x", "none", "HS256", "RS256", "ES256", "EdDSA", [], {}, ["x"],
    {"x": 1}, "\x00", "\ud800", "../../etc/passwd", "9999999999", [[[[]]]],
)  # fmt: skip


def _segment(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(segment: str) -> bytes:
    return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))


class Mutating:
    """Makes tokens of good ones. goods: valid tokens of one issuer."""

    def __init__(self, goods: list[str], seed: int) -> None:
        self._goods = goods
        self._chance = random.Random(seed)
        self._ways = (self._characters, self._bits, self._member, self._mixed, self._shape)

    def __call__(self) -> str:
        chance = self._chance
        return chance.choice(self._ways)(chance.choice(self._goods))

    def _characters(self, good: str) -> str:
        chance, text = self._chance, list(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text))
            match chance.randrange(3):
                case 0:
                    text[at] = chance.choice(_ALPHABET)
                case 1:
                    del text[at]
                case _:
                    text.insert(at, chance.choice(_ALPHABET))
        return "".join(text)

    def _bits(self, good: str) -> str:
        """One bit of one part, header, claims or signature."""
        parts, which = good.split("."), self._chance.randrange(3)
        data = bytearray(_bytes(parts[which]))
        data[self._chance.randrange(len(data))] ^= 1 << self._chance.randrange(8)
        parts[which] = _segment(bytes(data))
        return ".".join(parts)

    def _member(self, good: str) -> str:
        """Another value, one member more or one less in the header or the claims."""
        chance, parts = self._chance, good.split(".")
        which = chance.randrange(2)
        tree = json.loads(_bytes(parts[which]))
        names = [*tree, "crit", "jwk", "jku", "x5u", "x5c", "b64", "zip", "cnf", "scope", "nbf"]
        name = chance.choice(names)
        if name in tree and chance.random() < 0.2:
            del tree[name]
        else:
            tree[name] = chance.choice(_VALUES)
        parts[which] = _segment(tree)
        return ".".join(parts)

    def _mixed(self, good: str) -> str:
        """Parts of several tokens, each of them good in its own."""
        others = [self._chance.choice(self._goods).split(".") for _ in range(3)]
        return ".".join(other[which] for which, other in enumerate(others))

    def _shape(self, good: str) -> str:
        head, claims, signature = good.split(".")
        zeros = _segment(bytes(len(_bytes(signature))))
        return self._chance.choice(
            (
                f"{head}.{claims}.",
                f"{head}.{claims}.{zeros}",
                f"{head}.{claims}.{signature}.{signature}",
                f"{head}.{claims}",
                f"{head}..{signature}",
                f".{claims}.{signature}",
                f"{claims}.{head}.{signature}",
                f"{head}.{_segment(good.encode())}.{signature}",
                f"{head}.{claims}.{signature[: self._chance.randrange(len(signature))]}",
                "." * self._chance.randrange(9),
                good * 2,
                f"{head}.{'A' * self._chance.randrange(30_000)}.{signature}",
                f"{_segment(b'[' * self._chance.randrange(9_000))}.{claims}.{signature}",
            )
        )


def _says(token: str) -> tuple[bytes, ...] | None:
    """The bytes of a token; None if they cannot be read. Base64 has several texts for the same bytes."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]*", token):
        return None
    try:
        return tuple(_bytes(part) for part in token.split("."))
    except ValueError:
        return None


async def test_twenty_thousand_mutated_tokens(provider: Provider) -> None:
    """A change of any byte makes a token invalid; nothing else than UNAUTHENTICATED is ever raised."""
    provider.keys = [new_key(), new_key("RSA", 2048), new_key("OKP", "Ed25519")]
    goods = [
        provider.token(key, aud=RED, sub=sub, scope=scope)
        for key in provider.keys
        for sub, scope in (("ann", "read"), ("bob", "read send"))
    ]
    tokens = BearerTokens(provider.issuer, [RED], KeySetSource(provider.issuer))
    for good in goods:
        assert await tokens.identify(Presented({"authorization": f"Bearer {good}"})) is not None
    same, mutated = {_says(good) for good in goods}, Mutating(goods, 11)
    accepted, rejected = [], 0
    for _ in range(COUNT):
        token = mutated()
        if _says(token) in same:
            continue
        try:
            principal = await tokens.identify(Presented({"authorization": f"Bearer {token}"}))
        except UnauthenticatedError:
            rejected += 1
            continue
        if principal is not None:
            accepted.append(token)
    assert accepted == []
    assert rejected > 0.95 * COUNT
