"""The pytest plugin, in pytest processes of their own."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from a2a_bridge import agent, interface, serve
from tests.docs.pages import DOCS, blocks
from tests.patience import PATIENCE

pytestmark = pytest.mark.process

HEAD = """
import sys
import pytest
from a2a_bridge import Run, agent
from a2a_bridge.ext import hub

@agent(task=True)
async def asks(run: Run):
    if run.text == "boom":
        raise RuntimeError("secret")
    yield "one"
    yield "two"

@pytest.fixture
def a2a_target():
    return asks
"""


def run(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_page(tmp_path: Path) -> None:
    done = run(tmp_path, blocks(DOCS / "how-to/test-your-agent.md", "python")[0].body)
    assert "10 passed" in done.stdout, done.stdout
    (shown,) = blocks(DOCS / "how-to/test-your-agent.md", "text")
    assert "\n10 passed" in shown.body


def test_each_binding_by_name(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        HEAD
        + """
def test_bindings(a2a_peer, a2a_record, a2a_agent):
    reply = a2a_peer.send("hello")
    assert reply.text == "onetwo"
    events = a2a_peer.stream("hello")
    assert [e.WhichOneof("payload") for e in events][0] == "task"
    found = a2a_peer.run(a2a_peer.peer.get_task(hub.GetTaskRequest(id=reply.task.id)))
    assert found.id == reply.task.id
    heads = " ".join(frame.head for frame in a2a_record if frame.sent)
    assert {"JSONRPC": "POST / ", "HTTP+JSON": "POST /message:send", "GRPC": "SendMessage"}[a2a_peer.binding] in heads
    with pytest.raises(LookupError, match="no interface of NONE"):
        a2a_agent.url("NONE")

async def test_in_a_coroutine(a2a_peer):
    assert a2a_peer.send("hello").text == "onetwo"
""",
        "-vv",
    )
    assert "6 passed" in done.stdout, done.stdout
    assert set(re.findall(r"test_bindings\[(.*?)\] PASSED", done.stdout)) == {"JSONRPC", "HTTP+JSON", "GRPC"}


def test_a_failed_test_shows_its_frames(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        HEAD
        + """
def test_wrong(a2a_peer):
    assert a2a_peer.send("hello").text == "three"

def test_right(a2a_peer):
    a2a_peer.send("quiet")
""",
    )
    assert "3 failed, 3 passed" in done.stdout
    assert done.stdout.count("- A2A frames -") == 3
    assert "> POST / HTTP/1.1" in done.stdout
    assert "> /lf.a2a.v1.A2AService/SendMessage" in done.stdout
    assert "quiet" not in done.stdout.replace("test_right", "")


async def test_a_running_agent(tmp_path: Path) -> None:
    """Only its bindings are called, also by its URL."""

    @agent
    async def echo(text: str) -> str:
        return text

    async with serve(echo, [interface("JSONRPC")]) as server:
        text = f"""
import pytest

@pytest.fixture
def a2a_target():
    return "http://{server.http}"

def test_it(a2a_peer):
    assert a2a_peer.send("hello").text == "hello"
"""
        done = await asyncio.to_thread(run, tmp_path, text, "-rs")
    assert "1 passed, 2 skipped" in done.stdout, done.stdout
    assert "the agent has no interface of GRPC" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test_it(a2a_peer): pass", "a2a_target is not defined. Define it"),
        (
            "import pytest\n@pytest.fixture\ndef a2a_target(): return object()\ndef test_it(a2a_peer): pass",
            "Error: ",
        ),
    ],
    ids=["none", "no agent"],
)
def test_what_is_missing_is_said(tmp_path: Path, text: str, said: str) -> None:
    done = run(tmp_path, text)
    assert "3 errors" in done.stdout
    assert said in done.stdout


def test_other_tests_pay_nothing(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import sys

def test_it():
    loaded = {name for name in sys.modules if name.startswith("a2a_bridge")}
    assert loaded == {"a2a_bridge", "a2a_bridge.testing", "a2a_bridge.testing.plugin"}
""",
    )
    assert "1 passed" in done.stdout, done.stdout
    code = "import sys, pytest; there = set(sys.modules); import a2a_bridge.testing.plugin; print(sorted(set(sys.modules) - there))"
    words = [sys.executable, "-c", code]
    loaded = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    # pytest itself needs no asyncio.
    assert loaded.strip() == "['a2a_bridge', 'a2a_bridge.testing', 'a2a_bridge.testing.plugin']"
    fixtures = run(tmp_path, "", "--fixtures").stdout
    assert {"a2a_target", "a2a_agent", "a2a_peer", "a2a_record"} <= set(
        re.findall(r"^(a2a_\w+) --", fixtures, re.MULTILINE)
    )


def test_a_stream_that_does_not_end(tmp_path: Path) -> None:
    """Its events come one by one, a task is canceled between them, and streams that are left are disconnected."""
    done = run(
        tmp_path,
        """
import asyncio
import gc
import threading
import pytest
from a2a_bridge import agent
from a2a_bridge.ext import hub
from a2a_bridge.testing import agent_client

@agent
async def endless(text):
    yield "first"
    await asyncio.Event().wait()

@pytest.fixture
def a2a_target():
    return endless

def test_cancel(a2a_peer):
    events = a2a_peer.stream("go")
    task = next(events).task
    a2a_peer.run(a2a_peer.peer.cancel_task(hub.CancelTaskRequest(id=task.id)))
    states = [event.status_update.status.state for event in events if event.HasField("status_update")]
    assert states[-1] == hub.TASK_STATE_CANCELED
    assert list(events) == []

def test_left(a2a_peer):
    assert next(a2a_peer.stream("go")).task.id

def test_nothing_comes(a2a_peer, monkeypatch):
    events = a2a_peer.stream("go")
    while not next(events).HasField("artifact_update"):
        pass
    monkeypatch.setattr(agent_client, "LIMIT", 0.1)
    with pytest.raises(TimeoutError, match="no event for 0.1 seconds"):
        next(events)
    with pytest.raises(TimeoutError, match="not ended within 0.1 seconds"):
        a2a_peer.send("go")
    monkeypatch.undo()

def test_no_thread_is_left():
    gc.collect()
    assert [one.name for one in threading.enumerate()] == ["MainThread"]
""",
    )
    assert "10 passed" in done.stdout, done.stdout
    # Six tests leave a task that runs; a server that waits for it needs 10 seconds for each.
    (seconds,) = re.findall(r"passed in ([\d.]+)s", done.stdout)
    assert float(seconds) < 60


def test_an_error_of_a_stream_is_raised_by_the_test(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import pytest
from a2a_bridge import A2AError, agent

@agent
async def fails(text):
    raise RuntimeError("secret")

@pytest.fixture
def a2a_target():
    return fails

def test_it(a2a_peer):
    events = a2a_peer.stream("go")
    with pytest.raises(A2AError):
        next(events)
""",
    )
    assert "3 passed" in done.stdout, done.stdout


def test_an_agent_whose_card_asks_for_credentials(tmp_path: Path) -> None:
    """Nothing checks them here, so that the agent can be tested."""
    done = run(
        tmp_path,
        """
import pytest
from a2a_bridge import agent
from a2a_bridge.ext import hub

KEY = hub.SecurityScheme(api_key_security_scheme=hub.APIKeySecurityScheme(name="X-Key", location="header"))

@agent(security={"key": KEY})
async def guarded(text):
    return text

@pytest.fixture
def a2a_target():
    return guarded

def test_it(a2a_peer, a2a_agent):
    assert list(a2a_agent.card.security_schemes) == ["key"]
    assert a2a_peer.send("hello").text == "hello"
""",
    )
    assert "3 passed" in done.stdout, done.stdout
