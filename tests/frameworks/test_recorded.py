"""Agents of real frameworks as they were recorded (`make frameworks`), behind the command, in every cell."""

import json

import pytest

from tests.frameworks.programs import FRAMEWORKS, RECORDED, Framework
from tests.frameworks.recording import playing
from tests.frameworks.talking import through_a_gateway


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.name)
async def test_every_client_gets_the_answer(framework: Framework) -> None:
    exchanges = json.loads(RECORDED.joinpath(f"{framework.name}.json").read_bytes())["exchanges"]
    async with playing(exchanges) as player:
        found = await through_a_gateway(
            f"{player.origin}/{framework.card}", *framework.flags, tasks=framework.tasks
        )
    assert {cell: wrong for cell, wrong in found.items() if wrong} == {}
