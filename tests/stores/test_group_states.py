"""The writer of groups: its states, what causes each transition, and what it leaves behind in none of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.errors import A2AError, IllegalStateError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import groups
from a2a_bridge.stores.group_states import TRANSITIONS, Due, Gathering, Idle, Pausing, WriterState, Writing
from a2a_bridge.stores.groups import GroupWriter
from a2a_bridge.stores.records import Records
from a2a_bridge.testing.store_scene import HERE, made
from tests.patience import PATIENCE

DELAY = 3600.0


class Driver:
    """A driver that answers when the test says so."""

    def __init__(self) -> None:
        self.groups: list[Sequence[Any]] = []
        self.answer: asyncio.Future[Sequence[Any]] | None = None

    async def write(self, changes: Sequence[Any]) -> Sequence[Any]:
        self.groups.append(changes)
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer


class Bench:
    """A writer, the transitions that it makes, and the results of the callers that wait for its leases."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.writer = GroupWriter(
            cast("Records", self.driver),
            lambda: "here",
            lambda _: None,
            lambda _ids, _conflict: None,
            commit_delay=DELAY,
            ack_timeout=PATIENCE,
            memory=MemoryAccount(),
        )
        self.made: list[tuple[type, type]] = []
        self.results: list[Exception | None] = []
        self.timers: list[asyncio.Handle] = []
        self._tasks = 0
        to = self.writer.to

        def noted(state: WriterState) -> None:
            before = self.writer.now
            to(state)
            self.made.append((type(before), type(state)))
            if isinstance(state, Gathering | Due | Pausing):
                self.timers.append(state.timer)

        self.writer.to = noted  # type: ignore[method-assign]

    @classmethod
    async def of(cls, state: type) -> "Bench":
        """One in a state."""
        bench = cls()
        if state is Gathering:
            bench.change()
        elif state is Due:
            bench.change_and_wait()
        elif state in (Writing, Pausing):
            bench.change_and_wait()
            await bench.turn()
            if state is Pausing:
                await bench.fail()
        assert type(bench.writer.now) is state
        return bench

    def change(self, *, waits: bool = False) -> None:
        """A further task changes. waits: a caller waits until that is durable."""
        self._tasks += 1
        task = made(f"t{self._tasks}")
        lease = self.writer.lease(HERE, task.id, lambda: None, push=False)
        lease.append(hub.StreamResponse(task=task), task)
        if waits:
            lease.when_synced(self.results.append)

    def change_and_wait(self) -> None:
        self.change(waits=True)

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def run_timer(self) -> None:
        """The time of the timer of the present state has come."""
        timer = cast("asyncio.TimerHandle", cast("Gathering | Pausing", self.writer.now).timer)
        callback = cast("Any", timer)._callback
        timer.cancel()
        callback()
        await self.turn()

    async def done(self) -> None:
        """The group is written."""
        answer = self.driver.answer
        assert answer is not None
        answer.set_result([None] * len(self.driver.groups[-1]))
        await self.turn()

    async def fail(self) -> None:
        answer = self.driver.answer
        assert answer is not None
        answer.set_exception(OSError("the disk is full"))
        await self.turn()

    async def drop(self) -> None:
        """All that was to be written is lost."""
        timer = cast("Gathering | Due", self.writer.now).timer
        self.writer.lose_all()
        if isinstance(timer, asyncio.TimerHandle):
            await self.run_timer()
        await self.turn()


async def _change(bench: Bench) -> None:
    bench.change()


async def _probe(bench: Bench) -> None:
    bench.writer.probe("nothing")


async def _change_and_wait(bench: Bench) -> None:
    bench.change_and_wait()


#: transition -> what causes it
MOVES: dict[tuple[type, type], Callable[[Bench], Any]] = {
    (Idle, Gathering): _change,
    (Idle, Due): _probe,
    (Gathering, Due): _change_and_wait,
    (Gathering, Writing): Bench.run_timer,
    (Gathering, Idle): Bench.drop,
    (Due, Writing): Bench.turn,
    (Due, Idle): Bench.drop,
    (Writing, Idle): Bench.done,
    (Writing, Pausing): Bench.fail,
    (Pausing, Writing): Bench.run_timer,
}


async def test_the_tests_have_all_transitions() -> None:
    allowed = {(before, after) for before, following in TRANSITIONS.items() for after in following}
    # The end of a group is Idle for a moment, in which nobody else has a turn.
    assert {*MOVES, (Idle, Writing)} == allowed


@pytest.fixture(autouse=True)
def only_the_test_ends_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_PAUSES", tuple(1000 * pause for pause in groups._PAUSES))


@pytest.fixture
async def settled() -> AsyncIterator[list[Bench]]:
    """Writers that are written to the end: nobody waits then, and no timer is left."""
    benches: list[Bench] = []
    yield benches
    for bench in benches:
        while (bench.writer.group is not None or bench.writer._dirty) and not bench.writer.closed:
            if type(bench.writer.now) is Writing:
                await bench.done()
            elif isinstance(bench.writer.now, Gathering | Pausing):
                await bench.run_timer()
            else:
                await bench.turn()
        await bench.writer.close()
        assert (bench.writer.queued, bench.writer._dirty, bench.writer._jobs) == (0, [], {})
        loop = asyncio.get_running_loop()
        left = [one for one in bench.timers if not one.cancelled() and one in loop._scheduled]  # type: ignore[attr-defined]
        assert left == []


@pytest.mark.parametrize(("before", "after"), MOVES, ids=lambda state: state.__name__)
async def test_the_writer_goes_from_state_to_state(before: type, after: type, settled: list[Bench]) -> None:
    bench = await Bench.of(before)
    settled.append(bench)
    left = bench.writer.now
    await MOVES[before, after](bench)
    assert bench.made[-1] == (before, after)
    if isinstance(left, Gathering | Due) and after is not Idle:
        assert left.timer.cancelled()


@pytest.mark.parametrize("before", TRANSITIONS, ids=lambda state: state.__name__)
async def test_other_transitions_of_the_writer_are_defects(before: type, settled: list[Bench]) -> None:
    others = [await Bench.of(state) for state in TRANSITIONS]
    settled += others
    states = [one.writer.now for one in others]
    bench = await Bench.of(before)
    settled.append(bench)
    for after in states:
        if type(after) not in TRANSITIONS[before]:
            with pytest.raises(IllegalStateError, match=f"from {before.__name__} to {type(after).__name__}"):
                bench.writer.to(after)
            assert type(bench.writer.now) is before


@pytest.mark.parametrize("waits", [True, False])
async def test_the_next_group_is_written_at_once_if_a_caller_waits(waits: bool, settled: list[Bench]) -> None:
    bench = await Bench.of(Writing)
    settled.append(bench)
    bench.change()
    bench.change(waits=waits)
    await bench.done()
    assert bench.made[-2:] == [(Writing, Idle), (Idle, Writing if waits else Gathering)]
    assert bench.results == [None]
    assert [len(group) for group in bench.driver.groups] == ([1, 2] if waits else [1])


@pytest.mark.parametrize("waits", [True, False])
async def test_changes_beyond_a_full_group_wait_as_before(
    waits: bool, settled: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_MOST", 1)
    bench = await Bench.of(Gathering)
    settled.append(bench)
    bench.change(waits=waits)
    await (bench.turn() if waits else bench.run_timer())
    assert len(bench.driver.groups[0]) == 1
    await bench.done()
    assert type(bench.writer.now) is (Writing if waits else Gathering)


async def test_a_group_is_written_until_it_succeeds_and_meanwhile_there_is_no_new_work(
    settled: list[Bench], caplog: pytest.LogCaptureFixture
) -> None:
    bench = await Bench.of(Writing)
    settled.append(bench)
    loop, writer = asyncio.get_running_loop(), bench.writer
    assert writer.rejection() is None
    bench.change_and_wait()  # for the next group
    for pause in (*groups._PAUSES, groups._PAUSES[-1]):
        began = loop.time()
        await bench.fail()
        assert type(writer.now) is Pausing
        due = cast("asyncio.TimerHandle", writer.now.timer).when()
        assert began + pause <= due <= loop.time() + pause
        assert writer.rejection() is not None
        await bench.run_timer()
        assert writer.rejection() is not None
    bench.change()
    await bench.done()
    assert bench.driver.groups[:-1] == bench.driver.groups[:1] * 8
    assert writer.rejection() is None
    assert bench.results == [None]
    assert [len(group) for group in bench.driver.groups][-1] == 2  # the caller waited for the next group
    assert len([line for line in caplog.messages if "cannot be written" in line]) == 1
    assert caplog.messages[-1] == "the store works again"


async def test_a_driver_that_does_not_answer_counts_as_an_outage_after_some_looks(
    settled: list[Bench],
) -> None:
    bench = await Bench.of(Writing)
    settled.append(bench)
    seen = []
    cast("Writing", bench.writer.now).looks = 0  # also where this process stood still
    for _ in range(groups._SLOW):
        watch = bench.writer._watch
        assert watch is not None
        watch.cancel()
        seen.append(bench.writer.rejection())
        bench.writer._look()
    assert seen == [None] * groups._SLOW
    assert bench.writer.rejection() is not None
    await bench.done()
    assert bench.writer.rejection() is None


@pytest.mark.parametrize("state", TRANSITIONS, ids=lambda state: state.__name__)
async def test_a_writer_that_is_closed_writes_no_further_group(state: type, settled: list[Bench]) -> None:
    bench = await Bench.of(state)
    settled.append(bench)
    before = len(bench.driver.groups)
    closing = asyncio.ensure_future(bench.writer.close())
    await bench.turn()
    if state in (Due, Writing):
        assert not closing.done()
        await bench.fail()
    async with asyncio.timeout(PATIENCE):
        await closing
    assert len(bench.driver.groups) == before + (state is Due)  # its turn came first
    if state is not Idle:
        assert [type(one) for one in bench.results] == ([A2AError] if state is not Gathering else [])
    for timer in bench.timers:
        assert timer.cancelled()
    bench.writer._send_again()  # as a timer that could not be cancelled in time
    assert type(bench.writer.now) is not Writing
    watch = bench.writer._watch
    assert watch is None or watch.cancelled()
    bench.writer._dirty.clear()
    for lease in tuple(bench.writer.leases.values()):
        lease.lose()
