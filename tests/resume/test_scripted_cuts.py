"""A stream that is cut after each of its events and resumed after the last one seen: every event once, in order."""

from __future__ import annotations

import pytest

from tests.resume.scene import (
    BINDINGS,
    Seen,
    read,
    read_until_cut,
    subscribing,
    through_a_cutter,
)
from tests.resume.scripted import TASK, Log, whole

bindings = pytest.mark.parametrize("binding", BINDINGS)
epochs = pytest.mark.parametrize("epoch", ["", "run_7-b"])


def logged(log: Log) -> list[Seen]:
    events = enumerate(log.events, 1)
    return [Seen(log.id(number), event.SerializeToString(deterministic=True)) for number, event in events]


@bindings
@epochs
async def test_cut_at_each_event_and_the_task_has_ended(binding: str, epoch: str) -> None:
    log = Log(*whole(4), epoch=epoch)
    expected = logged(log)
    async with through_a_cutter(log, binding) as (service, cutter):
        for place in range(len(log.events) + 1):
            start = log.id(0)
            seen = await read_until_cut(service, subscribing(TASK, start), cutter, place)
            seen += await read(service, subscribing(TASK, seen[-1].id if seen else start))
            assert seen == expected


@bindings
async def test_cut_after_every_event_of_a_living_task(binding: str) -> None:
    events = whole(4)
    log = Log(*events[:2])
    seen: list[Seen] = []
    async with through_a_cutter(log, binding) as (service, cutter):
        while len(seen) < len(events):
            if len(log.events) < len(events):
                log.add(events[len(log.events)])
            seen += await read_until_cut(service, subscribing(TASK, seen[-1].id if seen else "0"), cutter, 1)
        assert await read(service, subscribing(TASK, seen[-1].id)) == []
    assert seen == logged(log)
