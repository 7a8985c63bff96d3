"""The time of a rejection does not tell another tenant's task from an absent one.

The share of pairs in which the foreign one took longer is a half where they are the same (Mann and Whitney),
on slow machines, too. For 60 pairs its standard deviation is 0.053; a quarter is nearly five.
"""

import random
from functools import partial
from pathlib import Path
from time import perf_counter

import pytest

from a2a_bridge.core import operations as ops
from tests.exam.probes import PROBES, absent
from tests.exam.raw import BINDINGS, Cell
from tests.exam.scene import bridged, hosted, stranger

SCENES = {
    "hosted": lambda folder: hosted(folder, f"sqlite:///{folder}/tasks.db"),
    "bridged": partial(bridged, upstream=Cell("1.0", "JSONRPC")),
}
ROUNDS = 60
ASKED = {ops.GET_TASK, ops.CANCEL_TASK, ops.LIST_PUSH_CONFIGS}


@pytest.mark.parametrize("scene", SCENES)
async def test_rejections_take_the_same_time(scene: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    shares = {}
    async with SCENES[scene](tmp_path) as made:
        foreign = made.alice[""][0]
        for cell in (Cell("1.0", binding) for binding in BINDINGS):
            for probe in (one for one in PROBES if one.operation in ASKED):
                headers = {"X-API-Key": made.keys[stranger(probe.name)]}
                times: dict[bool, list[float]] = {True: [], False: []}
                for _ in range(ROUNDS):
                    for is_foreign in chance.sample((True, False), 2):
                        names = foreign if is_foreign else absent(foreign)
                        begun = perf_counter()
                        await made.asker.ask(cell, probe.operation, probe.request(names), headers)
                        times[is_foreign].append(perf_counter() - begun)
                shares[f"{cell} {probe.name}"] = _share(times[True], times[False])
    assert {name: share for name, share in shares.items() if not 0.25 < share < 0.75} == {}


def _share(one: list[float], other: list[float]) -> float:
    """The share of pairs in which the first is larger."""
    pairs = [(a > b) + 0.5 * (a == b) for a in one for b in other]
    return sum(pairs) / len(pairs)


def test_the_measure_finds_a_tenth() -> None:
    chance = random.Random(7)
    times = [chance.lognormvariate(0, 0.05) for _ in range(ROUNDS)]
    slower = [1.1 * chance.lognormvariate(0, 0.05) for _ in range(ROUNDS)]
    assert _share(slower, times) > 0.75
