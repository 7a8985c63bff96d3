"""One simulated schedule of replicas, callers and faults: every answer comes in bounded time, and is true."""

import asyncio
import logging
import random
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import AT_REST, RUNNING, state_of
from a2a_bridge.core.resume import number_of
from a2a_bridge.hosting import engine, limits, push_configs, replicas, sending
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cluster.replica import DIRECT, Replica, Tables
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
        self.replicas: list[Replica] = []
        self._stopping: list[Replica] = []
        self._calls: list[asyncio.Task[None]] = []
        #: the calls of each process
        self._under_way: dict[Owner, set[asyncio.Task[Any]]] = {}
        self._tables = Tables(self.world)
        self._idempotent = self.chance.random() < 0.5
        #: messages that begin a task
        self._firsts: list[str] = []
        #: whether some of them have a push config, and whether callers wait long for a write
        self._pushes, self._patient = seed % 4 == 1, seed % 8 in (5, 6)
        #: whether a group of writes has locks between two statements
        self._transactions = seed % 16 in (1, 6, 15)
        #: how callers use tasks. Not all seeds, so that those of earlier faults have the same schedules
        self._kinds = [*_KINDS, *(_READS if seed % 16 in (0, 4, 9, 10, 14, 15) else ())]
        #: the direct answers to them
        self._replies: dict[str, str] = {}

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
            await self._join(f"r{number}", polls)
        for _ in range(3):
            self._new_task()
        began = loop.time()
        while loop.time() - began < TROUBLE:
            await asyncio.sleep(chance.uniform(0.1, 2.5))
            alive = self._alive()
            if alive and chance.random() < 0.75:
                self._call(chance.choice(alive))
            if chance.random() < 0.15:
                self._new_task()
            if chance.random() < 0.5:
                self._fault(polls)
        self._heal()
        await self._rest()

    # ------------------------------------------------------------------ faults

    def _alive(self) -> list[Replica]:
        """The replicas that take calls."""
        ready = [one for one in self.replicas if one.service is not None and one not in self._stopping]
        return [one for one in ready if not one.owner.killed and not one.owner.frozen]

    async def _join(self, name: str, polls: bool) -> None:
        while any(one.owner.name == name for one in self.replicas):
            name += "'"
        how = {"idempotent": self._idempotent, "patient": self._patient, "transactions": self._transactions}
        one = Replica(self.world, name, self._tables, polls=polls, **how)
        self.replicas.append(one)
        await self.loop.spawn(one.owner, one.start())

    async def _restart(self, one: Replica, polls: bool) -> None:
        await self._bounded(one, "the stop", one.stop())
        await self._join(f"{one.owner.name}'", polls)
        # Forwarded calls have answers of their own.
        if left := self._under_way[one.owner]:
            await asyncio.wait(left)
        one.owner.killed = True
        self.loop.freeze(one.owner)

    def _fault(self, polls: bool) -> None:
        others = self._alive()
        if len(others) > 1 and self.chance.random() < 0.1:
            self.outcome.faults += 1
            self._stopping.append(self.chance.choice(others))
            self._calls.append(self.loop.create_task(self._restart(self._stopping[-1], polls)))
        else:
            self._hurt(polls)

    def _hurt(self, polls: bool) -> None:
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
        elif (
            sum(not each.owner.killed and each not in self._stopping for each in self.replicas) > 1
            and not one.owner.frozen
        ):
            one.owner.killed = True
            loop.freeze(one.owner)
            if chance.random() < 0.7:
                self.loop.create_task(self._join(f"{one.owner.name}'", polls))

    def _mend(self, link: Any) -> None:
        if link.state != UP:
            link.state = UP
            for bus in self.world.buses:
                if bus.link is link:
                    bus.broken()

    def _go_on(self, one: Replica) -> None:
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
        while self.loop.time() < until and not self._quiet():  # noqa: ASYNC110  the clock is virtual
            await asyncio.sleep(1.0)
        self._check_end()

    def _quiet(self) -> bool:
        """True if nothing happens any more."""
        busy = any(any(one.left().values()) for one in self._alive())
        return not busy and all(map(_settled, self.world.database.tasks.values()))

    def _check_end(self) -> None:
        """Checks what the database has in the end."""
        rows = self.world.database.tasks.values()
        for row in rows:
            if not _settled(row):
                self.outcome.wrong.append(f"{row.id} never ends; {row.holder} holds it")
            if len(set(row.history)) != len(row.history):
                self.outcome.wrong.append(f"{row.id} got a message twice: {row.history}")
        for one in self._alive():
            if any(one.left().values()):
                self.outcome.wrong.append(f"{one.owner.name} still has {one.left()}")
        for first in self._firsts:
            found = [row.id for row in rows if first in row.history]
            if len(found) > 1:
                self.outcome.wrong.append(f"{first} has tasks {found}")

    # ------------------------------------------------------------------ callers

    def _new_task(self) -> None:
        number = len(self._firsts)
        self._firsts.append(f"f{number}")
        for _ in range(2 if self._idempotent and number % 3 == 0 else 1):
            self._calls.append(self.loop.create_task(self._begin(self._firsts[-1])))

    def _call(self, one: Replica) -> None:
        rows = list(self.world.database.tasks)
        if rows:
            kind = self.chance.choice(self._kinds)
            self.outcome.calls += 1
            work = self._bounded(
                one, kind.__name__, kind(self, one, self.chance.choice(rows), f"m{self.outcome.calls}")
            )
            self._calls.append(self.loop.create_task(work))

    async def _bounded(self, one: Replica, what: str, work: Any) -> bool:
        """True if a call is served. Notes wrong answers."""
        task = self.loop.spawn(one.owner, work)
        under_way = self._under_way.setdefault(one.owner, set())
        under_way.add(task)
        task.add_done_callback(under_way.discard)
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
                self._check_error(error, what)
            else:
                self.outcome.wrong.append(f"{what}: {error!r}")
        else:
            self.outcome.served += 1
            return True
        return False

    def _check_error(self, error: A2AError, what: str) -> None:
        says_when = error.retry_after is not None or "stopped" in error.message
        known = error.reason is Reason.UNAVAILABLE and says_when
        task_id = error.metadata.get("taskId", "")
        ended = error.reason in (Reason.TASK_NOT_CANCELABLE, Reason.UNSUPPORTED_OPERATION)
        if not known and not (ended and self.world.database.tasks[task_id].ended):
            self.outcome.wrong.append(f"{what} got {error!r}")

    async def _begin(self, message_id: str) -> None:
        """Sends a message that begins a task."""
        immediately = self.chance.random() < 0.5
        until = self.loop.time() + REST
        while self.loop.time() < until:
            alive = self._alive()
            if alive:
                one = self.chance.choice(alive)
                if await self._bounded(one, "a first message", self._first(one, message_id, immediately)):
                    return
            if not self._idempotent:
                return
            await asyncio.sleep(self.chance.uniform(0.1, 2.0))
        # The one that has the message may be the only one that was not asked, and its bus may be gone for good.
        for one in self._alive():
            if await self._bounded(one, "a first message", self._first(one, message_id, immediately)):
                return
        self.outcome.wrong.append(f"{message_id} was never answered")

    async def _first(self, one: Replica, message_id: str, immediately: bool) -> None:
        request = _message("", message_id, immediately)
        number = int(message_id[1:])
        pushes, direct = self._pushes and number % 2 == 1, number % 4 == 3
        if pushes:
            request.configuration.task_push_notification_config.url = "https://receiver.example/"
        if direct:
            request.message.parts[0].text = DIRECT + request.message.parts[0].text
        answer = await one.service.unary(Call(ops.SEND_MESSAGE, request, CallContext()))
        if direct:
            text = answer.message.parts[0].text
            if self._idempotent and self._replies.setdefault(message_id, text) != text:
                self.outcome.wrong.append(f"{message_id} has answers {text} and {self._replies[message_id]}")
            return
        self._check_taken(answer.task, message_id)
        if pushes and answer.task.id not in self._tables.pushing:
            self.outcome.wrong.append(f"{answer.task.id} lacks its push config")
        if not immediately:
            self._check_state(answer.task)

    async def _send(self, one: Replica, task_id: str, message_id: str) -> None:
        answer = await one.service.unary(
            Call(ops.SEND_MESSAGE, _message(task_id, message_id, True), CallContext())
        )
        self._check_taken(answer.task, message_id)

    async def _send_and_wait(self, one: Replica, task_id: str, message_id: str) -> None:
        answer = await one.service.unary(
            Call(ops.SEND_MESSAGE, _message(task_id, message_id, False), CallContext())
        )
        self._check_taken(answer.task, message_id)
        self._check_state(answer.task)

    async def _cancel(self, one: Replica, task_id: str, _: str) -> None:
        task = await one.service.unary(
            Call(ops.CANCEL_TASK, hub.CancelTaskRequest(id=task_id), CallContext())
        )
        if task.status.state != hub.TASK_STATE_CANCELED:
            self.outcome.wrong.append(f"{task_id} was not canceled")
        self._check_state(task)

    async def _follow(self, one: Replica, task_id: str, _: str) -> None:
        context = CallContext(parameters={LAST_EVENT_PARAMETER: "1"})
        call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=task_id), context)
        await self._read(one, call, task_id)

    async def _watch(self, one: Replica, task_id: str, _: str) -> None:
        call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=task_id), CallContext())
        self._check_task(await self._read(one, call, task_id))

    async def _list(self, one: Replica, _: str, __: str) -> None:
        """Reads all pages: tasks that were not changed meanwhile are in them, once."""
        rows = self.world.database.tasks
        before = {task_id: row.version for task_id, row in rows.items()}
        seen: list[str] = []
        request = hub.ListTasksRequest(page_size=2, include_artifacts=True)
        while True:
            page = await one.service.unary(Call(ops.LIST_TASKS, request, CallContext()))
            for task in page.tasks:
                self._check_task(task)
            seen += [task.id for task in page.tasks]
            request.page_token = page.next_page_token
            if not request.page_token:
                break
        steady = [task_id for task_id, version in before.items() if rows[task_id].version == version]
        if wrong := {task_id: seen.count(task_id) for task_id in steady if seen.count(task_id) != 1}:
            self.outcome.wrong.append(f"a list had tasks so many times: {wrong}")

    async def _send_stream(self, one: Replica, task_id: str, message_id: str) -> None:
        call = Call(ops.SEND_STREAMING_MESSAGE, _message(task_id, message_id, False), CallContext())
        first = await self._read(one, call, task_id)
        self._check_taken(first, message_id)

    async def _get(self, one: Replica, task_id: str, _: str) -> None:
        task = await one.service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id=task_id), CallContext()))
        self._check_task(task)

    def _check_task(self, task: hub.Task) -> None:
        self._check_state(task)
        row = self.world.database.tasks[task.id]
        shown = [part.text for artifact in task.artifacts for part in artifact.parts]
        stored = [part.text for event in row.events for part in event.artifact_update.artifact.parts]
        if shown != stored[: len(shown)]:
            self.outcome.wrong.append(f"{task.id} showed {shown} of {stored}")

    async def _repeat(self, one: Replica, task_id: str, message_id: str) -> None:
        """Sends the same message at two replicas at once."""
        if not self._idempotent:
            return
        for other in (one, self.chance.choice(self._alive() or [one])):
            work = self._bounded(other, "a copy", self._send_and_wait(other, task_id, message_id))
            self._calls.append(self.loop.create_task(work))

    async def _read(self, one: Replica, call: Any, task_id: str) -> hub.Task:
        """Reads a stream to its end: no event is missing, doubled or another one than in the log."""
        first: hub.Task | None = None
        last, number = hub.StreamResponse(), 0
        async with aclosing(one.service.stream(call)) as events:
            async for event in events:
                log = self.world.database.tasks[task_id].events
                found = number_of(event.id)
                if first is None:
                    first = event.message.task
                    if call.operation is ops.SUBSCRIBE_TO_TASK and first.status.state in AT_REST:
                        return first  # nothing may follow
                elif found != number + 1 or found > len(log) or log[found - 1] != event.message:
                    self.outcome.wrong.append(f"{task_id} gave event {found} after {number}")
                last, number = event.message, found or 0
        if state_of(last) not in AT_REST:
            self.outcome.wrong.append(f"the stream of {task_id} ended with event {number}")
        assert first is not None
        return first

    def _check_taken(self, task: hub.Task, message_id: str) -> None:
        if message_id not in self.world.database.tasks[task.id].history:
            self.outcome.wrong.append(f"{task.id} did not get {message_id}, although it was answered so")

    def _check_state(self, task: hub.Task) -> None:
        # A later message may have changed it since.
        if not any(state_of(one) == task.status.state for one in self.world.database.tasks[task.id].events):
            self.outcome.wrong.append(f"{task.id} was never in the state of the answer")


#: what callers do with a task
_KINDS = (
    Schedule._send,
    Schedule._send_and_wait,
    Schedule._cancel,
    Schedule._follow,
    Schedule._follow,
    Schedule._send_stream,
    Schedule._get,
    Schedule._repeat,
)
_READS = (Schedule._watch, Schedule._list)


def _settled(row: Row) -> bool:
    """True if nothing has to happen with a task any more."""
    return row.state not in RUNNING and not row.holder


def _message(task_id: str, message_id: str, immediately: bool) -> hub.SendMessageRequest:
    request = hub.SendMessageRequest()
    request.message.task_id, request.message.message_id = task_id, message_id
    request.message.role = hub.ROLE_USER
    # Every other one travels in parts.
    request.message.parts.add().text = "x" * (500 if int(message_id[1:]) % 2 else 5)
    request.configuration.return_immediately = immediately
    return request


@contextmanager
def _seeded(schedule: Schedule) -> Iterator[None]:
    """Everything random comes from the seed, and no time from a real clock."""
    chance = schedule.chance

    def new_id() -> str:
        return f"{chance.getrandbits(64):016x}"

    def two_ids() -> tuple[str, str]:
        return new_id(), new_id()

    with (
        mock.patch.object(engine, "two_ids", two_ids),
        mock.patch.object(sending, "two_ids", two_ids),
        mock.patch.object(sending, "new_id", new_id),
        mock.patch.object(push_configs, "new_id", new_id),
        mock.patch.object(replicas, "randrange", chance.randrange),
        mock.patch.object(limits, "monotonic", schedule.loop.time),
    ):
        yield


def run(seed: int) -> Outcome:
    """Runs the schedule of a seed, without the log lines of its faults."""
    log = logging.getLogger("a2a_bridge")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        schedule = Schedule(seed)
        with _seeded(schedule):
            return schedule.run()
    finally:
        log.setLevel(before)  # other tests in this process read them
