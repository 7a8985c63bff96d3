"""Executors of a2a-sdk 1.x in files, as `serve` takes them: their names, flags and cards."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from a2a_bridge import A2AError, connect
from a2a_bridge.cli.server_flags import ServeFlags
from a2a_bridge.cli.server_options import AgentPlanner
from a2a_bridge.cli.target import BadTargetError, load, parse
from a2a_bridge.hosting.sdk.executor import MASKED, ResumingSdkExecutor
from a2a_bridge.testing.each import each
from tests.cli.commands import ANY_PORT, serving
from tests.patience import PATIENCE

pytestmark = pytest.mark.sdk

FILE = """
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import a2a_pb2

class Hello(AgentExecutor):
    async def execute(self, context, event_queue): ...
    async def cancel(self, context, event_queue): ...

card = a2a_pb2.AgentCard(name="c", version="1")
handler = DefaultRequestHandler(Hello(), InMemoryTaskStore(), card)
"""


@each(
    "more, name, found",
    [
        ("", "", "Hello"),
        ("hello = Hello()", "", "Hello"),
        ("hello = Hello()", ":hello", "Hello"),
        ("def make(): return Hello()", ":make", "Hello"),
        ("", ":handler", "Agent(handler.agent_executor"),
        ("a, b = Hello(), Hello()", "", "several agents"),
        ("class Other(Hello): pass", "", "several agents"),
    ],
)
async def test_serve_takes_an_executor_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, name: str, found: str
) -> None:
    path = tmp_path / "sdkexec.py"
    path.write_text(f"{FILE}\n{more}\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "sdkexec", raising=False)
    if found == "Hello":
        async with load(parse(f"{path}{name}")).open() as opened:
            assert opened.card.name == "Hello"
        return
    with pytest.raises(BadTargetError) as caught:
        load(parse(f"{path}{name}"))
    assert found in str(caught.value)


FAILING = """
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part

class Failing(AgentExecutor):
    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.failed(updater.new_agent_message([Part(text="a secret")]))
    async def cancel(self, context, event_queue): ...
"""


@pytest.mark.parametrize(("flags", "text"), [({}, "a secret"), ({"mask_errors": True}, MASKED)])
async def test_flags_of_serve_are_those_of_the_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: dict[str, bool], text: str
) -> None:
    path = tmp_path / "failing.py"
    path.write_text(FAILING)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "failing", raising=False)
    agent = AgentPlanner(ServeFlags(store="memory://", **flags)).load(str(path)).agent
    assert not isinstance(agent.executor, ResumingSdkExecutor)
    async with connect(agent) as peer:
        assert (await peer.send("begin")).text == text
    resuming = AgentPlanner(ServeFlags(store="memory://", resume=True, **flags)).load(str(path)).agent
    assert isinstance(resuming.executor, ResumingSdkExecutor)


CARD_0_3 = {
    "name": "carded",
    "description": "d",
    "version": "3",
    "protocolVersion": "0.3.0",
    "url": "http://elsewhere.example/",
    "preferredTransport": "JSONRPC",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [],
}


@pytest.mark.process
async def test_serve_takes_a_card_from_a_file(tmp_path: Path) -> None:
    file, card = tmp_path / "sdkexec.py", tmp_path / "card.json"
    file.write_text(FILE.replace("event_queue): ...", "event_queue): raise SystemExit"))
    card.write_text(json.dumps(CARD_0_3))
    async with (
        serving("serve", f"{file}:Hello", "--card", str(card), *ANY_PORT) as running,
        connect(running.http) as peer,
    ):
        assert (peer.card.name, peer.card.version) == ("carded", "3")
        assert not any("unmapped" in one.uri for one in peer.card.capabilities.extensions)
        assert {one.url.partition("//")[2] for one in peer.card.supported_interfaces} & {
            "elsewhere.example/"
        } == set()
        with pytest.raises(A2AError, match="Internal error"):
            await peer.send("hello")


@pytest.mark.process
def test_the_sdk_is_imported_only_for_its_executors() -> None:
    code = (
        "import sys; from a2a_bridge import Agent, agent, asgi; asgi(agent(lambda text: text));"
        "print([name for name in sys.modules if name.split('.')[0] == 'a2a'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "[]"
