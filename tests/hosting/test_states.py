"""The states of a lease and of a sender: each transition of the tables, by the operation that causes it, and no other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, IllegalStateError, Reason
from a2a_bridge.hosting import Event, Run, lease, pending_send
from a2a_bridge.hosting.lease import (
    HandedOver,
    Held,
    Lease,
    Lost,
    NotHeld,
    Opening,
    OwnershipLostError,
    Parted,
    RunLease,
    refused,
)
from a2a_bridge.hosting.pending_send import ANSWERED, DECIDED, LEFT, WAITING, Sender, SenderState
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Scope, Stored, VersionConflictError
from tests.hosting.late import LateStore, out_of_order
from tests.hosting.scene import (
    CANCELED,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    WORKING,
    Gate,
    Talk,
    agent_of,
    stored,
)
from tests.patience import PATIENCE
from tests.rejections import rejected

HERE = Scope()
STATES = (NotHeld, Opening, Held, HandedOver, Lost, Parted)


class DoorStore(LateStore):
    """A store in which an attempt to open a task waits for a door."""

    def __init__(self) -> None:
        super().__init__()
        self.open_door = True
        self.door = asyncio.Event()
        self.tell: Callable[[], None] | None = None
        self.attempts = 0

    async def open(self, scope: Scope, known: Stored, on_lost: Callable[[], None], /, **members: Any) -> Any:
        self.attempts += 1
        self.tell = on_lost
        await self.door.wait()
        return await super().open(scope, known, on_lost, **members)


async def put(store: LateStore, state: int) -> hub.Task:
    """Stores a task in a state, with the lease of a dead process if it is at work."""
    task = hub.Task(id="t", context_id="c", history=[hub.Message(message_id="m-0", role=hub.ROLE_USER)])
    task.status.state = state  # type: ignore[assignment]
    await stored(store, HERE, task)
    return task


class Bench:
    """A lease of the run of a stored task. losses: reports of a loss. ends: ends of attempts."""

    def __init__(self, store: DoorStore, known: Stored | None) -> None:
        self.store = store
        self.losses = self.ends = 0
        self.attempt: asyncio.Task[None] | None = None
        self.lease = RunLease(store, HERE, "t", self._lost, known)

    @classmethod
    async def of(cls, state: type[Lease], *, new: bool = False) -> "Bench":
        """One in a state. new: for a task that begins here."""
        store = DoorStore()
        await put(store, INPUT)
        bench = cls(store, None if new else await store.get(HERE, "t"))
        if state is NotHeld:
            return bench
        await bench.begin_attempt()
        if state is Opening:
            return bench
        await bench.end_attempt()
        if state is HandedOver:
            bench.lease.hand_over()
        elif state is Lost:
            store.writers[-1].lose()
        elif state is Parted:
            bench.lease.part(release=True)
        return bench

    def _lost(self) -> None:
        self.losses += 1

    def _ended(self) -> None:
        self.ends += 1

    async def begin_attempt(self) -> None:
        self.attempt = asyncio.create_task(self.lease.acquire(self._ended))
        async with asyncio.timeout(PATIENCE):
            while self.store.tell is None:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0)

    async def end_attempt(self) -> BaseException | None:
        self.store.door.set()
        assert self.attempt is not None
        async with asyncio.timeout(PATIENCE):
            [result] = await asyncio.gather(self.attempt, return_exceptions=True)
        return result

    async def fail_attempt(self) -> None:
        self.store.error = out_of_order()
        assert getattr(await self.end_attempt(), "reason", None) is Reason.UNAVAILABLE

    async def lose_early(self) -> None:
        """The store reports the loss before the end of the attempt is known."""
        assert self.store.tell is not None
        self.store.tell()
        assert isinstance(await self.end_attempt(), VersionConflictError)

    async def begin(self) -> None:
        assert self.lease.begin() is self.lease.begin()

    async def lose(self) -> None:
        self.store.writers[-1].lose()

    async def hand_over(self) -> None:
        self.lease.hand_over()

    async def part(self) -> None:
        self.lease.part(release=True)


MOVES: dict[tuple[type[Lease], type[Lease]], Callable[[Bench], Awaitable[object]]] = {
    (NotHeld, Opening): Bench.begin_attempt,
    (NotHeld, Held): Bench.begin,
    (NotHeld, Parted): Bench.part,
    (Opening, NotHeld): Bench.fail_attempt,
    (Opening, Held): Bench.end_attempt,
    (Opening, Lost): Bench.lose_early,
    (Held, HandedOver): Bench.hand_over,
    (Held, Lost): Bench.lose,
    (Held, Parted): Bench.part,
    (HandedOver, Lost): Bench.lose,
    (HandedOver, Parted): Bench.part,
}


def test_the_tables_have_all_states_and_the_tests_have_all_transitions() -> None:
    assert set(lease.TRANSITIONS) == set(STATES)
    assert set(MOVES) == {(before, after) for before in STATES for after in lease.TRANSITIONS[before]}
    assert set(pending_send.TRANSITIONS) == set(SenderState)
    assert set(SENDER_MOVES) == {
        (before, after) for before in SenderState for after in pending_send.TRANSITIONS[before]
    }


@pytest.mark.parametrize(("before", "after"), MOVES, ids=lambda state: state.__name__)
async def test_a_lease_goes_from_state_to_state(before: type[Lease], after: type[Lease]) -> None:
    bench = await Bench.of(before, new=(before, after) == (NotHeld, Held))
    assert type(bench.lease.now) is before
    ends = bench.ends
    await MOVES[before, after](bench)
    assert type(bench.lease.now) is after
    assert bench.losses == (after is Lost)
    assert bench.ends - ends == (before is Opening)
    assert bench.lease.held is (after in (Held, HandedOver))
    await settle(bench)


@pytest.mark.parametrize(("before", "kept"), [(Held, False), (HandedOver, True)])
async def test_a_lease_that_is_handed_over_is_not_released(before: type[Lease], kept: bool) -> None:
    bench = await Bench.of(before)
    bench.lease.part(release=True)
    assert bench.store._entries["t"].held is kept


@pytest.mark.parametrize("before", STATES)
async def test_other_transitions_of_a_lease_are_defects(before: type[Lease]) -> None:
    others = [await Bench.of(state) for state in STATES]
    for after in others:
        if type(after.lease.now) in lease.TRANSITIONS[before]:
            continue
        bench = await Bench.of(before)
        with pytest.raises(
            IllegalStateError, match=f"from {before.__name__} to {type(after.lease.now).__name__}"
        ):
            bench.lease.to(after.lease.now)
        await settle(bench)
    for one in others:
        await settle(one)


async def settle(bench: Bench) -> None:
    """Ends an attempt that is under way."""
    if bench.attempt is not None:
        await bench.end_attempt()


@pytest.mark.parametrize("state", STATES)
async def test_only_a_lease_that_is_held_allows_changes(state: type[Lease]) -> None:
    bench = await Bench.of(state)
    if state is Held:
        assert bench.lease.begin() is bench.store.writers[-1]
        return
    # To change a task without having asked for the lease is a defect; after the end it is no change any more.
    expected = RuntimeError if state in (NotHeld, Opening) else OwnershipLostError
    assert type(refused(bench.lease.now)) is expected
    with pytest.raises(expected):
        bench.lease.begin()
    await settle(bench)


async def test_one_attempt_counts_for_all_callers_and_the_next_one_follows_a_failure() -> None:
    bench = await Bench.of(Opening)
    second = asyncio.create_task(bench.lease.acquire(bench._ended))
    await asyncio.sleep(0)
    await bench.fail_attempt()
    with rejected(Reason.UNAVAILABLE):
        await second
    assert (bench.store.attempts, bench.ends) == (1, 1)
    bench.store.error = None
    await bench.lease.acquire(bench._ended)
    assert (bench.store.attempts, bench.ends, bench.lease.held) == (2, 2, True)


# --- Senders ---
class Asks:
    """Works until its gate opens, and then completes the task."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        await self.gate.wait()
        yield run.status("completed")


class Sent:
    """A message at an agent on a store that commits when the test says so."""

    def __init__(self) -> None:
        self.store = LateStore()
        self.executor = Asks()
        self.talk = Talk(agent_of(self.executor.execute), store=self.store)
        self.call = asyncio.create_task(self.talk.send("x"))

    async def sender(self, state: SenderState) -> Sender:
        """The sender, in a state."""
        await self.executor.gate.reached()
        [self.run] = self.talk.engine.runs
        [[sender]] = [one.senders for one in self.run.live._sends]
        if state is not WAITING:
            await self.decide()
        if state is ANSWERED:
            await self.commit()
        elif state is LEFT:
            await self.leave()
        return sender

    async def decide(self) -> None:
        self.executor.gate.open()
        await self.store.given()

    async def commit(self) -> None:
        self.store.commit()
        assert (await self.call).status.state == COMPLETED

    async def answer(self) -> None:
        self.store.open_door = True
        self.executor.gate.open()
        assert (await self.call).status.state == COMPLETED

    async def leave(self) -> None:
        self.call.cancel()
        await asyncio.gather(self.call, return_exceptions=True)

    async def lose(self) -> None:
        self.store.writers[-1].lose()

    async def end(self) -> None:
        self.executor.gate.open()
        self.store.open_door = True
        self.store.commit()
        await asyncio.gather(self.call, return_exceptions=True)
        await self.talk.close()


SENDER_MOVES: dict[tuple[SenderState, SenderState], Callable[[Sent], Awaitable[object]]] = {
    (WAITING, DECIDED): Sent.decide,
    (WAITING, ANSWERED): Sent.answer,
    (WAITING, LEFT): Sent.leave,
    (DECIDED, WAITING): Sent.lose,
    (DECIDED, ANSWERED): Sent.commit,
    (DECIDED, LEFT): Sent.leave,
}


@pytest.mark.parametrize(("before", "after"), SENDER_MOVES, ids=str)
async def test_a_sender_goes_from_state_to_state(before: SenderState, after: SenderState) -> None:
    sent = Sent()
    sender = await sent.sender(before)
    assert sender.now is before
    await SENDER_MOVES[before, after](sent)
    assert sender.now is after
    if after is LEFT:  # without a task, a run ends with its last sender
        assert sent.run.aborted is (before is WAITING)
    await sent.end()


@pytest.mark.parametrize("before", SenderState)
async def test_other_transitions_of_a_sender_are_defects(before: SenderState) -> None:
    sent = Sent()
    sender = await sent.sender(before)
    for after in set(SenderState) - pending_send.TRANSITIONS[before]:
        with pytest.raises(IllegalStateError, match=f"from {before} to {after}"):
            sender.to(after)
        assert sender.now is before
    await sent.end()


# --- A sender that leaves while the lease is opening ---
async def left(store: DoorStore, state: int) -> tuple[Talk, TaskRun, asyncio.Task[Any]]:
    """A message to a stored task, whose lease is being acquired."""
    task = await put(store, state)
    talk = Talk(agent_of(Asks().execute), store=store)
    call = asyncio.create_task(talk.send("more", task_id=task.id))
    async with asyncio.timeout(PATIENCE):
        while not store.attempts:  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0)
    [run] = talk.engine.runs
    assert run.lease.opening
    return talk, run, call


@pytest.mark.parametrize(("state", "then"), [(INPUT, INPUT), (WORKING, FAILED)])
async def test_a_lease_whose_callers_have_left_is_used_or_released(state: int, then: int) -> None:
    store = DoorStore()
    talk, run, call = await left(store, state)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert (run.lease.opening, talk.engine.live) == (True, 1)
    store.door.set()
    await talk.rest()
    assert type(run.lease.now) is Parted
    assert not store._entries["t"].held
    assert (await talk.get("t")).status.state == then
    await talk.close()


@pytest.mark.parametrize("state", [INPUT, WORKING])
async def test_a_lease_that_is_acquired_while_the_engine_closes_stays_only_with_a_task_at_work(
    state: int,
) -> None:
    store = DoorStore()
    talk, run, call = await left(store, state)
    await talk.close()
    store.door.set()
    with rejected(Reason.UNAVAILABLE):
        await call
    assert type(run.lease.now) is Parted
    assert store._entries["t"].held is (state == WORKING)
    assert (await MemoryStore.get(store, HERE, "t")).task.status.state == state  # type: ignore[union-attr]
    assert talk.engine.live == 0


# --- A replica that loses the lease in the middle of a cancellation ---
@pytest.mark.parametrize("rejects", [False, True])
@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    ("elsewhere", "answer"),
    [
        (CANCELED, CANCELED),
        (COMPLETED, Reason.TASK_NOT_CANCELABLE),
        (WORKING, Reason.UNAVAILABLE),
        (None, Reason.TASK_NOT_FOUND),
    ],
)
async def test_a_cancellation_without_the_lease_is_answered_by_the_new_owner(
    elsewhere: int | None, answer: Any, runs: bool, rejects: bool
) -> None:
    """runs: a run is active. rejects: the executor's `cancel` rejects in the end; this counts no more."""
    store, asks, gate = LateStore(), Asks(), Gate()
    store.open_door = True

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working" if runs else "input-required")
        if runs:
            await asks.gate.wait()

    async def cancel(run: Run) -> AsyncIterator[Event]:
        await gate.wait()
        if rejects:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "not now")
        yield run.status("canceled")

    talk = Talk(agent_of(execute, cancel), store=store)
    task = await talk.send("x", configuration=IMMEDIATELY)
    if runs:
        await asks.gate.reached()
    call = asyncio.create_task(talk.cancel(task.id))
    await gate.reached()
    store.writers[-1].lose()
    entry = store._entries[task.id]
    if elsewhere is None:
        del store._entries[task.id]
    else:
        task.status.state = elsewhere  # type: ignore[assignment]
        entry.data = task.SerializeToString()
    gate.open()
    if isinstance(answer, Reason):
        with rejected(answer):
            await call
    else:
        assert (await call).status.state == answer
    # The event of the executor's `cancel` has changed nothing.
    assert elsewhere is None or (await store.get(HERE, task.id)).task.status.state == elsewhere  # type: ignore[union-attr]
    await talk.close()
