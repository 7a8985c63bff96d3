"""Programs as agents: what they get, what they write, and how they end."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge import Agent, Program
from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.hosting.programs import ProgramError, process, remove_leftovers
from a2a_bridge.hosting.programs.process import _LINGER, printable
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.hosting.scene import (
    ALICE,
    BOB,
    CANCELED,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    SUBMITTED,
    WORKING,
    Talk,
    shapes,
)
from tests.hosting.shell import CRASHED, EVENTS, said, shell, text_of
from tests.patience import PATIENCE

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("files")]


async def ended(pid: int) -> None:
    """Returns when there is no process with this id any more, or only what is left of one."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]  # noqa: ASYNC240
            except OSError:
                return
            if state in "ZX":
                return
            await asyncio.sleep(0.01)


async def first_chunk(talk: Talk, text: str = "") -> tuple[str, str, AsyncIterator[Any]]:
    """The task of a message, the first text of its program, and the events after it."""
    events = talk.events(text)
    task_id = ""
    async for event in events:
        task_id = task_id or getattr(event, "task_id", "") or event.id
        if isinstance(event, hub.TaskArtifactUpdateEvent):
            return task_id, event.artifact.parts[0].text, events
    raise AssertionError("no text")


async def test_text_goes_in_and_comes_out_as_it_is() -> None:
    talk = Talk(Agent(Program("cat"), name="test"))
    for text in ("hello", "two\nlines\r\n", "ü€😀\0\t", "x" * 300_000):
        task = await talk.send(text)
        assert (task.status.state, text_of(task)) == (COMPLETED, text)
    await talk.close()


async def test_text_is_passed_on_before_the_program_ends(files: Path) -> None:
    go = files / "go"
    os.mkfifo(go)
    talk = shell('printf "first "; read -r _ < "$1"; printf second', str(go))
    _, text, events = await first_chunk(talk)
    assert text == "first "
    go.write_text("\n")
    assert shapes([one async for one in events]) == ["second", COMPLETED]
    await talk.close()


@each(
    ("script", "output"),
    [
        ("exit 0", ""),
        ("printf 'no newline'", "no newline"),
        ("exec <&-; echo closed", "closed\n"),
        (r"printf 'a\377b\303'", "a�b�"),
        ("head -c 3000000 /dev/zero | tr '\\0' x", "x" * 3_000_000),
        (r"""echo '{"status": "text, because no line says otherwise"}'""", None),
        ('printf %s "$A2A_EVENTS" | cut -c 1-9', "a2a-event\n"),
    ],
)
async def test_output_that_is_text(script: str, output: str | None) -> None:
    talk = shell(script)
    task = await talk.send("unread " * 1000)
    assert task.status.state == COMPLETED
    assert output is None or text_of(task) == output
    await talk.close()


async def test_events() -> None:
    lines = [
        {"status": "looking"},
        {"text": "Hel"},
        {"text": "lo", "last": True},
        {"data": {"n": [1, None, "ü"]}, "name": "numbers"},
        {"text": "a", "artifact": "log", "name": "log.txt"},
        {"text": "b", "artifact": "log"},
        {"message": "done"},
    ]
    script = EVENTS + "".join(f"echo '{json.dumps(one)}'\n" for one in lines) + "\nexit 0"
    talk = shell(script)
    events = await talk.stream("x")
    assert shapes(events) == [("task", SUBMITTED), WORKING, WORKING, "Hel", "lo", "", "a", "b", COMPLETED]
    task = await talk.get(events[0].id)
    assert said(task) == "done"
    assert [one.name for one in task.artifacts] == ["", "numbers", "log.txt"]
    assert [text_of(hub.Task(artifacts=[one])) for one in task.artifacts] == ["Hello", "", "ab"]
    await talk.close()


async def test_the_last_event_needs_no_end_of_its_line() -> None:
    talk = shell(EVENTS + """printf '\n{"text": "half a pair: \\ud800"}'""")
    assert text_of(await talk.send("x")) == "half a pair: �"
    await talk.close()


@each(
    ("line", "problem"),
    [
        ("nonsense secret", "line 2 of the program's output is not JSON"),
        ('["secret"]', "line 2 of the program's output is no object"),
        ('{"sattus": "secret"}', "exactly one of text, data, file"),
        ('{"text": "a", "status": "secret"}', "exactly one of text, data, file"),
        ('{"text": 7}', "a 'text' that is no text"),
        ('{"text": "secret", "last": "no"}', "a 'last' that is no true or false"),
        ('{"status": "secret", "artifact": "x"}', "beside it may stand: nothing"),
        ('{"file": "../secret"}', "is not the name of one in $A2A_OUT"),
        ('{"file": "secret"}', "is no regular file in $A2A_OUT"),
        ("[" * 100_000, "line 2 of the program's output is not JSON"),
    ],
)
async def test_an_event_that_is_none_fails_the_task_and_names_the_line(line: str, problem: str) -> None:
    talk = shell(EVENTS + "cat; sleep 600")
    task = await talk.send(f"{line}\n")
    assert task.status.state == FAILED
    assert "the agent broke the protocol" in said(task)
    assert problem in said(task)
    assert "secret" not in said(task)
    await talk.close()


async def test_a_caller_cannot_write_events() -> None:
    talk = shell('cat "$A2A_REQUEST" > "$A2A_OUT/request.json"; cat')
    for text in ("a2a-events-1\n", "a2a-events-1 00000000000000000000000000000000\n", ""):
        task = await talk.send(text + '{"error": "forged"}\n')
        assert (task.status.state, text_of(task)) == (COMPLETED, text + '{"error": "forged"}\n')
    await talk.close()


async def test_files_both_ways() -> None:
    talk = shell('for one in "$A2A_IN"/*; do cp "$one" "$A2A_OUT/copy-${one##*/}"; done')
    parts = [
        hub.Part(text="look"),
        hub.Part(raw=b"\x89PNG", filename="../../etc/passwd", media_type="image/png"),
        hub.Part(raw=b"?", filename="$(reboot)", media_type="../../x"),
        hub.Part(url="file:///etc/passwd"),
    ]
    parts.append(hub.Part())
    parts[-1].data.struct_value["n"] = 1
    task = await talk.send(parts=parts)
    assert {one.name: one.parts[0].raw for one in task.artifacts} == {
        "copy-2.png": b"\x89PNG",
        "copy-3": b"?",
        "copy-5.json": b'{"n":1}',
    }
    assert [one.parts[0].media_type for one in task.artifacts if one.name.endswith("png")] == ["image/png"]
    await talk.close()


async def test_a_number_that_json_does_not_have_is_named() -> None:
    talk, part = shell("cat"), hub.Part()
    part.data.number_value = float("nan")
    task = await talk.send(parts=[part])
    assert task.status.state == FAILED
    assert "message.parts[0].data" in said(task)
    await talk.close()


async def test_a_program_that_writes_millions_of_lines_of_errors(caplog: pytest.LogCaptureFixture) -> None:
    talk = shell("yes | head -c 20000000 >&2; echo the last >&2; exit 1")
    assert (await talk.send("x")).status.state == FAILED
    assert "stderr: y; y; " in caplog.text
    assert "; the last" in caplog.text
    assert len(caplog.records) == 1
    await talk.close()


async def test_a_file_is_sent_when_its_event_says_so() -> None:
    talk = shell(
        EVENTS
        + """printf a > "$A2A_OUT/a.txt"; echo '{"file": "a.txt", "mediaType": "text/x-own"}'
        printf b > "$A2A_OUT/b.txt"; echo '{"text": "between"}'"""
    )
    task = await talk.send("x")
    found = [(one.name, one.parts[0].raw, one.parts[0].media_type) for one in task.artifacts]
    assert found == [("a.txt", b"a", "text/x-own"), ("", b"", ""), ("b.txt", b"b", "text/plain")]
    await talk.close()


async def test_what_a_program_knows_about_its_run() -> None:
    talk = shell(
        'for one in TASK_ID CONTEXT_ID TENANT USER CONVERSATION TURN; do eval "echo \\"\\$A2A_$one\\""; done'
    )
    hostile = "../../\0x; $(reboot)\u202e"
    context = CallContext(principal=Principal("alice"), tenant="acme")
    task = await talk.send("x", context=context, context_id=hostile)
    assert task.context_id == hostile
    task_id, context_id, tenant, user, conversation, turn = text_of(task).splitlines()
    assert (task_id, context_id) == (task.id, hostile.replace("\0", "�"))
    assert (tenant, user, turn) == ("acme", "alice", "1")
    assert conversation.isalnum()
    await talk.close()


async def test_a_conversation_belongs_to_one_caller() -> None:
    talk = shell('printf %s "$A2A_CONVERSATION"')
    names = [
        text_of(await talk.send("x", context=who, context_id=context_id, message_id=str(number)))
        for number, (who, context_id) in enumerate(
            [(ALICE, "c"), (ALICE, "c"), (BOB, "c"), (ALICE, "d"), (None, "c")]
        )
    ]
    assert (names[0], len(set(names))) == (names[1], 4)
    await talk.close()


async def test_the_environment_is_a_fixed_list_and_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("A2A_BRIDGE_STORE_KEY", "secret")
    monkeypatch.setenv("WANTED", "yes")
    talk = Talk(Agent(Program("env", env=["WANTED", "ABSENT"]), name="test"))
    output = text_of(await talk.send("x"))
    names = {line.partition("=")[0] for line in output.splitlines()}
    assert "WANTED=yes" in output
    assert "secret" not in output
    own = {name for name in names if name.startswith("A2A_")}
    assert names - own <= {
        *(["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"]),
        "WANTED",
    }
    await talk.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows the files")
async def test_no_file_of_the_server_is_open_in_a_program(files: Path) -> None:
    with (files / "own").open("w") as own:
        os.set_inheritable(own.fileno(), True)
        talk = shell("ls /proc/self/fd | wc -l; readlink /proc/self/fd/*")
        output = text_of(await talk.send("x"))
        await talk.close()
    assert str(files / "own") not in output
    assert ".lock" not in output
    assert "socket" not in output


async def test_code_75_asks_and_the_next_message_answers() -> None:
    talk = shell(
        'if [ "$A2A_TURN" = 1 ]; then echo "Which city?" > "$A2A_QUESTION"; exit 75; fi; '
        'printf "%s, turn %s: " "$A2A_TASK_ID" "$A2A_TURN"; cat; cp "$A2A_REQUEST" "$A2A_OUT/request.json"'
    )
    asked = await talk.send("weather")
    assert (asked.status.state, said(asked)) == (INPUT, "Which city?")
    task = await talk.send("Oslo", task_id=asked.id, message_id="m-2")
    assert task.status.state == COMPLETED
    assert text_of(task).endswith(f"{asked.id}, turn 2: Oslo")
    request = json.loads(task.artifacts[-1].parts[0].raw)
    assert request["message"]["parts"] == [{"text": "Oslo"}]
    assert [one["parts"][0]["text"] for one in request["task"]["history"]] == [
        "weather",
        "Which city?",
        "Oslo",
    ]
    await talk.close()


@each(
    ("script", "state", "text"),
    [
        ("exit 75", INPUT, ""),
        (EVENTS + """echo '{"ask": "Which?"}'""", INPUT, "Which?"),
        (EVENTS + """echo '{"ask": "Which?"}'; exit 75""", INPUT, "Which?"),
        (EVENTS + """echo '{"ask": "Which?"}'; exit 1""", FAILED, CRASHED),
        (EVENTS + """echo '{"error": "no such city"}'""", FAILED, "no such city"),
        (EVENTS + """echo '{"error": "no such city"}'; exit 3""", FAILED, "no such city"),
        ("echo partly; echo the secret >&2; exit 3", FAILED, CRASHED),
        ("kill -9 $$", FAILED, CRASHED),
        ('ln -s /etc/passwd "$A2A_QUESTION"; exit 75', INPUT, ""),
        ('mkfifo "$A2A_QUESTION"; exit 75', INPUT, ""),
    ],
)
async def test_how_a_program_ends_is_the_state_of_its_task(script: str, state: Any, text: str) -> None:
    talk = shell(script)
    task = await talk.send("x")
    assert (task.status.state, said(task)) == (state, text)
    assert "secret" not in str(task)
    await talk.close()


async def test_stderr_goes_to_the_log_on_lines_without_control_characters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "a2a_bridge.hosting.programs")
    talk = shell(r"printf '\033[31mred\033[0m\rERROR forged\n' >&2; printf '%01000d' 0 >&2; exit 1")
    assert (await talk.send("x")).status.state == FAILED
    await talk.close()
    assert r"sh: \x1b[31mred\x1b[0m\x0dERROR forged" in caplog.text
    assert "\x1b" not in caplog.text
    assert max(len(line) for line in caplog.text.splitlines()) < 800
    (error,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "exit code 1; stderr: " in error.getMessage()


def test_printable() -> None:
    assert printable("ü€ \x1b\x00\u202e") == "ü€ \\x1b\\x00\\x202e"


async def test_cancellation_ends_the_whole_group() -> None:
    # Each says its id, and only one of them ends by itself.
    talk = shell("""sh -c 'trap "" TERM; echo $$; exec sleep 600' & (exec sleep 600) & echo $!; wait""")
    task_id, text, events = await first_chunk(talk)
    while text.count("\n") < 2:
        text += (await anext(events)).artifact.parts[0].text
    pids = [int(one) for one in text.split()]
    assert (await talk.cancel(task_id)).status.state == CANCELED
    for pid in pids:
        await ended(pid)
    await talk.close()


async def test_a_program_may_clean_up_when_it_is_cancelled(files: Path) -> None:
    talk = shell(
        "trap 'echo cleaned > \"$1\"; exit' TERM; sleep 600 & echo ready; wait", str(files / "trace")
    )
    task_id, _, _ = await first_chunk(talk)
    await talk.cancel(task_id)
    assert (files / "trace").read_text() == "cleaned\n"
    await talk.close()


async def test_the_close_of_the_engine_ends_programs() -> None:
    talk = shell("echo $$; exec sleep 600")
    task_id, text, _ = await first_chunk(talk)
    await talk.close()
    await ended(int(text))
    stopped = await talk.store.get(_nobody(), task_id)
    assert stopped is not None
    assert stopped.task.status.state == FAILED


async def test_a_program_has_a_limit_of_time() -> None:
    talk = shell("echo $$; exec sleep 600", timeout=0.5)
    task = await talk.send("x")
    assert (task.status.state, said(task)) == (FAILED, "the agent did not finish within 0.5 seconds")
    await ended(int(text_of(task)))
    await talk.close()


async def test_processes_that_are_left_in_the_group_end_with_the_program() -> None:
    talk = shell("sleep 600 & echo $!")
    task = await talk.send("x")
    assert task.status.state == COMPLETED
    await ended(int(text_of(task)))
    await talk.close()


@pytest.mark.skipif(sys.platform != "linux", reason="setsid")
async def test_a_process_outside_of_the_group_that_holds_stdout_open_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def wait(for_: Any, *, timeout: float) -> Any:  # noqa: ASYNC109  as that of asyncio
        waits.append(timeout)
        return await asyncio.wait(for_, timeout=timeout)

    monkeypatch.setattr(process, "asyncio", SimpleNamespace(**{**vars(asyncio), "wait": wait}))
    talk = shell(
        "setsid sh -c 'echo $$; exec sleep 600' & while ! [ -e /proc/$!/ns ]; do :; done; echo done; sleep 0.2"
    )
    task = await talk.send("x")
    assert task.status.state == COMPLETED
    pid = int(text_of(task).replace("done", ""))
    os.kill(pid, signal.SIGKILL)
    await talk.close()
    assert waits
    assert sum(waits) < _LINGER / 10  # the rest of what stdout was waited for, and not the same again


async def test_programs_take_turns(files: Path) -> None:
    go = files / "go"
    os.mkfifo(go)
    talk = shell('echo "$A2A_TASK_ID"; read -r _ < "$1"', str(go), concurrency=1)
    first, _, events = await first_chunk(talk)
    waiting = await talk.send("y", message_id="m-2", configuration=IMMEDIATELY)
    cancelled = await talk.send("z", message_id="m-3", configuration=IMMEDIATELY)
    assert (await talk.get(waiting.id)).status.state == SUBMITTED
    assert (await talk.cancel(cancelled.id)).status.state == CANCELED
    go.write_text("\n")
    assert shapes([one async for one in events]) == [COMPLETED]
    second = talk.subscribe(waiting.id)
    async for one in second:
        if isinstance(one, hub.TaskArtifactUpdateEvent) or (isinstance(one, hub.Task) and one.artifacts):
            break
    go.write_text("\n")
    async for _one in second:
        pass
    assert (await talk.get(waiting.id)).status.state == COMPLETED
    assert first != waiting.id
    await talk.close()


@each(
    ("words", "problem"),
    [
        (["no-such-program-anywhere"], "there is no program no-such-program-anywhere on PATH"),
        (["./absent"], "does not exist"),
        (["./plain"], "is not executable"),
        (["./bare"], "is a text without a first line such as #!/bin/sh"),
        (["./empty"], "is empty"),
        (["./lost"], "needs /no/such/sh, which does not exist"),
        (["./lost-env"], "needs no-such-node, which is not on PATH"),
        (["./nowhere"], "needs sh, which does not exist"),
        (["./windows"], r"has lines that end with \r\n, so its interpreter is '/bin/sh\r'"),
        (["./windows-env"], r"its interpreter is '/usr/bin/env sh\r'"),
        (["./marked"], "begins with a byte order mark"),
        (["./bare-too"], "is a text without a first line such as #!/bin/sh"),
        (["cat", "a\0b"], "NUL"),
    ],
)
async def test_a_program_that_cannot_be_started_is_an_error_at_once(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {
        "plain": "#!/bin/sh\n",
        "bare": "echo hello\n",
        "empty": "",
        "lost": "#!/no/such/sh -e\n",
        "lost-env": "#!/usr/bin/env -S no-such-node --flag\n",
        "nowhere": "#!sh\n",
        "windows": "#!/bin/sh\r\necho hello\r\n",
        "windows-env": "#!/usr/bin/env sh\r\n",
        "marked": "\ufeff#!/bin/sh\n",
        "bare-too": "echo grüße\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        (tmp_path / name).chmod(0o600 if name == "plain" else 0o700)
    with pytest.raises(ProgramError) as caught:
        Program(*words)
    assert problem in str(caught.value)


@each("options", [{"env": ["A=b"]}, {"env": ["A2A_BRIDGE_STORE_KEY"]}, {"env": "HOME"}, {"concurrency": 0}])
async def test_options_that_cannot_be_used(options: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        Program("cat", **options)


async def test_a_program_that_is_gone_later_fails_its_task(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    talk = Talk(Agent(Program(path), name="test"))
    path.unlink()
    task = await talk.send("x")
    assert (task.status.state, said(task)) == (FAILED, CRASHED)
    await talk.close()


KILLED = """
import asyncio, os, sys
from a2a_bridge import Agent, Program, connect

async def main():
    async with connect(Agent(Program("sh", "-c", "echo $$; exec sleep 600"), name="test")) as peer:
        async for text in peer.stream_text("x"):
            print(text, end="", flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows the variables of processes")
async def test_the_next_server_ends_the_programs_of_one_that_was_killed(files: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(files)}
    )
    assert server.stdout is not None
    async with asyncio.timeout(PATIENCE):
        pid = int(await server.stdout.readline())
        remove_leftovers()  # while its server lives, it is left alone
        assert os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240, PTH110
        server.kill()
        await server.wait()
    assert len(list(files.glob("a2a-bridge-programs-*"))) == 1  # noqa: ASYNC240
    remove_leftovers()
    await ended(pid)
    assert not list(files.glob("a2a-bridge-programs-*"))  # noqa: ASYNC240


def _nobody() -> Any:
    from a2a_bridge.stores.ports import Scope

    return Scope()
