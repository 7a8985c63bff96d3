"""Credentials of client commands go to the hosts that the user has named, wherever in a request they stand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.cli.commands import agent, card, command

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
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0).start()
        made.place = f"http://{host}:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()


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
        assert len(far.calls) == 1
        assert [one for one in far.requests if KEY in one] == []
        assert "several hosts" in done.err
