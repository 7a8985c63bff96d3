"""The files and addresses of the table, made once for all of its rows. No tests."""

import json
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.certificates import new_identity

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
