"""The lease on a task in a store: its states, and the bounds of what waits to be written."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from a2a_bridge.core.errors import IllegalStateError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, groups
from a2a_bridge.stores.lease import TaskLease
from a2a_bridge.stores.lease_states import ENDED, HELD, LOST, RELEASED, TAKEN, TRANSITIONS, LeaseState
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.stores.store_base import StoreBase
from a2a_bridge.testing.store_scene import COMPLETED, HERE, Author, made
from tests.patience import PATIENCE

QUIET = StoreOptions(commit_delay=3600.0, ack_timeout=PATIENCE)


@pytest.fixture
async def store(sqlite_url: str) -> AsyncIterator[StoreBase]:
    async with open_sql_store(sqlite_url, QUIET) as opened:
        await opened.wait_settled()  # the work of the janitor at the start
        yield opened


class Bench:
    """A lease, and how often its owner was told of its loss (`author.lost`)."""

    def __init__(self, store: StoreBase) -> None:
        self.store = store
        self.author = Author(store).begin("t")

    @property
    def lease(self) -> TaskLease:
        writer = self.author.writer
        assert isinstance(writer, TaskLease)
        return writer

    @classmethod
    async def of(cls, store: StoreBase, state: LeaseState) -> "Bench":
        """One in a state."""
        bench = cls(store)
        if state is RELEASED:
            await bench.release()
        elif state is ENDED:
            await bench.end()
        elif state is TAKEN:
            await bench.take()
        elif state is LOST:
            await bench.lose()
        return bench

    async def release(self) -> None:
        self.lease.release()

    async def end(self) -> None:
        """The task ends, and the group with its end is being written."""
        self.author.status(COMPLETED)
        self.lease.when_synced(lambda _: None)
        async with asyncio.timeout(PATIENCE):
            while self.lease.batch is not None:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0)

    async def take(self) -> None:
        """Another lease of this process has the task."""
        self.author = Author(self.store).begin("t")

    async def lose(self) -> None:
        """This process was declared dead."""
        self.store.let_go()

    async def wait(self) -> None:
        """The owner is told."""
        await asyncio.sleep(0)


#: transition -> what causes it, and whether the owner of the lease is told of a loss
MOVES: dict[tuple[LeaseState, LeaseState], tuple[Callable[[Bench], Awaitable[None]], bool]] = {
    (HELD, RELEASED): (Bench.release, False),
    (HELD, ENDED): (Bench.end, False),
    (HELD, TAKEN): (Bench.take, False),
    (HELD, LOST): (Bench.lose, True),
    (RELEASED, LOST): (Bench.lose, False),
    (ENDED, RELEASED): (Bench.release, False),
    (ENDED, LOST): (Bench.lose, True),
    (TAKEN, LOST): (Bench.wait, True),
}


def test_the_tests_have_all_transitions() -> None:
    assert set(TRANSITIONS) == set(LeaseState)
    assert set(MOVES) == {(before, after) for before in LeaseState for after in TRANSITIONS[before]}


@pytest.mark.parametrize(("before", "after"), MOVES, ids=str)
async def test_a_lease_goes_from_state_to_state(
    store: StoreBase, before: LeaseState, after: LeaseState
) -> None:
    bench = await Bench.of(store, before)
    assert bench.lease.now is before
    cause, told = MOVES[before, after]
    await cause(bench)
    assert bench.lease.now is after
    assert bench.author.lost == told
    # Further changes of a lost lease are dropped.
    last, queued = bench.lease.stored, store.writer.queued
    if after is LOST:
        assert (bench.lease.last, queued) == (last, 0 if before is not TAKEN else queued)
        bench.lease.append(chunk(100), bench.author.task)
        assert store.writer.queued == queued
        bench.lease.lose()  # it may be told again
        assert bench.author.lost == told
    await store.wait_settled()
    held = "t" in store.writer.leases
    assert held is (after in (HELD, TAKEN) or before is TAKEN)


@pytest.mark.parametrize("before", LeaseState)
async def test_other_transitions_of_a_lease_are_defects(store: StoreBase, before: LeaseState) -> None:
    one = (await Bench.of(store, before)).lease
    for after in set(LeaseState) - TRANSITIONS[before]:
        with pytest.raises(IllegalStateError, match=f"from {before} to {after}"):
            one.to(after)
        assert one.now is before


# --- Bounds: each of a pair on both sides, while the other one is far away ---
def chunk(size: int) -> hub.StreamResponse:
    """An event of so many bytes."""
    event = hub.StreamResponse()
    part = event.artifact_update.artifact.parts.add(text="x" * (size - 40))
    part.text += "x" * (size - event.ByteSize())
    assert event.ByteSize() == size
    return event


async def is_bounded(one: TaskLease, store: StoreBase, *, crowded: bool) -> None:
    """A lease is crowded, and has room again once its changes are written; or it has room."""
    assert one.crowded is crowded
    waiting = asyncio.ensure_future(one.room())
    await asyncio.sleep(0)
    assert waiting.done() is not crowded
    await store.wait_settled()
    async with asyncio.timeout(PATIENCE):
        await waiting
    assert not one.crowded


@pytest.mark.parametrize(
    ("events", "size", "crowded"),
    [
        (1024, 1 << 16, False),
        (1025, 1 << 16, True),
        (3, 4 << 20, False),
        (3, (4 << 20) + 1, True),
    ],
)
async def test_the_changes_of_a_task_that_wait_are_bounded_by_number_and_by_bytes(
    store: StoreBase, events: int, size: int, crowded: bool
) -> None:
    """size: of all events together."""
    task = made("t")
    one = store.create(HERE, task.id, lambda: None)
    begin = hub.StreamResponse(task=task)
    one.append(begin, task)
    left = size - begin.ByteSize()
    for number in range(events - 1, 0, -1):
        part = left // number
        one.append(chunk(part), task)
        left -= part
    assert one.batch is not None
    assert (one.batch.size, len(one.batch.events)) == (size, events)
    await is_bounded(one, store, crowded=crowded)


@pytest.mark.parametrize(
    ("most", "spare", "crowded"), [(3, 1 << 20, False), (2, 1 << 20, True), (100, 0, False), (100, -1, True)]
)
async def test_the_changes_of_all_tasks_that_wait_are_bounded_by_number_and_by_bytes(
    store: StoreBase, monkeypatch: pytest.MonkeyPatch, most: int, spare: int, crowded: bool
) -> None:
    """Three tasks. spare: bytes that are allowed beyond theirs."""
    events = [hub.StreamResponse(task=made(f"t{number}")) for number in range(3)]
    monkeypatch.setattr(groups, "_CROWD", most)
    monkeypatch.setattr(groups, "_QUEUE_BYTES", sum(event.ByteSize() for event in events) + spare)
    for event in events:
        one = store.create(HERE, event.task.id, lambda: None)
        one.append(event, event.task)
    await is_bounded(one, store, crowded=crowded)
