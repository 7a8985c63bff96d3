"""A name of another tenant and one that nobody has give the same bytes, everywhere, for the same work.

The work (reads of the store, requests to the agent) is compared call by call; test_timing.py has the clock.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from a2a_bridge.core.errors import Reason
from a2a_bridge.core.operations import SEND_MESSAGE, SEND_STREAMING_MESSAGE
from tests.exam.probes import PROBES, Names, Probe, absent
from tests.exam.raw import CELLS, Cell, carries_tenant, expressible, told
from tests.exam.scene import TENANT, Scene, bridged, hosted, stranger

Opening = Callable[[Path], AbstractAsyncContextManager[Scene]]
#: what a gateway speaks to its agent: each version, and each binding
UPSTREAMS = (Cell("0.1", "JSONRPC"), Cell("0.2.5", "HTTP+JSON"), Cell("0.3", "JSONRPC"), Cell("1.0", "GRPC"))
SCENES: dict[str, Opening] = {
    "hosted-memory": lambda folder: hosted(folder, "memory://"),
    "hosted-sqlite": lambda folder: hosted(folder, f"sqlite:///{folder}/tasks.db"),
    **{f"bridged-{cell}": partial(bridged, upstream=cell) for cell in UPSTREAMS},
    **{f"as one caller-{cell}": partial(bridged, upstream=cell, passes=False) for cell in UPSTREAMS},
}
#: a gateway with a store, which relays notifications
RELAYING = "as one caller-relay"


@pytest.fixture(params=[*SCENES, RELAYING])
async def scene(request: pytest.FixtureRequest, tmp_path: Path, unused_tcp_port: int) -> AsyncIterator[Scene]:
    if request.param == RELAYING:
        opened = bridged(
            tmp_path, Cell("1.0", "JSONRPC"), passes=False, store="gateway.db", relay=unused_tcp_port
        )
    else:
        opened = SCENES[request.param](tmp_path)
    async with opened as made:
        yield made


def cases(scene: Scene, cell: Cell, probe: Probe) -> list[tuple[str, Names]]:
    """Who asks, and for what: a stranger in the tenant of the task, and alice in another tenant."""
    bob, other = stranger(probe.name), f"other-{PROBES.index(probe)}"
    found = [(bob, names) for names in scene.alice[""]]
    for names in scene.alice.get(TENANT, ()):
        if carries_tenant(cell, probe.operation, probe.request(names)):
            found += [(bob, names), ("alice", replace(names, tenant=other))]
    return [
        (caller, names) for caller, names in found if expressible(cell, probe.operation, probe.request(names))
    ]


async def test_another_tenants_names_are_like_absent_ones(scene: Scene) -> None:
    asked, wrong = 0, list[str]()
    for cell in CELLS:
        for probe in PROBES:
            for caller, names in cases(scene, cell, probe):
                asked += 1
                wrong += await _differences(scene, cell, probe, caller, names)
    assert not wrong, "\n".join(wrong)
    assert asked > 200


async def _differences(scene: Scene, cell: Cell, probe: Probe, caller: str, foreign: Names) -> list[str]:
    answers, works = [], []
    nobody = absent(foreign)
    for names in (foreign, nobody):
        headers = {"X-API-Key": scene.keys[caller], **probe.headers(names)}
        scene.work.clear()
        answer = await scene.asker.ask(cell, probe.operation, probe.request(names), headers)
        works.append(list(scene.work))
        answers.append((told(answer, names.task, names.context, names.hook), answer))
    place = f"{cell} {probe.name} of {foreign.task} by {caller} in {foreign.tenant!r}"
    (first, answer), (second, _) = answers
    if first != second:
        return [f"{place}: {first} but {second}"]
    if works[0] != works[1]:
        return [f"{place}: work {works[0]} but {works[1]}"]
    error = answer.error(cell, probe.operation)
    # A gateway says what an older agent cannot do, before it looks for a task.
    lacking = scene.upstream is not None and scene.upstream.form.row(probe.operation) is None
    # A task of 0.1 is named by its caller: the name is free for everybody.
    begins = cell.version == "0.1" and probe.operation in (SEND_MESSAGE, SEND_STREAMING_MESSAGE)
    if (
        probe.finds
        and not lacking
        and not begins
        and (error is None or error.reason is not Reason.TASK_NOT_FOUND)
    ):
        return [f"{place}: {error} {answer}"]
    return []
