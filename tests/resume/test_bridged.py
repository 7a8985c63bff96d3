"""Cut before and behind a gateway at every event, on each binding: the caller sees every event once."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.resume import gap_of
from a2a_bridge.dialects import V1_0, Dialect, by_version
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.sharing_scene import folded, gaps
from tests.patience import PATIENCE
from tests.resume.bridged import Bridge, bridged, sending
from tests.resume.callers import Caller, resumed
from tests.resume.scene import BINDINGS, Seen, numbered, read_until_cut, subscribing
from tests.resume.scripted import TASK, Anew, Log, whole

fronts = pytest.mark.parametrize("front", BINDINGS)
upstreams = pytest.mark.parametrize("upstream", BINDINGS)
numberings = pytest.mark.parametrize("own", [True, False], ids=["agent's ids", "our ids"])
CHUNKS = 3


def contents(seen: list[Seen]) -> list[bytes]:
    return [one.event for one in seen]


def plain(events: list[hub.StreamResponse]) -> list[bytes]:
    return [event.SerializeToString(deterministic=True) for event in events]


def assert_one_gap(seen: list[Seen], log: Log, place: int) -> None:
    """A break before an agent that cannot resume: the earlier events, a snapshot, the rest."""
    events = [one.content for one in seen]
    assert [gap_of(event) is not None for event in events].index(True) == place
    assert sum(one.gap for one in seen) == gaps(events) == 1
    assert folded(events) == log.task()


# --- between the client and the gateway ---
@fronts
@numberings
async def test_cut_before_the_gateway_and_the_task_has_ended(front: str, own: bool) -> None:
    events = whole(CHUNKS)
    async with bridged(front, "GRPC") as bridge:
        for place in range(1, len(events) + 1):
            bridge.play(Log(*events, numbered=own))
            seen = await read_until_cut(bridge.service, sending(), bridge.near, place)
            seen += await resumed(bridge.service, TASK, seen[-1].id)
            assert (contents(seen), len({one.id for one in seen})) == (plain(events), len(events))


@fronts
@numberings
async def test_cut_before_the_gateway_after_every_event_of_a_living_task(front: str, own: bool) -> None:
    events = whole(CHUNKS)
    async with bridged(front, "JSONRPC") as bridge:
        log = bridge.play(Log(*events[:2], numbered=own))
        seen = await read_until_cut(bridge.service, sending(), bridge.near, 1)
        while len(seen) < len(events):
            if len(log.events) < len(events):
                log.add(events[len(log.events)])
            seen += await resumed(bridge.service, TASK, seen[-1].id, most=1, cutter=bridge.near)
        assert await resumed(bridge.service, TASK, seen[-1].id) == []
        assert contents(seen) == plain(events)
        # The agent got one request, unless it can resume by itself.
        assert own or streams(bridge) == 1


@pytest.mark.parametrize("version", ["0.3", "0.2.5"])
@pytest.mark.parametrize("front", ["JSONRPC", "GRPC"])
async def test_callers_of_older_versions_resume_too(front: str, version: str) -> None:
    caller, events = dialect(version), whole(CHUNKS)
    async with bridged(front, "HTTP+JSON", caller=caller) as bridge:
        for place in range(1, len(events) + 1):
            bridge.play(Log(*events, numbered=False))
            seen = await read_until_cut(bridge.service, sending(), bridge.near, place)
            seen += await resumed(bridge.service, TASK, seen[-1].id)
            assert contents(seen) == plain(events)


@fronts
async def test_an_id_of_another_gateway_is_a_gap(front: str) -> None:
    events = whole(CHUNKS)
    async with bridged(front, "JSONRPC") as bridge:
        log = bridge.play(Log(*events[:4], numbered=False))
        call = subscribing(TASK, "gother-3")
        async with asyncio.timeout(PATIENCE), aclosing(numbered(bridge.service, call)) as stream:
            snapshot = await anext(stream)
            assert snapshot.gap
            mark = gap_of(snapshot.content)
            assert mark is not None
            assert (mark.after, mark.id) == ("gother-3", snapshot.id)
            log.add(*events[4:])
            assert contents([one async for one in stream]) == plain(events[4:])


@fronts
async def test_the_agents_ids_outlive_the_gateway(front: str) -> None:
    events = whole(CHUNKS)
    log = Log(*events, epoch="run-7")
    async with bridged(front, "GRPC") as bridge:
        bridge.play(log)
        seen = await read_until_cut(bridge.service, sending(), bridge.near, 3)
    async with bridged(front, "GRPC") as bridge:
        bridge.play(log)
        seen += await resumed(bridge.service, TASK, seen[-1].id)
    assert contents(seen) == plain(events)
    assert [one.id for one in seen] == [log.id(number) for number in range(1, len(events) + 1)]


# --- between the gateway and the agent ---
async def cut_behind(
    bridge: Bridge, call: Any, place: int, log: Log, *rest: hub.StreamResponse, subscribed: bool
) -> list[Seen]:
    """All events if the gateway loses the agent after some. subscribed: the task waits for it."""
    bridge.far.hold_after(place)
    async with asyncio.timeout(PATIENCE):
        caller = Caller(bridge.service, call)
        await caller.has(place)
        await bridge.far.held()
        if not subscribed:
            log.add(*rest)
        bridge.far.cut()
        if subscribed:
            await began(bridge, 2)
            log.add(*rest)
        return await caller.end()


@upstreams
@numberings
async def test_cut_behind_the_gateway_while_the_task_continues(upstream: str, own: bool) -> None:
    events = whole(CHUNKS)
    async with bridged("JSONRPC", upstream) as bridge:
        for place in range(1, len(events) - 1):
            log = bridge.play(Log(*events[: place + 1], numbered=own))
            seen = await cut_behind(bridge, sending(), place, log, *events[place + 1 :], subscribed=True)
            assert len({one.id for one in seen}) == len(seen)
            if own:
                assert contents(seen) == plain(events)
            else:
                assert_one_gap(seen, log, place)


@upstreams
@numberings
async def test_cut_behind_the_gateway_and_the_task_ends_meanwhile(upstream: str, own: bool) -> None:
    events = whole(CHUNKS)
    async with bridged("GRPC", upstream) as bridge:
        for place in range(1, len(events)):
            log = bridge.play(Log(*events[: place + 1], numbered=own))
            seen = await cut_behind(bridge, sending(), place, log, *events[place + 1 :], subscribed=False)
            assert contents(seen)[:place] == plain(events)[:place]
            if own:
                assert contents(seen) == plain(events)
            else:
                assert_one_gap(seen, log, place)


@upstreams
async def test_a_subscription_is_cut_behind_the_gateway_at_each_event(upstream: str) -> None:
    events = whole(CHUNKS)
    async with bridged("GRPC", upstream) as bridge:
        for place in range(1, len(events) - 1):
            log = bridge.play(Log(*events[:1], numbered=False))
            bridge.far.hold_after(place)
            async with asyncio.timeout(PATIENCE):
                caller = Caller(bridge.service, subscribing(TASK))
                await caller.has(1)
                log.add(*events[1 : place + 1])
                await caller.has(place)
                await bridge.far.held()
                bridge.far.cut()
                await began(bridge, 2)
                log.add(*events[place + 1 :])
                seen = await caller.end()
            assert_one_gap(seen, log, place)


@upstreams
async def test_the_agent_is_cut_off_for_several_readers_at_once(upstream: str) -> None:
    events = whole(CHUNKS)
    async with bridged("HTTP+JSON", upstream) as bridge, asyncio.timeout(PATIENCE):
        log = bridge.play(Log(*events[:2], numbered=False))
        callers: list[Caller] = []
        for _ in range(3):
            callers.append(Caller(bridge.service, subscribing(TASK)))
            await callers[-1].has(1)
        assert streams(bridge) == 1
        bridge.far.cut()
        await began(bridge, 2)
        log.add(*events[2:])
        found = [await caller.end() for caller in callers]
        assert found[0] == found[1] == found[2]
        assert contents(found[0])[2:] == plain(events[2:])
        assert_one_gap(found[0], log, 1)
        assert streams(bridge) == 2


@pytest.mark.parametrize(
    ("upstream", "version"), [("JSONRPC", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "1.0")]
)
async def test_an_agent_that_numbers_the_events_of_each_connection(upstream: str, version: str) -> None:
    """Its card does not offer to resume after them, so they are no ids."""
    events = whole(CHUNKS)
    async with bridged("JSONRPC", upstream, agent=dialect(version), resumes=False) as bridge:
        for place in range(1, len(events) - 1):
            log = bridge.play(Anew(*events[: place + 1]))
            seen = await cut_behind(bridge, sending(), place, log, *events[place + 1 :], subscribed=True)
            assert_one_gap(seen, log, place)


@pytest.mark.parametrize("version", ["0.3", "0.2.5"])
@pytest.mark.parametrize("upstream", ["JSONRPC", "GRPC"])
async def test_streams_of_older_agents_are_resumed_too(upstream: str, version: str) -> None:
    """They show their state with their next event only, and the gateway reads the task then."""
    events = whole(CHUNKS)
    async with bridged("JSONRPC", upstream, agent=dialect(version)) as bridge:
        for place in range(1, len(events) - 1):
            log = bridge.play(Log(*events[: place + 1], numbered=False))
            seen = await cut_behind(bridge, sending(), place, log, *events[place + 1 :], subscribed=True)
            assert_one_gap(seen, log, place)


def streams(bridge: Bridge) -> int:
    """The number of requests for a stream that the agent got."""
    return sum(isinstance(call.operation, ops.Streaming) for call in bridge.probe.calls)


async def began(bridge: Bridge, number: int) -> None:
    """Waits until the agent serves this stream, and has noticed the end of those before."""
    while streams(bridge) < number:
        await bridge.probe.wait_changed()
    await bridge.probe.wait_running(1)


def dialect(version: str) -> Dialect:
    return by_version(version) or V1_0
