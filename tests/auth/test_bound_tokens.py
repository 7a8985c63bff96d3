"""Tokens that are bound to a key of their sender are no bearer tokens (RFC 8705, RFC 9449)."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from a2a_bridge import Agent, connect, serve
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.auth import Authentication, BearerTokens, KeySetSource
from a2a_bridge.bindings.binding import DialOptions, TlsFiles
from a2a_bridge.bindings.server_tls import ServerTls
from a2a_bridge.core.callers import Presented
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Run
from tests.auth.identity_provider import AUDIENCE, Provider, provider_running
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
