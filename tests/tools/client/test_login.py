"""`auth login` against a real identity provider, and mutual TLS against our own edge."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import stat
import sys
from pathlib import Path

import pytest
from aiohttp import web

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.auth.real_provider import SECRET, real_provider
from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, agent, card, command, ended, serving, spawn
from tests.patience import PATIENCE

req = pytest.mark.requirement
DEMO = "a2a_bridge_tools.demo_agent:agent"
AUDIENCE = "https://agent.example"


@req("AUTH_005", "AUTH_006", "AUTH_007", "AUTH_010")
@pytest.mark.parametrize("flow", ["client-credentials", "device"])
async def test_a_token_is_fetched_kept_and_sent(flow: str, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path), "A2ACLI_CLIENT_SECRET": SECRET}
    client = {"client-credentials": "service", "device": "app"}[flow]
    edge = ("--jwt-audience", AUDIENCE, "--jwt-issuer")
    async with (
        real_provider() as provider,
        serving("serve", DEMO, *ANY_PORT, *edge, provider.issuer) as server,
    ):
        rejected = await command("send", "hello", "-a", server.http, "-o", "json", env=env)
        assert (rejected.code, rejected.json["error"]["code"]) == (4, "A2ACLI_ERR_CREDENTIALS_MISSING")
        words = ("auth", "login", "-a", server.http, "--issuer", provider.issuer, "--client-id", client)
        more = ("--flow", flow, "--resource", AUDIENCE, "--scope", "read")
        process = await spawn(*words, *more, env=env)
        if flow == "device":
            assert process.stderr is not None
            shown = ""
            while "the code is" not in shown:
                shown = (await asyncio.wait_for(process.stderr.readline(), PATIENCE)).decode()
            code = re.search(r"the code is (\S+)", shown)
            assert code is not None
            await provider.http.get(f"{provider.issuer}/test/confirm?code={code[1]}&user=ann")
        done = await ended(process)
        assert done.code == 0, done.err
        file = tmp_path / "a2a-cli" / "tokens.json"
        assert done.fields["Stored"] == str(file)
        token = json.loads(file.read_text())[server.http]["access_token"]
        assert sys.platform == "win32" or stat.S_IMODE(file.stat().st_mode) == 0o600
        assert token not in done.out + done.err
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            sent = await command(
                "send", "hello", "-a", server.http, "--transport", binding, "--debug", env=env
            )
            assert (sent.code, sent.text) == (0, "hello"), sent.err
            assert token not in sent.out + sent.err
        wrong = await command("send", "hello", "-a", server.http, "--bearer", "x.y.z", "-o", "json", env=env)
        assert (wrong.code, wrong.json["error"]["code"]) == (4, "A2ACLI_ERR_AUTH_FAILED")
        bad = {**env, "A2ACLI_CLIENT_SECRET": "wrong"}
        no = await command(*words, "--flow", "client-credentials", "-o", "json", env=bad)
        assert (no.code, no.json["error"]["code"]) == (4, "A2ACLI_ERR_AUTH_FAILED")


@req("AUTH_007", "AUTH_010")
async def test_the_card_names_the_provider_and_the_token_goes_to_its_agent_only(tmp_path: Path) -> None:
    probe = Probe()
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    env = {"XDG_CONFIG_HOME": str(tmp_path), "A2ACLI_CLIENT_SECRET": SECRET, "A2ACLI_CLIENT_ID": "service"}
    async with real_provider() as provider:
        shown = card()
        url = f"{provider.issuer}/.well-known/openid-configuration"
        shown.security_schemes["oidc"].open_id_connect_security_scheme.open_id_connect_url = url
        async with agent(probe, shown=shown) as one, agent(probe, shown=shown) as other:
            done = await command("auth", "login", "-a", f"http://{one.http}", "--scope", "read", env=env)
            assert done.code == 0, done.err
            await command("send", "hi", "-a", f"http://{one.http}", "--async", env=env)
            assert probe.last.context.parameters["authorization"].startswith("Bearer ")
            compared = await command("compare", "hi", "-a", f"http://{one.http}", env=env)
            assert compared.code == 0, compared.err
            assert probe.last.context.parameters["authorization"].startswith("Bearer ")
            await command("send", "hi", "-a", f"http://{other.http}", "--async", env=env)
            assert "authorization" not in probe.last.context.parameters


@req("AUTH_007")
async def test_a_place_for_tokens_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"XDG_CONFIG_HOME": str(tmp_path / "file"), "A2ACLI_CLIENT_SECRET": SECRET}
    async with real_provider() as provider, agent(Probe()) as server:
        words = ("auth", "login", "-a", f"http://{server.http}", "--issuer", provider.issuer)
        done = await command(*words, "--client-id", "service", "--scope", "read", "-o", "json", env=env)
    assert (done.code, done.json["error"]["code"]) == (1, "A2ACLI_ERR_INTERNAL")
    assert "Traceback" not in done.err


async def test_a_provider_of_a_private_authority(tmp_path: Path) -> None:
    certificate, key = new_identity().written(tmp_path, "provider")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def discover(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"https://{request.host}/token"})

    async def give(_: web.Request) -> web.Response:
        return web.json_response({"access_token": "t", "expires_in": 60})

    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", discover)
    application.router.add_post("/token", give)
    runner = web.AppRunner(application)
    await runner.setup()
    env = {"XDG_CONFIG_HOME": str(tmp_path), "A2ACLI_CLIENT_SECRET": SECRET}
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        issuer = f"https://127.0.0.1:{runner.addresses[0][1]}"
        async with agent(Probe()) as server:
            words = ("auth", "login", "-a", f"http://{server.http}", "--issuer", issuer)
            done = await command(*words, "--client-id", "service", "--cacert", certificate, env=env)
    finally:
        await runner.cleanup()
    assert done.code == 0, done.err


@req("AUTH_007")
async def test_a_token_that_has_expired_is_not_sent(tmp_path: Path) -> None:
    probe = Probe()
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    async with agent(probe) as server:
        file = tmp_path / "a2a-cli" / "tokens.json"
        file.parent.mkdir()
        token = {"access_token": "t", "expires_at": 1, "token_url": "https://x.example", "client_id": "c"}
        for content, says in (({f"http://{server.http}": token}, "has expired"), ([], "cannot be read")):
            file.write_text(json.dumps(content))
            words = ("send", "hi", "-a", f"http://{server.http}", "--async")
            done = await command(*words, env={"XDG_CONFIG_HOME": str(tmp_path)})
            assert (done.code, says in done.err) == (0, True), done.err
            assert "authorization" not in probe.last.context.parameters


@req("AUTH_005", "AUTH_006")
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "--client-id"),
        (("--client-id", "me", "--flow", "client-credentials"), 2, "needs --client-secret"),
        (("--client-id", "me"), 1, "names no provider"),
        (("--client-id", "me", "--issuer", "http://idp.example"), 1, "secrets go over https only"),
    ],
)
async def test_logins_that_cannot_be(words: tuple[str, ...], code: int, says: str) -> None:
    async with agent(Probe()) as server:
        done = await command("auth", "login", "-a", f"http://{server.http}", *words)
    assert (done.code, says in done.err) == (code, True), done.err


@req("AUTH_009")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_mutual_tls(binding: str, tmp_path: Path) -> None:
    mine, caller = new_identity(), new_identity()
    files = mine.written(tmp_path, "mine") + caller.written(tmp_path, "caller")
    tls = ("--ssl-certfile", files[0], "--ssl-keyfile", files[1], "--ssl-ca-certs", files[2])
    async with serving("serve", DEMO, *ANY_PORT, *tls) as server:
        words = ("send", "hello", "-a", server.http, "--transport", binding, "--cacert", files[0])
        done = await command(*words, "--cert", files[2], "--key", files[3])
        rejected = await command(*words, "-o", "json")
    assert (done.code, done.text) == (0, "hello"), done.err
    assert (rejected.code, rejected.json["error"]["code"]) == (3, "A2ACLI_ERR_UNREACHABLE")
