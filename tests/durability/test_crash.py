"""A server that is killed at random moments loses nothing that a caller has seen (long: `make crash`)."""

import os
import random
from pathlib import Path

import pytest

from tests.durability.crash import trial

ROUNDS = 3
#: a further seed every night, and the same one for a submission
SEED = 1 if os.environ.get("CI") else random.randrange(1 << 32)


@pytest.mark.sdk
async def test_killed_again_and_again(tmp_path: Path) -> None:
    async with trial(f"sqlite:///{tmp_path / 'trial.db'}", SEED, tmp_path) as made:
        wrong = await made.run(ROUNDS)
    assert wrong == [], f"seed {made.seed}"
    assert made.totals["killed"] == ROUNDS
    assert made.totals["compared"] > 0
    assert made.totals["repeated"] > 0
    assert made.totals["exit code"] == 0
