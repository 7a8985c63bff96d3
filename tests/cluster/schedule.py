"""One simulated schedule: replicas, callers and faults of one seed, and the rule that all answers have to keep.

The rule: every caller gets an answer in bounded time, and it is true.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.resume import number_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cluster.replica import LostError, Replica
from tests.cluster.virtual_loop import Owner, VirtualLoop
from tests.cluster.world import CUT, HOLED, UP, Row, World

#: virtual seconds of faults; of the time after the last one in which everything has to end
TROUBLE, REST = 20.0, 120.0
#: virtual seconds in which a caller has to get an answer, while its own process runs
BOUND = 75.0


@dataclass
class Outcome:
    seed: int
    faults: int = 0
    calls: int = 0
    #: calls that were answered with success
    served: int = 0
    #: what was wrong
    wrong: list[str] = field(default_factory=list)


class Schedule:
    def __init__(self, seed: int, *, bound: float = BOUND) -> None:
        self.chance = random.Random(seed)
        self.loop = VirtualLoop()
        self.world = World(self.loop, self.chance)
        #: buses that fail do so for good: nothing may wait for them
        self.forever = self.chance.random() < 0.15
        self.outcome = Outcome(seed)
        self.bound = bound
        self.replicas: list[Any] = []
        self._calls: list[asyncio.Task[None]] = []
        #: the calls of each process
        self.under_way: dict[Owner, dict[asyncio.Task[Any], str]] = {}
        self._tasks = 0

    def run(self) -> Outcome:
        try:
            self.loop.run_until_complete(self._run())
            self.outcome.wrong += [repr(one.get("exception") or one["message"]) for one in self.loop.problems]
            self.loop.run_until_complete(self._end())
        finally:
            self.loop.close()
        return self.outcome

    async def _end(self) -> None:
        for one in self.replicas:
            self.loop.thaw(one.owner)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        while tasks:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1.0)
            tasks = asyncio.all_tasks() - {asyncio.current_task()}

    async def _run(self) -> None:
        chance, loop = self.chance, self.loop
        polls = chance.random() < 0.3
        for number in range(chance.choice((2, 3, 3))):
            await self.join(f"r{number}", polls)
        for _ in range(3):
            await self.new_task()
        began = loop.time()
        while loop.time() - began < TROUBLE:
            await asyncio.sleep(chance.uniform(0.1, 2.5))
            alive = self.alive()
            if alive and chance.random() < 0.75:
                self._call(chance.choice(alive))
            if chance.random() < 0.15:
                await self.new_task()
            if chance.random() < 0.5:
                self.fault(polls)
        self._heal()
        await self._rest()

    # ------------------------------------------------------------------ faults

    def make(self, name: str, polls: bool) -> Any:
        """A replica."""
        return Replica(self.world, name, polls=polls)

    def alive(self) -> list[Any]:
        """The replicas that take calls."""
        return [one for one in self.replicas if not one.owner.killed and not one.owner.frozen]

    async def join(self, name: str, polls: bool) -> None:
        """A replica comes."""
        while any(one.owner.name == name for one in self.replicas):
            name += "'"
        one = self.make(name, polls)
        self.replicas.append(one)
        await self.loop.spawn(one.owner, one.start())

    async def new_task(self) -> None:
        """A task begins."""
        alive = self.alive()
        if not alive:
            return
        self._tasks += 1
        one = self.chance.choice(alive)

        async def begin() -> None:
            with suppress(A2AError, LostError):
                await one.begin(f"t{self._tasks}")

        task = self.loop.spawn(one.owner, begin())
        await asyncio.wait({task}, timeout=1.0)

    def fault(self, polls: bool) -> None:
        """Any fault."""
        chance, loop = self.chance, self.loop
        self.outcome.faults += 1
        one = chance.choice(self.replicas)
        seconds = chance.choice((0.3, 2.0, 6.0, 12.0))
        kind = chance.choice(
            (
                "database",
                "database",
                "bus",
                "bus",
                "all buses",
                "database of all",
                "slow",
                "loss",
                "pause",
                "kill",
            )
        )
        links = {
            "database": [one.database_link],
            "bus": [one.bus_link],
            "all buses": [each.bus_link for each in self.replicas],
            "database of all": [each.database_link for each in self.replicas],
        }.get(kind)
        if links is not None:
            state = chance.choice((CUT, HOLED))
            for link in links:
                if link.state == UP:
                    link.state, link.since = state, loop.time()
                    if not (self.forever and "bus" in kind):
                        loop.call_later(seconds, self._mend, link)
        elif kind == "slow":
            link = chance.choice((one.database_link, one.bus_link))
            link.delay = chance.choice((0.2, 1.0))
            loop.call_later(seconds, setattr, link, "delay", 0.005)
        elif kind == "loss":
            self.world.loss = chance.choice((0.1, 0.5))
            loop.call_later(seconds, setattr, self.world, "loss", 0.0)
        elif kind == "pause":
            if not one.owner.frozen:
                loop.freeze(one.owner)
                loop.call_later(seconds, self._go_on, one)
        elif sum(not each.owner.killed for each in self.replicas) > 1 and not one.owner.frozen:
            one.owner.killed = True
            loop.freeze(one.owner)
            if chance.random() < 0.7:
                name = f"{one.owner.name}'"
                self.loop.create_task(self.join(name, polls))

    def _mend(self, link: Any) -> None:
        if link.state != UP:
            link.state = UP
            for bus in self.world.buses:
                if bus.link is link:
                    bus.broken()

    def _go_on(self, one: Any) -> None:
        if not one.owner.killed and one.owner.frozen:
            self.loop.thaw(one.owner)

    def _heal(self) -> None:
        self.world.loss = 0.0
        for one in self.replicas:
            for link in (one.database_link, one.bus_link):
                if not (self.forever and link is one.bus_link):
                    self._mend(link)
                link.delay = 0.005
            self._go_on(one)

    async def _rest(self) -> None:
        """Everything comes to an end without faults."""
        waiting = [one for one in self._calls if not one.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=REST)
        until = self.loop.time() + REST
        rows = self.world.database.tasks.values()
        while self.loop.time() < until and not all(map(self.settled, rows)):  # noqa: ASYNC110  the clock is virtual
            await asyncio.sleep(1.0)
        self.check_end()

    def settled(self, row: Row) -> bool:
        """True if nothing has to happen with a task any more."""
        return row.ended

    def may_end(self, row: Row, number: int, _: hub.StreamResponse) -> bool:
        """True if the stream of a task may end with an event of this number."""
        return row.ended and number == len(row.events)

    def check_end(self) -> None:
        """Checks what the database has in the end."""
        for row in self.world.database.tasks.values():
            if not self.settled(row):
                self.outcome.wrong.append(f"{row.id} never ends; {row.holder} holds it")
            if len(set(row.history)) != len(row.history):
                self.outcome.wrong.append(f"{row.id} got a message twice: {row.history}")

    # ------------------------------------------------------------------ callers

    def kinds(self) -> Sequence[Any]:
        """The calls about a task, of (replica, task id, message id)."""
        return (
            self.send,
            self.send_and_wait,
            self._cancel,
            self._follow,
            self._follow,
            self.send_stream,
        )

    def _call(self, one: Any) -> None:
        rows = list(self.world.database.tasks)
        if rows:
            kind = self.chance.choice(self.kinds())
            self.outcome.calls += 1
            work = self.bounded(
                one, kind.__name__, kind(one, self.chance.choice(rows), f"m{self.outcome.calls}")
            )
            self._calls.append(self.loop.create_task(work))

    async def bounded(self, one: Any, what: str, work: Any) -> bool:
        """True if a call is served. What is wrong with its answer is noted."""
        task = self.loop.spawn(one.owner, work)
        under_way = self.under_way.setdefault(one.owner, {})
        under_way[task] = what
        task.add_done_callback(under_way.pop)
        # The error of a caller whose process was killed reaches nobody.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        left = self.bound
        while left > 0 and not task.done():
            await asyncio.wait({task}, timeout=1.0)
            left -= 0.0 if one.owner.frozen else 1.0
            if one.owner.killed:
                return False  # its connection is broken
        if not task.done():
            self.outcome.wrong.append(f"{what} at {one.owner.name} has no answer")
        elif (error := task.exception()) is not None:
            if isinstance(error, A2AError):
                self.check_error(error, what)
            else:
                self.outcome.wrong.append(f"{what}: {error!r}")
        else:
            self.outcome.served += 1
            return True
        return False

    def check_error(self, error: A2AError, what: str) -> None:
        """Notes an error that no caller should get."""
        known = error.reason is Reason.UNAVAILABLE and error.retry_after
        task_id = error.metadata.get("taskId", "")
        ended = error.reason in (Reason.TASK_NOT_CANCELABLE, Reason.UNSUPPORTED_OPERATION)
        if not known and not (ended and self.world.database.tasks[task_id].ended):
            self.outcome.wrong.append(f"{what} got {error!r}")

    async def send(self, one: Any, task_id: str, message_id: str) -> None:
        answer = await one.service.unary(
            Call(ops.SEND_MESSAGE, message(task_id, message_id, True), CallContext())
        )
        self.check_taken(answer.task, message_id)

    async def send_and_wait(self, one: Any, task_id: str, message_id: str) -> None:
        answer = await one.service.unary(
            Call(ops.SEND_MESSAGE, message(task_id, message_id, False), CallContext())
        )
        self.check_taken(answer.task, message_id)
        self.check_state(answer.task)

    async def _cancel(self, one: Any, task_id: str, _: str) -> None:
        task = await one.service.unary(
            Call(ops.CANCEL_TASK, hub.CancelTaskRequest(id=task_id), CallContext())
        )
        if task.status.state != hub.TASK_STATE_CANCELED:
            self.outcome.wrong.append(f"{task_id} was not canceled")
        self.check_state(task)

    async def _follow(self, one: Any, task_id: str, _: str) -> None:
        context = CallContext(parameters={LAST_EVENT_PARAMETER: "1"})
        call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=task_id), context)
        await self._read(one, call, task_id)

    async def send_stream(self, one: Any, task_id: str, message_id: str) -> None:
        call = Call(ops.SEND_STREAMING_MESSAGE, message(task_id, message_id, False), CallContext())
        first = await self._read(one, call, task_id)
        self.check_taken(first, message_id)

    async def _read(self, one: Any, call: Any, task_id: str) -> hub.Task:
        """Reads a stream to its end: no event is missing, doubled or another one than in the log."""
        first: hub.Task | None = None
        last, number = hub.StreamResponse(), 0
        async for event in one.service.stream(call):
            log = self.world.database.tasks[task_id].events
            found = number_of(event.id)
            if first is None:
                first = event.message.task
            elif found != number + 1 or found > len(log) or log[found - 1] != event.message:
                self.outcome.wrong.append(f"{task_id} gave event {found} after {number}")
            last, number = event.message, found or 0
        row = self.world.database.tasks[task_id]
        if not self.may_end(row, number, last):
            self.outcome.wrong.append(f"the stream of {task_id} ended with event {number}")
        assert first is not None
        return first

    def check_taken(self, task: hub.Task, message_id: str) -> None:
        if message_id not in self.world.database.tasks[task.id].history:
            self.outcome.wrong.append(f"{task.id} did not get {message_id}, although it was answered so")

    def check_state(self, task: hub.Task) -> None:
        if self.world.database.tasks[task.id].state != task.status.state:
            self.outcome.wrong.append(f"{task.id} is not in the state of the answer")


def message(task_id: str, message_id: str, immediately: bool) -> hub.SendMessageRequest:
    request = hub.SendMessageRequest()
    request.message.task_id, request.message.message_id = task_id, message_id
    request.message.role = hub.ROLE_USER
    # Every other one travels in parts.
    request.message.parts.add().text = "x" * (500 if int(message_id[1:]) % 2 else 5)
    request.configuration.return_immediately = immediately
    return request


def run(seed: int) -> Outcome:
    """Runs the schedule of a seed, without the log lines of its faults."""
    log = logging.getLogger("a2a_bridge.hosting.cluster")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return Schedule(seed).run()
    finally:
        log.setLevel(before)  # other tests in this process read them
