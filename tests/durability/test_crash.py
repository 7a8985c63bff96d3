"""A server that is killed at random moments loses nothing that anybody was told. The long form is `make crash`."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.durability.crash import trial
from tests.durability.rounds import Trial

ROUNDS = 3
#: a further seed every night, and the same one for a submission
SEED = 1 if os.environ.get("CI") else random.randrange(1 << 32)


async def run(made: Trial, rounds: int = ROUNDS) -> None:
    wrong = await made.run(rounds)
    assert wrong == [], f"seed {made.seed}"
    assert made.totals["killed"] == rounds
    assert made.totals["compared"] > 0
    assert made.ledger.events > 0


@pytest.mark.sdk
async def test_killed_with_everything_switched_on(tmp_path: Path) -> None:
    async with trial(f"sqlite:///{tmp_path / 'trial.db'}", SEED, tmp_path) as made:
        await run(made)
    assert made.totals["pushed"] > 0
    assert made.totals["repeated"] > 0


@pytest.mark.sdk
async def test_killed_as_it_comes(tmp_path: Path) -> None:
    async with trial(
        f"sqlite:///{tmp_path / 'trial.db'}", SEED, tmp_path, resumes=False, idempotent=False, push=False
    ) as made:
        await run(made, 1)


async def test_what_is_lost_is_noticed(tmp_path: Path) -> None:
    async with trial("memory://", SEED, tmp_path, push=False, idempotent=False) as made:
        made.official = ()
        wrong = await made.run(1)
    assert wrong
