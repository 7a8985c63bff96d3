"""Rounds of kill -9: a server is loaded, killed at random, also while it recovers, and compared.

The promises of a round are compared with the next process and with the rows; ended tasks again at the end.
The process that was compared is that of the next round, so that a store lives through all of them.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from a2a_bridge.core.messages import RUNNING
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability import storage
from tests.durability.callers import PATIENCE, Caller, callers
from tests.durability.comparing import Comparison
from tests.durability.ledger import Ledger, state
from tests.durability.load import Load
from tests.durability.serving import Served, Stage, until
from tests.durability.webhook import Hook
from tests.postgres import Postgres

#: time limit in seconds for the recovery of a process
RECOVERY = 30.0
#: seconds after which a load is stopped although it is not complete
LONG_ENOUGH = 10.0
#: tasks of earlier rounds that are compared again after each round
SAMPLE = 20


@dataclass
class Trial:
    """Rounds on one store. hurt: how the server is ended. resumes: whether the agent resumes steady work."""

    stage: Stage
    seed: int
    journal: Path
    idempotent: bool = False
    resumes: bool = True
    hook: Hook | None = None
    workers: int = 12
    official: Sequence[str] = ("JSONRPC", "GRPC")
    #: seconds from the begin of the work to the latest kill
    longest: float = 0.5
    ledger: Ledger = field(default_factory=Ledger)
    totals: Counter[str] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)
    #: a database that crashes in some rounds, just before the server does
    database: Postgres | None = None

    def __post_init__(self) -> None:
        self._comparison = Comparison(self.stage.store, self.ledger, self.resumes, self.totals)

    async def run(self, rounds: int, on_round: Callable[[int], None] | None = None) -> list[str]:
        """Runs all rounds; returns the faults, empty if there are none."""
        chance = random.Random(self.seed)
        # The first ones may be killed while they create their tables.
        served = await self._started(chance, 1.5)
        try:
            load: Load | None = None
            for number in range(rounds):
                load = Load(chance, self.ledger, self.idempotent, self.hook.url if self.hook else "")
                await self._hurt(served, load, chance)
                served = await self._started(chance, 0.15)
                async with callers(served, official=self.official) as ways:
                    await self._compare(served, ways, load, chance)
                if on_round is not None:
                    on_round(number)
                if len(self.ledger.wrong) > 50:
                    break
            async with callers(served, official=self.official) as ways:
                await self._compare_all(ways, chance)
            self.totals["exit code"] = await served.stop()
            if self.stage.store.startswith("sqlite") and (found := storage.sound(self.stage.store)) != "ok":
                self.ledger.wrong.append(f"the file is not sound: {found}")
        finally:
            served.kill()
            await served.ended()
        return self.ledger.wrong

    # ------------------------------------------------------------------ hurting

    async def _hurt(self, served: Served, load: Load, chance: random.Random) -> None:
        """Loads a server and kills it in the middle of that."""
        async with callers(served, official=self.official) as ways:
            at = chance.uniform(0, self.longest)
            things, events = chance.choice([(chance.randint(1, 60), 0), (1, chance.randint(1, 300)), (1, 0)])
            before = self.ledger.events
            crash = chance.random() < 0.5

            async def kill() -> None:
                # Some kills follow closely on an answer or an event, where a promise is youngest.
                await _enough(
                    lambda: sum(load.done.values()) >= things and self.ledger.events - before >= events
                )
                if not events:
                    await asyncio.sleep(at)
                load.hurt = True
                if crash and self.database is not None:
                    await asyncio.to_thread(self.database.stop)
                served.kill()
                await served.ended()

            async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
                group.create_task(kill())
                group.create_task(load.run(ways, self.workers))
        self.totals["killed"] += 1
        self.totals.update(load.done)
        if crash and self.database is not None:
            await asyncio.to_thread(self.database.start)
            self.totals["killed, the database too"] += 1

    async def _started(self, chance: random.Random, moment: float) -> Served:
        """The next process; sometimes one is killed before it is ready, or just after."""
        while chance.random() < 0.2:
            served = await self.stage.spawn()
            try:
                if chance.random() < 0.5:
                    await self.stage.ready(served)
                    await asyncio.sleep(chance.uniform(0, moment))
                else:
                    await asyncio.sleep(chance.uniform(0, 1.5))
            finally:
                served.kill()
                await served.ended()
            self.totals["killed while it recovered"] += 1
        return await self.stage.start()

    # ------------------------------------------------------------------ comparing

    async def _compare(self, served: Served, ways: list[Caller], load: Load, chance: random.Random) -> None:
        await self._recovered(ways, chance)
        if self.idempotent:
            await self._repeat(ways, load, chance)
        touched = list(dict.fromkeys(load.tasks))
        earlier = [task for task, seen in self.ledger.seen.items() if seen.end is not None]
        looked = list(dict.fromkeys(touched + chance.sample(earlier, min(SAMPLE, len(earlier)))))
        await self._comparison.all(ways, chance, looked)
        if self.hook is not None:
            await self._pushed(load)
        self._executed()
        if served.alive is False:
            self.ledger.wrong.append(
                "the server died while it was looked at\n" + "\n".join(served.said[-20:])
            )

    async def _compare_all(self, ways: list[Caller], chance: random.Random) -> None:
        await self._comparison.all(ways, chance, list(self.ledger.seen))
        self.totals["tasks"] = len(self.ledger.seen)
        self.totals["events shown"] = self.ledger.events
        self.totals["messages"] = len(self.ledger.sent)

    async def _recovered(self, ways: list[Caller], chance: random.Random) -> None:
        """Waits until the tasks of the dead process have failed, or were resumed and have ended."""
        working: list[hub.Task] = []

        async def nothing() -> bool:
            working[:] = [task for one in RUNNING for task in await chance.choice(ways).list(one)]
            return not working

        try:
            self.recoveries.append(await until(nothing, RECOVERY))
        except TimeoutError:
            self.ledger.wrong += [f"{task.id} is {state(task)} for ever" for task in working]

    async def _repeat(self, ways: list[Caller], load: Load, chance: random.Random) -> None:
        """Sends every message of the round once more, and those without an answer twice more."""
        repeats = Load(chance, self.ledger, idempotent=True)
        round_sent = list(self.ledger.sent.values())[-sum(load.done.values()) - 2 * self.workers :]
        answered = {sent.message_id for sent in round_sent if sent.task_id or sent.direct}
        before = self._begun()
        for sent in round_sent:
            for _ in range(1 if sent.task_id or sent.direct else 2):
                await repeats.again(chance.choice(ways), sent)
                self.totals["repeated"] += 1
        load.tasks += repeats.tasks
        load.pushed |= repeats.pushed
        after = self._begun()
        self.ledger.wrong += [
            f"{message_id} was answered, and worked on again when it was sent again"
            for message_id in answered
            if after[message_id] != before[message_id]
        ]
        # A message without an answer may have begun its task only now.
        await self._recovered(ways, chance)

    async def _pushed(self, load: Load) -> None:
        """Every event of a task with a webhook arrived there, in order."""
        hook = self.hook
        assert hook is not None
        for task_id in load.pushed:
            log = storage.log_of(self.stage.store, task_id)
            posted = hook.posted[task_id]
            try:
                await until(lambda posted=posted, log=log: len(posted) >= len(log), RECOVERY)
            except TimeoutError:
                self.ledger.wrong.append(f"{len(posted)} of {len(log)} events of {task_id} were posted")
                continue
            if posted != log:
                self.ledger.wrong.append(f"events of {task_id} were posted in another order")
            self.totals["pushed"] += len(log)

    def _begun(self) -> defaultdict[str, list[str]]:
        """The tasks that the agent began to work on, by message."""
        begun: defaultdict[str, list[str]] = defaultdict(list)
        if self.journal.exists():
            lines = [line.split() for line in self.journal.read_text("ascii").splitlines()]
            self.totals["resumed"] = sum(how == "resume" for how, _, _ in lines)
            for how, message, task in lines:
                if how == "execute":
                    begun[message].append(task)
        return begun

    def _executed(self) -> None:
        """One message never made two tasks."""
        begun = self._begun()
        if not self.idempotent:
            return
        known = storage.tasks(self.stage.store)
        for message_id, where in begun.items():
            if len(kept := {task for task in where if task in known}) > 1:
                self.ledger.wrong.append(f"{message_id} made {len(kept)} tasks")
        twice = sum(len(tasks) > 1 for tasks in begun.values())
        self.totals["executed twice before anybody was told"] = twice


async def _enough(enough: Callable[[], bool]) -> None:
    """Waits for an event that may not come."""
    try:
        await until(enough, LONG_ENOUGH, every=0.001)
    except TimeoutError:
        return
