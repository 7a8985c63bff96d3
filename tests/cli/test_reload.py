"""New configuration for running servers: SIGHUP, `--reload`, workers and Envoy."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from a2a_bridge import connect
from a2a_bridge.auth import KeyFile
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cli import reload as reload_module
from a2a_bridge.cli.config_file import ConfigError, ConfigFile, hand_on
from a2a_bridge.cli.reading import Reading
from a2a_bridge.cli.reload import Look, Reloader
from a2a_bridge.cli.server_flags import ConfigFlags, GatewayFlags
from a2a_bridge.cli.target import BadTargetError
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.options import flag
from tests.cli.commands import Running, logged, serving, spawn
from tests.patience import PATIENCE
from tests.rejections import rejected

AGENT = '''
import asyncio, os
from pathlib import Path

from a2a_bridge import agent

@agent
async def held(text: str) -> str:
    """Says which process answers. With the path of a FIFO as text: once its writer has closed it."""
    if text.startswith("/"):
        await asyncio.to_thread(Path(text.split()[0]).read_text)
    return str(os.getpid())
'''

GATED = """
import asyncio
from pathlib import Path

from a2a_bridge import Agent

class Gated:
    async def execute(self, run):
        yield run.status("working")
        while not Path(__file__).with_name("gate").exists():
            await asyncio.sleep(0.02)
        yield run.status("completed")

agent = Agent(Gated(), name="Gated")
"""


@dataclass(frozen=True, kw_only=True)
class Flags(ConfigFlags):
    most: int = flag(1, "Most.", "N", least=0, live=True)
    name: str = flag("a", "Name.", live=True)
    place: str = flag("here", "Place.", "PLACE")
    other: str = flag("x", "Other.", "OTHER")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bridge.toml"
    path.write_text("most = 1\n")
    return path


def reading(path: Path, **given: Any) -> Reading:
    return Reading(
        group=Flags, flags=Flags(), given=given, origins={}, path=path, in_file={}, lines={}
    ).again()


def gateway_reading(path: Path) -> Reading:
    return Reading(
        group=GatewayFlags, flags=GatewayFlags(), given={}, origins={}, path=path, in_file={}, lines={}
    ).again()


def write(file: Path, text: str) -> None:
    file.write_text(text)


def append(file: Path, text: str) -> None:
    write(file, f"{file.read_text()}\n{text}")


def change(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    write(file, file.read_text().replace(old, new))


def remove(file: Path) -> None:
    file.unlink()


async def test_options_that_are_live_change_together(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reloader = Reloader(reading(file))
    seen: list[tuple[Flags, Flags]] = []

    async def later(old: Flags, new: Flags) -> None:
        await asyncio.sleep(0)
        seen.append((old, new))

    reloader.on_change(lambda old, new: seen.append((old, new)))
    reloader.on_change(later)
    write(file, 'most = 2\nname = "b"\nplace = "there"\nother = "y"')
    assert await reloader.reload()
    new = Flags(most=2, name="b")
    assert seen == [(Flags(), new)] * 2
    assert reloader.flags == new
    warning, info = (record.getMessage() for record in caplog.records)
    assert warning == "not changed before the next start: place, other"
    assert info == "configuration read again; changed: most, name"
    assert await reloader.reload()
    assert len(seen) == 2


async def test_given_values_stay(file: Path) -> None:
    reloader = Reloader(reading(file, most=7))
    reloader.on_change(lambda _old, _new: pytest.fail("nothing changes"))
    write(file, "most = 2")
    assert await reloader.reload()
    assert reloader.flags.most == 7


@pytest.mark.parametrize("text", ["most = 'x'", "mots = 2", "most = ", None])
async def test_a_file_that_is_not_valid_changes_nothing(
    text: str | None, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reloader = Reloader(reading(file))
    reloader.on_change(lambda _old, _new: pytest.fail("nothing changes"))
    if text is None:
        remove(file)
    else:
        write(file, text)
    assert not await reloader.reload()
    assert reloader.flags == Flags()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"the configuration stays as it was: {file}")
    assert "\n" not in record.getMessage()


async def test_a_change_that_cannot_be_made_is_undone(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    reloader = Reloader(reading(file))
    current: list[int] = []

    def reject(_old: Flags, new: Flags) -> None:
        if new.most == 2:
            raise RuntimeError("no")

    reloader.on_change(lambda _, new: current.append(new.most))
    reloader.on_change(reject)
    reloader.on_change(lambda _old, _new: pytest.fail("it is not reached"))
    write(file, "most = 2")
    assert not await reloader.reload()
    assert current == [2, 1]
    assert reloader.flags == Flags()
    assert "a change cannot be made" in caplog.text


@pytest.mark.parametrize(
    "error", [typer.BadParameter("no file", param_hint="--card"), BadTargetError("--card: no file")]
)
async def test_a_mistake_of_the_user_is_one_line(
    error: Exception, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def reject(_old: Flags, _new: Flags) -> None:
        raise error

    reloader = Reloader(reading(file))
    reloader.on_change(reject)
    write(file, "most = 2")
    caplog.clear()
    assert not await reloader.reload()
    (record,) = caplog.records
    assert record.getMessage() == "the configuration stays as it was: --card: no file"
    assert record.exc_info is None


async def test_for_successors_a_fixed_option_keeps_everything(file: Path) -> None:
    reloader = Reloader(reading(file)).for_successors({"place"})
    write(file, 'place = "there"\nmost = 2')
    assert not await reloader.reload()
    write(file, 'other = "y"\nmost = 2')
    assert await reloader.reload()
    assert reloader.flags == Flags(other="y", most=2)


async def test_a_file_is_watched(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload_module, "_PAUSE", 0.001)
    reloader = Reloader(reading(file))
    changed: asyncio.Queue[int] = asyncio.Queue()

    async def on_change() -> None:
        await reloader.reload()
        await changed.put(reloader.flags.most)

    watching = asyncio.ensure_future(reloader.watch(on_change))
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.sleep(0)  # it has looked at the file
            other = file.with_suffix(".new")
            write(other, "most = 12")
            other.replace(file)
            assert await changed.get() == 12
            remove(file)
            write(file, "most = 123")
            assert await changed.get() == 123
    finally:
        watching.cancel()


FULL = """\
api_keys = "keys.json"
jwt_issuer = "https://login.example"
jwt_audience = ["bridge"]

[[rules]]
operations = ["read"]
principals = ["reader-*"]

[[rules]]
operations = ["send"]
scopes = ["send"]
principals = ["ci"]
"""


@pytest.mark.parametrize("with_workers", [False, True])
async def test_no_beginning_of_a_file_counts(tmp_path: Path, with_workers: bool) -> None:
    """An editor that writes in place is looked at after each byte. Between two looks it goes on."""
    path = tmp_path / "bridge.toml"
    old = FULL.replace('principals = ["ci"]', 'principals = ["c"]')
    write(path, old)
    reloader = Reloader(gateway_reading(path))
    if with_workers:
        reloader = reloader.for_successors(set())
    look = Look(path)
    assert not look()
    rules = reloader.flags.rules
    for length in range(len(FULL)):
        write(path, FULL[:length])
        assert not look()
        # A worker that is started now reads what was accepted.
        descriptor, variables = hand_on(reloader.text)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            assert ConfigFile.read(path).text == old
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    write(path, FULL)
    assert not look()
    assert look()
    assert await reloader.reload()
    assert not look()
    assert reloader.text == FULL
    assert reloader.flags.rules != rules


@pytest.mark.parametrize("line", ['operations = ["SendMesage"]', 'agents = ["blue"]'])
async def test_rules_with_unknown_names_change_nothing(
    line: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "bridge.toml"
    agents = '[agents.red]\nupstream = ":1"\n'
    write(path, FULL + agents)
    reloader = Reloader(gateway_reading(path))
    reloader.on_change(lambda _old, _new: pytest.fail("nothing changes"))
    write(path, f"{FULL}[[rules]]\n{line}\n{agents}")
    assert not await reloader.reload()
    assert len(reloader.flags.rules) == 2
    assert f"[[rules]] 3: {line.partition(' ')[0]}" in caplog.text


async def test_rules_stay_with_the_options_that_say_who_callers_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "bridge.toml"
    write(path, FULL)
    reloader = Reloader(gateway_reading(path))
    reloader.on_change(lambda _old, _new: pytest.fail("nothing changes"))
    rules = reloader.flags.rules
    write(path, FULL.replace("login.example", "other.example").replace('"ci"', '"*"'))
    assert await reloader.reload()
    assert reloader.flags.rules == rules
    assert "not changed before the next start: jwt_issuer, rules" in caplog.text


@pytest.mark.parametrize(("text", "looks"), [("most = 12345", 1), ("most = 2", 1), ("", 3)])
def test_a_file_that_is_shorter_than_before_has_to_be_still_for_longer(
    file: Path, text: str, looks: int
) -> None:
    """Its writer may pause in the middle of it."""
    write(file, "most = 1")
    look = Look(file)
    write(file, text)
    os.utime(file, ns=(1, 1))
    assert [look() for _ in range(looks + 2)] == [*[False] * looks, True, False]
    write(file, "most = 1  # longer than before")
    assert [look() for _ in range(3)] == [False, True, False]


def test_a_rule_that_has_not_been_written_is_no_rule(tmp_path: Path) -> None:
    """Also at the start, and when the file stays as it is."""
    path = tmp_path / "bridge.toml"
    write(path, FULL[: FULL.index("[[rules]]") + len("[[rules]]\n")])
    with pytest.raises(ConfigError, match="says nothing, and would allow everything"):
        gateway_reading(path)


NOBODY = (
    "without 1 of 1 rules, so that every caller may use every operation; 2 of 2 methods of authentication"
    " (api-keys, jwt-issuer), so that no caller is identified"
)


async def test_what_a_change_takes_away_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "bridge.toml"
    agents = "".join(f"[agents.{name}]\nupstream = ':1'\n" for name in ("red", "blue", "green"))
    write(path, FULL + agents)
    reloader = Reloader(gateway_reading(path)).for_successors(set())
    cut = FULL.index('[[rules]]\noperations = ["send"]')
    for text, expected in (
        (FULL[:cut] + agents, "without 1 of 2 rules"),
        (agents, NOBODY),
        (agents.partition("[agents.blue]")[0], "without 2 of 3 agents (blue, green)"),
    ):
        caplog.clear()
        write(path, text)
        assert await reloader.reload()
        assert [one.levelname for one in caplog.records if expected in one.message] == ["WARNING"]
    caplog.clear()
    write(path, FULL + agents)
    assert await reloader.reload()
    assert "without" not in caplog.text


# --- Whole servers ---
@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "held.py"
    path.write_text(AGENT)
    return str(path)


def configuration(file: Path, **options: Any) -> Path:
    """Writes a file for a server of HTTP."""
    known = {"http": "127.0.0.1:0", "no_grpc": True, "store": "memory://", "log_level": "info", **options}
    lines = [
        f"{name} = {str(value).lower() if isinstance(value, bool | int) else repr(value)}"
        for name, value in known.items()
    ]
    file.write_text("\n".join(lines))
    return file


async def sent(url: str, *texts: str) -> Any:
    """The response to a message with these texts."""
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text} for text in texts]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        return (await client.post(url, json=body, headers={"A2A-Version": "1.0"})).json()


async def until(condition: Callable[[Any], bool], url: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition(await sent(url, "?")):
            pass


async def test_sighup_changes_limits_and_the_log_level_while_a_call_runs(
    target: str, file: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    configuration(file, max_parts=1)
    async with serving("serve", target, "--config", str(file)) as running:
        assert "error" in await sent(running.http, "a", "b")
        call = asyncio.ensure_future(sent(running.http, str(tmp_path / "fifo")))
        # Opens when the agent has opened its end.
        end = await asyncio.to_thread(os.open, tmp_path / "fifo", os.O_WRONLY)
        configuration(file, max_parts=2, no_http=True)
        running.signal(signal.SIGHUP)
        assert "no_http" in await logged(running, "not changed before the next start")
        assert "max_parts" in await logged(running, "configuration read again; changed")
        assert "result" in await sent(running.http, "a", "b")
        assert "error" in await sent(running.http, "a", "b", "c")
        configuration(file, max_parts="many")
        running.signal(signal.SIGHUP)
        assert f"{file}:5: max_parts has to be" in await logged(running, "stays as it was")
        assert "result" in await sent(running.http, "a", "b")
        configuration(file, max_parts=2, log_level="error")
        running.signal(signal.SIGHUP)
        await until(lambda _: True, running.http)
        os.close(end)
        assert "result" in await call
        running.signal()
        done = await running.ended()
    assert done.code == 0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("in_table", [False, True])
async def test_new_rules_end_the_streams_of_a_caller_whom_they_do_not_allow(
    file: Path, tmp_path: Path, workers: int, in_table: bool
) -> None:
    """With workers long before the old ones have drained."""
    path = tmp_path / "gated.py"
    path.write_text(GATED)
    keys = KeyFile(tmp_path / "keys.json")
    key = {name: keys.create(name).text for name in ("ann", "bob")}
    members = {"workers": workers, "timeout_graceful_shutdown": 600, "api_keys": str(tmp_path / "keys.json")}
    configuration(file, **members)
    append(file, '[[rules]]\nprincipals = ["ann", "bob"]')
    if in_table:
        append(file, f'[agents.gated]\nagent = "{path}"\n[agents.other]\nagent = "{path}"')
    target, place = ([], "/agents/gated") if in_table else ([str(path)], "")
    async with (
        serving("serve", *target, "--config", str(file)) as running,
        connect(f"{running.http}{place}", options=with_key(key["ann"])) as ann,
        connect(f"{running.http}{place}", options=with_key(key["bob"])) as bob,
        aclosing(ann.stream("?")) as ended,
        aclosing(bob.stream("?")) as other,
        asyncio.timeout(PATIENCE),
    ):
        await anext(ended)
        await anext(other)
        going_on = asyncio.ensure_future(read_all(other))
        change(file, '["ann", "bob"]', '["bob"]')
        running.signal(signal.SIGHUP)
        with rejected(Reason.PERMISSION_DENIED):
            await read_all(ended)
        with pytest.raises(A2AError, match="is not allowed"):
            await ann.send("?", return_immediately=True)
        assert not going_on.done()
        (tmp_path / "gate").touch()
        await going_on


async def read_all(events: AsyncIterator[Any]) -> None:
    async for _ in events:
        pass


def with_key(key: str) -> DialOptions:
    return DialOptions(parameters={"x-api-key": key})


async def test_sighup_during_the_start_counts_after_it(target: str, file: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    change(Path(target), "\n\n@agent", f"\n\nPath({str(tmp_path / 'fifo')!r}).read_text()\n\n@agent")
    configuration(file, max_parts=1)
    process = await spawn("serve", target, "--config", str(file))
    try:
        async with asyncio.timeout(PATIENCE):
            # Opens when the module of the agent is being imported.
            end = await asyncio.to_thread(os.open, tmp_path / "fifo", os.O_WRONLY)
            configuration(file, max_parts=2)
            process.send_signal(signal.SIGHUP)
            os.close(end)
            assert process.stdout is not None
            running = Running(process, (await process.stdout.readline()).decode().rstrip("\n"))
            assert running.ready.startswith("ready ")
            await logged(running, "configuration read again; changed: max_parts")
        assert "result" in await sent(running.http, "a", "b")
        assert (await running.ended_by_signal()).code == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_file_that_changes_is_read_again(target: str, file: Path) -> None:
    configuration(file, max_parts=1, log_level="info")
    async with serving("serve", target, "--config", str(file), "--reload") as running:
        assert "error" in await sent(running.http, "a", "b")
        configuration(file, max_parts=22)
        await logged(running, "configuration read again; changed: max_parts")
        assert "result" in await sent(running.http, "a", "b")


async def test_a_file_with_one_agent_is_the_command_with_its_argument(target: str, file: Path) -> None:
    configuration(file)
    append(file, f'[agents.held]\nagent = "{target}"')
    async with serving("serve", "--config", str(file)) as agent:
        assert "result" in await sent(agent.http, "?")
        gateway = configuration(file.with_name("gateway.toml"), max_parts=5)
        append(gateway, f'[agents.held]\nupstream = "{agent.http}"\nbinding = "HTTP+JSON"')
        # A gateway takes the store of the file for one that nothing uses.
        change(gateway, "store = 'memory://'\n", "")
        async with serving("gateway", "--config", str(gateway)) as running:
            assert "HTTP+JSON" in await logged(running, "upstream: ")
            assert "result" in await sent(running.http, "?")
            change(gateway, "max_parts = 5", "max_parts = 1")
            running.signal(signal.SIGHUP)
            await logged(running, "configuration read again; changed: max_parts")
            assert "error" in await sent(running.http, "a", "b")


async def test_workers_get_successors_if_the_file_is_valid(target: str, file: Path) -> None:
    configuration(file, workers=2, max_parts=1)
    key = file.with_name("key")
    write(key, "k" * 32)
    # The supervisor reads it; workers get the value.
    variables = {"A2A_BRIDGE_KEY_FILE": str(key), "A2A_BRIDGE_STORE": ""}
    async with serving("serve", target, "--config", str(file), env=variables) as running:
        before: set[str] = set()
        async with asyncio.timeout(PATIENCE):
            while len(before) < 2:
                before.add(await answer(running.http))
        configuration(file, workers=2, max_parts="x")
        running.signal(signal.SIGHUP)
        await logged(running, "stays as it was")
        configuration(file, workers=3, max_parts=1)
        running.signal(signal.SIGHUP)
        assert "workers" in await logged(running, "not changed before the next start")
        # What several workers cannot have at the start, they do not get later.
        configuration(file, workers=2, max_parts=1, admin="127.0.0.1:0")
        running.signal(signal.SIGHUP)
        assert "admin" in await logged(running, "not changed before the next start")
        for option, value in (("usage_file", str(file.with_name("usage.json"))), ("store", "sqlite:///x.db")):
            configuration(file, **{"workers": 2, "max_parts": 1, option: value})
            running.signal(signal.SIGHUP)
            assert option.replace("_", "-") in await logged(running, "stays as it was")
        assert await answer(running.http) in before
        configuration(file, workers=2, max_parts=2)
        running.signal(signal.SIGHUP)
        await logged(running, "2 successors are started")
        async with asyncio.timeout(PATIENCE):
            while "error" in await sent(running.http, "a", "b") or await answer(running.http) in before:
                pass


async def answer(url: str) -> str:
    found: str = (await sent(url, "?"))["result"]["message"]["parts"][0]["text"]
    return found


async def test_envoy_passes_sighup_on(target: str, file: Path) -> None:
    pytest.importorskip("pyvoy")
    write(
        file,
        "server = 'envoy'\nlisten = '127.0.0.1:0'\nstore = 'memory://'\nlog_level = 'info'\nmax_parts = 1",
    )
    async with serving("serve", target, "--config", str(file)) as running:
        assert "error" in await sent(running.http, "a", "b")
        change(file, "max_parts = 1", "max_parts = 2")
        running.signal(signal.SIGHUP)
        await logged(running, "configuration read again; changed: max_parts")
        assert "result" in await sent(running.http, "a", "b")
