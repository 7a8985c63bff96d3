"""Stand-ins for frameworks (fakes/): none of them is in the lock. `make frameworks` has the real ones."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"
#: the packages of the stand-ins, and the modules that import them
NAMES = (
    "agents",
    "claude_agent_sdk",
    "crewai",
    "google.adk",
    "google.genai",
    "langchain_core",
    "langgraph",
    "pydantic_ai",
    "strands",
    "a2a_bridge_adapters.claude_agent",
    "a2a_bridge_adapters.crewai",
    "a2a_bridge_adapters.langgraph",
    "a2a_bridge_adapters.langgraph_messages",
    "a2a_bridge_adapters.langgraph_nodes",
    "a2a_bridge_adapters.google_adk",
    "a2a_bridge_adapters.openai_agents",
    "a2a_bridge_adapters.pydantic_ai",
    "a2a_bridge_adapters.strands",
)


def _loaded() -> list[str]:
    return [one for one in sys.modules if any(one == name or one.startswith(f"{name}.") for name in NAMES)]


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-ins as packages."""
    assert _loaded() == []
    monkeypatch.syspath_prepend(FAKES)
    yield
    for name in _loaded():
        del sys.modules[name]
