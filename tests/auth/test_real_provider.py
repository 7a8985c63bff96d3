"""Tokens of a real identity provider (oidc-provider), of the official client and of a gateway."""

import json
import time
import uuid
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from a2a.client.errors import A2AClientError
from a2a.utils.errors import A2AError
from joserfc import jwk, jws

from tests.auth.real_provider import SECRET, RealProvider, real_provider
from tests.auth.test_edge import texts_of
from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, Running, serving
from tests.runtime.scene import BINDINGS

pytestmark = pytest.mark.sdk

AUDIENCE, OTHER = "https://red.example", "https://blue.example"
AGENT = """
from collections.abc import AsyncIterator
from a2a_bridge import Agent, Run

class Naming:
    async def execute(self, run: Run):
        caller = run.context.principal
        yield run.status("working")
        yield run.artifact(caller.name.rpartition("#")[2] if caller else "nobody")
        yield run.status("completed")

naming = Agent(Naming(), name="naming")
"""


@pytest.fixture
async def provider() -> AsyncIterator[RealProvider]:
    async with real_provider() as running:
        yield running


@asynccontextmanager
async def served(folder: Path, provider: RealProvider, audience: str = AUDIENCE) -> AsyncIterator[Running]:
    (folder / "agents.py").write_text(AGENT)
    flags = ("--jwt-issuer", provider.issuer, "--jwt-audience", audience)
    async with serving("serve", f"{folder}/agents.py:naming", *ANY_PORT, *flags) as running:
        yield running


async def texts(running: Running, token: str, binding: str = "JSONRPC") -> list[str]:
    return await texts_of(running.http, binding, {"bearer": token})


async def is_rejected(running: Running, token: str, binding: str = "JSONRPC") -> bool:
    try:
        await texts(running, token, binding)
    except A2AClientError:
        return True
    return False


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    found: dict[str, Any] = json.loads(urlsafe_b64decode(body + "=="))
    return found


async def test_client_credentials(provider: RealProvider, tmp_path: Path) -> None:
    token = (await provider.credentials(AUDIENCE))["access_token"]
    elsewhere = (await provider.credentials(OTHER))["access_token"]
    async with served(tmp_path, provider) as running, served(tmp_path, provider, OTHER) as other:
        for binding in BINDINGS:
            assert await texts(running, token, binding) == ["service"]
            assert await texts(other, elsewhere, binding) == ["service"]
            assert await is_rejected(running, elsewhere, binding)
            assert await is_rejected(other, token, binding)
        head, body, signature = token.split(".")
        assert await is_rejected(running, f"{head}.{body}.{signature[::-1]}")
        running.signal()
        assert token not in (await running.ended()).err


async def test_a_user_of_a_device_and_refreshed_tokens(provider: RealProvider, tmp_path: Path) -> None:
    async with served(tmp_path, provider) as running:
        first = await provider.device(AUDIENCE, "ann")
        assert await texts(running, first["access_token"]) == ["ann"]
        again = await provider.token(
            "app", grant_type="refresh_token", refresh_token=first["refresh_token"], resource=AUDIENCE
        )
        assert again["access_token"] != first["access_token"]
        assert await texts(running, again["access_token"]) == ["ann"]
        # What is for the client itself is no credential here.
        assert await is_rejected(running, first["id_token"])
        assert await is_rejected(running, first["refresh_token"])


async def test_keys_rotate(provider: RealProvider, tmp_path: Path) -> None:
    async with served(tmp_path, provider) as running:
        before = (await provider.credentials(AUDIENCE))["access_token"]
        assert await texts(running, before) == ["service"]
        await provider.rotate(keep=True)
        after = (await provider.credentials(AUDIENCE))["access_token"]
        for token in (after, before):
            assert await texts(running, token) == ["service"]
    await provider.rotate(keep=False)
    async with served(tmp_path, provider) as running:
        assert await is_rejected(running, after)
        assert await texts(running, (await provider.credentials(AUDIENCE))["access_token"]) == ["service"]


async def test_a_token_of_dpop_is_no_bearer_token(provider: RealProvider, tmp_path: Path) -> None:
    key = jwk.generate_key("EC", "P-256")
    claims = {
        "htm": "POST",
        "htu": f"{provider.issuer}/token",
        "iat": int(time.time()),
        "jti": uuid.uuid4().hex,
    }
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": key.as_dict(private=False)}
    registry = jws.JWSRegistry(algorithms=["ES256"], strict_check_header=False)
    proof = jws.serialize_compact(header, json.dumps(claims).encode(), key, registry=registry)
    answer = await provider.credentials(AUDIENCE, headers={"DPoP": proof})
    token = answer["access_token"]
    assert (answer["token_type"], list(claims_of(token)["cnf"])) == ("DPoP", ["jkt"])
    async with served(tmp_path, provider) as running:
        for binding in BINDINGS:
            assert await is_rejected(running, token, binding)


async def test_a_token_for_a_certificate_is_no_bearer_token(provider: RealProvider, tmp_path: Path) -> None:
    """`test_bound_tokens.py` has the connection with the certificate."""
    certificate = quote(new_identity().certificate.decode())
    answer = await provider.credentials(AUDIENCE, "bound", headers={"X-Client-Certificate": certificate})
    token = answer["access_token"]
    assert list(claims_of(token)["cnf"]) == ["x5t#S256"]
    async with served(tmp_path, provider) as running:
        for binding in BINDINGS:
            assert await is_rejected(running, token, binding)


async def test_a_gateway_gets_its_tokens_itself(provider: RealProvider, tmp_path: Path) -> None:
    """Callers of the gateway need no token, and the agent knows the gateway by its own."""
    flags = ("--upstream-auth", "client-credentials", "--upstream-issuer", provider.issuer)
    own = ("--upstream-client-id", "service", "--upstream-scope", "read", "--upstream-resource")
    env = {"A2A_BRIDGE_UPSTREAM_CLIENT_SECRET": SECRET}
    async with served(tmp_path, provider) as running:
        for resource, expected in ((AUDIENCE, ["service"]), (OTHER, None)):
            given = (*flags, *own, resource, *ANY_PORT)
            async with serving("gateway", running.http, *given, env=env) as gateway:
                for binding in BINDINGS:
                    if expected is None:
                        with pytest.raises(
                            (A2AClientError, A2AError), match=r"credentials of this gateway|Unavailable"
                        ):
                            await texts_of(gateway.http, binding, {})
                    else:
                        assert await texts_of(gateway.http, binding, {}) == expected
                gateway.signal()
                text = (await gateway.ended()).err
                assert SECRET not in text
                assert "eyJ" not in text
