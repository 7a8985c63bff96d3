"""A stream that is cut after each event and resumed after the last: every event once, in order."""

from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.bindings.binding import find
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.resume import RESUME_URI, GapMark, gap_of, mark_gap
from a2a_bridge.core.service import Event
from a2a_bridge.dialects import Dialect
from a2a_bridge.middleware.stream_compat import stream_compat
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, yielding
from tests.resume.scene import (
    BINDINGS,
    OLDER,
    Seen,
    numbered,
    read,
    read_on,
    read_until_cut,
    subscribing,
    through_a_cutter,
)
from tests.resume.scripted import TASK, Log, became, chunk, whole

bindings = pytest.mark.parametrize("binding", BINDINGS)
older = pytest.mark.parametrize(
    ("binding", "dialect"),
    [
        pytest.param(binding, dialect, id=f"{binding}-{dialect.version}")
        for binding in BINDINGS
        for dialect in OLDER
        if dialect.form(find(binding).kind) is not None
    ],
)
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
            seen += await read_on(service, TASK, seen[-1].id if seen else start)
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
            after = seen[-1].id if seen else "0"
            seen += await read_until_cut(service, subscribing(TASK, after), cutter, 1)
        assert await read_on(service, TASK, seen[-1].id) == []
    assert seen == logged(log)


@older
async def test_callers_of_older_versions_resume_too(binding: str, dialect: Dialect) -> None:
    log = Log(*whole(2))
    expected = logged(log)
    async with through_a_cutter(stream_compat([dialect])(log), binding, dialect) as (service, cutter):
        for place in range(len(log.events) + 1):
            seen = await read_until_cut(service, subscribing(TASK, "0"), cutter, place)
            seen += await read_on(service, TASK, seen[-1].id if seen else "0")
            assert seen == expected


@bindings
async def test_a_snapshot_has_the_id_of_the_last_event_it_holds(binding: str) -> None:
    events = whole(4)
    log = Log(*events[:3])
    async with through_a_cutter(log, binding) as (service, cutter):
        seen = await read_until_cut(service, subscribing(TASK), cutter, 1)
        assert ([one.id for one in seen], seen[0].content.task) == (["3"], log.task())
        log.add(*events[3:])
        assert await read_on(service, TASK, seen[0].id) == logged(log)[3:]


@bindings
@pytest.mark.parametrize("after", ["1", "99", "never-1", "never", "01"])
async def test_a_gap_is_marked_twice_and_followed_by_a_snapshot(binding: str, after: str) -> None:
    log = Log(*whole(4), kept=3)
    call = subscribing(TASK, after)
    async with through_a_cutter(log, binding) as (service, _):
        (only,) = await read(service, call)
    assert only.gap
    assert (only.id, gap_of(only.content)) == (str(len(log.events)), GapMark(after, only.id))
    assert only.content.task.status.state == hub.TASK_STATE_COMPLETED


@bindings
async def test_after_a_gap_the_events_continue(binding: str) -> None:
    events = whole(4)
    log = Log(*events[:5], kept=4)
    call = subscribing(TASK, "2")
    async with through_a_cutter(log, binding) as (service, _), aclosing(numbered(service, call)) as stream:
        snapshot = await anext(stream)
        assert gap_of(snapshot.content) == GapMark("2", "5")
        log.add(*events[5:])
        assert [one async for one in stream] == logged(log)[5:]


@bindings
async def test_a_gap_in_the_middle_has_the_next_number(binding: str) -> None:
    events = whole(6)

    async def lossy(call: Any) -> Any:
        for number in (1, 2):
            yield Event(events[number - 1], str(number))
        snapshot = hub.Task(id=TASK, context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
        mark_gap(snapshot, "2", "7")
        yield Event(hub.StreamResponse(task=snapshot), "7", gap=True)
        yield Event(events[7], "8")

    probe = Probe()
    probe.on_stream = lossy
    async with through_a_cutter(probe, binding) as (service, _):
        seen = await read(service, subscribing(TASK, "0", extensions=RESUME_URI))
    assert [one.id for one in seen] == ["1", "2", "7", "8"]
    assert gap_of(seen[2].content) == GapMark("2", "7")


@pytest.mark.parametrize("second", ["", "5", "b-2"])
async def test_callers_that_count_are_not_left_with_wrong_numbers(second: str) -> None:
    events = whole(6)

    probe = Probe()
    probe.on_stream = yielding(Event(events[0], "1"), Event(events[1], second))
    async with through_a_cutter(probe, "GRPC") as (service, _):
        async with aclosing(numbered(service, subscribing(TASK, extensions=RESUME_URI))) as stream:
            assert (await anext(stream)).id == "1"
            with pytest.raises(A2AError) as broken:
                await anext(stream)
        assert broken.value.reason is Reason.UNAVAILABLE
        # Other callers ignore the numbers, and get everything.
        assert len(await read(service, subscribing(TASK))) == 2


@bindings
async def test_events_without_ids_have_none(binding: str) -> None:
    log = Log(*whole(2), numbered=False)
    log.events.pop()
    async with through_a_cutter(log, binding) as (service, _):
        stream = numbered(service, subscribing(TASK))
        async with aclosing(stream):
            assert (await anext(stream)).id == ""
            log.add(chunk("more"), became(hub.TASK_STATE_COMPLETED))
            assert [one.id async for one in stream] == ["", ""]
