"""The official SDK's client and our hosted agent: all operations on all bindings, as our client sees them."""

from __future__ import annotations

import pytest

from a2a_bridge.core.agent_api import Client
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.stack import BINDINGS, stack
from tests.equivalence.talk import Talk
from tests.interop.deviations import CLIENT_DROPS_DETAILS, differences
from tests.interop.sdk_client import sdk_client

pytestmark = pytest.mark.sdk


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_official_client_gets_the_same_as_ours(name: str) -> None:
    async with stack() as running:
        expected = Talk(Client(running.ways["in process"]))
        await SCENARIOS[name](expected)
        for binding in BINDINGS:
            async with sdk_client(running.card, binding) as service:
                talk = Talk(Client(service))
                await SCENARIOS[name](talk)
            found = differences(name, expected.lines, talk.lines, [CLIENT_DROPS_DETAILS])
            assert not found, "\n".join([binding, *found])
