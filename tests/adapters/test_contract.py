"""The contract of adapters for their authors: an agent without an adapter keeps no part of it."""

from typing import Any

import pytest

from a2a_bridge import agent
from a2a_bridge.testing.adapter_contract import callers
from a2a_bridge.testing.each import each
from tests.frameworks.adapters import CHECKS, keep


@agent
async def forgetful(text: str) -> Any:
    """Answers as an agent that knows nothing of turns, questions and tools."""
    yield f"heard {text}"


@each("name", CHECKS)
async def test_no_part_of_the_contract_is_kept_by_an_agent_without_an_adapter(name: str) -> None:
    async with callers(forgetful) as both:
        with pytest.raises(AssertionError):
            await keep(name, *both)
