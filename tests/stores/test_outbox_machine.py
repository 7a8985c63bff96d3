"""Replicas on one outbox, in random orders of additions, claims, results, deaths and clocks.

Each replica is an outbox with a name of its own on one open store. The clock of the replicas is monotonic and
moves by hand; the clock of the database moves along, and may jump. The rules that each step is held to:

1. What is given out is the oldest notification of its config that is no dead letter.
2. A config has one delivery at a time, of all replicas that are alive. Of a replica that was declared dead, of
   a config with a new target, and of one whose dead letters were retried, the receiver may get a copy, but
   never two from one replica under one name.
3. After a failure, its replica waits as long as it was told to. Another replica that takes over waits for the
   rest of that by the clock of the database, and never longer than LONGEST.
4. In the end everything is delivered, and neither rows nor memory name a holder.
"""

import random
import sqlite3
from itertools import chain
from typing import Any

import pytest
from sqlalchemy import Connection, Float, func, insert, literal, select, update

from a2a_bridge.push.ports import Delivery
from a2a_bridge.stores import open_store
from a2a_bridge.stores.records import Place, TaskChange, TaskRow
from a2a_bridge.stores.sql import push
from a2a_bridge.stores.sql import push_configs as configs
from a2a_bridge.stores.sql.push import SqlOutbox
from a2a_bridge.stores.sql.push_configs import SqlPushConfigStore
from a2a_bridge.stores.sql.schema import outbox, push_configs, replicas
from a2a_bridge.testing.outbox_contract import build_registered
from a2a_bridge.testing.store_scene import HERE
from tests.push.test_fair_queue import Clock

HOSTS = ("north", "south")
CONFIGS = [(task, name) for task in "tu" for name in "ab"]
STEPS = 120
#: the longest time in which something that no hint names is found and delivered
FOUND = push.SWEEP + push.POLL

Line = tuple[str, str]


class Replica:
    """An outbox under its present name, and what it has given out."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.name = ""
        self.sending: list[Delivery] = []
        #: what each config has in delivery under the present name
        self.out: dict[Line, int] = {}
        store = world.store
        self.outbox = SqlOutbox(store._database, store.write, lambda: self.name, now=world.clock)
        self.configs = SqlPushConfigStore(store._database, store.write, lambda: self.name)
        self.configs.on_changed = self.outbox.redirect

    async def join(self) -> None:
        """Gets a new name, as after its start, or after it was declared dead."""
        self.world.names += 1
        self.name = f"r{self.world.names}"
        self.out.clear()
        join = insert(replicas).values(id=self.name, beat=1)
        await self.world.store.write(lambda connection: connection.execute(join) and None)


class World:
    """The database, its replicas, and what the receivers are owed."""

    def __init__(self, store: Any, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.clock = Clock()
        #: the clock of the database is ahead of the replicas by so many seconds
        self.ahead = 1e9
        self.names = 0
        self.last = 0
        self.replicas: list[Replica] = []
        #: the notifications of each config that wait, the oldest first, and its dead letters
        self.waiting: dict[Line, list[int]] = {line: [] for line in CONFIGS}
        self.letters: dict[Line, list[int]] = {line: [] for line in CONFIGS}
        #: what each config has in delivery, if a copy of it would be a fault
        self.busy: dict[Line, tuple[Replica, int]] = {}
        #: the time before which a config is not tried again, the replica that knows it, and its clock then
        self.delayed: dict[Line, tuple[float, Replica, str, float]] = {}
        self.losses: list[Exception] = []

    def present(self, _: Connection) -> Any:
        return literal(self.clock.time + self.ahead, Float)

    async def begin(self) -> None:
        for _ in range(2):
            self.replicas.append(Replica(self))
            await self.replicas[-1].join()
        for task, name in CONFIGS:
            await self.replicas[0].configs.put(HERE, build_registered(name, task, HOSTS[0]))

    # ------------------------------------------------------------------ steps

    async def add(self, one: Replica) -> None:
        """An event; its hint reaches some of the replicas. Or no replica: as if its config was being released."""
        task = self.random.choice("tu")
        self.last += 1
        change = TaskChange(
            TaskRow(HERE, task, Place("", 0, 0), 2, self.last, 0, "", None, None), (), None, [b""]
        )
        unseen = self.random.random() < 0.2

        def work(connection: Connection) -> list[tuple[str, int]]:
            idle = select(push_configs.c.id).where(push_configs.c.task == task, push_configs.c.holder == "")
            names = connection.scalars(idle).all() if unseen else []
            push.post_events(connection, [change])
            again = update(push_configs).where(push_configs.c.task == task, push_configs.c.id.in_(names))
            connection.execute(again.values(holder=""))
            rows = select(outbox.c.config, outbox.c.number).where(outbox.c.sequence == self.last)
            return [(row.config, row.number) for row in connection.execute(rows)]

        for name, number in await self.store.write(work):
            self.waiting[task, name].append(number)
        self.hint([other for other in self.replicas if other is one or self.random.random() < 0.5])

    def hint(self, told: list[Replica]) -> None:
        for one in told:
            one.outbox.outbox_changed()

    async def due(self, one: Replica) -> None:
        busy = self.random.choice(("", "", *HOSTS))
        if self.random.random() < 0.1:
            self.losses.append(sqlite3.OperationalError("the connection is lost"))
        await self.take(one, self.random.randint(1, 5), busy)
        self.losses.clear()

    async def take(self, one: Replica, limit: int = 10, busy: str = "") -> None:
        """busy: a host without capacity."""
        for delivery in await one.outbox.due(limit, lambda target: 0 if busy and busy in target else 2):
            self.given(one, delivery)

    def given(self, one: Replica, delivery: Delivery) -> None:
        line = delivery.task_id, delivery.registered.config.id
        assert delivery.number == self.waiting[line][0], "not the oldest"
        assert line not in self.busy, "a config has two deliveries"
        until, knows, name, ahead = self.delayed.pop(line, (0.0, one, one.name, self.ahead))
        if (one, one.name) == (knows, name) or (
            ahead == self.ahead and until - self.clock.time <= push.LONGEST
        ):
            assert self.clock.time >= until - 1e-3, "too early"
        assert line not in one.out, "a replica sends for a config twice"
        self.busy[line] = one, delivery.number
        one.out[line] = delivery.number
        one.sending.append(delivery)

    async def settle(self, one: Replica, how: str = "") -> None:
        if not one.sending:
            return
        delivery = one.sending.pop(self.random.randrange(len(one.sending)))
        line, number = (delivery.task_id, delivery.registered.config.id), delivery.number
        if one.out.get(line) == number:
            del one.out[line]
        ours = self.busy.get(line) == (one, number)
        if ours:
            del self.busy[line]
        known = number in self.waiting[line]
        how = how or self.random.choice(("sent", "again", "dead"))
        if self.random.random() < 0.1:
            self.losses.append(sqlite3.OperationalError("the connection is lost"))
        if how == "sent":
            await one.outbox.sent([delivery])
            for numbers in (self.waiting[line], self.letters[line]):
                if number in numbers:
                    numbers.remove(number)
        elif how == "dead":
            await one.outbox.dead(delivery, "HTTP 410")
            if known:
                self.waiting[line].remove(number)
                self.letters[line].append(number)
        else:
            seconds = self.random.choice((0.0, 3.0, 30.0, 3600.0))
            await one.outbox.again(delivery, "HTTP 500", seconds)
            if ours:
                self.delayed[line] = self.clock.time + seconds, one, one.name, self.ahead
        self.losses.clear()

    async def wait(self, _: Replica) -> None:
        self.clock.time += self.random.choice((0.25, 1.0, 5.0, 60.0))

    async def jump(self, _: Replica) -> None:
        """Somebody sets the clock of the database."""
        self.ahead += self.random.choice((-1e8, -3600.0, 3600.0, 1e8))

    async def bury(self, one: Replica) -> None:
        """A replica is declared dead: it has crashed and starts again, or it lives on and reports late."""
        gone = replicas.delete().where(replicas.c.id == one.name)
        await self.store.write(lambda connection: connection.execute(gone) and None)
        for line in [line for line, (sender, _) in self.busy.items() if sender is one]:
            del self.busy[line]
        if self.random.random() < 0.5:
            new = self.replicas[self.replicas.index(one)] = Replica(self)
            await new.join()
        else:
            await one.join()
        self.hint([other for other in self.replicas if self.random.random() < 0.5])

    async def redirect(self, one: Replica) -> None:
        line = self.random.choice(CONFIGS)
        host = self.random.choice(HOSTS)
        known = await one.configs.get(HERE, *line)
        await one.configs.put(HERE, build_registered(line[1], line[0], host))
        if known is None or host not in known.config.url:
            self.delayed.pop(line, None)
            self.busy.pop(line, None)

    async def forget(self, one: Replica) -> None:
        """A config is deleted and registered again: results of its deliveries may come later."""
        line = self.random.choice(CONFIGS)
        await one.configs.delete(HERE, *line)
        await one.configs.put(HERE, build_registered(line[1], line[0], self.random.choice(HOSTS)))
        self.waiting[line], self.letters[line] = [], []
        self.delayed.pop(line, None)
        self.busy.pop(line, None)
        for other in self.replicas:
            other.out.pop(line, None)

    async def retry(self, one: Replica) -> None:
        line = self.random.choice(CONFIGS)
        if letters := self.letters[line]:
            assert await one.outbox.retry(letters) == len(letters)
            self.waiting[line] = sorted(self.waiting[line] + letters)
            self.letters[line] = []
            self.delayed.pop(line, None)
            self.busy.pop(line, None)

    # ------------------------------------------------------------------ the end

    async def end(self) -> None:
        for one in self.replicas:
            while one.sending:
                await self.settle(one, "sent")
        rounds = sum(len(numbers) for numbers in self.waiting.values())
        limit = self.clock.time + 3600.0 + FOUND + rounds * push.SWEEP
        while any(self.waiting.values()):
            assert self.clock.time < limit, f"left behind: {self.waiting}"
            self.clock.time += push.SWEEP
            for one in self.replicas:
                await self.take(one)
                while one.sending:
                    await self.settle(one, "sent")
        for one in self.replicas:  # configs that were claimed without a notification
            self.clock.time += 3600.0 + FOUND
            await self.take(one)
            assert not one.sending
        held = select(func.count()).where(push_configs.c.holder != "")
        assert await self.store._database.read(lambda connection: connection.scalar(held)) == 0
        for one in self.replicas:
            queue = one.outbox._lines
            assert (queue._targets, queue._due, queue._ready, queue._out) == ({}, {}, {}, {})
        rows = await self.replicas[0].outbox.entries()
        assert [row.number for row in rows] == sorted(chain.from_iterable(self.letters.values()))
        assert all(row.dead for row in rows)


_STEPS = {
    World.add: 6, World.due: 8, World.settle: 8, World.wait: 3,
    World.jump: 1, World.bury: 1, World.redirect: 1, World.forget: 1, World.retry: 1,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
async def test_everything_is_delivered_in_order_by_one_replica_at_a_time(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    async with open_store(sqlite_url) as opened:
        store: Any = opened
        world = World(store, seed)
        monkeypatch.setattr(push, "present", world.present)
        monkeypatch.setattr(configs, "present", world.present)
        committer = store.records.committer
        commit = committer.commit

        def lossy(group: Any, transaction: Any) -> None:
            commit(group, transaction)
            if world.losses and any(
                getattr(job.work, "__module__", "") == push.__name__ for job in group.jobs
            ):
                group.in_doubt = True
                raise world.losses.pop()

        monkeypatch.setattr(committer, "commit", lossy)
        await world.begin()
        steps, weights = list(_STEPS), list(_STEPS.values())
        for (step,) in (world.random.choices(steps, weights) for _ in range(STEPS)):
            await step(world, world.random.choice(world.replicas))
        await world.end()
