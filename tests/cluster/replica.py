"""A simulated replica: the code of `hosting/cluster` and the readers of the engine as they are, over an engine
and a store that are as small as the rules of both allow.

Rules of the small engine:
1. A task works in steps: each is an event, committed with the version of the row before. After the last one the
   task is completed.
2. A message is an event, and an entry of the history. A call is answered after the commit.
3. A task of a dead replica is taken over, and goes on with its next step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason, task_not_found
from a2a_bridge.core.event import Event, Events
from a2a_bridge.core.resume import event_id, number_of, resume_id
from a2a_bridge.core.scope import Scope
from a2a_bridge.hosting.cluster.cluster import Cluster
from a2a_bridge.hosting.cluster.forwarding import ForwardingService
from a2a_bridge.hosting.cluster.polling import PollingBus
from a2a_bridge.hosting.cluster.session import SessionError
from a2a_bridge.hosting.cluster.tails import Committed, Position
from a2a_bridge.hosting.reading import EventReaders
from a2a_bridge.hosting.rejections import already_ended, changed_hands_error, not_cancelable
from a2a_bridge.hosting.run_registry import NotOwnerError
from a2a_bridge.hosting.views import AT_REST, TaskSnapshot
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cluster.virtual_loop import Owner
from tests.cluster.world import Link, Row, SimulatedBus, SimulatedSession, World

#: seconds of a lease, and of a read or a write that a caller waits for
LEASE, READ = 4.0, 3.0
STEPS, PACE = 6, 0.7


class Heart:
    """Takes the place of HeartThread: it beats in the loop of the store."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, work: Any, /) -> asyncio.Future[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.append(task)
        return task

    def post(self, function: Callable[..., object], /, *arguments: Any) -> None:
        asyncio.get_running_loop().call_soon(function, *arguments)

    def call(self, function: Callable[..., object], /) -> None:
        asyncio.get_running_loop().call_soon(function)

    async def close(self) -> None:
        for one in self._tasks:
            one.cancel()


class LostError(Exception):
    """Another replica has the task."""


class Tail:
    """The readers of one task here."""

    def __init__(self) -> None:
        self.events: list[hub.StreamResponse] = []
        self.ended = False
        self.stale = True
        self.changes = 0
        self.readers = 0
        self.changed = asyncio.Event()

    def wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class Subscription:
    def __init__(self, replica: Replica, task_id: str, after: int) -> None:
        self._replica = replica
        self._task_id = task_id
        self.position = self.delivered = after
        self._tail = replica.tail(task_id)
        self._tail.readers += 1
        self._open = True

    async def take(self) -> Sequence[hub.StreamResponse]:
        tail = self._tail
        self.position = self.delivered
        while True:
            if self.delivered < len(tail.events):
                found = tail.events[self.delivered :]
                self.delivered += len(found)
                return found
            if tail.stale:
                before = tail.changes
                row = await self._replica.read(self._task_id)
                tail.stale = tail.changes != before
                if row is not None and len(row.events) >= len(tail.events):
                    tail.events, tail.ended = list(row.events), row.ended
            elif tail.ended:
                return []
            else:
                await tail.changed.wait()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._replica.left(self._task_id, self._tail)


class Replica:
    """Implements ClusterListener, Service and the part of Store that readers use."""

    durable = True

    def __init__(self, world: World, name: str, *, polls: bool) -> None:
        self.world = world
        self.owner = Owner(name)
        self.database_link, self.bus_link = Link(), Link()
        self.leases: dict[str, int] = {}
        self.tails: dict[str, Tail] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._recovering: asyncio.Task[None] | None = None
        self._woken = False
        self._locks: dict[str, asyncio.Lock] = {}
        #: tasks whose lease is being acquired for a caller
        self._opening: set[str] = set()
        chance = world.chance
        session = SimulatedSession(world, self.database_link)
        new_id = lambda: chance.getrandbits(128).to_bytes(16, "big")  # noqa: E731

        def make_bus(alone: Callable[[], bool]) -> Any:
            return (
                PollingBus(session, alone, new_id)
                if polls
                else SimulatedBus(world, self.owner, self.bus_link)
            )

        names = iter(range(1000))
        self.cluster = Cluster(
            session, make_bus, Heart(), lease=LEASE, new_name=lambda: f"{name}.{next(names)}", new_id=new_id
        )
        self.readers = EventReaders(self, self.snapshot_of)
        self.service = ForwardingService(self, self.cluster.replica, self.readers, self.take_over)

    async def start(self) -> None:
        self.cluster.on_death(self.recover)
        self.cluster.serve(self)
        while True:
            try:
                await self.cluster.start(self)
            except SessionError:
                await asyncio.sleep(0.5)
            else:
                return

    # ------------------------------------------------------------------ the database

    async def transaction(self, execute: Callable[[], Any]) -> Any:
        """Raises UNAVAILABLE."""
        try:
            return await self.world.statement(self.database_link, execute, READ)
        except SessionError:
            raise unavailable() from None

    async def read(self, task_id: str) -> Row | None:
        def look() -> Row | None:
            row = self.world.database.tasks.get(task_id)
            if row is None:
                return None
            holder = row.holder if row.holder in self.world.database.replicas else ""
            return Row(row.id, holder, row.version, list(row.events), row.state, list(row.history))

        found: Row | None = await self.transaction(look)
        return found

    async def write(self, task_id: str, change: Callable[[Row], None]) -> Row:
        """Changes a task with the lease. Raises LostError."""

        def execute(doubt: bool) -> Row | None:
            row = self.world.database.tasks[task_id]
            if doubt and row.version == version + 1 and row.holder in (me, ""):
                return row
            if row.version != version or row.holder != me:
                return None
            change(row)
            row.version += 1
            if row.ended:
                row.holder = ""
            return row

        async with self._locks.setdefault(task_id, asyncio.Lock()):
            me, version = self.cluster.me, self.leases.get(task_id)
            if version is None:
                raise LostError
            row, doubt = await self._commit(execute)
            if row is None:
                self.leases.pop(task_id, None)
                self.wake([task_id])
                # Lost with its outcome unknown: whoever does it again may do it twice.
                raise unavailable() if doubt else LostError
            if task_id in self.leases:
                self.leases[task_id] = version + 1
            data = [row.events[-1].SerializeToString()] if row.events else []
            committed = Committed(task_id, version + 1, len(row.events), data, row.ended, row.ended)
            self.extend(task_id, len(row.events), data, row.ended)
            self.cluster.publish([committed], deliveries=False)
            if row.ended:
                self.leases.pop(task_id, None)
            return row

    async def _commit(self, execute: Callable[[bool], Any]) -> tuple[Any, bool]:
        """Repeats a transaction until its outcome is known, as the writer of groups does. The result, and
        whether an earlier outcome was in doubt.
        """
        doubt = False
        while True:
            try:
                return await self.world.statement(
                    self.database_link, lambda doubt=doubt: execute(doubt), READ
                ), doubt
            except SessionError:
                doubt = True
                await asyncio.sleep(0.3)

    async def _patient(self, work: Any, given_up: Callable[[], None] = lambda: None) -> Any:
        """Waits for a commit as callers do: it continues without them. Raises UNAVAILABLE."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(READ):
                return await asyncio.shield(task)
        except TimeoutError:
            given_up()
            raise unavailable() from None

    async def acquire(self, task_id: str) -> None:
        """Gets the lease. Raises NotOwnerError, LostError, A2AError."""
        if task_id in self.leases:
            return
        row = await self.read(task_id)
        if row is None:
            raise task_not_found(task_id)
        me = self.cluster.me
        if row.holder and row.holder != me:
            raise NotOwnerError(row.holder, row.task())
        if not row.ended:
            await self._open(task_id, me, row.version)

    async def _open(
        self, task_id: str, me: str, version: int, make: Callable[[], None] | None = None
    ) -> None:
        """Gets the lease on a task with this version, which is made if there is none."""
        if task_id in self._opening or task_id in self.leases:
            raise LostError
        wanted = True

        def execute(doubt: bool) -> bool:
            replicas = self.world.database.replicas
            if make is not None and task_id not in self.world.database.tasks:
                if me in replicas:
                    make()
                return me in replicas
            now = self.world.database.tasks[task_id]
            if doubt and now.version == version + (make is None) and now.holder == me:
                return True
            free = now.holder in ("", me) or now.holder not in replicas
            if make is not None or now.version != version or not free or me not in replicas:
                return False
            now.version += 1
            now.holder = me
            return True

        async def take() -> bool:
            async with self._locks.setdefault(task_id, asyncio.Lock()):
                taken, _ = await self._commit(execute)
            if not wanted:
                self.recover()  # this replica has it, and nobody works on it
            return bool(taken)

        def give_up() -> None:
            nonlocal wanted
            wanted = False
            self._opening.discard(task_id)

        self._opening.add(task_id)
        taken = await self._patient(take(), give_up)
        self._opening.discard(task_id)
        if not taken or me != self.cluster.me:
            raise LostError
        self.leases[task_id] = version + (make is None)
        self._working[task_id] = asyncio.ensure_future(self._steps(task_id))

    # ------------------------------------------------------------------ Service

    async def unary(self, call: Call[Any, Any], /) -> Any:
        if call.operation is ops.SEND_MESSAGE:
            task, _ = await self._sent(call.request)
            if not call.request.configuration.return_immediately:
                task = (await self.readers.outcome(Scope("", ""), task)).task
                return hub.SendMessageResponse(task=task)
            return hub.SendMessageResponse(task=task.task)
        if call.operation is ops.CANCEL_TASK:
            return await self._canceled(call.request.id)
        raise AssertionError(call.operation)

    async def stream(self, call: Call[Any, Any], /) -> Events:
        if call.operation is ops.SUBSCRIBE_TO_TASK:
            snapshot = await self.snapshot_of(Scope("", ""), call.request.id)
            last = number_of(resume_id(call.context)) or snapshot.last
        else:
            snapshot, last = await self._sent(call.request)
        reading = self.readers.begin(Scope("", ""), snapshot.task.id, last)
        try:
            yield Event(hub.StreamResponse(task=snapshot.task), event_id(last))
            if last == snapshot.last and snapshot.task.status.state in AT_REST:
                return
            async for event in reading.events(None):
                yield event
        finally:
            reading.close()

    async def _sent(self, request: hub.SendMessageRequest) -> tuple[TaskSnapshot, int]:
        message_id = request.message.message_id

        def add(row: Row) -> None:
            if row.ended:
                row.events.append(artifact(row.id, f"late {message_id}"))  # excluded by the caller's check
                raise AssertionError
            row.history.append(message_id)
            row.events.append(artifact(row.id, f"got {message_id}"))

        row = await self._changed(request.message.task_id, add, already_ended)
        return TaskSnapshot(row.task(), len(row.events)), len(row.events)

    async def _canceled(self, task_id: str) -> hub.Task:
        def cancel(row: Row) -> None:
            row.state = hub.TASK_STATE_CANCELED
            row.events.append(status(row.id, row.state))

        return (await self._changed(task_id, cancel, not_cancelable)).task()

    async def _changed(
        self, task_id: str, change: Callable[[Row], None], ended: Callable[[str], A2AError]
    ) -> Row:
        for _ in range(3):
            await self._entered(task_id)
            if task_id not in self.leases:
                raise ended(task_id)
            with suppress(LostError):
                row = await self._patient(self.write(task_id, change))
                return Row(row.id, row.holder, row.version, list(row.events), row.state, list(row.history))
        raise changed_hands_error()

    async def _entered(self, task_id: str) -> None:
        for _ in range(3):
            with suppress(LostError):
                return await self.acquire(task_id)
        raise changed_hands_error()

    # ------------------------------------------------------------------ runs

    async def begin(self, task_id: str) -> None:
        """Makes a task, and works on it."""
        me = self.cluster.me

        def make() -> None:
            row = self.world.database.tasks[task_id] = Row(task_id, me)
            row.events.append(status(task_id, row.state))

        await self._open(task_id, me, 1, make)

    async def _steps(self, task_id: str) -> None:
        def step(row: Row) -> None:
            done = sum(one.HasField("artifact_update") for one in row.events)
            if done < STEPS:
                row.events.append(artifact(row.id, f"step {len(row.events)}"))
            else:
                row.state = hub.TASK_STATE_COMPLETED
                row.events.append(status(row.id, row.state))

        try:
            while True:
                await asyncio.sleep(PACE * self.world.chance.uniform(0.2, 2))
                if self._working.get(task_id) is not asyncio.current_task():
                    return  # this replica lost the task, and may have taken it over again
                await self.write(task_id, step)
        except (LostError, A2AError):
            return

    async def take_over(self, _: Scope, task_id: str) -> None:
        with suppress(NotOwnerError):
            await self._entered(task_id)

    def recover(self) -> None:
        self._woken = True
        if self._recovering is None or self._recovering.done():
            self._recovering = asyncio.ensure_future(self._recover())

    async def _recover(self) -> None:
        while self._woken:
            self._woken = False  # a call of `recover` during a round is not lost, as in the real one
            await self._take_over_all()

    async def _take_over_all(self) -> None:
        while True:
            try:
                found = await self.transaction(self._left)
                if not found:
                    return
                await asyncio.sleep(0.01)
                for task_id in found:
                    try:
                        await self.acquire(task_id)
                    except (LostError, NotOwnerError):
                        continue
            except A2AError:
                await asyncio.sleep(1.0)

    def _left(self) -> list[str]:
        """Tasks of the dead, and those whose lease this replica got without learning of it."""
        rows = self.world.database.tasks.values()
        mine = [one.id for one in rows if one.holder == self.cluster.me]
        known = self.leases.keys() | self._opening
        return [one for one in self.world.database.orphans() + mine if one not in known]

    # ------------------------------------------------------------------ readers

    async def snapshot_of(self, _: Scope, task_id: str) -> TaskSnapshot:
        row = await self.read(task_id)
        if row is None:
            raise task_not_found(task_id)
        return TaskSnapshot(row.task(), len(row.events))

    def subscribe(self, task_id: str, after: int, /) -> Subscription:
        return Subscription(self, task_id, after)

    def end(self, task_id: str, error: A2AError, /) -> None:
        raise AssertionError(task_id, error)

    def tail(self, task_id: str) -> Tail:
        if task_id not in self.tails:
            self.tails[task_id] = Tail()
            self.cluster.follow(task_id)
        return self.tails[task_id]

    def left(self, task_id: str, tail: Tail) -> None:
        tail.readers -= 1
        if not tail.readers and self.tails.get(task_id) is tail:
            del self.tails[task_id]
            self.cluster.unfollow(task_id)

    def extend(self, task_id: str, first: int, data: Sequence[bytes], ended: bool) -> None:
        tail = self.tails.get(task_id)
        if tail is None:
            return
        known = len(tail.events) + 1 - first
        if tail.stale or known < 0:
            self._outdated(tail)
        else:
            tail.events += [hub.StreamResponse.FromString(one) for one in data[known:]]
            tail.ended = tail.ended or ended
            tail.wake()

    def _outdated(self, tail: Tail) -> None:
        tail.stale = True
        tail.changes += 1
        tail.wake()

    # ------------------------------------------------------------------ ClusterListener

    def is_holder(self, task_id: str, /) -> bool:
        return task_id in self.leases

    def heard(self, task_id: str, first: int, data: Sequence[bytes], ended: bool, /) -> None:
        if task_id not in self.leases:
            self.extend(task_id, first, data, ended)

    def wake(self, task_ids: Sequence[str], /) -> None:
        for task_id in task_ids:
            tail = self.tails.get(task_id)
            if tail is not None and task_id not in self.leases:
                self._outdated(tail)

    async def positions(self, task_ids: Sequence[str], /) -> Mapping[str, Position]:
        def look() -> dict[str, Position]:
            found = {}
            for task_id in task_ids:
                row = self.world.database.tasks.get(task_id)
                if row is not None:
                    holder = row.holder if row.holder in self.world.database.replicas else ""
                    found[task_id] = Position(len(row.events), row.version, row.ended, holder)
            return found

        positions: dict[str, Position] = await self.transaction(look)
        return positions

    def outbox_changed(self) -> None:
        pass

    def unreachable(self) -> None:
        pass

    def let_go(self) -> None:
        self.leases.clear()
        self.wake(list(self.tails))


def artifact(task_id: str, text: str) -> hub.StreamResponse:
    event = hub.StreamResponse()
    event.artifact_update.task_id = task_id
    event.artifact_update.artifact.artifact_id = "a"
    event.artifact_update.artifact.parts.add().text = text
    return event


def status(task_id: str, state: int) -> hub.StreamResponse:
    event = hub.StreamResponse()
    event.status_update.task_id = task_id
    event.status_update.status.state = state
    return event


def unavailable() -> A2AError:
    return A2AError(Reason.UNAVAILABLE, "the database", blame=Blame.SELF, retry_after=1.0)
