"""The upstream's card with our addresses and without signatures; everything else unchanged."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from a2a_bridge import agent, serve
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.places import place_of
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.codec import decoder, encoder, missing_required
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD, GET_TASK, SUBSCRIBE_TO_TASK
from a2a_bridge.core.service import Event, Events
from a2a_bridge.dialects import KNOWN, V1_0, Dialect
from a2a_bridge.gateway.cards import (
    note_signatures,
    rewrite,
    rewrite_extended_card,
    synthesise_card,
    without_lacking,
)
from a2a_bridge.gateway.connections import TenantRule
from a2a_bridge.gateway.destinations import Destination, Destinations, move_to
from a2a_bridge.gateway.failover import dial_failover
from a2a_bridge.gateway.upstream import dial
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe, answering
from tests.patience import PATIENCE
from tests.sites import listening

WIRE = {
    "name": "Bank",
    "description": "Moves money",
    "version": "7",
    "supportedInterfaces": [
        {"url": "http://10.0.0.7/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"}
    ],
    "provider": {"organization": "Bank", "url": "https://bank.example"},
    "capabilities": {
        "streaming": False,
        "pushNotifications": True,
        "extensions": [{"uri": "https://x.example/1", "required": True, "params": {"level": 7}}],
    },
    "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "x-api-key"}}},
    "securityRequirements": [{"schemes": {"key": {"list": []}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "pay", "name": "Pay", "description": "Pays", "tags": ["money"]}],
    "signatures": [{"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "AAAA"}],
    "iconUrl": "https://bank.example/icon.png",
}

OURS = [interface("JSONRPC", "https://front.example/"), interface("GRPC", "front.example:443")]


def signed_card() -> hub.AgentCard:
    return decoder(hub.AgentCard)(WIRE)


def test_only_interfaces_and_signatures_change() -> None:
    card = signed_card()
    rewritten = encoder(hub.AgentCard)(rewrite(card, OURS))
    before = encoder(hub.AgentCard)(card)
    assert [one["url"] for one in rewritten["supportedInterfaces"]] == [
        "https://front.example/",
        "front.example:443",
    ]
    assert "signatures" not in rewritten
    kept = set(before) - {"supportedInterfaces", "signatures"}
    assert kept == set(rewritten) - {"supportedInterfaces"}
    assert {key: rewritten[key] for key in kept} == {key: before[key] for key in kept}


def test_the_card_that_was_given_stays_as_it_is() -> None:
    card = signed_card()
    rewrite(card, OURS)
    assert card == signed_card()


def test_dropped_signatures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "a2a_bridge.gateway"):
        note_signatures(rewrite(signed_card()))
        assert caplog.records == []
        note_signatures(signed_card())
    assert len(caplog.records) == 1


class Upstream:
    async def unary(self, call: Call[Any, Any], /) -> Any:
        return signed_card() if call.operation is GET_EXTENDED_AGENT_CARD else hub.Task(id="t")

    async def stream(self, call: Call[Any, Any], /) -> Events:
        yield Event(hub.StreamResponse())


async def test_the_extended_card_leads_to_the_gateway_too() -> None:
    seen = []

    def interfaces(context: CallContext) -> list[hub.AgentInterface]:
        seen.append(context)
        return OURS

    service = rewrite_extended_card(interfaces)(Upstream())
    context = CallContext()
    card = await service.unary(Call(GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest(), context))
    assert list(card.supported_interfaces) == OURS
    assert not card.signatures
    assert card.security_schemes == signed_card().security_schemes
    assert seen == [context]
    assert (await service.unary(Call(GET_TASK, hub.GetTaskRequest(), context))).id == "t"


def test_the_least_card_is_a_valid_card() -> None:
    card = synthesise_card(interface("GRPC", "agent.example:50051"))
    assert missing_required(card) == []
    assert not card.capabilities.push_notifications


def test_an_extended_card_is_offered_where_the_agents_version_has_one() -> None:
    card = signed_card()
    card.capabilities.extended_agent_card = True
    for dialect in KNOWN:
        for kind, form in dialect.forms.items():
            shown = without_lacking(card, dialect, kind.name)
            has = form.row(GET_EXTENDED_AGENT_CARD) is not None
            assert shown.capabilities.extended_agent_card is has, (dialect.version, kind.name)
    assert card.capabilities.extended_agent_card  # the original is unchanged
    older = Dialect("0.0", V1_0.card, {})
    assert not without_lacking(card, older, "JSONRPC").capabilities.extended_agent_card


# --- The tenant of an agent's interface ---
class Recorder:
    def __init__(self) -> None:
        self.calls: list[Call[Any, Any]] = []

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.calls.append(call)
        return hub.Task()

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.calls.append(call)
        yield Event(hub.StreamResponse())


def call_for(tenant: str, *, stream: bool = False) -> Call[Any, Any]:
    context = CallContext(tenant=tenant)
    if stream:
        return Call(SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t", tenant=tenant), context)
    return Call(GET_TASK, hub.GetTaskRequest(id="t", tenant=tenant), context)


async def test_where_the_interface_names_a_tenant_only_that_one_is_served() -> None:
    upstream = Recorder()
    rule = TenantRule(upstream, "ours")
    calls = [call_for(tenant) for tenant in ("", "ours")]
    for call in calls:
        await rule.unary(call)
    assert upstream.calls == calls
    assert [event async for event in rule.stream(call_for("ours", stream=True))]
    with pytest.raises(A2AError) as unary:
        await rule.unary(call_for("theirs"))
    with pytest.raises(A2AError) as stream:
        await anext(rule.stream(call_for("theirs", stream=True)))
    assert len(upstream.calls) == 3
    for caught in (unary, stream):
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert [one.field for one in caught.value.violations] == ["tenant"]


# --- The addresses in a card: which are dialled, which get credentials, which are replaced ---

#: hosts and their addresses; all others have none
HOSTS = {
    "agent.example": ["93.184.216.34"],
    "api.example": ["93.184.216.35"],
    "inside.example": ["10.1.2.3"],
    "both.example": ["93.184.216.35", "127.0.0.1"],
    "meta.example": ["169.254.169.254"],
    "box.lan": ["192.168.1.5"],
}
TOKEN = {"authorization": "Bearer secret"}


async def lookup(host: str, _port: int) -> Sequence[str]:
    if host not in HOSTS:
        raise OSError("no such host")
    return HOSTS[host]


def candidate(url: str) -> Candidate:
    return Candidate(
        interface("GRPC" if "://" not in url or url.startswith("grpc") else "JSONRPC", url), V1_0
    )


def looking(named: str, *, answering: Sequence[str] = (), **options: object) -> Destinations:
    """answering: `host:port` of the places that accept connections."""

    async def probe(host: str, port: int) -> str:
        return "" if f"{host}:{port}" in answering else "rejected"

    made = DialOptions(parameters=TOKEN, named=named, **options)  # type: ignore[arg-type]
    return Destinations(made, lookup=lookup, probe=probe)


async def vetted(named: str, url: str, **options: object) -> Destination:
    [found] = await looking(named, **options).check([candidate(url)])
    return found


@each(
    ("named", "url", "credentials"),
    [
        ("https://agent.example", "https://agent.example/rpc", True),
        ("https://agent.example", "https://AGENT.example.:8443/rpc", True),
        ("https://agent.example", "grpcs://agent.example:50051", True),
        ("https://agent.example", "agent.example:443", True),
        # plain text, although TLS was named
        ("https://agent.example", "http://agent.example/rpc", False),
        ("https://agent.example", "agent.example:50051", False),
        ("http://agent.example", "agent.example:50051", True),
        ("http://127.0.0.1:8000", "http://localhost:9000/", True),
        ("http://localhost:8000", "[::1]:50051", True),
        ("http://127.0.0.1:8000", "http://127.0.0.2:8000/", False),
        ("http://127.0.0.2:8000", "http://127.0.0.2:9000/", True),
        # at another host
        ("https://agent.example", "https://api.example/rpc", False),
        ("https://agent.example", "https://agent.example.evil.test/rpc", False),
        ("http://box.lan", "https://api.example/rpc", False),
        ("", "https://api.example/rpc", True),
    ],
)
async def test_who_gets_the_operators_credentials(named: str, url: str, credentials: bool) -> None:
    found = await vetted(named, url)
    assert (found.rejection, found.candidate.credentials) == ("", credentials)


async def test_further_origins_get_credentials_when_they_are_named() -> None:
    flags = {"credentials_for": frozenset({"https://api.example", "inside.example:50051"})}
    for url, sent in (
        ("https://api.example/rpc", True),
        ("inside.example:50051", True),
        ("https://api.example:8443/rpc", False),
        ("http://api.example:443/rpc", False),
        ("http://inside.example:50051/rpc", True),
    ):
        found = await vetted("https://agent.example", url, **flags)
        assert (found.rejection, found.candidate.credentials) == ("", sent)
    assert (await vetted("https://agent.example", "agent.example:50051", grpc_tls=True)).candidate.credentials


@each(
    ("named", "url", "rejected"),
    [
        ("https://agent.example", "http://169.254.169.254/latest", True),
        ("http://127.0.0.1:8000", "http://169.254.169.254/latest", True),
        ("http://127.0.0.1:8000", "http://meta.example/", True),
        ("http://127.0.0.1:8000", "http://[::ffff:169.254.169.254]/", True),
        ("https://agent.example", "http://localhost:8000/", True),
        ("https://agent.example", "http://0.0.0.0:8000/", True),
        ("https://agent.example", "ipv4:127.0.0.1:50051", True),
        ("https://agent.example", "dns:///localhost:50051", True),
        ("https://agent.example", "ipv4:93.184.216.35:50051,127.0.0.1:50051", True),
        ("https://agent.example", "unix:/run/docker.sock", True),
        ("https://agent.example", "http://both.example/", True),
        ("https://agent.example", "inside.example:50051", True),
        ("https://no.such.host", "inside.example:50051", True),
        ("http://box.lan", "http://[::1]:8000/", True),
        ("http://box.lan", "http://inside.example/", False),
        ("http://127.0.0.1:8000", "http://inside.example/", False),
        ("http://127.0.0.1:8000", "http://localhost:9000/", False),
        ("https://agent.example", "https://api.example/", False),
    ],
)
async def test_inner_addresses_are_rejected_unless_they_are_named(
    named: str, url: str, rejected: bool
) -> None:
    assert bool((await vetted(named, url)).rejection) is rejected
    trusted = await vetted(named, url, trust_card_urls=True)
    assert not trusted.rejection
    assert not (rejected and trusted.candidate.credentials)
    place = place_of(url)
    if place is not None and "[" not in url:
        flags = {"credentials_for": frozenset({f"{place.host}:{place.port}"})}
        assert not (await vetted(named, url, **flags)).rejection


async def test_a_name_that_leads_elsewhere_later_is_rejected_when_it_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await vetted("https://agent.example", "https://api.example/")
    resolve = found.candidate.resolve
    assert resolve is not None
    assert await resolve("api.example", 443) == HOSTS["api.example"]
    monkeypatch.setitem(HOSTS, "api.example", ["169.254.169.254"])
    with pytest.raises(A2AError, match="never an agent's") as caught:
        await resolve("api.example", 443)
    assert caught.value.reason is Reason.UNAVAILABLE
    assert (await vetted("https://agent.example", "https://agent.example/")).candidate.resolve is None


@pytest.mark.parametrize("kind", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("credentials", [True, False])
async def test_headers_of_callers_go_where_the_operators_go(kind: str, credentials: bool) -> None:
    probe = Probe()
    probe.on_unary = answering(hub.Task(id="t"))
    options = DialOptions(parameters={"x-key": "k"}, forward=DialOptions().forward | {"x-own"})
    sent = {"authorization": "Bearer theirs", "x-own": "o", "traceparent": "00-1"}
    async with listening(probe, kind) as address:
        url = str(address) if kind == "GRPC" else f"http://{address}"
        one = Candidate(interface(kind, url), V1_0, credentials=credentials)
        async with dial(one, options) as service:
            context = CallContext(parameters=sent)
            await service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), context))
    [call] = probe.calls
    heard = {name: call.context.parameters.get(name) for name in ("x-key", *sent)}
    personal = {"x-key": "k", **sent} if credentials else {"traceparent": "00-1"}
    assert {name: value for name, value in heard.items() if value} == personal


@each(
    ("named", "url", "instead"),
    [
        ("http://127.0.0.1:28801", "http://localhost:8000/rpc?x=1", "http://127.0.0.1:28801/rpc?x=1"),
        ("http://127.0.0.1:28801/agents/a", "http://localhost:8000/", "http://127.0.0.1:28801/agents/a"),
        ("http://127.0.0.1:28801/card.json", "http://localhost:8000/", "http://127.0.0.1:28801/"),
        ("https://agent.example", "http://localhost:8000/rpc", "https://agent.example/rpc"),
        ("https://agent.example", "localhost:50051", "agent.example:50051"),
        ("https://agent.example", "grpcs://localhost:50051", "grpcs://agent.example:50051"),
        ("http://[::1]:8000", "agent.example:50051", "[::1]:50051"),
        # Spellings of this machine: a server that listens on one may not listen on another.
        ("http://127.0.0.1:8000", "http://localhost:8000/x", "http://127.0.0.1:8000/x"),
        ("http://127.0.0.1:8000", "http://[::]:8000/x", "http://127.0.0.1:8000/x"),
        ("http://127.0.0.1:8000", "[::1]:50051", "127.0.0.1:50051"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/x", None),
        ("http://127.0.0.1:8000", "127.0.0.1:50051", None),
        ("https://agent.example", "unix:/run/agent.sock", None),
    ],
)
def test_the_same_interface_at_the_named_host(named: str, url: str, instead: str | None) -> None:
    found = move_to(candidate(url), named)
    assert (found.interface.url if found is not None else None) == instead


async def test_a_silent_interface_is_replaced_by_the_named_host() -> None:
    card = [
        candidate("http://localhost:8000/rpc"),
        candidate("http://127.0.0.1:28801/"),
        candidate("localhost:50051"),
    ]
    named = "http://127.0.0.1:28801"
    found = await looking(named, answering=["127.0.0.1:28801"]).check_and_connect(card)
    assert [one.candidate.interface.url for one in found] == [
        "http://127.0.0.1:28801/rpc",
        "http://127.0.0.1:28801/",
        "localhost:50051",
    ]  # nobody answers at 127.0.0.1:50051 either
    assert [(bool(one.instead_of), one.silence) for one in found] == [
        (True, ""),
        (False, ""),
        (False, "rejected"),
    ]
    found = await looking(named, answering=["127.0.0.1:28801"], trust_card_urls=True).check_and_connect(card)
    assert [one.candidate.interface.url for one in found] == [one.interface.url for one in card]
    assert [one.silence for one in found] == ["rejected", "", "rejected"]


@each("host", ["[::]", "[::1]", "0.0.0.0", "localhost"])
@each("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_an_agent_answers_at_the_host_that_was_named(host: str, binding: str) -> None:
    """A container may have no IPv6 address, and its agent writes one into the card."""

    @agent
    async def echo(text: str) -> str:
        return text

    async with serve(echo, [interface(binding)]) as server:
        [there] = server.card.supported_interfaces
        named = f"http://{server.http}" if server.http else f"http://{server.grpc}"
        there.url = there.url.replace("127.0.0.1", host)
        destinations = Destinations(DialOptions(named=named))
        usable = destinations.fallbacks(await destinations.check([Candidate(there, V1_0)]))
        [settled] = await destinations.check_and_connect([Candidate(there, V1_0)])
        for candidates in (usable, [settled.candidate]):
            async with dial_failover(candidates, DialOptions(timeout=PATIENCE)) as service:
                message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="hi")])
                request = hub.SendMessageRequest(message=message)
                answer = await service.unary(Call(ops.SEND_MESSAGE, request, CallContext()))
                assert answer.message.parts[0].text == "hi"


async def test_a_rejected_interface_is_replaced_and_gets_credentials_over_tls_only() -> None:
    card = [
        candidate("http://localhost:8000/rpc"),
        candidate("localhost:50051"),
        candidate("http://169.254.169.254/"),
    ]
    answering = ["agent.example:443", "agent.example:50051"]
    found = await looking("https://agent.example", answering=answering).check_and_connect(card)
    assert [(one.candidate.interface.url, one.candidate.credentials) for one in found] == [
        ("https://agent.example/rpc", True),
        ("agent.example:50051", False),
        ("https://agent.example/", True),
    ]
    found = await looking("https://agent.example").check_and_connect(card)
    assert all(one.rejection for one in found)


async def test_without_a_look_the_named_host_comes_last() -> None:
    card = [candidate("https://api.example/rpc"), candidate("http://169.254.169.254/")]
    destinations = looking("https://agent.example")
    usable = destinations.fallbacks(await destinations.check(card))
    assert [one.interface.url for one in usable] == [
        "https://api.example/rpc",
        "https://agent.example/rpc",
        "https://agent.example/",
    ]
    alone = looking("https://agent.example", trust_card_urls=True)
    assert alone.fallbacks(await alone.check(card[:1]))[0].interface.url == "https://api.example/rpc"


def test_an_origin_that_is_none_is_rejected() -> None:
    for text in ("", "host", "ftp://host", "https://host:port"):
        with pytest.raises(ValueError, match=r"credentials_for: .* is no origin"):
            looking("https://agent.example", credentials_for=frozenset({"https://api.example", text}))
