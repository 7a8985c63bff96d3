"""The flags that check callers, and `keys`, as an operator uses them: real processes, every binding."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from a2a_bridge import connect
from a2a_bridge.app.planning import VERSIONS, keeps_owners
from a2a_bridge.auth import KeyFile
from a2a_bridge.bindings.binding import DialOptions, TlsFiles, http_fetch
from a2a_bridge.cli.gateway_setup import GatewayPlanner
from a2a_bridge.cli.security import note_task_owners
from a2a_bridge.cli.server_flags import GatewayFlags, TaskAccess, UpstreamAuth
from a2a_bridge.core.errors import A2AError, Reason
from tests.auth.identity_provider import AUDIENCE, provider_running
from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, command, serving
from tests.patience import PATIENCE
from tests.runtime.scene import BINDINGS

AGENT = """
from a2a_bridge import Agent, Run, agent
from a2a_bridge.pb import lf_a2a_v1 as hub

@agent
async def whoami(run: Run):
    "Names its caller."
    found = run.context.principal
    return found.name if found is not None else "nobody"

scheme = hub.SecurityScheme(http_auth_security_scheme=hub.HTTPAuthSecurityScheme(scheme="Bearer"))

@agent(security={"token": scheme})
async def asking(text):
    "Its card asks for a token."
    return text

def open_middleware():
    return lambda service: service

def no_middleware():
    return 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "edge_agents.py").write_text(AGENT)
    return tmp_path


def parameters(**values: str) -> DialOptions:
    return DialOptions(parameters={name.replace("_", "-"): value for name, value in values.items()})


async def asked(url: str, options: DialOptions, binding: str = "", version: str = "") -> str:
    async with connect(url, binding=binding, version=version, options=options) as peer:
        return (await peer.send("hi")).text


async def rejected(url: str, options: DialOptions) -> A2AError:
    with pytest.raises(A2AError) as failed:
        await asked(url, options)
    return failed.value


async def create(file: Path, name: str, *more: str) -> str:
    done = await command("keys", "create", "--file", str(file), "--id", name, *more)
    assert (done.code, done.err) == (0, "")
    (key,) = done.out.splitlines()
    return key


@pytest.mark.parametrize("verb", ["serve", "gateway"])
async def test_api_keys_of_a_running_server(folder: Path, verb: str) -> None:
    file = folder / "keys.json"
    key = await create(file, "ann")
    async with serving("serve", f"{folder}/edge_agents.py:whoami", *ANY_PORT) as plain:
        target = f"{folder}/edge_agents.py:whoami" if verb == "serve" else plain.http
        async with serving(verb, target, *ANY_PORT, "--api-keys", str(file)) as running:
            name = "ann" if verb == "serve" else "nobody"
            for binding in BINDINGS:
                for version in VERSIONS:
                    assert await asked(running.http, parameters(x_api_key=key), binding, version) == name
            assert (await rejected(running.http, DialOptions())).reason is Reason.UNAUTHENTICATED
            later = await create(file, "bob")
            await until(running.http, later, None)
            done = await command("keys", "revoke", "--file", str(file), "--id", "bob", "-o", "json")
            assert done.json["state"] == "revoked"
            await until(running.http, later, Reason.UNAUTHENTICATED)
            running.signal()
            done = await running.ended()
    assert (done.code, key in done.err, later in done.err) == (0, False, False)


async def until(url: str, key: str, expected: Reason | None) -> None:
    """Calls with a key until the answer is the expected one: servers read the file again within a second."""
    async with asyncio.timeout(PATIENCE):
        while await reason(url, key) is not expected:
            pass


async def reason(url: str, key: str) -> Reason | None:
    try:
        await asked(url, parameters(x_api_key=key))
    except A2AError as error:
        return error.reason
    return None


async def test_tokens_of_a_provider(folder: Path) -> None:
    async with provider_running() as provider:
        flags = ("--jwt-issuer", provider.issuer, "--jwt-audience", AUDIENCE)
        async with serving("serve", f"{folder}/edge_agents.py:whoami", *ANY_PORT, *flags) as running:
            options = parameters(authorization=f"Bearer {provider.token()}")
            assert await asked(running.http, options) == f"{provider.issuer}#ann"
            wrong = parameters(authorization=f"Bearer {provider.token(aud='https://other.example')}")
            assert (await rejected(running.http, wrong)).reason is Reason.UNAUTHENTICATED
            jwks = folder / "jwks.json"
            jwks.write_text(json.dumps({"keys": [one.as_dict(private=False) for one in provider.keys]}))
        more = ("--jwt-jwks", str(jwks), "--jwt-claim", "email", "--jwt-algorithms", "ES256")
        async with serving("serve", f"{folder}/edge_agents.py:whoami", *ANY_PORT, *flags, *more) as running:
            options = parameters(authorization=f"Bearer {provider.token(email='ann@example.org')}")
            assert await asked(running.http, options) == f"{provider.issuer}#ann@example.org"


async def test_a_header_of_a_proxy(folder: Path) -> None:
    flags = ("--proxy-user-header", "X-User", "--forwarded-allow-ips", "127.0.0.1")
    async with serving("serve", f"{folder}/edge_agents.py:whoami", *ANY_PORT, *flags) as running:
        assert await asked(running.http, parameters(x_user="ann")) == "ann"
        assert (await rejected(running.http, DialOptions())).reason is Reason.UNAUTHENTICATED


async def test_a_card_that_asks_is_not_served_without_a_check(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"{folder}/edge_agents.py:asking"
    done = await command("serve", target, *ANY_PORT)
    assert (done.code, done.out) == (2, "")
    assert "the card of 'asking' asks for credentials (token), and nothing here checks them" in done.err
    assert "--api-keys FILE" in done.err
    assert "--allow-unauthenticated" in done.err
    monkeypatch.chdir(folder)
    for flags in (("--allow-unauthenticated",), ("--middleware", f"{folder}/edge_agents.py:open_middleware")):
        async with serving("serve", target, *ANY_PORT, *flags) as running:
            assert await asked(running.http, DialOptions()) == "hi"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--api-keys", "absent.json"), "there is no file absent.json"),
        (("--api-keys", "edge_agents.py"), "edge_agents.py is no file of API keys: it is not JSON"),
        (("--jwt-issuer", "https://idp.example"), "--jwt-audience: is required"),
        (("--jwt-audience", "me"), "--jwt-audience: needs --jwt-issuer"),
        (("--jwt-claim", "email"), "--jwt-claim: needs --jwt-issuer"),
        (("--jwt-issuer", "https://i.example", "--jwt-audience", ""), "--jwt-audience: is required"),
        (("--jwt-issuer", ""), "--jwt-issuer: is empty"),
        (("--proxy-user-header", ""), "--proxy-user-header: is empty"),
        (("--api-key-header", "X-Key"), "--api-key-header: needs --api-keys"),
        (("--jwt-issuer", "idp", "--jwt-audience", "me"), "'idp' is no http(s) URL"),
        (
            ("--jwt-issuer", "https://i.example", "--jwt-audience", "me", "--jwt-algorithms", "HS256"),
            "--jwt-algorithms: HS256: allowed are RS256",
        ),
        (("--proxy-user-header", "X-User"), "--proxy-user-header: needs --forwarded-allow-ips"),
        (
            ("--proxy-user-header", "X User", "--forwarded-allow-ips", "127.0.0.1"),
            "--proxy-user-header: 'X User' is no name of a header",
        ),
        (("--middleware", "edge_agents"), "there is no 'edge_agents'; did you mean edge_agents.py?"),
        (("--middleware", "edge_agents.py"), "'edge_agents.py' is not file.py:NAME or package.module:NAME"),
        (("--middleware", "absent:it"), "there is no module absent"),
        (("--middleware", "edge_agents:it"), "edge_agents has no it"),
        (("--middleware", "edge_agents:no_middleware"), "is no factory of middleware"),
    ],
)
async def test_flags_that_cannot_be_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, flags: Any, message: str
) -> None:
    monkeypatch.chdir(folder)
    done = await command("serve", "edge_agents.py:whoami", *ANY_PORT, *flags)
    assert done.code == 2
    assert message in done.err


async def test_an_open_server_is_noted(folder: Path) -> None:
    flags = ("--http", "0.0.0.0:0", "--grpc", "127.0.0.1:0")
    for more, noted in (((), True), (("--allow-unauthenticated",), False)):
        async with serving("serve", f"{folder}/edge_agents.py:whoami", *flags, *more) as running:
            running.signal()
            done = await running.ended()
        assert ("0.0.0.0:0 accepts calls without credentials" in done.err) is noted


async def test_keys_are_listed_and_revoked(folder: Path) -> None:
    file = folder / "keys.json"
    absent = await command("keys", "list", "--file", str(file))
    assert absent.code == 2
    assert f"a2a-bridge keys create --file {file} --id NAME" in absent.err
    key = await create(
        file, "ci", "--scope", "send", "--scope", "read", "--principal", "team", "--expires", "90d"
    )
    assert key.startswith("ci.")
    again = await command("keys", "create", "--file", str(file), "--id", "ci")
    assert (again.code, "has a key 'ci' already" in again.err) == (2, True)
    shown = await command("keys", "list", "--file", str(file), "-o", "json")
    (one,) = shown.json["keys"]
    assert (one["id"], one["principal"], one["scopes"], one["state"]) == (
        "ci",
        "team",
        ["send", "read"],
        "valid",
    )
    assert key.partition(".")[2] not in shown.out + file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    unknown = await command("keys", "revoke", "--file", str(file), "--id", "other")
    assert (unknown.code, "has no key 'other'" in unknown.err) == (2, True)
    done = await command("keys", "revoke", "--file", str(file), "--id", "ci")
    assert done.out.startswith("ci is revoked since 2")
    assert "revoked" in (await command("keys", "list", "--file", str(file))).out
    for bad in ("0d", "soon", "-1h"):
        done = await command("keys", "create", "--file", str(file), "--id", "x", f"--expires={bad}")
        assert (done.code, "is no time such as 12h or 90d" in done.err) == (2, True)


@pytest.mark.parametrize("server", ["builtin", "envoy"])
async def test_client_certificates_name_the_caller(folder: Path, server: str) -> None:
    mine, caller = new_identity(), new_identity(uri="spiffe://example/ann")
    (certificate, key), (caller_certificate, caller_key) = (
        mine.written(folder, "mine"),
        caller.written(folder, "ann"),
    )
    address = ANY_PORT if server == "builtin" else ("--server", "envoy", "--listen", "127.0.0.1:0")
    tls = ("--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certs", caller_certificate)
    async with serving("serve", f"{folder}/edge_agents.py:whoami", *address, *tls) as running:
        options = DialOptions(
            tls=TlsFiles(certificate, caller_certificate, caller_key),
            # Callers cannot say that they are another one.
            parameters={"x-forwarded-client-cert": 'Cert="x"'},
        )
        for binding in BINDINGS:
            assert await asked(running.http, options, binding) == "spiffe://example/ann"


@pytest.mark.parametrize("reqs", ["optional", "required"])
async def test_a_client_certificate_beside_keys(folder: Path, reqs: str) -> None:
    """One that each connection needs may be that of a proxy, so it identifies nobody beside keys."""
    mine, caller = new_identity(), new_identity(uri="spiffe://example/ann")
    (certificate, key), (caller_certificate, caller_key) = (
        mine.written(folder, "mine"),
        caller.written(folder, "ann"),
    )
    file = KeyFile(folder / "more.json")
    secret = file.create("ci").text
    tls = ("--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certs", caller_certificate)
    flags = (*tls, "--ssl-cert-reqs", reqs, "--api-keys", str(file.path), "--no-grpc")
    proved = TlsFiles(certificate, caller_certificate, caller_key)
    is_optional = reqs == "optional"
    async with serving(
        "serve", f"{folder}/edge_agents.py:whoami", "--http", "127.0.0.1:0", *flags
    ) as running:
        for binding in BINDINGS[:2]:
            both = DialOptions(tls=proved, parameters={"x-api-key": secret})
            assert await asked(running.http, both, binding) == "ci"
            with_certificate = DialOptions(tls=proved)
            if is_optional:
                assert await asked(running.http, with_certificate, binding) == "spiffe://example/ann"
                with_key = DialOptions(tls=TlsFiles(certificate), parameters={"x-api-key": secret})
                assert await asked(running.http, with_key, binding) == "ci"
            nobody = DialOptions(tls=TlsFiles(certificate) if is_optional else proved)
            with pytest.raises(A2AError) as caught:
                await asked(running.http, nobody, binding)
            assert caught.value.reason is Reason.UNAUTHENTICATED
        async with http_fetch(DialOptions(tls=proved)) as fetch:
            card = json.loads((await fetch(f"{running.http}/.well-known/agent-card.json", {})).body)
    names = [name for one in card["securityRequirements"] for name in one["schemes"]]
    assert names == (["apiKey", "mutualTLS"] if is_optional else ["apiKey"])


@pytest.mark.parametrize(
    ("changes", "warns"),
    [
        ({}, True),
        ({"store": "postgresql://db/tasks"}, False),
        ({"upstream_auth": UpstreamAuth.PASS_THROUGH}, False),
        ({"task_access": TaskAccess.UNOWNED}, False),
        ({"api_keys": None}, False),
    ],
)
def test_several_workers_of_a_gateway_and_the_owners_of_tasks(
    changes: dict[str, Any], warns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flags = replace(GatewayFlags(api_keys=tmp_path / "keys.json", workers=2), **changes)
    note_task_owners(flags)
    assert ("--store postgresql://…" in caplog.text) is warns


def test_several_workers_of_a_gateway_share_no_file() -> None:
    with pytest.raises(typer.Exit):
        note_task_owners(GatewayFlags(store="sqlite:///x.db", workers=2))


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"api_keys": True}, True),
        ({"api_keys": True, "upstream_auth": UpstreamAuth.NONE}, True),
        ({"api_keys": True, "upstream_auth": UpstreamAuth.PASS_THROUGH}, False),
        ({"api_keys": True, "task_access": TaskAccess.ALL}, False),
        ({}, False),
    ],
)
def test_which_gateways_know_whose_a_task_is(changes: dict[str, Any], kept: bool, tmp_path: Path) -> None:
    if "api_keys" in changes:
        changes["api_keys"] = tmp_path / "keys.json"
        KeyFile(changes["api_keys"]).create("ann")
    listening = GatewayPlanner(GatewayFlags(**changes)).plan().listening
    assert keeps_owners(listening.options) is kept
