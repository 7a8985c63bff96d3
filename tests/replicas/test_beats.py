"""Heartbeats: which replicas are alive."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from a2a_bridge.core.errors import Reason
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import VersionConflictError
from a2a_bridge.testing.store_scene import COMPLETED, Author, found
from tests.hosting.scene import IMMEDIATELY, Gate, Talk, request, shapes
from tests.postgres import Postgres
from tests.rejections import rejected
from tests.replicas.conftest import LEASE, PATIENCE, until
from tests.stores.conftest import filled
from tests.stores.impatience import impatient


class Fleet:
    """Replicas of one database, in one process."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url, self._stack = url, stack

    async def join(self, *, lease: float = LEASE) -> tuple[Any, list[str]]:
        """The store of a replica, and what happens to it."""
        store: Any = await self._stack.enter_async_context(open_store(self.url, StoreOptions(lease=lease)))
        happened: list[str] = []
        store._beside.on_death(lambda: happened.append("orphans"))
        let_go = store.let_go

        def lost() -> None:
            happened.append("lost")
            let_go()

        store.let_go = lost
        return store, happened


@asynccontextmanager
async def fleet_on(url: str) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        yield Fleet(url, stack)


@pytest.fixture
async def fleet(postgres_url: str) -> AsyncIterator[Fleet]:
    async with fleet_on(postgres_url) as fleet:
        yield fleet


def _alive(url: str) -> set[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return {name for (name,) in connection.execute("SELECT id FROM replicas")}


async def test_a_replica_is_there_once_it_has_joined_and_gone_once_it_has_left(fleet: Fleet) -> None:
    one, happened = await fleet.join()
    me = one._beside.me
    assert _alive(fleet.url) == {me}
    async with fleet_on(fleet.url) as others:
        two, _ = await others.join()
        assert _alive(fleet.url) == {me, two._beside.me}
        await until(lambda: not one._beside._directory.alone)
        before = len(happened)
    assert _alive(fleet.url) == {me}
    await until(lambda: len(happened) > before)


async def test_one_that_no_longer_beats_is_declared_dead_by_the_others(fleet: Fleet) -> None:
    one, happened = await fleet.join()
    two, _ = await fleet.join()
    await until(lambda: not one._beside._directory.alone)
    before = len(happened)
    two._beside._living.cancel()
    await until(lambda: _alive(fleet.url) == {one._beside.me})
    await until(lambda: len(happened) > before)


async def test_a_replica_declared_dead_releases_its_tasks_and_continues_under_a_new_name(
    fleet: Fleet,
) -> None:
    one, happened = await fleet.join()
    before = one._beside.me
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute("DELETE FROM replicas")
    await until(lambda: "lost" in happened)
    assert one._beside.me != before
    assert _alive(fleet.url) == {one._beside.me}


async def test_one_that_was_declared_dead_begins_with_no_task_under_its_old_name(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    one._beside._living.cancel()  # so it does not learn of it
    await Author(one).begin("t").release()
    author = await Author(one).begin("u").sync()
    await Author(one).begin("v").release()
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute("DELETE FROM replicas")
        with pytest.raises(VersionConflictError):
            await Author(one).reopen("t")
        for end in (False, True):
            late = Author(one).begin(f"late {end}")
            if end:
                late.status(COMPLETED)
            with pytest.raises(VersionConflictError):
                await late.sync()
            assert (late.lost, late.writer.last) == (1, 0)  # of the events that are stored
        # It keeps its leases until another replica takes the tasks over, and may release them.
        author.chunk("more")
        await author.release()
        ((holder, version),) = connection.execute("SELECT holder, version FROM tasks WHERE id = 't'")
        assert (holder, version) == ("", (await found(one, "t")).version)
        assert connection.execute("SELECT id FROM tasks WHERE id LIKE 'late%'").fetchall() == []
        connection.execute("INSERT INTO replicas (id, beat) VALUES (%s, 0)", [one._beside.me])
    await (await Author(one).reopen("v")).release()
    assert author.lost == 0


async def test_an_unexpected_error_does_not_end_the_heartbeat(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = await fleet.join()
    membership = one._beside._membership
    with monkeypatch.context() as patch:

        async def fails() -> None:
            raise ValueError("surprise")

        patch.setattr(membership, "beat", fails)
        await until(lambda: "cannot send its heartbeat: surprise" in caplog.text)
    assert "Traceback" in caplog.text
    (before,) = _beats(fleet.url)
    await until(lambda: _beats(fleet.url)[0] > before)


async def test_a_busy_loop_is_not_death(fleet: Fleet) -> None:
    one, _ = await fleet.join()
    before = one._beside.me
    watching, dead = threading.Event(), threading.Event()

    async def watch() -> None:
        async with fleet_on(fleet.url) as others:
            two, happened = await others.join()
            await until(lambda: not two._beside._directory.alone)
            first = len(happened)
            watching.set()
            with psycopg.connect(fleet.url, autocommit=True) as connection:
                ((beat,),) = connection.execute("SELECT beat FROM replicas WHERE id = %s", [before])
                # More than a lease.
                await until(
                    lambda: (
                        connection.execute(
                            "SELECT 1 FROM replicas WHERE id = %s AND beat < %s", [before, beat + 8]
                        ).fetchone()
                        is None
                    )
                )
            if len(happened) > first:
                dead.set()

    watcher = threading.Thread(target=asyncio.run, args=(watch(),))
    watcher.start()
    watcher.join(PATIENCE)  # which keeps the loop of `one` from doing anything
    assert watching.is_set()
    assert not dead.is_set()
    assert _alive(fleet.url) == {before} == {one._beside.me}


async def test_an_outage_of_the_database_declares_no_replica_dead(
    own_postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    url = own_postgres.create()
    filled(url)
    async with fleet_on(url) as fleet:
        one, happened = await fleet.join()
        two, other = await fleet.join()
        names = {one._beside.me, two._beside.me}
        await asyncio.to_thread(own_postgres.stop)
        # So it was away for longer than the lease.
        await until(lambda: caplog.text.count("may have declared this one dead") == 2)
        await asyncio.to_thread(own_postgres.start)
        # Both beat again, each seen by the other for more than a lease.
        await until(lambda: min(_beats(url)) >= 12)
        assert _alive(url) == names
        assert "lost" not in happened + other
        await until(lambda: one.rejection() is None and two.rejection() is None)


def _beats(url: str) -> list[int]:
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            return [beat for (beat,) in connection.execute("SELECT beat FROM replicas")]
    except psycopg.OperationalError:
        return [0]


# --- A replica that loses its database while another one keeps it, and returns after it was declared dead ---
class Relay:
    """Passes connections to the socket of a server. `cut` breaks them and rejects further ones until `mend`."""

    def __init__(self, path: Path, target: str) -> None:
        self._path, self._target = path, target
        self._server: asyncio.Server | None = None
        self._relaying: set[asyncio.Task[None]] = set()

    async def mend(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._path)

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
            for one in self._relaying:
                one.cancel()
            await asyncio.gather(*self._relaying, return_exceptions=True)
            self._server = None

    async def _accept(self, near: asyncio.StreamReader, near_writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relaying.add(task)
        writers = [near_writer]
        try:
            far, far_writer = await asyncio.open_unix_connection(self._target)
            writers.append(far_writer)
            await asyncio.gather(_copy(near, far_writer), _copy(far, near_writer))
        except (OSError, asyncio.CancelledError):
            pass  # broken by one side, or by `cut`
        finally:
            self._relaying.discard(task)
            for writer in writers:
                writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[str, Relay]]:
    """The address of a database behind a relay."""
    there = make_url(url)
    name = ".s.PGSQL.5432"
    with TemporaryDirectory(prefix="a2a-relay-") as folder:
        relay = Relay(Path(folder) / name, f"{there.query['host']}/{name}")
        await relay.mend()
        try:
            yield there.update_query_dict({"host": folder}).render_as_string(hide_password=False), relay
        finally:
            await relay.cut()


class Counting:
    """Works in steps; a run that resumes the work of another one completes it at once."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        await self.gate.wait()
        yield run.artifact("never durable", artifact_id="a")
        yield run.status("completed")

    async def resume(self, run: Run) -> AsyncIterator[Any]:
        yield run.artifact("resumed", artifact_id="b")
        yield run.status("completed")


@pytest.mark.parametrize("ended", [True, False], ids=["its run has ended", "its run goes on"])
async def test_a_replica_that_comes_back_answers_its_callers(
    postgres_url: str, caplog: pytest.LogCaptureFixture, ended: bool
) -> None:
    options = StoreOptions(lease=LEASE, ack_timeout=PATIENCE)
    counting = Counting()
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    async with (
        relayed(postgres_url) as (url, relay),
        open_store(url, options) as cut_off,
        open_store(postgres_url, options) as connected,
        asyncio.timeout(PATIENCE),
    ):
        one = Talk(Agent(counting, name="counting"), store=cut_off)
        two = Talk(Agent(Counting(), name="counting"), store=connected)
        await one.engine.start()
        name = cut_off._beside.me
        await two.engine.start()
        # Not `Talk.send`, whose time limit is shorter.
        waiting = asyncio.create_task(one.client.send_message(request("go")))
        await counting.gate.reached()
        (task,) = [execution.live.task for execution in one.engine._runs]
        await one.get(task.id)
        streams = [asyncio.create_task(_all(one.client, task.id)) for _ in range(2)]
        # Both have read what the database has, and wait for more.
        await _until(lambda: _waiting(one) == 2)
        await relay.cut()
        if ended:
            counting.gate.open()
        await _completed(two, task.id)
        await relay.mend()
        for stream in streams:
            assert (await stream)[-2:] == ["resumed", COMPLETED]
        assert (await waiting).task.status.state == COMPLETED
        await _until(lambda: one.store.rejection() is None and cut_off._beside.me != name)
        again = await one.send("more", configuration=IMMEDIATELY)
        assert again.id != task.id
        await one.close()
        await two.close()
    assert problems == []
    assert not [one for one in caplog.records if one.exc_info or one.levelno > logging.ERROR]


async def _all(client: Any, task_id: str) -> list[Any]:
    events = client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id))
    return shapes([getattr(one, one.WhichOneof("payload")) async for one in events])


def _waiting(talk: Talk) -> int:
    store: Any = talk.store
    return sum(len(log.readers_waiting or ()) for log in store._logs._logs.values())


async def _completed(talk: Talk, task_id: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await talk.get(task_id)).status.state != COMPLETED:  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0.02)


async def _until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  there is no notification
            await asyncio.sleep(0.01)


async def test_readers_of_a_replica_without_its_database_end(postgres_url: str) -> None:
    """They cannot know of the events that the other replica writes; silence would look like patience."""
    options = StoreOptions(lease=LEASE, ack_timeout=PATIENCE)
    async with (
        relayed(postgres_url) as (url, relay),
        open_store(url, options) as cut_off,
        open_store(postgres_url, options) as connected,
        asyncio.timeout(PATIENCE),
    ):
        author = await Author(connected).begin("task").sync()
        subscription = cut_off.subscribe("task", 0)
        assert len(await subscription.take()) == author.writer.last
        reading = asyncio.create_task(subscription.take())
        await _until(lambda: any(log.readers_waiting for log in cut_off._logs._logs.values()))
        await relay.cut()
        author.status(COMPLETED)
        await author.sync()
        with rejected(Reason.UNAVAILABLE), impatient(cut_off):
            await reading
        subscription.close()
        await relay.mend()
        await _until(lambda: cut_off.rejection() is None)
        again = cut_off.subscribe("task", author.writer.last - 1)
        (event,) = await again.take()
        assert event.status_update.status.state == COMPLETED
        again.close()
