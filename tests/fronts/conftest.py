"""An agent before fronts, of 1.0 over gRPC and of 0.3 over JSON-RPC."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from a2a_bridge.codec import dumps, encoder
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.fronts.desk import FORMS, At, Desk, serving
from tests.patience import PATIENCE


@pytest.fixture(params=FORMS, ids=" ".join)
async def desk_at(request: pytest.FixtureRequest) -> AsyncIterator[At]:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), serving(desk, *request.param) as card:
        yield desk, card


@pytest.fixture
def card_file(desk_at: At, tmp_path: Path) -> str:
    """A file with the card of the agent, for commands."""
    path = tmp_path / "card.json"
    path.write_bytes(dumps(encoder(hub.AgentCard)(desk_at[1])))
    return str(path)
