"""What each process may import that serves and calls nothing: a supervisor, and a command that only shows help.

Such a process loads neither protobuf nor a transport, a database or an agent. A supervisor stays small, and help
is there at once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

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
    "a2a_bridge.core.masking",
    "a2a_bridge.core.options",
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
