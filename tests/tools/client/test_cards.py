"""`card get`: validation, signatures, catalogs; mutual TLS and extensions."""

import asyncio
import json
import re
import ssl
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.auth.real_provider import SECRET, real_provider
from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, agent, card, command, ended, serving, spawn
from tests.patience import PATIENCE
from tests.signing.scene import new_key, text_of
from tests.signing.test_served import KEYS, jwks
from tests.sites import site as http_site
from tests.tools.client.live import Live

req = pytest.mark.requirement
DEMO = "a2a_bridge_tools.demo_agent:agent"
ANSWER = hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))


@req("CARD_GET_002")
async def test_an_invalid_card_is_said_member_by_member(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    place = {"url": "http://127.0.0.1:1", "protocolBinding": "QUEUE", "protocolVersion": "1.0"}
    tree = {"name": "x", "supportedInterfaces": [place], "securityRequirements": [{"schemes": {"none": {}}}]}
    file.write_text(json.dumps(tree))
    done = await command("card", "get", "-a", str(file), "--validate", "-o", "json")
    assert (done.code, done.json["error"]["code"]) == (1, "A2ACLI_ERR_CARD_INVALID")
    for text in (
        "version is missing",
        "skills is missing",
        "'none', which is no scheme",
        "'QUEUE' is unknown",
    ):
        assert text in done.json["error"]["message"]
    assert (await command("card", "get", "-a", str(file))).code == 0


@req("CARD_GET_002", "CARD_GET_003")
async def test_the_extended_card_is_validated_too() -> None:
    probe = Probe()
    skill = hub.AgentSkill(id="s", name="S", description="d", tags=["t"])
    shown = card(capabilities=hub.AgentCapabilities(extended_agent_card=True), skills=[skill])
    async with agent(probe, shown=shown) as server:
        words = ("card", "get", "--extended", "--validate", "-a", f"http://{server.http}")
        probe.on_unary = answering(hub.AgentCard(name="Extended"))
        invalid = await command(*words, "-o", "json")
        probe.on_unary = answering(server.card)
        valid = await command(*words)
    assert (invalid.code, invalid.json["error"]["code"]) == (1, "A2ACLI_ERR_CARD_INVALID"), invalid.err
    assert "version is missing" in invalid.json["error"]["message"]
    assert (valid.code, valid.fields.get("Valid")) == (0, "yes"), valid.err


@req("CARD_GET_002", "CARD_GET_004")
async def test_a_valid_unsigned_card(one: Live) -> None:
    done = await command("card", "get", "-a", one.reference, "--validate")
    assert (done.code, done.fields["Valid"], done.fields["Signature"]) == (0, "yes", "absent"), done.err
    rejected = await command(
        "card", "get", "-a", one.reference, "--require-signed-card", "--card-keys", one.reference
    )
    assert rejected.code != 0


@req("CARD_GET_004")
async def test_the_outcome_of_signatures(tmp_path: Path) -> None:
    theirs, strange = new_key(kid="theirs"), new_key(kid="strange")
    key = tmp_path / "theirs.json"
    key.write_text(text_of(theirs))
    async with serving("serve", DEMO, *ANY_PORT, "--card-signing-key", str(key)) as server:
        words = ("card", "get", "-a", server.http)
        good = await command(*words, "--card-keys", f"{server.http}{KEYS}", "--require-signed-card")
        wrong = await command(*words, "--card-keys", jwks(tmp_path, strange))
        none = await command(*words)
        required = await command(*words, "--card-keys", jwks(tmp_path, strange), "--require-signed-card")
    assert (good.code, good.fields["Signature"]) == (0, "verified"), good.err
    assert (wrong.code, wrong.fields["Signature"].split()[0]) == (0, "unverifiable"), wrong.err
    assert (none.code, none.fields["Signature"].split()[0]) == (0, "unverifiable")
    assert required.code == 1


@req("CARD_GET_005")
async def test_an_entry_of_a_catalog_is_an_agent(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text(f'[agents.one]\nagent = "{DEMO}"\n[agents.two]\nagent = "{DEMO}"\n')
    async with serving("serve", "--config", str(config), *ANY_PORT) as server:
        for reference in (f"{server.http}#one", f"{server.http}/.well-known/ai-catalog.json#two"):
            shown = await command("card", "get", "-a", reference)
            assert (shown.code, shown.fields["Name"]) == (0, "Demo"), shown.err
            done = await command("send", "hello", "-a", reference)
            assert (done.code, done.text) == (0, "hello"), done.err
            compared = await command("compare", "hello", "-a", reference)
            assert (compared.code, "identical" in compared.out) == (0, True), compared.err
        for reference in (f"{server.http}#three", f"{server.http}/.well-known/ai-catalog.json"):
            none = await command("card", "get", "-a", reference, "-o", "json")
            assert (none.code, none.json["error"]["code"]) == (3, "A2ACLI_ERR_CARD_NOT_FOUND")


@req("VER_002")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_extensions_that_a_server_requires_are_declared(binding: str) -> None:
    uri = "https://example.com/ext/v1"

    async def unary(call: object) -> hub.SendMessageResponse:
        if uri not in call.context.extensions:  # type: ignore[attr-defined]
            raise A2AError(Reason.EXTENSION_SUPPORT_REQUIRED)
        return ANSWER

    probe = Probe()
    probe.on_unary = unary
    extension = hub.AgentExtension(uri=uri, required=True)
    shown = card(capabilities=hub.AgentCapabilities(extensions=[extension]))
    async with agent(probe, shown=shown) as server:
        words = ("send", "hi", "-a", f"http://{server.http}", "--transport", binding, "-o", "json")
        rejected = await command(*words)
        declared = await command(*words, "--extension", uri)
        compared = await command("compare", *words[1:], "--extension", uri)
    assert rejected.json["error"]["code"] == "ExtensionSupportRequiredError"
    assert f"requires the extension {uri}; --extension" in rejected.err
    assert (declared.code, compared.code) == (0, 0), declared.err + compared.err


@req("CARD_GET_003")
async def test_a_grpc_address_has_the_extended_card(demo: dict[str, str]) -> None:
    words = ("card", "get", "-a")
    none = await command(*words, f"grpc://{demo['grpc']}")
    assert (none.code, none.fields["Interface"].split()[0]) == (0, "GRPC")
    assert "note: the agent has no card" in none.err
    probe = Probe()
    probe.on_unary = answering(hub.AgentCard(name="Extended"))
    async with agent(probe, "GRPC") as server:
        done = await command(*words, f"grpc://{server.grpc}", "-o", "json")
    assert (done.code, done.json["name"]) == (0, "Extended"), done.err


async def test_a_signature_that_cannot_be_checked_is_not_ignored(demo: dict[str, str]) -> None:
    for words in (
        ("-a", demo["http"], "--extended"),
        ("-a", f"grpc://{demo['grpc']}"),
        ("-e", demo["http"], "--transport", "JSONRPC"),
    ):
        done = await command("card", "get", *words, "--require-signed-card", "--card-keys", demo["http"])
        assert (done.code, "only the public card" in " ".join(done.err.split())) == (2, True), done.err


@req("CARD_GET_003", "AUTH_008")
async def test_the_extended_card_needs_a_scheme_of_the_public_one() -> None:
    probe = Probe()
    probe.on_unary = answering(hub.AgentCard(name="Extended"))
    shown = card(capabilities=hub.AgentCapabilities(extended_agent_card=True))
    shown.security_schemes["oauth"].http_auth_security_scheme.scheme = "bearer"
    async with agent(probe, shown=shown) as server:
        words = ("card", "get", "--extended", "-a", f"http://{server.http}", "-o", "json")
        done = await command(*words, "--bearer", "t")
        other = await command(*words, "--api-key", "k")
    assert (done.code, done.json["name"]) == (0, "Extended")
    assert [call.context.parameters.get("authorization") for call in probe.calls] == ["Bearer t", None]
    assert "x-api-key" not in probe.last.context.parameters
    assert "no security scheme of the card takes --api-key" in other.err


# Credentials of client commands go to the hosts that the user has named, wherever in a request they stand.

KEY = "s3cret-value"
NAMED, FOREIGN = "127.0.0.1", "127.0.0.2"
CATALOG = "application/a2a-agent-card+json"


@dataclass
class Site:
    """A web server that keeps every request. documents: path -> answer; anything else is rejected."""

    place: str = ""
    documents: dict[str, Any] = field(default_factory=dict)
    #: head and headers, as text
    requests: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        headers = "\n".join(f"{name}: {value}" for name, value in request.headers.items())
        self.requests.append(f"{request.method} {request.path_qs}\n{headers}")
        if request.path in self.documents:
            return web.json_response(self.documents[request.path])
        error = {"code": -32001, "message": "no such task"}
        return web.json_response({"jsonrpc": "2.0", "id": 1, "error": error})

    @property
    def calls(self) -> list[str]:
        return [one for one in self.requests if one.startswith("POST ")]


@asynccontextmanager
async def site(host: str, kind: type[Site] = Site) -> AsyncIterator[Site]:
    made = kind()
    async with http_site(made.answer, host) as made.place:
        yield made


def card_at(place: str, location: str = "query") -> Any:
    """A card with a scheme for an API key, and one interface."""
    shown = card(security_requirements=[hub.SecurityRequirement(schemes={"key": hub.StringList()})])
    shown.capabilities.extended_agent_card = True
    shown.security_schemes["key"].api_key_security_scheme.location = location
    shown.security_schemes["key"].api_key_security_scheme.name = "k"
    shown.supported_interfaces.add(url=f"{place}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
    return V1_0.card.encode(shown)


COMMANDS: list[tuple[str, ...]] = [
    ("send", "hi", "--async"),
    ("send", "hi", "--stream"),
    ("compare", "hi"),
    ("task", "get", "t"),
    ("task", "list"),
    ("task", "cancel", "t"),
    ("task", "subscribe", "t"),
    ("card", "get", "--extended"),
    ("conformance",),
    ("send", "hi", "--dry-run"),
    ("send", "hi", "--as", "curl"),
]
WELL_KNOWN = "/.well-known/agent-card.json"


@pytest.mark.parametrize("location", ["query", "cookie", "header"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_a_host_that_only_the_card_names_gets_no_key(words: tuple[str, ...], location: str) -> None:
    async with site(NAMED) as near, site(FOREIGN) as far:
        near.documents[WELL_KNOWN] = card_at(far.place, location)
        secrets = ("--api-key", KEY, "-H", f"X-Mine: {KEY}")
        done = await command(*words, "-a", near.place, *secrets)
        shows = "--dry-run" in words or "--as" in words
        assert bool(far.calls) is not shows, done.err
        assert [one for one in far.requests if KEY in one] == []
        assert KEY not in done.out + done.err
        assert "***" not in done.out
        # The same command sends it to a host that the user has named.
        done = await command(*words, "-a", near.place, *secrets, "--credentials-for", far.place)
        wanted = "k=s3cret-value" if location != "header" else f"k: {KEY}"
        assert ("***" in done.out) if shows else any(wanted in one for one in far.calls)


async def test_an_entry_of_a_catalog_gets_what_an_interface_of_a_card_gets() -> None:
    async with site(NAMED) as near, site(FOREIGN) as far, site(NAMED) as beside:
        secrets = ("--api-key", KEY, "-H", f"X-Mine: {KEY}", "--bearer", KEY)
        for elsewhere, trusted in ((far, False), (beside, True)):
            listed = {"type": CATALOG, "identifier": "urn:x:one", "url": f"{elsewhere.place}/one.json"}
            near.documents["/.well-known/ai-catalog.json"] = {"entries": [listed]}
            elsewhere.documents["/one.json"] = card_at(elsewhere.place)
            done = await command("task", "get", "t", "-a", f"{near.place}#one", *secrets)
            assert len(elsewhere.requests) == 2, done.err
            assert len(elsewhere.calls) == 1
            assert all((KEY in one) is trusted for one in elsewhere.requests), elsewhere.requests


async def test_an_agent_may_be_in_a_catalog_of_the_same_host_that_a_catalog_lists() -> None:
    part = {"type": "application/ai-catalog+json", "identifier": "urn:x:part"}
    async with site(NAMED) as near, site(FOREIGN) as far:
        listed = {"type": CATALOG, "identifier": "urn:x:one", "url": f"{near.place}/one.json"}
        parts = [{**part, "url": f"{one.place}/part.json"} for one in (far, near)]
        near.documents["/.well-known/ai-catalog.json"] = {"entries": parts}
        near.documents["/part.json"] = far.documents["/part.json"] = {"entries": [listed]}
        near.documents["/one.json"] = card_at(near.place)
        done = await command("card", "get", "-a", f"{near.place}#one")
        assert done.code == 0, done.err
        assert far.requests == []


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "http://[", 5, "file:///etc/passwd"])
async def test_a_catalog_leads_to_no_place_that_is_never_an_agent(url: Any) -> None:
    async with site(NAMED) as near:
        listed = {"type": CATALOG, "identifier": "urn:x:one", "url": url}
        near.documents["/.well-known/ai-catalog.json"] = {"entries": [listed]}
        done = await command("card", "get", "-a", f"{near.place}#one", "--timeout", "20")
        assert "this program has failed" not in done.err
        assert done.code in (1, 3), done.err
        assert "catalog" in done.err or "is not an HTTP URL" in done.err


@pytest.mark.parametrize("words", [("compare", "hi"), ("check",)], ids=" ".join)
async def test_the_extended_card_of_a_grpc_address_is_not_trusted(words: tuple[str, ...]) -> None:
    probe = Probe()
    async with agent(probe, "GRPC") as server, site(FOREIGN) as far:
        shown = card()
        for binding, url in (("GRPC", str(server.grpc)), ("JSONRPC", f"{far.place}/rpc")):
            shown.supported_interfaces.add(url=url, protocol_binding=binding, protocol_version="1.0")
        probe.on_unary = answering(shown)
        named = f"grpc://{server.grpc}"
        done = await command(
            *words, *(("-a", named) if words[0] == "compare" else (named,)), "-H", f"K: {KEY}"
        )
        assert far.calls, done.err
        assert [one for one in far.requests if KEY in one] == []
        assert probe.last.context.parameters["k"] == KEY


async def test_a_token_of_a_login_goes_to_one_host_only(tmp_path: Path) -> None:
    async with site(NAMED) as near, site(FOREIGN) as far:
        kept = {"access_token": KEY, "expires_at": 4e9, "token_url": "https://p", "client_id": "c"}
        (tmp_path / "a2a-cli").mkdir()
        (tmp_path / "a2a-cli" / "tokens.json").write_text(json.dumps({near.place: kept}))
        env = {"XDG_CONFIG_HOME": str(tmp_path)}
        file = tmp_path / "card.json"
        tree = card_at(near.place)
        del tree["securityRequirements"], tree["securitySchemes"]
        file.write_text(json.dumps(tree))
        await command("task", "get", "t", "-a", str(file), env=env)
        assert [KEY in one for one in near.calls] == [True]
        tree["supportedInterfaces"].append(tree["supportedInterfaces"][0] | {"url": far.place})
        file.write_text(json.dumps(tree))
        done = await command("compare", "hi", "-a", str(file), env=env)
        assert (len(far.calls), [one for one in far.requests if KEY in one]) == (1, [])
        assert "several hosts" in done.err


# --- `auth login` against a real identity provider, and mutual TLS against our own edge ---

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

    env = {"XDG_CONFIG_HOME": str(tmp_path), "A2ACLI_CLIENT_SECRET": SECRET}
    pages = {"/.well-known/openid-configuration": discover, "/token": give}
    async with http_site(pages, tls=context) as issuer, agent(Probe()) as server:
        words = ("auth", "login", "-a", f"http://{server.http}", "--issuer", issuer)
        done = await command(*words, "--client-id", "service", "--cacert", certificate, env=env)
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
