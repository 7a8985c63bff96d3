"""The engine enforces the declarations of the card: streaming, the extended card."""

from __future__ import annotations

import sys

import pytest

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.resume import offers_resume
from a2a_bridge.hosting.decorator import ExtendedCard
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.scene import ALICE, Talk, rejected

EXTENDED = hub.AgentCard(name="extended", capabilities=hub.AgentCapabilities(streaming=True))


@pytest.mark.parametrize("agent", [ScriptedAgent, EchoAgent])
async def test_an_agent_that_does_not_stream_rejects_streams(agent: type[EchoAgent]) -> None:
    talk = Talk(agent(streaming=False))
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.stream("task")
    with rejected(Reason.UNSUPPORTED_OPERATION):
        async for _ in talk.subscribe("none"):
            pass
    await talk.send("task")


async def test_an_undeclared_capability_is_absent() -> None:
    talk = Talk(ScriptedAgent(card=hub.AgentCard(name="bare")))
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.stream("task")
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.client.get_extended_agent_card()


async def test_no_extended_card_is_unsupported() -> None:
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await Talk(ScriptedAgent()).client.get_extended_agent_card()


async def test_an_extended_card_that_is_promised_but_missing() -> None:
    card = hub.AgentCard(name="x", capabilities=hub.AgentCapabilities(extended_agent_card=True))
    with rejected(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED):
        await Talk(ScriptedAgent(card=card)).client.get_extended_agent_card()


def made(context: CallContext) -> hub.AgentCard:
    card = hub.AgentCard(name="extended", description=context.principal.name if context.principal else "")
    card.capabilities.streaming = True
    return card


async def made_slowly(context: CallContext) -> hub.AgentCard:
    return made(context)


async def test_a_function_of_the_extended_card_does_not_end_the_server() -> None:
    def leaving(_: CallContext) -> hub.AgentCard:
        sys.exit("a secret of the agent")

    with pytest.raises(RuntimeError, match="raised SystemExit"):  # which bindings answer as INTERNAL_ERROR
        await Talk(ScriptedAgent(extended_card=leaving)).client.get_extended_agent_card()


@pytest.mark.parametrize("extended", [EXTENDED, made, made_slowly])
async def test_the_extended_card_is_given(extended: ExtendedCard) -> None:
    agent = ScriptedAgent(extended_card=extended)
    assert agent.card.capabilities.extended_agent_card
    card = await Talk(agent).client.get_extended_agent_card(None, ALICE)
    assert card.name == "extended"
    assert offers_resume(card)
    if extended is not EXTENDED:
        assert card.description == "alice"
    card.name = "changed"
    assert EXTENDED.name == "extended"
