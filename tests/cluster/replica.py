"""A simulated replica with the real engine and store engine; driver, bus, clock and agent are simulated.

A group of changes is one statement, or a transaction of two: it is executed whole or not at all, and a
repeated group counts what an earlier attempt has stored. The agent works in steps, resumes orphans, and asks
its user now and then.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from a2a_bridge.cluster.bus import PollingBus
from a2a_bridge.cluster.cluster import Cluster
from a2a_bridge.cluster.session import SessionError, session_name
from a2a_bridge.cluster.tails import Position as TaskPosition
from a2a_bridge.core.option_classes import EngineOptions, StoreOptions
from a2a_bridge.hosting import Agent, Engine, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.memory_push import MemoryOutbox, MemoryPushConfigStore
from a2a_bridge.stores.ports import Clock, Registered, Scope, TaskQuery
from a2a_bridge.stores.records import (
    CONFLICT,
    Expiry,
    Found,
    Position,
    SentChange,
    SentRow,
    TaskChange,
    TaskRow,
)
from a2a_bridge.stores.row_format import Segment
from a2a_bridge.stores.sql.commit import _begins
from a2a_bridge.stores.sql.rows import _commit
from a2a_bridge.stores.store_base import StoreBase
from tests.cluster.virtual_loop import Owner
from tests.cluster.world import Link, Row, SimulatedBus, SimulatedSession, World

#: seconds of a lease, of a statement, and of a write that a caller waits for
LEASE, READ, WRITE = 4.0, 3.0, (3.0, 8.0)
#: the most steps of a run, and seconds of one
STEPS, PACE = 6, 0.7
#: seconds that runs have when a replica stops
GRACE = 1.0
#: the result of a transaction that the database has ended
_ENDED = object()
#: how messages begin that are answered with a message
DIRECT = "direct"


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


class ConfigChange(NamedTuple):
    """A push config to store."""

    scope: Scope
    registered: Registered


class Tables:
    """The tables of a store, beside those of the cluster: `World.database`, where each task has a Row, too."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rows: dict[str, TaskRow] = {}
        self.segments: dict[str, list[Segment]] = {}
        self.sends: dict[tuple[Scope, str], SentRow] = {}
        #: tasks with a push config
        self.pushing: set[str] = set()

    def alive(self, holder: str, me: str) -> str:
        """A holder as rule 6 of Records shows it."""
        return holder if holder != me and holder in self._world.database.replicas else ""

    def apply(self, change: Any, me: str) -> Any:
        if isinstance(change, ConfigChange):
            self.pushing.add(change.registered.config.task_id)
            return None
        return self._task(change) if isinstance(change, TaskChange) else self._sent(change, me)

    def _task(self, change: TaskChange) -> Any:
        row = change.row
        known = self.rows.get(row.task_id)
        version = 0 if known is None else known.version
        if version != row.version - 1 or (_begins(change) and change.by not in self._world.database.replicas):
            return CONFLICT
        if row.body is None and known is not None:
            row = row._replace(body=known.body, checksum=known.checksum)
        self.rows[row.task_id] = row
        self.segments.setdefault(row.task_id, []).extend(change.segments)
        view = self._world.database.tasks.setdefault(row.task_id, Row(row.task_id, row.holder))
        view.holder, view.version, view.state = row.holder, row.version, row.place.state
        view.events += [hub.StreamResponse.FromString(one) for one in change.events]
        if change.row.body is not None:
            history = hub.Task.FromString(change.row.body).history
            view.history = [one.message_id for one in history if one.role == hub.ROLE_USER]
        return None

    def _sent(self, change: SentChange, me: str) -> Any:
        key, before, after = (change.scope, change.message_id), change.before, change.after
        known = self.sends.get(key)
        if after is None:
            if known is not None and known.holder == me:
                del self.sends[key]
            return None
        if (None if known is None else known[:3]) != (None if before is None else before[:3]):
            return CONFLICT
        if known is not None and self.alive(known.holder, me):
            return CONFLICT
        self.sends[key] = after
        return None


class _Group:
    """A group, and its results once it is stored."""

    def __init__(self, changes: Sequence[Any]) -> None:
        self.changes = changes
        self.results: list[Any] | None = None


class SimulatedRecords:
    """Implements SharedRecords."""

    def __init__(
        self, world: World, link: Link, tables: Tables, cluster: Cluster, *, transactions: bool
    ) -> None:
        self._transactions, self._world = transactions, world
        self._link, self._tables, self._cluster = link, tables, cluster
        self._group: _Group | None = None
        self.remote = cluster
        self.on_orphans = cluster.on_death
        self.follow = cluster.follow
        self.unfollow = cluster.unfollow

    @property
    def me(self) -> str:
        return self._cluster.me

    async def _run(self, execute: Callable[[], Any]) -> Any:
        try:
            return await self._world.statement(self._link, execute, READ)
        except SessionError as error:
            raise OSError(str(error)) from None

    async def read_tasks(self, tasks: Sequence[tuple[Scope, str]], /) -> Sequence[TaskRow | None]:
        def look() -> list[TaskRow | None]:
            tables, found = self._tables, []
            for scope, task_id in tasks:
                row = tables.rows.get(task_id)
                if row is None or row.scope != scope:
                    found.append(None)
                    continue
                tail = [one for one in tables.segments[task_id] if one.last > row.applied]
                found.append(row._replace(holder=tables.alive(row.holder, self.me), tail=tail))
            return found

        rows: list[TaskRow | None] = await self._run(look)
        return rows

    async def read_events(
        self, task_id: str, after: int, size: int, /
    ) -> tuple[Position | None, Sequence[Segment]]:
        def look() -> tuple[Position | None, Sequence[Segment]]:
            row = self._tables.rows.get(task_id)
            if row is None:
                return None, ()
            found: list[Segment] = []
            for one in self._tables.segments[task_id]:
                if one.last > after and sum(len(other.data) for other in found) < size:
                    found.append(one)
            return Position(row.last, row.ended), found

        found: tuple[Position | None, Sequence[Segment]] = await self._run(look)
        return found

    async def find(self, scope: Scope, query: TaskQuery, after: tuple[int, str] | None, /) -> Found:
        def look() -> Found:
            rows = [row for row in self._tables.rows.values() if row.scope == scope]
            rows.sort(key=lambda row: (row.place.time, row.task_id), reverse=True)
            later = [row for row in rows if after is None or (row.place.time, row.task_id) < after]
            page = later[: query.page_size]
            whole = [
                row._replace(
                    tail=[one for one in self._tables.segments[row.task_id] if one.last > row.applied]
                )
                for row in page
            ]
            return Found(whole, len(rows), len(later) > len(page))

        found: Found = await self._run(look)
        return found

    async def held(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        def look() -> list[tuple[Scope, str]]:
            rows = sorted(self._tables.rows.values(), key=lambda row: (-row.place.time, row.task_id))
            replicas = self._world.database.replicas
            found = [row for row in rows if row.holder and row.holder not in replicas][:limit]
            found += [row for row in rows if row.holder == self.me] if len(found) < limit else []
            return list(dict.fromkeys((row.scope, row.task_id) for row in found))

        found: list[tuple[Scope, str]] = await self._run(look)
        return found

    async def read_sent(self, scope: Scope, message_id: str, /) -> SentRow | None:
        def look() -> SentRow | None:
            row = self._tables.sends.get((scope, message_id))
            return row and row._replace(holder=self._tables.alive(row.holder, self.me))

        found: SentRow | None = await self._run(look)
        return found

    async def write(self, changes: Sequence[Any], /) -> Sequence[Any]:
        group = self._group
        if group is None or group.changes is not changes:
            group = self._group = _Group(changes)
        if self._transactions:
            session = session_name(self.me)
            locked, transaction = await self._run(lambda: self._begin(group, session))
            results: list[Any] = await self._run(lambda: self._commit(group, locked, session, transaction))
        else:
            results = await self._run(lambda: self._store(group))
        if results == [_ENDED]:
            raise OSError("the database has ended the transaction")
        self._group = None
        stored = zip(changes, results, strict=True)
        commits = [(one, result) for one, result in stored if isinstance(one, TaskChange)]
        self._cluster.publish(
            [_commit(one, lost=result is CONFLICT) for one, result in commits], deliveries=False
        )
        return results

    def _begin(self, group: _Group, session: str) -> tuple[frozenset[str], object]:
        """Locks the tasks of a group. Returns those that another session has locked."""
        transaction = self._world.begin(session)
        locks = self._world.database.locks
        wanted = {one.row.task_id for one in group.changes if isinstance(one, TaskChange)}
        locked = frozenset(wanted & locks.keys())
        locks.update(dict.fromkeys(wanted - locked, session))
        return locked, transaction

    def _commit(self, group: _Group, locked: frozenset[str], session: str, transaction: object) -> list[Any]:
        database = self._world.database
        if group.results is None and database.transactions.get(session) is not transaction:
            return [_ENDED]
        database.end(session)
        return self._store(group, locked)

    def _store(self, group: _Group, locked: frozenset[str] = frozenset()) -> list[Any]:
        if group.results is None:
            group.results = [
                CONFLICT
                if isinstance(change, TaskChange) and change.row.task_id in locked
                else self._tables.apply(change, self.me)
                for change in group.changes
            ]
        return group.results

    async def delete_expired(self, expiry: Expiry, write: Callable[[Any], Awaitable[Any]], /) -> None:
        """Nothing is old enough."""

    async def close(self) -> None:
        """The database goes on."""

    async def positions(self, task_ids: Sequence[str], /) -> Mapping[str, TaskPosition]:
        def look() -> dict[str, TaskPosition]:
            rows = [row for task_id in task_ids if (row := self._tables.rows.get(task_id)) is not None]
            return {
                row.task_id: TaskPosition(
                    row.last, row.version, row.ended, self._tables.alive(row.holder, "")
                )
                for row in rows
            }

        found: dict[str, TaskPosition] = await self._run(look)
        return found


class SimulatedConfigs(MemoryPushConfigStore):
    """Stores configs as SqlPushConfigStore does. No test reads them."""

    store: StoreBase

    async def put(self, scope: Scope, registered: Registered, /, *, replace: bool = True) -> None:
        await self.store.writer.write(ConfigChange(scope, registered))


class SimulatedStore(StoreBase):
    """Implements ClusterStore, as SqlStore does."""

    records: SimulatedRecords

    def __init__(self, records: SimulatedRecords, options: StoreOptions) -> None:
        configs = SimulatedConfigs()
        super().__init__(records, options, push_configs=configs, outbox=MemoryOutbox(configs))
        configs.store = self

    async def positions(self, task_ids: Sequence[str], /) -> Mapping[str, TaskPosition]:
        return await self._read(self.records.positions(task_ids))

    def outbox_changed(self) -> None:
        """There are no notifications."""


class ScheduleClock(Clock):
    """The time of the schedule, which never stands still."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:  # type: ignore[override]
        self._last = max(self._last + 1000, int(asyncio.get_running_loop().time() * 1e9))
        return self._last


class Worker:
    """Implements AgentExecutor, ResumingExecutor and CancellingExecutor."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        chance = self._world.chance
        if run.text.startswith(DIRECT):
            await asyncio.sleep(PACE * chance.uniform(0.2, 2))
            yield run.reply(f"{run.message.message_id} {chance.getrandbits(32)}")
            return
        if run.task is None:
            if chance.random() < 0.5:
                await asyncio.sleep(PACE * chance.uniform(0.2, 2))
            yield run.status("working")
        async for event in self.resume(run):
            yield event

    async def resume(self, run: Run) -> AsyncIterator[Any]:
        chance = self._world.chance
        for number in range(chance.randint(1, STEPS)):
            await asyncio.sleep(PACE * chance.uniform(0.2, 2))
            yield run.artifact(f"{run.message.message_id}:{number}", artifact_id="a", append=True)
            if chance.random() < 0.05:
                yield run.status("auth-required")
                await asyncio.sleep(PACE * chance.uniform(0.2, 2))
                yield run.status("working")
        yield run.status(chance.choice(("completed", "completed", "input-required")))

    async def cancel(self, run: Run) -> AsyncIterator[Any]:
        chance = self._world.chance
        if chance.random() < 0.5:
            await asyncio.sleep(PACE * chance.uniform(0.2, 2))
            yield run.status("canceled", "cleaned up")


class Replica:
    """A replica of a schedule. patient: whether callers wait for a write for longer than a lease lasts."""

    def __init__(
        self,
        world: World,
        name: str,
        tables: Tables,
        *,
        polls: bool,
        idempotent: bool,
        patient: bool,
        transactions: bool,
    ) -> None:
        self.owner = Owner(name)
        self.database_link, self.bus_link = Link(), Link()
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
        heart: Any = Heart()
        made: Any = session
        self.cluster = Cluster(
            made, made, make_bus, heart, lease=LEASE, new_name=lambda: f"{name}.{next(names)}", new_id=new_id
        )
        self._records = SimulatedRecords(
            world, self.database_link, tables, self.cluster, transactions=transactions
        )
        self._agent = Agent(Worker(world), name="worker", description="", push_notifications=True)
        self._options = EngineOptions(idempotent_sends=idempotent)
        self._ack_timeout = WRITE[patient]
        self.service: Any = None

    async def start(self) -> None:
        self._store = store = SimulatedStore(self._records, StoreOptions(ack_timeout=self._ack_timeout))
        self._engine = engine = Engine(self._agent, store=store, options=self._options, clock=ScheduleClock())
        while True:
            try:
                await self.cluster.start(store)
            except SessionError:
                await asyncio.sleep(0.5)
            else:
                break
        await engine.start()
        self.service = engine.service

    def left(self) -> dict[str, int]:
        """What should be empty when nothing happens any more."""
        return {
            "runs": self._engine.live,
            "readers": len(self._engine._readers),
            "leases": len(self._store.writer.leases),
            "logs": len(self._store._logs._logs),
        }

    async def stop(self) -> None:
        """Ends as on SIGTERM."""
        await self._engine.close(GRACE)
        await self._store.close()
        await self.cluster.close()
