"""Real replicas on a real PostgreSQL and a real NATS, with faults between them, and a ledger of everything that
callers were told, outside.

Rules:
1. Every call has an answer within a bound. UNAVAILABLE and a broken connection are answers.
2. Whatever was acknowledged or shown is in the end in the task, in the same order and once.
3. Every task comes to its end.
4. A message without an answer is sent again, at any replica: it leads to one task.
5. Every event of a task arrives at its webhook, in the same order.
6. A run has one kind of fault many times, or any of them by chance. The callers are ours and the official ones.
"""

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
from tests.cluster.proxy import KINDS, LEASE, Proxy, Repeated, healthy, stop_inside
from tests.durability.callers import Caller, callers, lost
from tests.durability.serving import Served, Stage
from tests.durability.webhook import Hook, hook
from tests.nats import Nats
from tests.postgres import Postgres

T = TypeVar("T")

#: seconds in which a call has an answer, and in which everything ends after the last fault
BOUND, REST = 60.0, 90.0
PIECES = 60
#: how the texts of UNAVAILABLE end
_PASSING = ("try again", "cannot be reached", "did not answer in time")


class Place:
    """A replica with its links."""

    def __init__(self, database: Proxy, bus: Proxy) -> None:
        self.database, self.bus = database, bus
        self.served: Served | None = None
        self.callers: list[Caller] = []
        self.stack = AsyncExitStack()


class Machines:
    """Three replicas, and what callers were told."""

    def __init__(self, seed: int, folder: Path, postgres: Postgres, nats: Nats, url: str) -> None:
        self.chance = random.Random(seed)
        self.faults = 0
        self.wrong: list[str] = []
        #: unary calls, those of them that have to be repeated, and streams that broke
        self.calls = self.lost = self.broken = 0
        #: replicas that stopped inside a transaction
        self.inside = 0
        #: seconds of the longest call
        self.longest = 0.0
        self.places: list[Place] = []
        #: clients of processes that have ended, until the end: a client of gRPC that is closed cancels streams
        #: whose readers have not yet seen that they are broken
        self._former = AsyncExitStack()
        #: where the events of each task are posted
        self.hook = Hook()
        #: acknowledged tasks, and the pieces that each reader was shown
        self.tasks: dict[str, str] = {}
        self.shown: dict[str, int] = {}
        self._folder, self._postgres, self._nats = folder, postgres, nats
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
            async with hook() as self.hook:
                await asyncio.gather(*map(self._start, self.places))
                yield
        finally:
            await self._former.aclose()
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
            "--push-allow",
            "127.0.0.1",
        )
        variables = {"TRIALS_JOURNAL": str(self._folder / "journal"), "TRIALS_PACE": "0.1"}
        stage = Stage(url.render_as_string(hide_password=False), flags, variables)
        place.served = await place.stack.enter_async_context(stage.serving())
        place.callers = await place.stack.enter_async_context(callers(place.served))

    # ------------------------------------------------------------------ work

    async def work(self, faults: Awaitable[None]) -> None:
        """Callers, and faults as long as there are some; then everything has to end."""
        readers = [asyncio.create_task(self._reads()) for _ in range(6)]
        writers = [asyncio.create_task(self._writes()) for _ in range(2)]
        await faults
        self._working = False
        await asyncio.gather(*writers, *readers)
        await self._compare()
        await self._compare_posted()
        await self._count()

    async def any_faults(self, seconds: float) -> None:
        chance, until = self.chance, time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(chance.uniform(0.5, 2.0))
            await self._fault(
                chance.choice(KINDS), chance.choice(self.places), chance.choice((0.5, 2.0, 6.0))
            )

    async def repeated(self, one: Repeated) -> None:
        for number in range(one.times):
            await asyncio.sleep(1.0)
            await self._fault(one.kind, self.places[number % len(self.places)], one.seconds)
            await asyncio.sleep(one.pause)

    async def _answered(self, what: str, work: Awaitable[T]) -> T | None:
        """The answer; None for an error that a caller has to expect."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(BOUND):
                return await work
        except TimeoutError:
            self.wrong.append(f"{what} has no answer in {BOUND:.0f} s")
        except A2AError as error:
            ended = (Reason.TASK_NOT_CANCELABLE, Reason.UNSUPPORTED_OPERATION)
            self.lost += _passing(error)
            if error.reason not in ended and not _passing(error):
                self.wrong.append(f"{what}: {error!r}")
        finally:
            self.calls += 1
            self.longest = max(self.longest, time.monotonic() - began)
        return None

    async def _sent(self, text: str, message_id: str) -> hub.SendMessageResponse | None:
        """Sends a message until it has an answer. None if it gets none, which is wrong."""
        until = time.monotonic() + BOUND + REST
        while time.monotonic() < until:
            sending = self._caller().send(text, message_id, immediately=True, webhook=self.hook.url)
            if (answer := await self._answered("a message", sending)) is not None:
                return answer
            await asyncio.sleep(0.3)
        self.wrong.append(f"message {message_id} has no task")
        return None

    def _caller(self, *, numbers: bool = False) -> Caller:
        """A client of any replica. numbers: one that sees the numbers of events."""
        every = (one for place in self.places for one in place.callers)
        return self.chance.choice([one for one in every if one.numbers or not numbers])

    async def _writes(self) -> None:
        while self._working:
            mark = uuid4().hex
            made = await self._sent(f"steady {PIECES} {mark}", mark)
            if made is not None:
                self.tasks[made.task.id] = mark
            hanging = await self._sent(f"hang {uuid4().hex}", uuid4().hex)
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
            follow = self.chance.choice((self._follow, self._watch))
            await follow(task_id, time.monotonic() + BOUND + REST)

    async def _follow(self, task_id: str, until: float) -> None:
        """Reads a task to its end, at one replica after another."""
        mark, after = self.tasks[task_id], 1
        pieces = 0
        while time.monotonic() < until:
            try:
                async with (
                    asyncio.timeout(BOUND),
                    aclosing(self._caller(numbers=True).subscribe(task_id, after)) as events,
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
                self.broken += 1
                if not _passing(error):
                    self.wrong.append(f"a stream of {task_id}: {error!r}")
                await asyncio.sleep(0.3)
        self.wrong.append(f"{task_id} was not read to its end")

    async def _watch(self, task_id: str, until: float) -> None:
        """Reads a task to its end as a client does that cannot resume: with a snapshot each time."""
        before = 0
        while time.monotonic() < until:
            caller, pieces, snapshots = self._caller(), 0, 0
            try:
                async with asyncio.timeout(BOUND), aclosing(caller.subscribe(task_id)) as events:
                    async for one in events:
                        if one.event.HasField("task"):
                            pieces, snapshots = 0, snapshots + 1
                        shown = [*one.event.task.artifacts, one.event.artifact_update.artifact]
                        texts = [part.text for artifact in shown for part in artifact.parts]
                        expected = range(pieces, pieces + len(texts))
                        pieces += len(texts)
                        if (
                            texts != [f"{self.tasks[task_id]}:{number}." for number in expected]
                            or pieces < before
                        ):
                            text = f"{texts} of {task_id} at {expected} after {before}, snapshot {snapshots}"
                            self.wrong.append(f"{caller.name} showed {text}")
                        before = pieces
                        self.shown[task_id] = max(pieces, self.shown.get(task_id, 0))
            except TimeoutError:
                self.wrong.append(f"a stream of {task_id} says nothing for {BOUND:.0f} s")
                return
            except A2AError as error:
                if error.reason is Reason.UNSUPPORTED_OPERATION:
                    return  # it has ended
                self.broken += 1
                if not _passing(error):
                    self.wrong.append(f"a stream of {task_id}: {error!r}")
                await asyncio.sleep(0.3)
            if snapshots > 1:
                self.wrong.append(
                    f"{caller.name} got {snapshots} snapshots of {task_id}: a gap, and nothing is lost"
                )
        self.wrong.append(f"{task_id} was not watched to its end")

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

    async def _compare_posted(self) -> None:
        until = time.monotonic() + REST
        for task_id, mark in self.tasks.items():
            posted = self.hook.posted[task_id]
            while not posted or posted[-1].status_update.status.state != hub.TASK_STATE_COMPLETED:
                if time.monotonic() > until:
                    self.wrong.append(f"the end of {task_id} was not posted after {len(posted)} events")
                    break
                await asyncio.sleep(0.1)
            else:
                texts = [part.text for event in posted for part in event.artifact_update.artifact.parts]
                if texts != [f"{mark}:{number}." for number in range(PIECES)]:
                    self.wrong.append(f"of {task_id} these pieces were posted: {texts}")

    async def _count(self) -> None:
        """Each message has one task."""
        seen: dict[str, str] = {}
        token = ""
        while True:
            asked = hub.ListTasksRequest(page_size=100, page_token=token)
            page = await self._answered("a list", self._caller(numbers=True).client.list_tasks(asked))
            if page is None:
                self.wrong.append("tasks cannot be listed")
                return
            for task in page.tasks:
                first = seen.setdefault(task.history[0].message_id, task.id)
                if first != task.id:
                    self.wrong.append(f"{first} and {task.id} are tasks of one message")
            token = page.next_page_token
            if not token:
                break
        if not self.tasks.keys() <= set(seen.values()):
            self.wrong.append("the list lacks tasks")

    # ------------------------------------------------------------------ faults

    async def _fault(self, kind: str, place: Place, seconds: float) -> None:
        link = self.chance.choice((place.bus, place.bus, place.database))
        self.faults += 1
        if kind in ("cut", "hole"):
            link.cut() if kind == "cut" else link.hole()
            await asyncio.sleep(seconds)
            link.mend()
        elif kind == "slow":
            link.delay = 0.2
            await asyncio.sleep(seconds)
            link.mend()
        elif kind in ("lonely", "far"):
            for one in (place.bus, place.database):
                if kind == "lonely":
                    one.hole()
                else:
                    one.delay = 0.2
            await asyncio.sleep(seconds)
            place.bus.mend()
            place.database.mend()
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
        elif kind in ("suspended", "vanished"):
            await self._stop_inside(place, kind, seconds)
        elif place.served is not None:
            await self._hurt(place, kind, seconds)

    async def _stop_inside(self, place: Place, kind: str, seconds: float) -> None:
        """Stops a replica, or its connection to the database, inside a transaction."""
        process: Any = place.served and place.served.process
        others = [one for each in self.places if each is not place for one in each.callers]
        if process is None or not others:
            return

        def stop() -> None:
            process.send_signal(signal.SIGSTOP) if kind == "suspended" else place.database.hole()

        def go_on() -> None:
            # What the proxy has kept back for a moment is not lost.
            process.send_signal(signal.SIGCONT) if kind == "suspended" else place.database.passes.set()

        async def send() -> None:
            await self.chance.choice(others).send(f"steady 1 {uuid4().hex}", uuid4().hex, immediately=True)

        url = self._url.render_as_string(hide_password=False)
        try:
            self.inside += await stop_inside(url, stop, go_on, self.chance)
            self.wrong += await healthy(url, seconds, send, len(self.places))
        finally:
            process.send_signal(signal.SIGCONT)
            place.database.mend()

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
            place.callers = []  # as a load balancer does before
            await served.stop()
        place.callers = []
        await self._former.enter_async_context(place.stack.pop_all())
        await self._start(place)


def _passing(error: A2AError) -> bool:
    """True for UNAVAILABLE and a broken connection. The official client has no UNAVAILABLE on some bindings."""
    return lost(error) or (error.reason is Reason.INTERNAL_ERROR and error.message.endswith(_PASSING))
