"""`serve --exec`: which words are the program's, and the program as a server."""

import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from a2a_bridge.cli import app
from a2a_bridge.cli.config_file import ConfigFile
from a2a_bridge.cli.server_flags import ServeFlags
from a2a_bridge.cli.settings import effective
from a2a_bridge.testing.each import each
from tests.cli.commands import ANY_PORT, FILES, command, logged, serving
from tests.patience import PATIENCE

RUNNER = CliRunner()


def run(*arguments: str, env: Mapping[str, str] | None = None) -> Any:
    return RUNNER.invoke(app, [*arguments], env=env)


def shown(*arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The options of a command line as `--print-config` prints them, but for comments."""
    import tomllib

    done = run("serve", *arguments, "--print-config", env=env)
    assert done.exit_code == 0, done.output
    return tomllib.loads(done.stdout)


@each(
    ("line", "words", "others"),
    [
        ("--exec cat", ["cat"], {}),
        ("--exec=cat -n", ["cat", "-n"], {}),
        (
            "--http :1 --exec python -u agent.py --verbose",
            ["python", "-u", "agent.py", "--verbose"],
            {"http": ":1"},
        ),
        (
            "--exec python -u agent.py --verbose --http :1",
            ["python", "-u", "agent.py", "--verbose"],
            {"http": ":1"},
        ),
        (
            "--exec a b --http=:1 --exec-env X --no-grpc",
            ["a", "b"],
            {"http": ":1", "exec_env": ["X"], "no_grpc": True},
        ),
        ("--exec-env X --exec a --exec-env Y", ["a"], {"exec_env": ["X", "Y"]}),
        ("--exec df -h", ["df", "-h"], {}),
        ("--exec a --no-such-flag=1", ["a", "--no-such-flag=1"], {}),
    ],
)
def test_the_words_of_a_program(line: str, words: list[str], others: dict[str, Any]) -> None:
    assert shown(*line.split()) == {"exec": words, **others}


@each(
    ("line", "words"),
    [
        ("--print-config --exec -- a --http x", ["a", "--http", "x"]),
        ("--print-config --exec a b -- --http x -- --help", ["a", "b", "--http", "x", "--", "--help"]),
        ("--print-config --exec a -- --exec b", ["a", "--exec", "b"]),
    ],
)
def test_after_two_dashes_all_words_are_the_programs(line: str, words: list[str]) -> None:
    done = run("serve", *line.split())
    assert done.exit_code == 0, done.output
    assert f"exec = {json.dumps(words)}" in done.stdout.splitlines()


@each(
    ("text", "words"),
    [
        ("cat", ["cat"]),
        ("sh -c 'echo \"a  b\"' --http x", ["sh", "-c", 'echo "a  b"', "--http", "x"]),
        ("", None),
    ],
)
def test_the_variable_has_words_as_a_shell_reads_them(text: str, words: list[str] | None) -> None:
    assert shown(env={"A2A_BRIDGE_EXEC": text}).get("exec") == words
    assert shown("--exec", "other", env={"A2A_BRIDGE_EXEC": text})["exec"] == ["other"]


@each(
    ("arguments", "env", "problem"),
    [
        ("agent.py --exec cat", {}, "AGENT and --exec are both given"),
        ("--exec cat --http :0 agent.py", {}, "AGENT and --exec are both given"),
        ("--exec no-such-program-anywhere", {}, "there is no program no-such-program-anywhere on PATH"),
        ("--exec cat --exec-env A=b", {}, "names of variables"),
        ("--exec cat --exec-env A2A_BRIDGE_KEY", {}, "is not passed on"),
        ("--exec cat --exec-concurrency 0", {}, "--exec-concurrency"),
        ("--exec --http :0", {}, "--exec: needs at least one word"),
        ("--exec", {}, "--exec: needs at least one word"),
        ("--exec --", {}, "--exec: needs at least one word"),
        ("--exec=", {}, "--exec: needs at least one word"),
        ("agent.py --exec", {}, "--exec: needs at least one word"),
        ("agent.py --exec --no-grpc", {}, "--exec: needs at least one word"),
        ("--resume --exec cat", {}, "--resume: is for executors of the a2a-sdk"),
        ("--mask-errors --exec cat", {}, "--mask-errors: is for executors of the a2a-sdk"),
        ("--card no-such-card.json --exec cat", {}, "--card: no-such-card.json cannot be read"),
        ("", {"A2A_BRIDGE_EXEC": "sh -c 'x"}, "no closing quotation in A2A_BRIDGE_EXEC"),
    ],
)
def test_what_cannot_be_served_is_an_error(arguments: str, env: dict[str, str], problem: str) -> None:
    done = run("serve", *arguments.split(), env=env)
    assert done.exit_code == 2
    assert problem in " ".join(done.output.replace("│", " ").split())


@each(
    ("text", "problem"),
    [
        ('exec = ["cat", "-n"]\nexec_concurrency = 2', ""),
        ('[agents.a]\nexec = ["cat"]\nexec_env = ["X"]\n[agents.b]\nagent = "b.py"', ""),
        ('exec = "cat"', "exec has to be a valid list"),
        ("[agents.a]\nexec = [7]", 'has to be a text: "…"'),
        ('[agents.a]\nexec = ["cat"]\nagent = "a.py"', "each agent has one of them"),
        ('[agents.b]\nagent = "b.py"\n[agents.a]\nhost = "x"', "needs agent, or exec"),
        ("[agents.a]\nexec = []", "needs agent, or exec"),
        ('exec = ["cat"]\n[agents.a]\nexec = ["cat"]', "exec and [agents.NAME] are both there"),
    ],
)
def test_a_file_with_programs(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    path.write_text(text)
    done = run("config", "check", "--no-files", str(path))
    if problem:
        assert done.exit_code == 2
        assert problem in done.output
    else:
        assert (done.exit_code, done.output.strip()) == (0, f"{path}: valid for serve")
        assert effective(ServeFlags, ConfigFile.read(path), {}) is not None


def test_a_file_has_either_agents_or_a_program(tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    path.write_text('[agents.a]\nexec = ["cat"]')
    done = run("serve", "--config", str(path), "--exec", "cat")
    assert done.exit_code == 2
    assert "the tables [agents.NAME] and --exec are both given" in " ".join(
        done.output.replace("│", " ").split()
    )


async def gone(process: int) -> None:
    """Returns when a process has ended. process: its descriptor, which is closed."""
    try:
        readable, _, _ = await asyncio.to_thread(select.select, [process], [], [], PATIENCE)
        assert readable
    finally:
        os.close(process)


@pytest.mark.process
@each("transport", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_cat_answers_over_every_binding(transport: str) -> None:
    async with serving("serve", "--exec", "cat", *ANY_PORT) as running:
        done = await command("send", "-a", running.http, "--transport", transport, "hello ü")
        assert done.text == "hello ü"
        card = await command("card", "get", "-a", running.http, "-o", "json")
        assert '"cat"' in card.out


@pytest.mark.process
async def test_a_program_has_the_card_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    skill = {"id": "echo", "name": "Echo", "description": "Repeats.", "tags": ["text"]}
    # The server has its own addresses; those of the file are ignored.
    elsewhere = {"url": "https://agent.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
    path.write_text(
        json.dumps(
            {
                "name": "Echo",
                "description": "Repeats.",
                "version": "2",
                "skills": [skill],
                "capabilities": {"streeming": True},
                "skils": [],
                "supportedInterfaces": [elsewhere],
                **modes,
            }
        )
    )
    async with serving("serve", "--card", str(path), "--exec", "cat", *ANY_PORT) as running:
        card = (await command("card", "get", "-a", running.http, "-o", "json")).out
        assert '"Echo"' in card
        assert '"echo"' in card
        assert (await command("send", "-a", running.http, "hello")).text == "hello"
        running.signal()
        said = (await running.ended()).err
    assert f"{path}: unknown member skils; did you mean skills?" in said
    assert "unknown member streeming of capabilities; did you mean streaming?" in said
    done = run("serve", "--card", str(path), "--exec-name", "other", "--exec", "cat")
    assert done.exit_code == 2
    assert "--card has it" in done.output


@pytest.mark.process
async def test_several_programs_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    path.write_text(
        '[agents.plain]\nexec = ["cat"]\n\n[agents.loud]\nexec = ["tr", "a-z", "A-Z"]\nname = "Loud"\n'
    )
    async with serving("serve", "--config", str(path), *ANY_PORT) as running:
        for name, title, text in (("plain", "plain", "hello"), ("loud", "Loud", "HELLO")):
            url = f"{running.http}/agents/{name}"
            assert (await command("send", "-a", url, "hello")).text == text
            assert f'"{title}"' in (await command("card", "get", "-a", url, "-o", "json")).out


@pytest.mark.process
async def test_several_workers_serve_a_program() -> None:
    async with serving("serve", "--workers", "2", "--exec", "cat", *ANY_PORT) as running:
        assert (await command("send", "-a", running.http, "hello")).text == "hello"


@pytest.mark.process
async def test_a_signal_ends_the_server_and_its_programs(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    script = f"trap 'echo cleaned > {trace}; exit' TERM; sleep 600 & echo started >&2; wait"
    flags = ("--log-level", "info", "--timeout-graceful-shutdown", "0")
    async with serving("serve", *ANY_PORT, *flags, "--exec", "sh", "-c", script) as running:
        calling = asyncio.create_task(command("send", "-a", running.http, "x"))
        await logged(running, "sh: started")
        done = await running.ended_by_signal()
        assert done.code == 0
        assert trace.read_text() == "cleaned\n"
        await calling


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows the variables of processes")
async def test_a_task_at_work_fails_after_a_restart_and_its_program_ends(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'tasks.db'}"
    script = "echo $$ >&2; exec sleep 600"
    flags = ("--store", store, "--log-level", "info", *ANY_PORT)
    env = {"TMPDIR": str(tmp_path)}
    async with serving("serve", *flags, "--exec", "sh", "-c", script, env=env) as running:
        calling = asyncio.create_task(command("send", "-a", running.http, "x"))
        pid = int((await logged(running, "sh: ")).rpartition(" ")[2])
        # What a call shows is durable.
        listed = await command("task", "list", "-a", running.http, "-o", "json")
        assert "TASK_STATE_WORKING" in listed.out
        running.signal(signal.SIGKILL)
        await running.ended()
        await calling
    ended = os.pidfd_open(pid)  # the program has outlived its server
    async with serving("serve", *flags, "--exec", "sh", "-c", script, env=env) as running:
        listed = await command("task", "list", "-a", running.http, "-o", "json")
        assert "TASK_STATE_FAILED" in listed.out
        await gone(ended)


@pytest.mark.process
async def test_the_store_has_the_name_of_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weather.sh").write_text("cat")
    async with serving("serve", "--exec", "sh", "weather.sh", *ANY_PORT, env=FILES) as running:
        assert (await command("send", "-a", running.http, "hello")).text == "hello"
    assert (tmp_path / ".a2a-bridge" / "weather.db").exists()
