"""The table of mistakes on the command line: each exits with its code, and its text names the fix."""

import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from a2a_bridge.cli import app

ROWS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("table.toml").read_text("utf-8"))[
    "mistake"
]
AGENT = '@agent\nasync def {}(text: str) -> str:\n    """Repeats the text."""\n    return text\n'
FILES = {
    "one.py": "from a2a_bridge import agent\n" + AGENT.format("one"),
    "two.py": "from a2a_bridge import agent\n" + AGENT.format("a") + AGENT.format("b"),
    "plain.py": (
        "async def f(text):\n    return text\n\nx = 3\nnone, several, by_name = None, [f], {'f': f}\n"
        "class OpenAI: ...\nOpenAI.__module__ = 'openai'\nclient = OpenAI()\n"
    ),
    "executors.py": (
        "from a2a.server.agent_execution import AgentExecutor\n\nclass Weather(AgentExecutor):\n"
        "    async def execute(self, context, event_queue): ...\n"
        "    async def cancel(self, context, event_queue): ...\n"
    ),
    "sample/__main__.py": (
        "import sys\nsys.path.append('.')\nfrom executors import Weather\nif __name__ == '__main__':\n"
        "    import uvicorn\n    uvicorn.run(Weather())\n    raise SystemExit(3)\n"
    ),
    "sample/starts_too.py": "def main(app):\n    import uvicorn\n    uvicorn.run(app)\n",
    "starts.py": "from a2a_bridge import agent, run\n" + AGENT.format("one") + "\n\nrun(one)\n",
    "makes.py": (
        "def text(): return 'hi'\ndef none(): ...\ndef fails(): raise KeyError('API_KEY')\ndef empty():\n"
        "    yield from ()\nasync def answers(text):\n    yield text\ndef takes(config, runtime): ...\n"
        "def two(): return none, 3\nclass Makes:\n    def make(self): ...\n"
    ),
    "broken.py": "import nothing_of_this_name\n",
    "graph.py": "from langgraph.graph import StateGraph\n",
    "ends.py": "raise SystemExit(3)\n",
    "ends_well.py": "import sys\nsys.exit()\n",
    "empty.json": "{}",
    "named.json": '{"name": "n"}',
    "junk.pem": "junk",
    "bad.toml": "http = \n",
    "unknown.toml": "htpp = 'x'\n",
    "files.toml": (
        "store_key = '@store.key'\ncard = 'card.json'\n[agents.a]\nexec = ['absent']\n[agents.b]\nagent = 'absent.py'\n"
        "[agents.c]\nupstream = ':1'\n"
    ),
    "program.toml": "max_calls = 3\n[agents.a]\nexec = ['absent']\n",
    "serve.toml": "[serve]\nhttp = ':8080'\n",
    "folder/first.py": "",
    "folder/second.py": "",
    "nothing/readme.txt": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A2A_BRIDGE_STORE", "memory://")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in FILES:
        sys.modules.pop(Path(name).stem, None)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("row", ROWS, ids=[row["command"] for row in ROWS])
def test_a_mistake_and_its_text(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = shlex.split(row["command"])
    monkeypatch.setattr(sys, "argv", ["a2a-bridge", *arguments])
    done = CliRunner().invoke(app, arguments)
    said = " ".join((done.stderr + (done.stdout if row.get("on_stdout") else "")).split())
    assert done.exit_code == row["exit"], said
    assert isinstance(done.exception, SystemExit), done.exception
    for part in row["says"]:
        assert part in said
