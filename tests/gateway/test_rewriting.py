"""The upstream's card with our addresses and without signatures; everything else unchanged."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from a2a_bridge.cards import interface
from a2a_bridge.codec import decoder, encoder, missing_required
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD, GET_TASK
from a2a_bridge.core.service import Event, Events
from a2a_bridge.dialects import KNOWN, V1_0, Dialect
from a2a_bridge.gateway import (
    note_signatures,
    rewrite,
    rewrite_extended_card,
    synthesise_card,
    without_lacking,
)
from a2a_bridge.pb import lf_a2a_v1 as hub

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
    """Answers every unary call with its card, or a task."""

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
