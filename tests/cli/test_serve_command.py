"""`a2a-bridge serve`: finding agents in code, and serving them as a process."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from a2a_bridge.app.planning import VERSIONS
from a2a_bridge.app.runtime import connect
from a2a_bridge.cli.target import BadTargetError, load, parse
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cli.commands import ANY_PORT, FILES, command, serving

ONE = '''
from a2a_bridge import agent

@agent
async def parrot(text: str) -> str:
    """Repeats."""
    return text
'''

WORKING = """
from a2a_bridge import agent

@agent(task=True)
async def worker(text: str) -> str:
    return text
"""

HANGING = """
import asyncio

from a2a_bridge import agent

@agent(task=True)
async def hanging(text: str) -> str:
    await asyncio.Event().wait()
    return text
"""

TWO = (
    ONE
    + '''
@agent
async def shout(text: str) -> str:
    """Shouts."""
    return text.upper()

class holder:
    inner = shout

alias = parrot
number = 7
'''
)


@pytest.fixture(autouse=True)
def modules_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def written(folder: Path, text: str, name: str = "my_agents.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_only_agent_of_a_file_needs_no_name(tmp_path: Path) -> None:
    assert load(parse(written(tmp_path, ONE))).card.name == "parrot"


def test_an_agent_is_found_by_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, TWO)
    assert load(parse(f"{path}:shout")).card.name == "shout"
    assert load(parse(f"{path}:holder.inner")).card.name == "shout"


def test_an_agent_is_found_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    written(package, TWO, "__init__.py")
    written(package, ONE, "inner.py")
    monkeypatch.chdir(tmp_path)
    assert load(parse("my_package:shout")).card.name == "shout"
    assert load(parse("my_package.inner:parrot")).card.name == "parrot"


@pytest.mark.parametrize("is_package", [False, True])
def test_a_main_file_is_not_run_as_the_main_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_package: bool
) -> None:
    folder = tmp_path / "sample"
    folder.mkdir()
    written(folder, ONE, "neighbour.py")
    if is_package:
        written(folder, "", "__init__.py")
    here = "sample." if is_package else ""
    text = f"from {here}neighbour import parrot\nif __name__ == '__main__':\n    raise SystemExit(3)\n"
    # A process of the tests may have none: its own program came over a pipe.
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert load(parse(written(folder, text, "__main__.py"))).card.name == "parrot"
    assert sys.modules["__main__"] is main


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    written(tmp_path, ONE, "my_neighbour.py")
    path = written(tmp_path, "from my_neighbour import parrot")
    assert load(parse(path)).card.name == "parrot"


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (TWO, "", ["parrot", "shout"]),
        (TWO, ":nobody", ["parrot", "shout"]),
        (TWO, ":number", ["int", "parrot", "shout"]),
        ("x = 1", "", ["@"]),
        ("import no_such_module_anywhere", "", ["no_such_module_anywhere"]),
        ("1 / 0", "", ["ZeroDivisionError"]),
        ("def broken(:", "", ["SyntaxError"]),
    ],
    ids=["several", "no such name", "not an agent", "no agent", "import error", "exception", "syntax"],
)
def test_a_target_that_cannot_be_served_is_an_error_with_alternatives(
    tmp_path: Path, text: str, name: str, told: list[str]
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadTargetError) as caught:
        load(parse(path + name))
    for word in told:
        assert word in str(caught.value)
    assert "alias" not in str(caught.value)


def test_a_file_or_module_that_is_not_there(tmp_path: Path) -> None:
    for target in (str(tmp_path / "nothing.py"), "no_such_module_anywhere:agent", "no_such.module:agent"):
        with pytest.raises(BadTargetError):
            load(parse(target))


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_it_serves_every_binding_and_ends_with_0(tmp_path: Path, binding: str) -> None:
    async with serving("serve", written(tmp_path, ONE), *ANY_PORT) as server:
        assert server.ready == f"ready http={server.http} grpc={server.grpc}"
        async with connect(server.http, binding=binding) as peer:
            assert (await peer.send("hello")).text == "hello"
        server.signal()
        done = await server.ended()
    assert (done.code, done.out) == (0, "")


async def test_tasks_are_in_a_file_of_the_agents_name_and_outlive_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, WORKING)
    async with (
        serving("serve", path, *ANY_PORT, env=FILES) as server,
        connect(server.http, binding="GRPC") as peer,
    ):
        task = (await peer.send("hello")).task
        assert task is not None
        # A second process on the same file would be a second writer of every task in it.
        second = await command("serve", path, *ANY_PORT, env=FILES)
        assert (second.code, second.out) == (2, "")
        assert "--store" in second.err
    assert (tmp_path / ".a2a-bridge" / "worker.db").is_file()
    async with (
        serving("serve", path, *ANY_PORT, env=FILES) as server,
        connect(server.http, binding="JSONRPC") as peer,
    ):
        assert await peer.get_task(hub.GetTaskRequest(id=task.id)) == task


async def test_runs_are_bounded_and_messages_may_be_sent_twice_when_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, HANGING)
    message = hub.Message(message_id="once", role=hub.ROLE_USER, parts=[hub.Part(text="x")])
    flags = ("--run-timeout", "0.2", "--silence-timeout", "30", "--idempotent-sends")
    found = []
    async with serving("serve", path, *flags, *ANY_PORT) as server:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            async with connect(server.http, binding=binding) as peer:
                found.append((await peer.send_message(hub.SendMessageRequest(message=message))).task)
        server.signal()
        done = await server.ended()
    assert done.code == 0
    assert {task.id for task in found} == {found[0].id}
    assert found[0].status.state == hub.TASK_STATE_FAILED
    assert "within 0.2 seconds" in found[0].status.message.parts[0].text


@pytest.mark.parametrize(
    ("store", "told", "code"),
    [
        ("nowhere://x", ["nowhere"], 2),
        ("sqlite:///my_agents.py/x.db", ["there is no folder my_agents.py", "mkdir -p my_agents.py"], 2),
        ("postgresql://me:secret@127.0.0.1:1/none", ["127.0.0.1"], 3),
    ],
)
async def test_a_store_that_cannot_be_opened_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, told: list[str], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    done = await command("serve", written(tmp_path, ONE), "--store", store, *ANY_PORT)
    assert (done.code, done.out) == (code, "")
    assert "Traceback" not in done.err
    assert "secret" not in done.err
    for word in told:
        assert word in done.err


async def test_an_agent_in_code_is_called_without_a_server(tmp_path: Path) -> None:
    path = written(tmp_path, TWO)
    done = await command("send", "-a", f"{path}:shout", "hello")
    assert (done.code, done.text) == (0, "HELLO")


async def test_an_agent_in_code_gets_a_server_for_the_bindings_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, ONE)
    done = await command("send", "-a", path, "hello", "--transport", "GRPC")
    assert (done.code, done.text) == (0, "hello")
    everything = await command("compare", "-a", path, "hello")
    assert everything.code == 0, everything.err
    assert everything.out.count("identical") == len(VERSIONS) * 3 - 1


async def test_several_agents_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path, TWO)
    done = await command("serve", path, *ANY_PORT)
    assert (done.code, done.out) == (2, "")
    assert f"{path}:parrot" in done.err
    assert f"{path}:shout" in done.err


async def test_remote_agents_are_for_the_gateway_command() -> None:
    done = await command("serve", "http://127.0.0.1:1")
    assert (done.code, done.out) == (2, "")
    assert "a2a-bridge gateway http://127.0.0.1:1" in done.err
