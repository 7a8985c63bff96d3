"""The columns of the table: a mistake or a fault, and what somebody on call sees of it. No tests.

Every message has to name its `fix`; "Usage" and the pointer to --help do not count. Where the log need not
say it, as a caller is at fault, docs/reference/symptoms.md does.
"""

import json
import os
import re
import shlex
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.certificates import new_identity
from tests.cli.commands import serving
from tests.docs.pages import DOCS
from tests.oncall.scene import Scene

#: what counts as a fix: a flag, a command, a variable, a table or key of the file, or what to do
_FIX = re.compile(
    r"--[a-z][a-z0-9-]+"
    r"|a2a-bridge [a-z]+"
    r"|A2A_BRIDGE_[A-Z_]+"
    r"|\[[a-z]+\.[A-Za-z]+\]"
    r"|(?i:did you mean) '?\w+'?\?"
    r"|http://\S+ if that is"
    r"|at the line shown above"
    r"|agents there: "
    r"|use a name that is in it"
    r"|@a2a_bridge\.agent"
    r"|pip install \S+"
    r"|mkdir -p "
    r"|renew it"
    r"|asyncio\.to_thread"
    r"|agents\.py:[a-z]+"
    r"|a newer a2a-bridge"
    r"|with the traceback"
)
_POINTERS = ("Usage: ", "Try 'a2a-bridge ")


@dataclass(frozen=True)
class Mistake:
    """A command line that ends. Names in braces stand for files and addresses of `scene.Scene`."""

    name: str
    #: the command line
    line: str
    #: what is said, in order
    says: tuple[str, ...]
    fix: str
    code: int = 2
    env: Mapping[str, str] = field(default_factory=dict)
    #: whether a traceback of the operator's own code is shown
    traceback: bool = False
    #: makes what the command line names, and puts it into the names
    prepare: Callable[..., Awaitable[Any]] | None = None


@dataclass(frozen=True)
class Fault:
    """A server that is hurt while it runs.

    hurt: breaks it, and makes the calls; gives the HTTP and the gRPC status that the caller saw. status: the
    expected ones; "" for no call. log: what the log says, in order. metric: a sample that is at least 1, or
    (name, labels, value).
    """

    name: str
    #: flags of the server
    flags: str
    hurt: Callable[..., Awaitable[tuple[int, str]]]
    status: tuple[int, str]
    log: tuple[str, ...]
    #: in the log, or in docs/reference/symptoms.md
    fix: str
    metric: tuple[str, Mapping[str, str]] | None = None
    value: float | None = None
    command: str = "serve {agent}"
    code: int = 0
    #: makes what the flags name, and puts it into the names
    prepare: Callable[..., Awaitable[Any]] | None = None
    #: whether the log has a traceback of the operator's own code
    traceback: bool = False


def check_fix(fix: str, text: str, name: str) -> None:
    said = "\n".join(line for line in text.splitlines() if not line.startswith(_POINTERS))
    assert fix in said, f"{name}: {fix!r} is not in\n{said}"
    assert _FIX.search(fix), f"{name}: {fix!r} is no flag, command, setting or thing to do"


def check_parts(parts: tuple[str, ...], text: str, name: str) -> None:
    """Fails unless the parts stand in a text, in this order."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{name}: {part!r} is not in\n{text}"
        at = found + len(part)


# Runs a row about a server that is hurt while it runs, and compares what is seen. No tests.


#: of every server: ports of its own, its metrics, all of its log, and no wait for calls that hang
_FLAGS = (
    "--http 127.0.0.1:0 --grpc 127.0.0.1:0 --admin 127.0.0.1:0 --log-level info "
    "--timeout-graceful-shutdown 0.5 --drain-window 0"
)


async def run(row: Fault, names: dict[str, str], folder: Path) -> None:
    """Starts the server of a row, hurts it, ends it, and checks what was seen."""
    async with AsyncExitStack() as stack:
        scene = Scene(folder, {**names, "own": str(folder)}, stack)
        if row.prepare is not None:
            scene.made = await row.prepare(scene)
        line = f"{row.command} {_FLAGS} {row.flags}".format(**scene.names)
        async with serving(*shlex.split(line), env={"COLUMNS": "500"}) as scene.running:
            seen = await row.hurt(scene)
            if scene.code is None:
                for part in row.log:
                    await scene.logged(part)
                if row.metric is not None:
                    await scene.measured(*row.metric, row.value)
                scene.running.signal()
                await scene.ended()
    said = scene.said
    if os.environ.get("SHOW"):
        print(f"## {row.name} {seen} {scene.code}\n{said}")
    assert seen == row.status, f"{row.name}: {seen}\n{said}"
    assert scene.code == row.code, f"{row.name}: {scene.code}\n{said}"
    assert row.traceback or "Traceback" not in said, said
    check_parts(row.log, said, row.name)
    symptoms = (DOCS / "reference/symptoms.md").read_text()
    check_fix(row.fix, said if row.fix in said else symptoms, row.name)


# The files and addresses of the table, made once for all of its rows. No tests.


AGENTS = '''
import asyncio, time
from a2a_bridge import Run, agent
from a2a_bridge.pb import lf_a2a_v1 as hub

@agent
async def echo(run: Run):
    """Repeats; or does what the message says."""
    word, _, rest = run.text.partition(" ")
    if word == "raise":
        raise RuntimeError("the agent is broken")
    if word == "task":
        yield run.status("working")
        yield run.status("completed")
    if word == "work":
        yield run.status("working")
        await asyncio.Event().wait()
    if word == "block":
        time.sleep(float(rest))
    if word == "large":
        yield run.artifact("x" * int(rest))
    yield run.reply(run.text[:100])

@agent
async def other(text: str) -> str:
    """Repeats."""
    if text == "raise":
        raise RuntimeError("the agent is broken")
    return text

scheme = hub.SecurityScheme(http_auth_security_scheme=hub.HTTPAuthSecurityScheme(scheme="Bearer"))

@agent(security={"token": scheme})
async def asking(text: str) -> str:
    """Its card asks for a token."""
    return text

@agent(push_notifications=True)
async def pushing(run: Run):
    """Notifies."""
    yield run.status("working")
    yield run.status("completed")
'''

#: an address that nobody has (RFC 5737), and a port where nobody listens
ELSEWHERE = "192.0.2.1:0"
NOBODY = "127.0.0.1:9"

_RED = f'[agents.red]\nupstream = "http://{NOBODY}"\n'
_BLUE = f'[agents.blue]\nupstream = "http://{NOBODY}"\n'
FILES = {
    "agents.py": AGENTS,
    "broken.py": "1 / 0",
    "empty.py": "x = 1",
    "junk.pem": "this is no PEM",
    "junk.db": "this is no database, but long enough to look like a file of one " * 20,
    "keys_junk.json": "junk",
    "keys_other.json": "{}",
    "jwks_empty.json": '{"keys": []}',
    "list.json": "[]",
    "key.toml": "max_cals = 3\n",
    "type.toml": 'max_calls = "x"\n',
    "syntax.toml": "max_calls = \n",
    "secret.toml": 'header = ["Authorization: Bearer x"]\n',
    "typo.toml": f'[agents.red]\nupstraem = "http://{NOBODY}"\n',
    "name.toml": f'[agents.Red]\nupstream = "http://{NOBODY}"\n',
    "hosts.toml": f'{_RED}host = "a.example"\n{_BLUE}host = "A.example"\n',
    "two.toml": _RED + _BLUE,
    "rules.toml": '[[rules]]\noperations = ["SendMesage"]\n',
    "served.toml": '[agents.red]\nagent = "{folder}/agents.py:echo"\n[agents.blue]\nagent = "{folder}/agents.py:other"\n',
    "log.toml": "version = 7",
    "short.key": "short",
}


@contextmanager
def places(folder: Path) -> Iterator[dict[str, str]]:
    """Writes the files; gives what stands for names in braces: `{folder}`, `{taken}` and so on."""
    for name, text in FILES.items():
        (folder / name).write_text(text.replace("{folder}", str(folder)))
    new_identity().written(folder, "server")
    new_identity().written(folder, "other")
    new_identity(begins=-3, ends=-2).written(folder, "expired")
    (folder / "directory").mkdir()
    (folder / "jwks_private.json").write_text(json.dumps({"keys": [{"kty": "oct", "k": "AAAA"}]}))
    with sqlite3.connect(folder / "foreign.db") as foreign:
        foreign.execute("CREATE TABLE books (title TEXT)")
    foreign.close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield {
            "folder": str(folder),
            "agent": f"{folder}/agents.py:echo",
            "any": "--http 127.0.0.1:0 --grpc 127.0.0.1:0",
            "taken": f"127.0.0.1:{taken.getsockname()[1]}",
            "nobody": NOBODY,
            "elsewhere": ELSEWHERE,
        }
