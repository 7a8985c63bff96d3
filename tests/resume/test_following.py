"""A peer that resumes through a breaking network: no event twice, none lost, limited attempts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.app.peer import Peer, request_of
from a2a_bridge.bindings.following import Following
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.resume import RESUME_URI, gap_of
from a2a_bridge.core.service import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, yielding
from tests.resume.cutting import PATIENCE, Cutter
from tests.resume.scene import BINDINGS, through_a_cutter
from tests.resume.scripted import TASK, Anew, Log, became, begun, chunk, whole

bindings = pytest.mark.parametrize("binding", BINDINGS)
#: no waiting in tests
AT_ONCE = Following(attempts=4, first=0.0)
OFFERING = hub.AgentCard(
    capabilities=hub.AgentCapabilities(streaming=True, extensions=[hub.AgentExtension(uri=RESUME_URI)])
)


@asynccontextmanager
async def cut_off(
    log: Any, binding: str, card: hub.AgentCard = OFFERING
) -> AsyncIterator[tuple[Peer, Cutter]]:
    async with asyncio.timeout(PATIENCE), through_a_cutter(log, binding) as (service, cutter):
        yield Peer(service, card), cutter


@asynccontextmanager
async def following(log: Any, binding: str) -> AsyncIterator[tuple[AsyncGenerator[Any, None], Cutter]]:
    async with cut_off(log, binding) as (peer, cutter), aclosing(peer.stream("go", follow=AT_ONCE)) as events:
        yield events, cutter


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_numbers_of_connections_are_no_ids(binding: str) -> None:
    log = Anew(*whole(4)[:3])
    card = hub.AgentCard(name="Numbers", capabilities=hub.AgentCapabilities(streaming=True))
    async with (
        cut_off(log, binding, card) as (peer, cutter),
        aclosing(peer.stream("go", follow=AT_ONCE)) as events,
    ):
        for _ in range(3):
            await anext(events)
        cutter.cut()
        snapshot = await anext(events)
        assert snapshot.task == log.task()
        log.add(became(hub.TASK_STATE_COMPLETED))
        assert [one async for one in events] == log.events[-1:]
    assert LAST_EVENT_PARAMETER not in log.calls[-1].context.parameters


@bindings
async def test_a_stream_that_breaks_after_each_event_is_one_stream(binding: str) -> None:
    log = Log(*whole(4))
    seen = []
    async with cut_off(log, binding) as (peer, cutter):
        cutter.hold_after(1)
        async with aclosing(peer.events(request_of(["go"]), AT_ONCE)) as events:
            async for event in events:
                seen.append((event.id, event.message))
                cutter.cut()
                cutter.hold_after(1)
    assert seen == [(str(number), event) for number, event in enumerate(log.events, 1)]
    assert [one.operation for one in log.calls].count(ops.SEND_STREAMING_MESSAGE) == 1
    assert log.calls[0].context.extensions == (RESUME_URI,)


@bindings
async def test_subscribing_after_an_event(binding: str) -> None:
    log = Log(*whole(2))
    async with cut_off(log, binding) as (peer, _):
        assert [event async for event in peer.subscribe(TASK, after="3")] == log.events[3:]
        assert [event async for event in peer.subscribe(log.task(), after="5")] == []
        with pytest.raises(A2AError) as rejected:
            await anext(peer.subscribe(TASK))
    assert rejected.value.reason is Reason.UNSUPPORTED_OPERATION


@bindings
async def test_a_subscription_is_followed_too_from_its_first_connection_on(binding: str) -> None:
    log = Log(*whole(2))
    async with cut_off(log, binding) as (peer, cutter):
        cutter.hold_after(0)
        reading = asyncio.ensure_future(_all(peer.subscribe(TASK, after="2", follow=AT_ONCE)))
        await cutter.held()
        cutter.cut()
        assert await reading == log.events[2:]


@bindings
async def test_dropped_events_are_replaced_by_a_snapshot(binding: str) -> None:
    log = Log(*whole(4)[:3])
    async with following(log, binding) as (events, cutter):
        assert await anext(events) == log.events[0]
        cutter.hold_after(0)
        cutter.cut()
        log.add(*whole(4)[3:])
        log.kept = 5
        rest = [event async for event in events]
    snapshot = next(event for event in rest if gap_of(event))
    assert snapshot.task.artifacts == log.task().artifacts
    assert rest[-1] in (snapshot, log.events[-1])


@bindings
async def test_an_agent_without_ids_gives_snapshots(binding: str) -> None:
    log = Log(*whole(2)[:3], numbered=False)
    async with following(log, binding) as (events, cutter):
        for expected in log.events[:]:
            assert await anext(events) == expected
        cutter.cut()
        snapshot = await anext(events)
        assert snapshot.task == log.task()
        log.add(chunk("more"), became(hub.TASK_STATE_COMPLETED))
        assert [event async for event in events] == log.events[3:]


@bindings
async def test_the_end_of_an_unwatched_task_is_sent(binding: str) -> None:
    log = Log(*whole(2)[:3], numbered=False)
    async with following(log, binding) as (events, cutter):
        for _ in log.events[:]:
            await anext(events)
        log.events.append(became(hub.TASK_STATE_COMPLETED))  # there is no notification
        cutter.cut()
        (end,) = [event async for event in events]
    assert end.task.status.state == hub.TASK_STATE_COMPLETED


async def test_attempts_that_bring_nothing_are_bounded() -> None:
    down = A2AError(Reason.UNAVAILABLE, "down", blame=Blame.PEER)
    probe = Probe()
    tried = 0

    async def once_and_never_again(call: Any) -> AsyncGenerator[Any, None]:
        nonlocal tried
        tried += 1
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            yield Event(begun(), "1")
        raise down

    probe.on_stream = once_and_never_again
    with pytest.raises(A2AError) as failed:
        await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))
    assert failed.value is down
    assert tried == 1 + AT_ONCE.attempts


def sending_each_time(*events: Any) -> Probe:
    probe = Probe()
    probe.on_stream = yielding(*events)
    return probe


async def test_snapshots_alone_are_no_progress() -> None:
    probe = sending_each_time(begun(), A2AError(Reason.UNAVAILABLE, "down", blame=Blame.PEER))
    with pytest.raises(A2AError, match="down"):
        await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))
    assert len(probe.calls) == 1 + AT_ONCE.attempts


async def test_a_stream_that_ends_early_is_resumed_once() -> None:
    """A proxy that ends long responses without an error has this effect."""
    events = whole(2)
    log = Log(*events)
    ends = iter([2, 0])

    async def short(call: Any) -> AsyncGenerator[Any, None]:
        left = next(ends, 99)
        async with aclosing(log.stream(call)) as stream:
            async for event in stream:
                yield event
                left -= 1
                if not left:
                    return

    probe = Probe()
    probe.on_stream = short
    assert await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE)) == events


async def test_a_task_at_rest_is_not_followed() -> None:
    probe = sending_each_time(begun(), became(hub.TASK_STATE_INPUT_REQUIRED))
    assert len(await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))) == 2
    assert len(probe.calls) == 1


@pytest.mark.parametrize(
    "error",
    [
        A2AError(Reason.INTERNAL_ERROR, blame=Blame.PEER),
        A2AError(Reason.DEADLINE_EXCEEDED, blame=Blame.PEER),
        A2AError(Reason.UNAVAILABLE, "the client was closed", blame=Blame.SELF),
    ],
    ids=lambda error: error.name,
)
async def test_errors_other_than_an_outage_end_it(error: A2AError) -> None:
    probe = sending_each_time(begun(), error)
    with pytest.raises(A2AError) as raised:
        await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))
    assert (raised.value, len(probe.calls)) == (error, 1)


async def test_a_message_without_an_answer_is_not_sent_again() -> None:
    probe = sending_each_time(A2AError(Reason.UNAVAILABLE, blame=Blame.PEER))
    with pytest.raises(A2AError):
        await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))
    assert len(probe.calls) == 1


def test_waits_grow_and_are_bounded() -> None:
    following = Following(first=1.0, most=8.0)
    for attempt, longest in [(1, 1.0), (2, 2.0), (4, 8.0), (5000, 8.0)]:
        waits = [following.wait(attempt) for _ in range(50)]
        assert longest / 2 <= min(waits) <= max(waits) <= longest
        assert len(set(waits)) > 1
    assert (following.wait(1, 4.0), following.wait(1, 3600.0)) == (4.0, 8.0)


async def _all(events: AsyncGenerator[Any, None]) -> list[Any]:
    async with aclosing(events):
        return [event async for event in events]
