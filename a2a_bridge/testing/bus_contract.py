"""EventBusContract: what the engine relies on in any event bus. Not how far the bus reaches.

Rules:
1. Every reader of a task gets the same events in the same order, from its subscription on.
2. Readers do not disturb each other, except that the log has room only as long as all of them read.
3. An end comes after all events before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting.ports import EventBus, Subscription
from a2a_bridge.pb import lf_a2a_v1 as hub

PATIENCE = 15.0
#: more than any log should hold for a reader that does not read
FLOOD = 20_000


def event(number: int) -> hub.StreamResponse:
    """An event that is known by its number."""
    update = hub.TaskArtifactUpdateEvent(task_id="t", context_id="c")
    update.artifact.artifact_id = str(number)
    return hub.StreamResponse(artifact_update=update)


def number_of(one: hub.StreamResponse) -> int:
    """The number of an event."""
    return int(one.artifact_update.artifact.artifact_id)


async def take(reader: Subscription, count: int) -> list[int]:
    """The numbers of the next `count` events or more."""
    got: list[int] = []
    async with asyncio.timeout(PATIENCE):
        while len(got) < count:
            events = await reader.take()
            assert events
            got += map(number_of, events)
    return got


async def rest(reader: Subscription) -> list[int]:
    """The numbers of all events to the end."""
    got: list[int] = []
    async with asyncio.timeout(PATIENCE):
        while events := await reader.take():
            got += map(number_of, events)
    return got


class EventBusContract:
    """Subclass it with `opened`; the subclass's name must start with `Test`."""

    def opened(self, *, stall: float) -> AbstractAsyncContextManager[EventBus]:
        """A bus on which a reader may keep a full log waiting for `stall` seconds."""
        raise NotImplementedError

    @pytest.fixture
    async def bus(self) -> AsyncIterator[EventBus]:
        async with self.opened(stall=PATIENCE) as bus:
            yield bus

    async def test_nobody_listens(self, bus: EventBus) -> None:
        assert not bus.heard("t")
        await bus.publish("t", event(1))
        await bus.drained("t")
        bus.end("t")

    async def test_readers_get_events_in_order(self, bus: EventBus) -> None:
        readers = [bus.subscribe("t") for _ in range(3)]
        assert bus.heard("t")
        for number in range(100):
            await bus.publish("t", event(number))
            await bus.drained("t")
        bus.end("t")
        for reader in readers:
            assert await rest(reader) == list(range(100))

    async def test_a_reader_hears_from_now_on(self, bus: EventBus) -> None:
        early = bus.subscribe("t")
        await bus.publish("t", event(1))
        late = bus.subscribe("t")
        await bus.publish("t", event(2))
        bus.end("t")
        assert await rest(early) == [1, 2]
        assert await rest(late) == [2]

    async def test_a_reader_may_wait_for_the_first_event(self, bus: EventBus) -> None:
        reader = bus.subscribe("t")
        waiting = asyncio.create_task(take(reader, 1))
        await asyncio.sleep(0)
        await bus.publish("t", event(1))
        assert await waiting == [1]

    async def test_tasks_do_not_mix(self, bus: EventBus) -> None:
        left, right = bus.subscribe("left"), bus.subscribe("right")
        await bus.publish("left", event(1))
        await bus.publish("right", event(2))
        bus.end("left")
        assert await rest(left) == [1]
        assert await take(right, 1) == [2]
        assert bus.heard("right")

    async def test_events_come_before_an_error(self, bus: EventBus) -> None:
        reader = bus.subscribe("t")
        await bus.publish("t", event(1))
        bus.end("t", A2AError(Reason.UNAVAILABLE, "over"))
        assert await take(reader, 1) == [1]
        with pytest.raises(A2AError) as caught:
            await take(reader, 1)
        assert caught.value.reason is Reason.UNAVAILABLE

    @pytest.mark.parametrize("error", [None, A2AError(Reason.UNAVAILABLE)])
    async def test_an_end_wakes_who_waits(self, bus: EventBus, error: A2AError | None) -> None:
        reader = bus.subscribe("t")
        waiting = asyncio.create_task(rest(reader))
        await asyncio.sleep(0)
        bus.end("t", error)
        if error is None:
            assert await waiting == []
        else:
            with pytest.raises(A2AError):
                await waiting

    async def test_after_the_end_a_task_may_begin_anew(self, bus: EventBus) -> None:
        old = bus.subscribe("t")
        bus.end("t")
        new = bus.subscribe("t")
        await bus.publish("t", event(1))
        bus.end("t")
        assert await rest(old) == []
        assert await rest(new) == [1]

    async def test_closing(self, bus: EventBus) -> None:
        gone, stays = bus.subscribe("t"), bus.subscribe("t")
        await bus.publish("t", event(1))
        gone.close()
        gone.close()
        assert bus.heard("t")
        await bus.publish("t", event(2))
        assert await take(stays, 2) == [1, 2]
        stays.close()
        assert not bus.heard("t")

    async def test_a_cancelled_wait_loses_nothing(self, bus: EventBus) -> None:
        reader = bus.subscribe("t")
        waiting = asyncio.create_task(reader.take())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        await bus.publish("t", event(1))
        assert await take(reader, 1) == [1]

    async def test_skipping(self, bus: EventBus) -> None:
        reader = bus.subscribe("t")
        assert not reader.skip()
        await bus.publish("t", event(1))
        await bus.publish("t", event(2))
        assert reader.skip()
        await bus.publish("t", event(3))
        assert await take(reader, 1) == [3]

    async def test_positions_tell_what_a_reader_has_seen(self, bus: EventBus) -> None:
        reader = bus.subscribe("t")
        start = bus.position("t")
        for number in range(5):
            await bus.publish("t", event(number))
        assert bus.position("t") == start + 5
        first = await reader.take()
        assert reader.position == start
        await bus.publish("t", event(9))
        await reader.take()
        assert reader.position >= start + len(first)

    async def test_a_full_log_waits_for_its_readers(self, bus: EventBus) -> None:
        reader, other = bus.subscribe("t"), bus.subscribe("t")
        published = await _until_full(bus)
        full = asyncio.create_task(bus.drained("t"))
        await take(other, published)
        await asyncio.sleep(0)
        assert not full.done()
        got = await take(reader, published)
        assert got == list(range(published))
        # What was given counts as read when a reader comes back for more.
        more = [asyncio.create_task(one.take()) for one in (reader, other)]
        async with asyncio.timeout(PATIENCE):
            await full
        bus.end("t")
        await asyncio.gather(*more)

    async def test_a_reader_that_leaves_makes_room(self, bus: EventBus) -> None:
        reader = bus.subscribe("t")
        await _until_full(bus)
        full = asyncio.create_task(bus.drained("t"))
        await asyncio.sleep(0)
        reader.close()
        async with asyncio.timeout(PATIENCE):
            await full

    async def test_a_stalled_reader_is_dropped_alone(self) -> None:
        async with self.opened(stall=0.2) as bus:
            stalled, steady = bus.subscribe("t"), bus.subscribe("t")
            reading = asyncio.create_task(rest(steady))
            published = await _until_full(bus)
            async with asyncio.timeout(PATIENCE):
                await bus.drained("t")
            await bus.publish("t", event(published))
            bus.end("t")
            assert await reading == list(range(published + 1))
            with pytest.raises(A2AError) as caught:
                await rest(stalled)
            assert caught.value.reason is Reason.UNAVAILABLE


async def _until_full(bus: EventBus) -> int:
    """Publishes until there is no room; the number of events."""
    for number in range(FLOOD):
        await bus.publish("t", event(number))
        room = asyncio.create_task(bus.drained("t"))
        done, _ = await asyncio.wait({room}, timeout=0.05)
        if not done:
            room.cancel()
            await asyncio.wait({room})
            return number + 1
    raise AssertionError(f"{FLOOD} events that nobody reads are all kept")
