"""The contract of adapters for their authors, on the adapters of graphs and agents over stand-ins."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge import Agent, agent
from a2a_bridge.testing.contracts import AdapterContract
from a2a_bridge.testing.each import each

CONTRACT = [name for name in vars(AdapterContract) if name.startswith("test_")]


@agent
async def forgetful(text: str) -> Any:
    """Answers as an agent that knows nothing of turns, questions and tools."""
    yield f"heard {text}"


@each("name", CONTRACT)
async def test_no_part_of_the_contract_is_kept_by_an_agent_without_an_adapter(name: str) -> None:
    with pytest.raises(AssertionError):
        await getattr(AdapterContract(), name)(forgetful)


@pytest.mark.usefixtures("fakes")
class TestLangGraph(AdapterContract):
    @pytest.fixture
    def agent(self, fakes: Any) -> Agent:
        from langgraph.pregel.main import Pregel

        return Agent.of(Pregel())
