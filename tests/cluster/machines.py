"""Real replicas on a real PostgreSQL and a real NATS, with faults between them, and a ledger of everything that
callers were told, outside.

Rules:
1. Every call has an answer within a bound. UNAVAILABLE and a broken connection are answers.
2. Whatever was acknowledged or shown is in the end in the task, in the same order and once.
3. Every task comes to its end.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy.engine import make_url

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cluster.proxy import Proxy
from tests.durability.callers import Caller, callers, lost
from tests.durability.serving import Served, Stage
from tests.nats import Nats
from tests.postgres import Postgres

T = TypeVar("T")

LEASE = 4
#: seconds in which a call has an answer, and in which everything ends after the last fault
BOUND, REST = 60.0, 90.0
PIECES = 60


class Place:
    """A replica with its links."""

    def __init__(self, database: Proxy, bus: Proxy) -> None:
        self.database = database
        self.bus = bus
        self.served: Served | None = None
        self.callers: list[Caller] = []
        self.stack = AsyncExitStack()


class Machines:
    """Three replicas, and what callers were told."""

    def __init__(self, seed: int, folder: Path, postgres: Postgres, nats: Nats, url: str) -> None:
        self.chance = random.Random(seed)
        self.faults = 0
        self.wrong: list[str] = []
        self.places: list[Place] = []
        #: acknowledged tasks, and the pieces that each reader was shown
        self.tasks: dict[str, str] = {}
        self.shown: dict[str, int] = {}
        self._folder = folder
        self._postgres = postgres
        self._nats = nats
        self._url = make_url(url)
        self._working = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        socket = f"{self._url.query['host']}/.s.PGSQL.5432"
        try:
            for _ in range(3):
                database = Proxy(lambda: asyncio.open_unix_connection(socket))
                bus = Proxy(lambda: asyncio.open_connection("127.0.0.1", self._nats.port))
                await database.start()
                await bus.start()
                self.places.append(Place(database, bus))
            await asyncio.gather(*map(self._start, self.places))
            yield
        finally:
            for place in self.places:
                await place.stack.aclose()
                await place.database.close()
                await place.bus.close()

    async def _start(self, place: Place) -> None:
        url = self._url.set(host="127.0.0.1", port=place.database.port, query={})
        flags = (
            "--lease",
            str(LEASE),
            "--cluster",
            f"nats://127.0.0.1:{place.bus.port}",
            "--idempotent-sends",
        )
        variables = {"TRIALS_JOURNAL": str(self._folder / "journal"), "TRIALS_PACE": "0.1"}
        stage = Stage(url.render_as_string(hide_password=False), flags, variables)
        place.served = await place.stack.enter_async_context(stage.serving())
        place.callers = await place.stack.enter_async_context(callers(place.served, official=()))

    # ------------------------------------------------------------------ work

    async def work(self, seconds: float) -> None:
        """Callers and faults for some time; then everything has to end."""
        readers = [asyncio.create_task(self._reads()) for _ in range(6)]
        writers = [asyncio.create_task(self._writes()) for _ in range(2)]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(self.chance.uniform(0.5, 2.0))
            await self._fault()
        self._working = False
        await asyncio.gather(*writers, *readers)
        await self._compare()

    async def _answered(self, what: str, work: Awaitable[T]) -> T | None:
        """The answer; None for an error that a caller has to expect."""
        try:
            async with asyncio.timeout(BOUND):
                return await work
        except TimeoutError:
            self.wrong.append(f"{what} has no answer in {BOUND:.0f} s")
        except A2AError as error:
            ended = (Reason.TASK_NOT_CANCELABLE, Reason.UNSUPPORTED_OPERATION)
            if error.reason not in ended and not lost(error):
                self.wrong.append(f"{what}: {error!r}")
        return None

    def _caller(self) -> Caller:
        return self.chance.choice([one for place in self.places for one in place.callers])

    async def _writes(self) -> None:
        while self._working:
            mark = uuid4().hex
            text = f"steady {PIECES} {mark}"
            made = await self._answered("a message", self._caller().send(text, mark, immediately=True))
            if made is not None:
                self.tasks[made.task.id] = mark
            hanging = await self._answered(
                "a message", self._caller().send(f"hang {uuid4().hex}", uuid4().hex, immediately=True)
            )
            if hanging is not None:
                ended = await self._answered("a cancellation", self._caller().cancel(hanging.task.id))
                if ended is not None and ended.status.state != hub.TASK_STATE_CANCELED:
                    self.wrong.append(f"{hanging.task.id} was canceled and is not")
            await asyncio.sleep(self.chance.uniform(0.2, 1.0))

    async def _reads(self) -> None:
        while self._working:
            if not self.tasks:
                await asyncio.sleep(0.1)
                continue
            task_id = self.chance.choice(list(self.tasks))
            await self._follow(task_id, time.monotonic() + BOUND + REST)

    async def _follow(self, task_id: str, until: float) -> None:
        """Reads a task to its end, at one replica after another."""
        mark, after = self.tasks[task_id], 1
        pieces = 0
        while time.monotonic() < until:
            try:
                async with (
                    asyncio.timeout(BOUND),
                    aclosing(self._caller().subscribe(task_id, after)) as events,
                ):
                    async for one in events:
                        if one.number != after + 1:
                            self.wrong.append(f"{task_id} gave event {one.number} after {after}")
                        after = one.number
                        for part in one.event.artifact_update.artifact.parts:
                            if part.text != f"{mark}:{pieces}.":
                                self.wrong.append(f"{task_id} showed {part.text} as piece {pieces}")
                            pieces += 1
                            self.shown[task_id] = max(pieces, self.shown.get(task_id, 0))
                        if one.event.status_update.status.state == hub.TASK_STATE_COMPLETED:
                            return
                if pieces == PIECES:
                    return
            except TimeoutError:
                self.wrong.append(f"a stream of {task_id} says nothing for {BOUND:.0f} s")
                return
            except A2AError as error:
                if not lost(error):
                    self.wrong.append(f"a stream of {task_id}: {error!r}")
                await asyncio.sleep(0.3)
        self.wrong.append(f"{task_id} was not read to its end")

    async def _compare(self) -> None:
        until = time.monotonic() + REST
        for task_id, mark in self.tasks.items():
            while True:
                task = await self._answered("a read", self._caller().get(task_id))
                if task is not None and task.status.state == hub.TASK_STATE_COMPLETED:
                    texts = [part.text for artifact in task.artifacts for part in artifact.parts]
                    if texts != [f"{mark}:{number}." for number in range(PIECES)]:
                        self.wrong.append(f"{task_id} has other pieces: {len(texts)}")
                    break
                if time.monotonic() > until:
                    self.wrong.append(
                        f"{task_id} does not end; {self.shown.get(task_id, 0)} pieces were shown"
                    )
                    break
                await asyncio.sleep(0.3)

    # ------------------------------------------------------------------ faults

    async def _fault(self) -> None:
        chance = self.chance
        place = chance.choice(self.places)
        seconds = chance.choice((0.5, 2.0, 6.0))
        link = chance.choice((place.bus, place.bus, place.database))
        kind = chance.choice(
            (
                "cut",
                "hole",
                "slow",
                "all buses",
                "nats stopped",
                "nats killed",
                "database",
                "pause",
                "kill",
                "restart",
            )
        )
        self.faults += 1
        if kind in ("cut", "hole"):
            link.cut() if kind == "cut" else link.hole()
            await asyncio.sleep(seconds)
            link.mend()
        elif kind == "slow":
            link.delay = 0.2
            await asyncio.sleep(seconds)
            link.mend()
        elif kind == "all buses":
            for one in self.places:
                one.bus.hole()
            await asyncio.sleep(seconds)
            for one in self.places:
                one.bus.mend()
        elif kind == "nats stopped":
            self._nats.pause()
            await asyncio.sleep(seconds)
            self._nats.go_on()
        elif kind == "nats killed":
            await asyncio.to_thread(self._nats.kill)
            await asyncio.sleep(seconds / 4)
            await asyncio.to_thread(self._nats.start)
        elif kind == "database":
            await asyncio.to_thread(self._postgres.stop)
            await asyncio.sleep(seconds / 4)
            await asyncio.to_thread(self._postgres.start)
        elif place.served is not None:
            await self._hurt(place, kind, seconds)

    async def _hurt(self, place: Place, kind: str, seconds: float) -> None:
        served: Any = place.served
        if kind == "pause":
            served.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            served.process.send_signal(signal.SIGCONT)
            return
        if kind == "kill":
            served.kill()
            await served.ended()
        else:
            await served.stop()
        place.callers = []
        await place.stack.aclose()
        place.stack = AsyncExitStack()
        await self._start(place)
