"""A serving command as a process: its event loop, and its end."""

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from a2a_bridge.app.process import stop_signals
from tests.cli.commands import ANY_PORT, command, serving
from tests.patience import PATIENCE
from tests.shared_library import need_shared_library

LOOPING = '''
import asyncio
import contextlib

from a2a_bridge import agent

@agent
async def looping(text: str) -> str:
    """Says which event loop it runs on."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]
'''


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "looping.py"
    path.write_text(LOOPING)
    return str(path)


def without_uvloop(folder: Path) -> dict[str, str]:
    """An environment in which uvloop is not installed."""
    (folder / "uvloop.py").write_text("raise ModuleNotFoundError('No module', name='uvloop')\n")
    return {"PYTHONPATH": str(folder)}


GATEWAY = """
import sys

from a2a_bridge import run_gateway
from a2a_bridge.ext import ListenAddress, ServeOptions

def shouting(service):
    class Shouting:
        def unary(self, call):
            print(call.operation.name, file=sys.stderr, flush=True)
            return service.unary(call)

        def stream(self, call):
            return service.stream(call)

    return Shouting()

options = ServeOptions(ListenAddress("127.0.0.1", 0), ListenAddress("127.0.0.1", 0), middleware=(shouting,))
run_gateway(sys.argv[1], options=options)
"""


async def test_a_gateway_as_a_program(target: str, tmp_path: Path) -> None:
    program = tmp_path / "gateway.py"
    program.write_text(GATEWAY)
    pipe = asyncio.subprocess.PIPE
    async with asyncio.timeout(PATIENCE), serving("serve", target, *ANY_PORT) as upstream:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(program), upstream.http, stdout=pipe, stderr=pipe
        )
        try:
            assert process.stdout is not None
            ready = dict(
                part.split("=", 1) for part in (await process.stdout.readline()).decode().split()[1:]
            )
            for address in (ready["http"], f"grpc://{ready['grpc']}"):
                assert (await command("send", "-a", address, "?", "--async")).code == 0
            process.terminate()
            _, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0
    assert err.decode().count("SendMessage") == 2


@pytest.mark.parametrize(
    ("flags", "installed", "name"),
    [
        ((), True, "uvloop"),
        (("--loop", "uvloop"), True, "uvloop"),
        (("--loop", "asyncio"), True, "asyncio"),
        ((), False, "asyncio"),
    ],
)
async def test_the_event_loop(
    flags: tuple[str, ...], installed: bool, name: str, target: str, tmp_path: Path
) -> None:
    env = {} if installed else without_uvloop(tmp_path)
    async with serving("serve", target, *ANY_PORT, "--log-level", "debug", *flags, env=env) as running:
        for address in (running.http, f"grpc://{running.grpc}"):
            assert (await command("send", "-a", address, "?")).text == name
        running.signal()
        done = await running.ended()
    assert done.code == 0, done.err
    assert f"Z DEBUG a2a_bridge.process: event loop: {name}\n" in done.err


async def test_a_gateway_has_the_flag_too(target: str) -> None:
    async with (
        serving("serve", target, *ANY_PORT) as agent,
        serving("gateway", agent.http, *ANY_PORT, "--loop", "asyncio", "--log-level", "debug") as running,
    ):
        running.signal()
        assert "event loop: asyncio" in (await running.ended()).err


async def test_a_loop_that_is_not_installed_is_an_error_with_the_install_command(
    target: str, tmp_path: Path
) -> None:
    done = await command("serve", target, *ANY_PORT, "--loop", "uvloop", env=without_uvloop(tmp_path))
    assert done.code == 2
    assert 'pip install "a2a-transport-bridge[uvloop]"' in done.err


async def test_while_it_drains_it_is_not_ready_and_still_answers(target: str) -> None:
    env = {"A2A_BRIDGE_DRAIN_WINDOW": "600", "A2A_BRIDGE_TIMEOUT_GRACEFUL_SHUTDOWN": "600"}
    async with serving("serve", target, *ANY_PORT, env=env) as running:
        async with httpx.AsyncClient(base_url=running.http, verify=False) as http:  # noqa: S501
            assert (await http.get("/readyz")).status_code == 200
            running.signal()
            async with asyncio.timeout(PATIENCE):
                while (await http.get("/readyz")).status_code == 200:
                    pass
            answer = await http.get("/.well-known/agent-card.json")
            assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert (await command("send", "-a", f"grpc://{running.grpc}", "?")).code == 0
        running.signal()
        done = await running.ended()
    assert done.code == 128 + 15
    assert not re.search("Traceback", done.err)


BLOCKING = '''
import asyncio, sys, time
import a2a_bridge.app.process
from a2a_bridge import agent, interface
from a2a_bridge.app.process import run
from a2a_bridge.app.runtime import ServeOptions

a2a_bridge.app.process._LAST = 0.3

@agent(task=True)
async def blocking(text: str) -> str:
    """Holds the event loop for ever."""
    print("blocked", flush=True)
    while True:
        time.sleep(1)

run(blocking, [interface("JSONRPC")], ServeOptions(grace=0.1), loop=sys.argv[1])
'''


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_an_agent_that_blocks_the_event_loop_keeps_no_process_from_ending(
    loop: str, tmp_path: Path
) -> None:
    (tmp_path / "blocking.py").write_text(BLOCKING)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(tmp_path / "blocking.py"),
        loop,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            url = (await process.stdout.readline()).decode().strip().partition("http=")[2]
            sending = asyncio.create_task(_send(url))
            assert await process.stdout.readline() == b"blocked\n"
            process.terminate()
            _, said = await process.communicate()
        await sending
        assert process.returncode == 1
        assert b"running tasks are orphans now" in said
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_signal_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second signal could come while the handler of the first one starts it, and start it again."""
    started: list[threading.Thread] = []
    with stop_signals(PATIENCE) as stop:
        monkeypatch.setattr(threading.Thread, "start", started.append)
        signal.raise_signal(signal.SIGTERM)
        handler: Any = signal.getsignal(signal.SIGTERM)
        handler(signal.SIGTERM, None)
        async with asyncio.timeout(PATIENCE):
            await stop.wait()
    assert (started, stop.cause) == ([], "SIGTERM")
    assert "a2a stop limit" not in {one.name for one in threading.enumerate()}


async def _send(url: str) -> None:
    """Sends a message without reading an answer."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        with contextlib.suppress(httpx.TransportError):
            await http.post(url, json=call, headers={"A2A-Version": "1.0"})


# What each process may import that serves and calls nothing: a supervisor, and a command that only shows help.
# Such a process loads neither protobuf nor a transport, a database or an agent. A supervisor stays small, and help
# is there at once.

#: prints what the first process has imported when it ends: packages of other projects, and modules of this one
_SCRIPT = """
import atexit, os, sys
def show():
    loaded = {name: getattr(module, "__file__", "") or "" for name, module in sys.modules.items()}
    others = {name.split(".")[0] for name, path in loaded.items() if "site-packages" in path}
    own = {".".join(name.split(".")[:3]) for name in loaded if name.startswith("a2a_bridge.")}
    print("LOADED", *sorted(others | own), file=sys.stderr)
if os.environ.setdefault("FIRST_PROCESS", str(os.getpid())) == str(os.getpid()):
    atexit.register(show)
from a2a_bridge.cli import main
main()
"""
_HELP = {
    "a2a_bridge.core",
    "a2a_bridge.core.extras",
    "a2a_bridge.core.foreign_text",
    "a2a_bridge.core.masking",
    "a2a_bridge.core.options",
    "a2a_bridge.extensions",
    "annotated_doc",
    "shellingham",
    "typer",
}
_VALIDATION = {"annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}
_CORE = {
    "a2a_bridge.core",
    "a2a_bridge.core.errors",
    "a2a_bridge.core.extras",
    "a2a_bridge.core.kinds",
    "a2a_bridge.core.addresses",
    "a2a_bridge.core.foreign_text",
    "a2a_bridge.core.masking",
    "a2a_bridge.core.option_classes",
}
_ENVOY = {"envoy", "find_libpython", "a2a_bridge.bindings", "a2a_bridge.bindings.server_tls"}
#: of the environment in which the tests run
_INSTALLED = {"_distutils_hack", "a2a_bridge", "a2a_bridge_transports", "coverage", "sitecustomize"}

COMMANDS = {
    "--help": _HELP,
    "--version": _HELP,
    "serve --help": _HELP | _CORE,
    "gateway --help": _HELP | _CORE,
    "send --help": _HELP | _CORE,
    "card --help": _HELP | _CORE,
    "task --help": _HELP | _CORE,
    "check --help": _HELP | _CORE,
    "compare --help": _HELP | _CORE,
    "auth --help": _HELP | _CORE,
    "ui --help": _HELP | _CORE,
    "db --help": _HELP | _CORE,
    "push --help": _HELP | _CORE,
    "keys --help": _HELP | _CORE,
    "config show serve": _HELP | _CORE,
    "config show gateway": _HELP | _CORE,
}
SUPERVISORS = {
    "serve x.py --store memory:// --server envoy": _HELP | _VALIDATION | _CORE | _ENVOY,
    "serve x.py --store memory://": _HELP | _VALIDATION | _CORE,
    "gateway http://127.0.0.1:9 --card card.json": _HELP | _VALIDATION | _CORE,
}
_AGENT = """
from a2a_bridge import agent

@agent
def echo(text: str) -> str:
    "Repeats what it is told."
    return text
"""
_CARD = """{"name": "a", "description": "d", "version": "1", "capabilities": {}, "skills": [], "defaultInputModes": [],
"defaultOutputModes": [], "supportedInterfaces": [{"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC",
"protocolVersion": "1.0"}]}"""


def _loaded(said: str) -> set[str]:
    (line,) = [one for one in said.splitlines() if one.startswith("LOADED ")]
    return {one for one in line.split()[1:] if not one.startswith("a2a_bridge.cli")} - _INSTALLED


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_command_that_shows_something_is_light(arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments.split()],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert _loaded(done.stderr) <= COMMANDS[arguments]


@pytest.mark.parametrize("arguments", SUPERVISORS)
def test_a_supervisor_is_light(arguments: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(_AGENT)
    (tmp_path / "card.json").write_text(_CARD)
    flags = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--workers", "2"]
    if "envoy" in arguments:
        need_shared_library()
        flags = ["--listen", "127.0.0.1:0"]
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, *arguments.split(), *flags],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=tmp_path,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert _loaded((tmp_path / "said").read_text()) <= SUPERVISORS[arguments]
