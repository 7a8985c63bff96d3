"""A replica that loses its database while another one keeps it, and returns after it was declared dead."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from a2a_bridge.core.errors import Reason
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.testing.store_scene import COMPLETED, Author
from tests.hosting.scene import IMMEDIATELY, Gate, Talk, request, shapes
from tests.rejections import rejected
from tests.replicas.conftest import LEASE, PATIENCE
from tests.stores.impatience import impatient


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
