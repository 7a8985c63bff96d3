"""What a command shows of a stream, and how long it waits for a task that does not change."""

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import connect
from a2a_bridge.app.peer import request_of
from a2a_bridge.bindings.following import Following
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from a2a_bridge_tools.client import sending
from a2a_bridge_tools.client.flags import WaitFlags
from a2a_bridge_tools.client.reaching import Session
from tests.cli.commands import ANY_PORT, agent, card, command, serving
from tests.patience import PATIENCE
from tests.tools.client.live import Live, theirs

req = pytest.mark.requirement
WORKING, COMPLETED = hub.TASK_STATE_WORKING, hub.TASK_STATE_COMPLETED


def message(text: str) -> hub.StreamResponse:
    said = hub.Message(message_id=f"m-{text}", role=hub.ROLE_AGENT, parts=[hub.Part(text=text)])
    return hub.StreamResponse(message=said)


def begun() -> hub.StreamResponse:
    return hub.StreamResponse(task=hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=WORKING)))


def status(state: hub.TaskState) -> hub.StreamResponse:
    update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))
    return hub.StreamResponse(status_update=update)


def chunk(artifact: str, *parts: hub.Part | str, append: bool = True) -> hub.StreamResponse:
    update = hub.TaskArtifactUpdateEvent(task_id="t", context_id="c", append=append)
    update.artifact.artifact_id = artifact
    update.artifact.parts.extend(hub.Part(text=one) if isinstance(one, str) else one for one in parts)
    return hub.StreamResponse(artifact_update=update)


SEVERAL = [message("one"), message("two"), message("three")]
BOTH = [begun(), message("one"), message("two"), message("three"), status(COMPLETED)]
LATE = [*BOTH[:3], status(COMPLETED), message("three")]


@pytest.fixture
def probe() -> Probe:
    return Probe()


@req("SEND_003")
@pytest.mark.parametrize("events", [SEVERAL, BOTH, LATE], ids=["messages", "task", "late"])
async def test_several_messages_in_one_stream(events: list[hub.StreamResponse], probe: Probe) -> None:
    probe.on_stream = yielding(*events)
    async with agent(probe, "JSONRPC") as server:
        await _check(events is not SEVERAL, "send", "hi", "-a", f"http://{server.http}")


@req("SEND_003")
@pytest.mark.parametrize("version", ["0.3", "1.0"])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_several_messages_through_a_gateway(version: str, binding: str, probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED))
    async with agent(probe, binding) as server:
        place = f"http://{server.http}" if server.http is not None else str(server.grpc)
        async with serving("gateway", place, *ANY_PORT) as gateway:
            words = ("send", "hi", "-a", gateway.http, "--a2a-version", version, "--transport", binding)
            for events in (SEVERAL, BOTH):
                probe.on_stream = yielding(*events)
                await _check(events is BOTH, *words)


async def _check(has_task: bool, *words: str) -> None:
    done = await command(*words)
    assert (done.code, done.text) == (0, "one\ntwo\nthree"), done
    assert done.fields.get("State") == ("completed" if has_task else None)
    streamed = await command(*words, "--stream")
    assert (streamed.code, streamed.text) == (0, "one\ntwo\nthree"), streamed
    assert streamed.fields.get("State") == ("completed" if has_task else None)
    lines = (await command(*words, "-o", "json")).lines
    said = [line["message"]["parts"][0]["text"] for line in lines if "message" in line]
    assert said == ["one", "two", "three"]
    assert [line["task"]["status"]["state"] for line in lines[3:]] == ["TASK_STATE_COMPLETED"] * has_task
    lines = (await command(*words, "-o", "json", "--stream")).lines
    assert [next(iter(line)) for line in lines if "message" in line] == ["message"] * 3


async def test_an_agent_that_leaves_its_stream_of_messages_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is waited for than a further message within a limit."""
    monkeypatch.setattr(sending, "_FURTHER", 0.05)
    probe = Probe()
    probe.on_stream = _spoken_and_open
    async with agent(probe, "JSONRPC") as server, connect(f"http://{server.http}") as peer:
        session = Session(peer, peer.card, ())
        request = request_of(("hi",))
        found = [one async for one in sending.send_and_wait(session, request, WaitFlags(), streamed=True)]
    assert found == SEVERAL[:1]


async def _spoken_and_open(_call: Any) -> Any:
    yield SEVERAL[0]
    await sending.asyncio.Event().wait()


@req("OUT_003")
async def test_the_text_of_an_artifact_flows(probe: Probe) -> None:
    probe.on_stream = yielding(
        begun(),
        chunk("a-1", "The weather", append=False),
        status(WORKING),
        chunk("a-1", " in Oslo"),
        chunk("a-1", " is fine.\nIt", " stays so."),
        chunk("a-1", hub.Part(raw=b"x", filename="map.png", media_type="image/png")),
        chunk("a-2", "Sources", append=False),
        chunk("a-2", " follow\n"),
        chunk("a-2", "anew", append=False),
        status(COMPLETED),
    )
    async with agent(probe) as server:
        done = await command("send", "hi", "--stream", "-a", f"http://{server.http}")
    shown, _, last = done.out.partition("Next:")
    assert shown == (
        "Text:\nThe weather in Oslo is fine.\nIt stays so.\n\n"
        "File: map.png image/png 1 bytes\n\n"
        "Text:\nSources follow\n\n"
        "Text:\nanew\n\n"
        "Task: t\nContext: c\nState: completed\n"
    )
    assert "--context-id c" in last
    assert [line for line in done.err.splitlines() if line.startswith("artifact ")] == [
        "artifact a-1",
        "artifact a-2",
        "artifact a-2",
    ]
    assert done.err.count("working") == 2  # when it began, and once on the way


@req("OUT_003")
async def test_an_error_ends_the_line_of_a_text(probe: Probe) -> None:
    probe.on_stream = yielding(
        begun(), chunk("a", "half", append=False), A2AError(Reason.INVALID_PARAMS, "no")
    )
    async with agent(probe) as server:
        done = await command("send", "hi", "--stream", "-a", f"http://{server.http}")
    assert (done.code, done.out) == (1, "Text:\nhalf\n")


@req("TASK_POLL_004")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("flags", [(), ("--stream",)], ids=["", "stream"])
async def test_an_agent_that_fails_and_leaves_its_task(
    peer_agents: Any, binding: str, flags: tuple[str, ...]
) -> None:
    """a2a-sdk 0.3.26 breaks the stream and keeps the task as it was, for ever."""
    live = theirs(peer_agents("0.3.26"), binding)
    words = ("--a2a-version", "0.3", "--silence-timeout", "2", "--timeout", "60", "-o", "json")
    done = await live.run("send", "script: open; work; crash", *words, *flags)
    assert done.code == 5, done
    error = done.lines[-1]["error"]
    assert error["code"] == "A2ACLI_ERR_TIMEOUT"
    assert "nothing of the task has changed for 2 s" in error["message"]
    assert "is still " in error["message"]
    assert error["hint"].endswith("--wait")
    assert error["hint"].split()[-2] in done.err.splitlines()[0]
    assert "note: the stream broke" in done.err


@req("TASK_POLL_004")
@pytest.mark.parametrize("words", [("send", "hi"), ("send", "hi", "--stream"), ("task", "subscribe", "t")])
async def test_a_break_is_said_at_once_with_its_cause(words: tuple[str, ...], probe: Probe) -> None:
    cut = A2AError(Reason.UNAVAILABLE, "the pipe burst", blame=Blame.PEER)
    streams: list[Any] = []

    async def on_stream(call: Any) -> Any:
        streams.append(call)
        yield begun()
        if len(streams) == 1:
            raise cut
        await sending.asyncio.Event().wait()  # the stream that resumes brings nothing

    probe.on_stream = on_stream
    probe.on_unary = answering(begun().task)
    async with agent(probe, "JSONRPC") as server:
        flags = ("-a", f"http://{server.http}", "--silence-timeout", "1", "--timeout", "60")
        done = await command(*words, *flags)
    assert done.code == 5, done
    first, *_, last = [line for line in done.err.splitlines() if line.startswith(("note:", "error:"))]
    assert first.startswith("note: the stream broke (the pipe burst); it is resumed for at most ")
    assert first.endswith("s without a change (--silence-timeout). Ctrl+C leaves, and the task goes on")
    assert "nothing of the task has changed for 1 s since its stream broke (the pipe burst)" in last
    assert len(streams) == 2


@req("TASK_POLL_001")
async def test_an_unbroken_stream_may_be_silent(probe: Probe) -> None:
    paused: list[float] = []

    async def on_stream(_: Any) -> Any:
        yield begun()
        started = sending.monotonic()
        await sending.asyncio.wait({sending.asyncio.ensure_future(sending.asyncio.sleep(0.5))})
        paused.append(sending.monotonic() - started)
        yield status(COMPLETED)

    probe.on_stream = on_stream
    async with agent(probe, "JSONRPC") as server:
        done = await command("send", "hi", "-a", f"http://{server.http}", "--silence-timeout", "0.1")
    assert (done.code, done.fields["State"]) == (0, "completed"), done.err


async def test_looks_at_a_task_that_does_not_change_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = 0.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    class Unchanging:
        looks = 0

        async def get_task(self, request: Any, context: CallContext) -> hub.Task:
            self.looks += 1
            return status_task(COMPLETED if now > 3600 else WORKING)

    def status_task(state: hub.TaskState) -> hub.Task:
        return hub.Task(id="t", status=hub.TaskStatus(state=state))

    monkeypatch.setattr(sending.asyncio, "sleep", sleep)
    monkeypatch.setattr(sending, "monotonic", lambda: now)
    peer: Any = Unchanging()
    flags = WaitFlags(silence_timeout=0)
    looks = [one async for one in sending.poll(Session(peer, card(), ()), status_task(WORKING), flags)]
    assert [one.status.state for one in looks] == [COMPLETED]
    assert (pauses[:5], pauses[5]) == ([0.1, 0.2, 0.4, 0.8, 1.6], 2.0)
    assert (pauses, pauses[-1]) == (sorted(pauses), 30.0)
    assert peer.looks < 200  # every two seconds it would be 1800


async def test_a_stream_that_is_resumed_without_an_event_ends_with_what_broke_it(probe: Probe) -> None:
    cut = A2AError(Reason.UNAVAILABLE, "the pipe burst", blame=Blame.PEER)
    probe.on_stream = yielding(begun(), cut)
    probe.on_unary = answering(begun().task)
    broken: list[Any] = []

    def note(error: A2AError | None) -> None:
        broken.append(error)
        probe.on_stream = yielding()

    following = Following(first=0.0, on_break=note)
    plain = card(capabilities=hub.AgentCapabilities(streaming=True))
    async with agent(probe, "JSONRPC", shown=plain) as server, connect(f"http://{server.http}") as peer:
        with pytest.raises(A2AError, match="the pipe burst"):
            async for _ in peer.stream("hi", follow=following):
                pass
    assert [one.message for one in broken] == ["the pipe burst"]


# The line of progress: on stderr, in a terminal, and nowhere else.


pty = pytest.importorskip("pty")


def in_terminal(*words: str, code: int = 0) -> tuple[str, str]:
    """Standard output, and what a terminal got on standard error."""
    ours, theirs = pty.openpty()
    words = (sys.executable, "-m", "a2a_bridge", *words)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        assert process.stdout is not None
        shown, end = b"", time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if select.select([ours], [], [], 1.0)[0]:
                try:
                    shown += os.read(ours, 4096)
                except OSError:  # the other side is closed
                    break
        else:
            process.kill()
            raise AssertionError(f"the command has not ended: {shown!r}")
        out = process.stdout.read().decode()
        assert process.wait(PATIENCE) == code, shown
    os.close(ours)
    return out, shown.decode().replace("\r\n", "\n")


def screen(shown: str) -> list[str]:
    """The lines that a terminal has at the end."""
    lines = []
    for line in shown.split("\n"):
        cells: list[str] = []
        for piece in line.split("\r"):
            cells[: len(piece)] = piece
        lines.append("".join(cells).rstrip())
    return lines


def test_a_long_task_is_shown_while_it_is_waited_for(one: Live) -> None:
    out, shown = in_terminal("send", "tck-long-running", "-a", one.reference)
    identifier = next(line.removeprefix("Task: ") for line in out.splitlines() if line.startswith("Task: "))
    assert re.search(rf"\rtask {identifier}: working, \d s", shown)
    assert not [line for line in screen(shown) if "working, " in line]
    assert "\r" not in out
    assert "\x1b" not in out


def test_a_task_that_is_looked_at_again(one: Live) -> None:
    started, _ = in_terminal("send", "tck-cancel", "--async", "-a", one.reference)
    identifier = next(
        line.removeprefix("Task: ") for line in started.splitlines() if line.startswith("Task: ")
    )
    waiting = ("task", "get", identifier, "--wait", "--timeout", "5s")
    out, shown = in_terminal(*waiting, "-a", one.reference, "-o", "json", code=5)
    assert re.search(rf"\rtask {identifier}: working, \d s; Ctrl-C leaves it", shown)
    assert out.count("\n") == 1
    assert "TIMEOUT" in out
    in_terminal("task", "cancel", identifier, "-a", one.reference)


def test_files_are_counted(one: Live, tmp_path: Path) -> None:
    sent, shown = in_terminal(
        "send", "tck-artifact-file", "-a", one.reference, "--save-fileparts", str(tmp_path / "a")
    )
    assert "\rsaving 1 of 1: " in shown
    identifier = next(line.removeprefix("Task: ") for line in sent.splitlines() if line.startswith("Task: "))
    out, shown = in_terminal(
        "task", "download", identifier, "-a", one.reference, "--output-dir", str(tmp_path / "b")
    )
    assert "\rsaving 1 of 1: output.txt" in shown
    assert not [line for line in screen(shown) if line.startswith("saving")]
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["output.txt"]
    assert "\r" not in out


def test_the_size_of_files_is_shown_until_there_is_a_task(one: Live, tmp_path: Path) -> None:
    # An agent that takes its time before it says anything: it gives its response when all is done.
    file = tmp_path / "sent.bin"
    file.write_bytes(b"x" * 5000)
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import asyncio\n"
        "from a2a_bridge import agent\n"
        "@agent\n"
        "async def slow(text: str) -> str:\n"
        "    await asyncio.sleep(2.5)\n"
        "    return text\n"
    )
    out, shown = in_terminal("send", "hello", "--file-part", str(file), "-a", str(slow))
    assert "\rwaiting for the agent (1 file, 5000 bytes), 1 s" in shown
    assert "hello" in out


async def test_without_a_terminal_there_is_no_line(one: Live) -> None:
    done = await one.run("send", "tck-long-running")
    assert done.code == 0
    assert "\r" not in done.err
    assert "working, " not in done.err
    assert done.fields["State"] == "completed"


# --- `chat` in a terminal: a pseudo-terminal, as a user has one ---
class Terminal:
    def __init__(self, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "a2a_bridge", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.STDOUT,
        )
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._ours, f"{text}\n".encode())

    def until(self, pattern: str) -> re.Match[str]:
        """Reads until the output since the last call has the pattern."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := re.search(pattern, self.shown, re.DOTALL):
                self.shown = self.shown[found.end() :]
                return found
            if select.select([self._ours], [], [], 1.0)[0]:
                self.shown += os.read(self._ours, 4096).decode(errors="replace").replace("\r\n", "\n")
        raise AssertionError(f"{pattern} is not in {self.shown!r}")


@pytest.mark.requirement("CHAT_001", "AUTH_011")
def test_context_and_task_go_along(one: Live) -> None:
    terminal = Terminal("chat", "-a", one.reference)
    terminal.until("to Demo")
    terminal.type("tck-input-required")
    asked = terminal.until(r"Task: (\S+)\nContext: (\S+)\nState: input-required")
    terminal.until(r"to Demo \(it asks\)")
    terminal.type("the answer")
    answered = terminal.until(r"Task: (\S+)\nContext: (\S+)\nState: completed")
    assert answered.groups() == asked.groups()
    terminal.until("to Demo")
    terminal.type("")
    terminal.type("hello again")
    following = terminal.until(r"Task: (\S+)\nContext: (\S+)\nState: completed")
    assert following[2] == asked[2]
    assert following[1] != asked[1]
    terminal.until("to Demo")
    terminal.type("/quit")
    assert terminal.process.wait(PATIENCE) == 0
