"""Every conversation reads the same over each binding as with the agent itself, word for word."""

from __future__ import annotations

import pytest

from a2a_bridge.core.agent_api import Client
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.stack import BINDINGS, stack
from tests.equivalence.talk import Talk


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_conversation_reads_the_same_everywhere(name: str) -> None:
    async with stack() as running:
        told = {}
        for way, service in running.ways.items():
            talk = Talk(Client(service))
            await SCENARIOS[name](talk)
            told[way] = talk.lines
    assert told["in process"]
    for binding in BINDINGS:
        assert told[binding] == told["in process"], binding
