"""A hosted agent over a store: who opens and closes what, in which order, and the takeover of tasks."""

import asyncio
import json
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from httpx import ASGITransport, AsyncClient, Response

from a2a_bridge import add_to_server, agent, asgi, connect, interface, serve
from a2a_bridge.app import agent as under_test
from a2a_bridge.app.lifetime import Lifetime
from a2a_bridge.app.process import watch_loop
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.core.callers import Scope
from a2a_bridge.hosting import Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushService
from a2a_bridge.stores import MemoryStore, StoreOpenError, open_store
from a2a_bridge.stores.ports import Store
from tests.cli.commands import serving
from tests.patience import PATIENCE

HERE = Scope("", "")


@agent(task=True, push_notifications=True)
async def echo(text: str) -> str:
    """Repeats."""
    return text


async def left_behind(url: str) -> str:
    """A task that was working when its process ended."""
    async with open_store(url) as store:
        task = hub.Task(id="left", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
        writer = store.create(HERE, task.id, lambda: None)
        writer.append(hub.StreamResponse(task=task), task)
        await writer.sync()
    return task.id


async def test_a_url_is_opened_and_closed(tmp_path: Path) -> None:
    options = ServeOptions(store=f"sqlite:///{tmp_path / 'tasks.db'}")
    async with serve(echo, [interface("GRPC")], options) as server, connect(str(server.grpc)) as peer:
        made = (await peer.send("hello")).task
        assert made is not None
        with pytest.raises(StoreOpenError) as caught:
            async with serve(echo, [interface("GRPC")], options):
                pass
        assert "--store" in caught.value.remedy
    async with serve(echo, [interface("GRPC")], options) as server, connect(str(server.grpc)) as peer:
        assert await peer.get_task(hub.GetTaskRequest(id=made.id)) == made


async def test_a_store_that_is_given_stays_open(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path / 'tasks.db'}") as store:
        for binding in ("GRPC", "JSONRPC"):
            async with (
                serve(echo, [interface(binding)], ServeOptions(store=store)) as server,
                connect(server.card) as peer,
            ):
                made = (await peer.send("hello")).task
                assert made is not None
            assert await store.get(HERE, made.id) is not None


async def test_the_order_of_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    @asynccontextmanager
    async def opening(*_: Any) -> AsyncIterator[Store]:
        yield MemoryStore()
        order.append("store")

    def noted(cls: type[Any], name: str) -> None:
        close = cls.close

        async def closing(self: Any, grace: float = 0) -> None:
            order.append(name)
            await close(self, grace)

        monkeypatch.setattr(cls, "close", closing)

    monkeypatch.setattr(under_test, "open_store", opening)
    noted(Engine, "engine")
    noted(PushService, "delivery")
    async with serve(echo, [interface("JSONRPC")], ServeOptions(store="memory://")) as server:
        async with connect(server.card) as peer:
            await peer.send("hello")
        await server.drain(1.0)
        assert order == ["engine", "delivery"]
    assert (order[-1], order.count("store")) == ("store", 1)


async def test_nothing_stays_open_if_the_listener_fails(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    async with serve(echo, [interface("JSONRPC")]) as other:
        taken = interface("JSONRPC", f"http://{other.http}")
        with pytest.raises(OSError):
            async with serve(echo, [taken], ServeOptions(store=url)):
                pass
    async with open_store(url):
        pass


async def test_orphaned_tasks_are_taken_over(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    task_id = await left_behind(url)
    async with (
        serve(echo, [interface("JSONRPC")], ServeOptions(store=url)) as server,
        connect(server.card) as peer,
    ):
        assert await _ended(peer, task_id) == hub.TASK_STATE_FAILED


async def test_ports_are_open_while_tasks_are_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    task_id = await left_behind(url)
    async with open_store(url) as store:
        go, take = asyncio.Event(), store.open

        async def slowly(*arguments: Any, **more: Any) -> Any:
            await go.wait()
            return await take(*arguments, **more)

        monkeypatch.setattr(store, "open", slowly)
        async with (
            asyncio.timeout(PATIENCE),
            serve(echo, [interface("JSONRPC")], ServeOptions(store=store)) as server,
            connect(server.card) as peer,
            AsyncClient(base_url=f"http://{server.http}") as http,
        ):
            assert (await http.get("/livez")).status_code == 200
            while (await http.get("/readyz?verbose")).text != "ok\ntasks to take over: 1\n":
                pass
            assert (
                await peer.get_task(hub.GetTaskRequest(id=task_id))
            ).status.state == hub.TASK_STATE_WORKING
            go.set()
            assert await _ended(peer, task_id) == hub.TASK_STATE_FAILED
            while (await http.get("/readyz?verbose")).text != "ok\ntasks to take over: 0\n":
                pass


def _state(response: Response) -> Any:
    return response.json()["status"]["state"]


async def test_an_application_takes_over_with_its_first_call(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    task_id = await left_behind(url)
    async with open_store(url) as store:
        app = asgi(echo, options=ServeOptions(store=store))
        headers = {"A2A-Version": "1.0"}
        async with AsyncClient(transport=ASGITransport(app), base_url="http://host", headers=headers) as http:
            async with asyncio.timeout(PATIENCE):
                while _state(await http.get(f"/tasks/{task_id}")) != "TASK_STATE_FAILED":  # noqa: ASYNC110
                    # A call without a socket may end without a turn of the loop, which the takeover needs.
                    await asyncio.sleep(0)
        await app.drain(0)


async def test_an_application_server_takes_over_with_its_first_call(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    task_id = await left_behind(url)
    server = grpc.aio.server()
    async with open_store(url) as store:
        engine = add_to_server(echo, server, options=ServeOptions(store=store))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with connect(f"127.0.0.1:{port}") as peer:
                assert await _ended(peer, task_id) == hub.TASK_STATE_FAILED
        finally:
            await server.stop(None)
            await engine.close(1)


async def test_a_grpc_server_of_the_application_wants_an_open_store() -> None:
    with pytest.raises(TypeError, match="open the store of a URL first"):
        add_to_server(echo, grpc.aio.server(), options=ServeOptions(store="sqlite:///x.db"))


async def test_an_application_opens_the_store_of_a_url(tmp_path: Path) -> None:
    """At its first request, and closes it with `drain`: another process can take the tasks over then."""
    options = ServeOptions(store=f"sqlite:///{tmp_path / 'tasks.db'}")
    headers = {"A2A-Version": "1.0"}
    for turn in range(2):
        app = asgi(echo, options=options)
        async with AsyncClient(transport=ASGITransport(app), base_url="http://host", headers=headers) as http:
            listed = (await http.get("/tasks")).json()
            assert listed["totalSize"] == turn
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
            assert (await http.post("/message:send", json={"message": message})).status_code == 200
            await app.drain(5)
            assert (await http.get("/readyz")).status_code == 503


async def _ended(peer: Any, task_id: str) -> hub.TaskState:
    async with asyncio.timeout(PATIENCE):
        while True:
            task = await peer.get_task(hub.GetTaskRequest(id=task_id))
            if task.status.state != hub.TASK_STATE_WORKING:
                return task.status.state


# --- The lifetime of a server inside an ASGI application ---
class Failing:
    async def drain(self, _grace: float) -> None:
        raise OSError("the store is gone")


async def test_a_failed_drain_leaves_nothing_open() -> None:
    left = []

    @asynccontextmanager
    async def serve() -> AsyncIterator[Failing]:
        try:
            yield Failing()
        finally:
            left.append(True)

    lifetime = Lifetime(serve)
    await lifetime.start()
    with pytest.raises(OSError, match="the store is gone"):
        await lifetime.close(1)
    assert left == [True]


# --- The warning for code that blocks the event loop ---
class Seen(logging.Handler):
    """Tells a blocked test that the warning has come."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.first, self.second = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        (self.second if self.first.is_set() else self.first).set()


def library_call(until: threading.Event) -> None:
    """The standard library below the agent's line: `json` calls the hook."""
    json.loads("{}", object_hook=lambda _: until.wait(PATIENCE))


async def test_a_blocking_call_is_reported_with_its_line_and_its_duration() -> None:
    seen = Seen()
    logging.getLogger("a2a_bridge.loop").addHandler(seen)
    try:
        with watch_loop(0.05):
            library_call(seen.first)
            async with asyncio.timeout(PATIENCE):
                while not seen.second.is_set():  # noqa: ASYNC110  it is set in a thread
                    await asyncio.sleep(0.01)
    finally:
        logging.getLogger("a2a_bridge.loop").removeHandler(seen)
    first, second = seen.messages
    assert f"by {__file__}:" in first
    assert "asyncio.to_thread" in first
    assert second.startswith("the event loop was blocked for ")


async def test_a_loop_that_works_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    with watch_loop(0.05):
        for _ in range(30):
            await asyncio.sleep(0.01)
    assert not caplog.records


AGENT = """
from pathlib import Path
from a2a_bridge import agent

@agent
async def slow(text: str) -> str:
    return Path(text).read_text()
"""


async def test_an_agent_that_blocks_its_server(tmp_path: Path) -> None:
    module, fifo = tmp_path / "slow.py", tmp_path / "fifo"
    module.write_text(AGENT)
    os.mkfifo(fifo)
    ports = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    async with serving("serve", str(module), *ports) as running:
        async with connect(running.http) as peer:
            answer = asyncio.ensure_future(peer.send(str(fifo)))
            assert running.process.stderr is not None
            line = (await asyncio.wait_for(running.process.stderr.readline(), PATIENCE)).decode()
            await asyncio.to_thread(fifo.write_text, "done")
            assert (await answer).text == "done"
        running.signal()
        rest = (await running.ended()).err
    assert f"by {module}:7 in slow; all calls wait" in line
    assert "the event loop was blocked for " in rest
