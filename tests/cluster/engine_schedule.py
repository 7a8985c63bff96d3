"""Schedules of faults for replicas with the real engine: see `engine_replica`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import state_of
from a2a_bridge.hosting import engine, idempotency, recovery, sending
from a2a_bridge.hosting.views import AT_REST
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cluster.engine_replica import EngineReplica, Tables
from tests.cluster.schedule import REST, Outcome, Schedule, message
from tests.cluster.world import Row

_RUNNING = (hub.TASK_STATE_SUBMITTED, hub.TASK_STATE_WORKING)


class EngineSchedule(Schedule):
    """Replicas are also restarted. Callers also send messages again until they have an answer, if the engine
    expects that.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._tables = Tables(self.world)
        self._idempotent = self.chance.random() < 0.5
        #: messages that begin a task
        self._firsts: list[str] = []
        self._stopping: list[Any] = []

    def make(self, name: str, polls: bool) -> Any:
        return EngineReplica(self.world, name, self._tables, polls=polls, idempotent=self._idempotent)

    def alive(self) -> list[Any]:
        ready = [one for one in super().alive() if one.service is not None]
        return [one for one in ready if one not in self._stopping]

    def kinds(self) -> Sequence[Any]:
        return (*super().kinds(), self._get, self._repeated)

    def fault(self, polls: bool) -> None:
        others = self.alive()
        if len(others) > 1 and self.chance.random() < 0.1:
            self.outcome.faults += 1
            self._stopping.append(self.chance.choice(others))
            self._calls.append(self.loop.create_task(self._restart(self._stopping[-1], polls)))
        else:
            super().fault(polls)

    async def _restart(self, one: Any, polls: bool) -> None:
        await self.bounded(one, "the stop", one.stop())
        await self.join(f"{one.owner.name}'", polls)
        # Forwarded calls have answers of their own.
        if left := self.under_way[one.owner]:
            await asyncio.wait(left)
        one.owner.killed = True
        self.loop.freeze(one.owner)

    async def new_task(self) -> None:
        self._firsts.append(f"f{len(self._firsts)}")
        self._calls.append(self.loop.create_task(self._begin(self._firsts[-1])))

    async def _begin(self, message_id: str) -> None:
        """Sends a message that begins a task."""
        immediately = self.chance.random() < 0.5
        until = self.loop.time() + REST
        while self.loop.time() < until:
            alive = self.alive()
            if alive:
                one = self.chance.choice(alive)
                if await self.bounded(one, "a first message", self._first(one, message_id, immediately)):
                    return
            if not self._idempotent:
                return
            await asyncio.sleep(self.chance.uniform(0.1, 2.0))
        self.outcome.wrong.append(f"{message_id} was never answered")

    async def _first(self, one: Any, message_id: str, immediately: bool) -> None:
        request = message("", message_id, immediately)
        answer = await one.service.unary(Call(ops.SEND_MESSAGE, request, CallContext()))
        self.check_taken(answer.task, message_id)
        if not immediately:
            self.check_state(answer.task)

    async def _get(self, one: Any, task_id: str, _: str) -> None:
        task = await one.service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id=task_id), CallContext()))
        self.check_state(task)
        row = self.world.database.tasks[task_id]
        shown = [one.text for artifact in task.artifacts for one in artifact.parts]
        stored = [part.text for one in row.events for part in one.artifact_update.artifact.parts]
        if shown != stored[: len(shown)]:
            self.outcome.wrong.append(f"{task_id} showed {shown} of {stored}")

    async def _repeated(self, one: Any, task_id: str, message_id: str) -> None:
        """Sends the same message at two replicas at once."""
        if not self._idempotent:
            return
        for other in (one, self.chance.choice(self.alive() or [one])):
            work = self.bounded(other, "a copy", self.send_and_wait(other, task_id, message_id))
            self._calls.append(self.loop.create_task(work))

    def check_error(self, error: A2AError, what: str) -> None:
        if error.reason is not Reason.UNAVAILABLE or "stopped" not in error.message:
            super().check_error(error, what)

    def settled(self, row: Row) -> bool:
        return row.state not in _RUNNING and not row.holder

    def may_end(self, row: Row, number: int, last: hub.StreamResponse) -> bool:
        return state_of(last) in AT_REST

    def check_state(self, task: hub.Task) -> None:
        # A later message may have changed it since.
        if not any(state_of(one) == task.status.state for one in self.world.database.tasks[task.id].events):
            self.outcome.wrong.append(f"{task.id} was never in the state of the answer")

    def check_end(self) -> None:
        super().check_end()
        for first in self._firsts:
            found = [row.id for row in self.world.database.tasks.values() if first in row.history]
            if len(found) > 1:
                self.outcome.wrong.append(f"{first} has tasks {found}")


@contextmanager
def _seeded(schedule: Schedule) -> Iterator[None]:
    """Everything random comes from the seed."""
    chance = schedule.chance

    def new_id() -> str:
        return f"{chance.getrandbits(64):016x}"

    def two_ids() -> tuple[str, str]:
        return new_id(), new_id()

    with (
        mock.patch.object(engine, "two_ids", two_ids),
        mock.patch.object(sending, "two_ids", two_ids),
        mock.patch.object(idempotency, "new_id", new_id),
        mock.patch.object(recovery, "randrange", chance.randrange),
    ):
        yield


def run(seed: int) -> Outcome:
    """Runs the schedule of a seed, without the log lines of its faults."""
    log = logging.getLogger("a2a_bridge")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        schedule = EngineSchedule(seed)
        with _seeded(schedule):
            return schedule.run()
    finally:
        log.setLevel(before)  # other tests in this process read them
