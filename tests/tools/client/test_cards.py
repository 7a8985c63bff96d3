"""`card get`: validation, signatures, catalogs; mutual TLS and extensions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.cli.commands import ANY_PORT, agent, card, command, serving
from tests.signing.scene import new_key, text_of
from tests.signing.test_served import KEYS, jwks
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
