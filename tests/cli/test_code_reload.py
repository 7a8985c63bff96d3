"""`serve --reload`: an agent is loaded again when its code changes."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from a2a_bridge import connect, interface
from a2a_bridge.core.errors import A2AError
from a2a_bridge.ext import DialOptions, hub
from tests.cli.commands import ANY_PORT, Running, card, command, logged, serving
from tests.patience import PATIENCE

pytestmark = pytest.mark.process

AGENT = '''
import asyncio
from pathlib import Path

from a2a_bridge import agent
from words import WORD

@agent
async def spoken(text: str):
    """Says a word. With the path of a FIFO as text: once more, when its writer has closed it."""
    yield WORD
    if text.startswith("/"):
        await asyncio.to_thread(Path(text).read_text)
        yield WORD
'''


#: for callers that wait for the new process: a busy machine takes its time to start it
PATIENT = DialOptions(connect_timeout=PATIENCE, timeout=PATIENCE)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "spoken.py"
    path.write_text(AGENT)
    (tmp_path / "words.py").write_text("WORD = 'one'\n")
    return path


def say(target: Path, text: str) -> None:
    """Changes the module that the agent imports."""
    target.with_name("words.py").write_text(text)


@asynccontextmanager
async def reloading(
    target: Path, store: str = "", env: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    url = store or f"sqlite:///{target.with_name('tasks.db')}"
    words = ("serve", str(target), *ANY_PORT, "--store", url, "--reload", "--log-level", "info")
    async with serving(*words, env=env) as running:
        yield running


async def answer(address: str | hub.AgentCard) -> str:
    async with connect(address, options=PATIENT) as peer:
        return (await peer.send("?")).text


async def tried(address: str | hub.AgentCard) -> str:
    """The answer; empty if the connection broke: a worker that drains ends connections without a call for half
    a second, which a busy machine may need. A refused connection fails.
    """
    try:
        return await answer(address)
    except A2AError as error:
        if "no connection" in error.message:
            raise
        return ""


async def until(said: str, address: str) -> None:
    """Returns when the agent says a word."""
    async with asyncio.timeout(PATIENCE):
        while await answer(address) != said:
            pass  # each answer is a round trip


@pytest.mark.parametrize("store", ["", "memory://"])
async def test_changed_code_is_served_at_the_same_addresses(target: Path, store: str) -> None:
    async with reloading(target, store) as running:
        assert await answer(running.http) == await answer(running.grpc) == "one"
        say(target, "WORD = 'two'\n")
        await until("two", running.http)
        assert await answer(running.grpc) == "two"
        running.signal()
        done = await running.ended()
    assert done.code == 0, done.err
    assert done.out == ""  # the ready line was the only one


async def test_a_second_change_in_the_same_second(target: Path) -> None:
    """Python takes the bytecode of code with the same size and second for that of the changed code."""
    async with reloading(target, env={"PYTHONDONTWRITEBYTECODE": ""}) as running:
        assert await answer(running.http) == "one"
        words = target.with_name("words.py")
        before = words.stat().st_mtime_ns
        assert list(target.with_name("__pycache__").glob("words.*"))
        say(target, "WORD = 'two'\n")
        second = before // 1_000_000_000 * 1_000_000_000
        os.utime(words, ns=(before, second + 1 if before != second + 1 else second))
        await until("two", running.http)


async def test_tasks_of_before_are_kept(target: Path) -> None:
    async with reloading(target) as running:
        async with connect(running.http) as peer:
            task = (await peer.send("?")).task
            assert task is not None
        say(target, "WORD = 'two'\n")
        await until("two", running.http)
        async with connect(running.http) as peer:
            assert (await peer.get_task(hub.GetTaskRequest(id=task.id))).artifacts == task.artifacts


async def test_code_that_cannot_be_loaded_ends_nothing(target: Path) -> None:
    async with reloading(target) as running:
        say(target, "WORD = 'two\n")
        await logged(running, "unterminated string literal")
        await logged(running, "worker 1 has no successor (exit code")
        assert await answer(running.http) == "one"
        say(target, "WORD = 'three'\n")
        await until("three", running.http)


@pytest.mark.parametrize("store", ["", "memory://"])
async def test_a_stream_ends_as_it_began(target: Path, tmp_path: Path, store: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    async with reloading(target, store) as running, connect(running.http) as peer:
        async with aclosing(peer.stream_text(str(fifo))) as texts, asyncio.timeout(PATIENCE):
            assert await anext(texts) == "one"
            writer = await asyncio.to_thread(fifo.open, "w")
            say(target, "WORD = 'two'\n")
            await logged(running, "draining for at most")
            writer.close()
            assert [text async for text in texts] == ["one"]
        await until("two", running.http)


async def test_what_cannot_be_reloaded_is_an_error(target: Path) -> None:
    for words, text in (
        (("--exec", "cat", "--reload"), "a program is started anew for each message"),
        ((str(target), "--reload", "--ui"), "the playground needs a server of one process"),
        ((str(target), "--reload", "--server", "envoy"), "Envoy keeps the code that it has loaded"),
    ):
        ended = await command("serve", *words)
        assert ended.code == 2
        assert text in ended.err


#: of the agent, while callers connect and call
EDITS = 3


@pytest.mark.parametrize("store", ["", "memory://", "postgresql"])
async def test_no_connection_is_refused_during_reloads(
    target: Path, store: str, request: pytest.FixtureRequest
) -> None:
    url = store
    if store == "postgresql":
        url = request.getfixturevalue("database")
        assert (await command("db", "upgrade", url)).code == 0
    async with reloading(target, url) as running:
        places = [running.http.removeprefix("http://"), running.grpc]
        is_over, connected, called = asyncio.Event(), 0, 0

        async def connecting(place: str) -> None:
            nonlocal connected
            host, _, port = place.rpartition(":")
            while not is_over.is_set():
                _, writer = await asyncio.open_connection(host, int(port))
                connected += 1
                writer.close()
                await asyncio.sleep(0.02)  # as fast as possible, it would be a flood

        async def calling(place: str, binding: str) -> None:
            nonlocal called
            while not is_over.is_set():
                said = await tried(card(supported_interfaces=[interface(binding, place)]))
                called += said.startswith("w")

        async def reading() -> None:
            """The log: a process whose pipe is full stands still."""
            assert running.process.stderr is not None
            while not is_over.is_set():
                await running.process.stderr.read(1 << 16)

        async def editing() -> None:
            try:
                for edit in range(EDITS):
                    say(target, f"WORD = 'w{edit}'\n")
                    for place in (running.http, running.grpc):
                        async with asyncio.timeout(PATIENCE):
                            while await tried(place) != f"w{edit}":
                                pass
            finally:
                is_over.set()

        say(target, "WORD = 'w'\n")
        await until("w", running.grpc)
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(reading())
            group.create_task(editing()).add_done_callback(lambda _: reader.cancel())
            for place in places:
                group.create_task(connecting(place))
            for binding in ("JSONRPC", "HTTP+JSON"):
                group.create_task(calling(running.http, binding))
            group.create_task(calling(running.grpc, "GRPC"))
        assert connected > EDITS
        assert called > EDITS
