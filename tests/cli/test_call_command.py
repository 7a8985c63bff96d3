"""`a2a-bridge call` and `card` as processes: data on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from a2a_bridge.cli.output import cannot_listen
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.resume import RESUME_URI
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.runtime import Server
from a2a_bridge.testing.probe import Probe, answering, waiting, yielding
from tests.cli.commands import agent, command, ended, spawn
from tests.patience import PATIENCE
from tests.resume.cutting import cutting
from tests.resume.scripted import Log, whole

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
MESSAGE = hub.SendMessageResponse(
    message=hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text="hello")])
)


def task(state: hub.TaskState, *texts: str, said: str = "") -> hub.SendMessageResponse:
    made = hub.Task(id="task-1", context_id="context-1", status=hub.TaskStatus(state=state))
    for number, text in enumerate(texts):
        made.artifacts.add(artifact_id=str(number), parts=[hub.Part(text=text)])
    if said:
        made.status.message.MergeFrom(
            hub.Message(message_id="s", role=hub.ROLE_AGENT, parts=[hub.Part(text=said)])
        )
    return hub.SendMessageResponse(task=made)


def events() -> list[hub.StreamResponse]:
    def chunk(artifact: str, text: str, *, append: bool = False) -> hub.StreamResponse:
        update = hub.TaskArtifactUpdateEvent(task_id="t", context_id="c", append=append)
        update.artifact.artifact_id = artifact
        update.artifact.parts.add(text=text)
        return hub.StreamResponse(artifact_update=update)

    def status(state: hub.TaskState) -> hub.StreamResponse:
        update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))
        return hub.StreamResponse(status_update=update)

    begun = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_SUBMITTED))
    return [
        hub.StreamResponse(task=begun),
        status(hub.TASK_STATE_WORKING),
        chunk("a", "one"),
        chunk("a", " two", append=True),
        chunk("b", "three"),
        status(hub.TASK_STATE_COMPLETED),
    ]


@pytest.fixture
def probe() -> Probe:
    made = Probe()
    made.on_unary = answering(MESSAGE)
    made.on_stream = yielding(*events())
    return made


def url(server: Server) -> str:
    return f"http://{server.http}"


@pytest.mark.parametrize("binding", ["", *BINDINGS])
async def test_the_answer_is_on_stdout_and_how_it_went_on_stderr(probe: Probe, binding: str) -> None:
    async with agent(probe) as server:
        done = await command("call", url(server), "hi", *(("--binding", binding) if binding else ()))
    assert (done.code, done.out) == (0, "hello\n")
    assert (binding or "JSONRPC") in done.err
    assert probe.last.context.origin.binding == (binding or "JSONRPC")
    assert [part.text for part in probe.last.request.message.parts] == ["hi"]


async def test_every_way_to_name_the_agent_reaches_it(probe: Probe, tmp_path: Path) -> None:
    async with agent(probe) as server:
        assert server.http is not None
        shown = await command("card", url(server), "-o", "json")
        (tmp_path / "card.json").write_text(shown.out)
        targets = [
            f":{server.http.port}",
            f"{url(server)}/.well-known/agent-card.json",
            str(server.grpc),
            f"grpc://{server.grpc}",
            str(tmp_path / "card.json"),
        ]
        for target in targets:
            assert (await command("call", target, "hi")).out == "hello\n"


async def test_output_on_stdout_and_stderr(probe: Probe) -> None:
    flags = ("--task", "task-9", "--context", "context-9", "--immediate", "-H", "X-One: 1")
    async with agent(probe) as server:
        await command("call", url(server), "hi", *flags, "--timeout", "30")
    message = probe.last.request.message
    assert (message.task_id, message.context_id) == ("task-9", "context-9")
    assert probe.last.request.configuration.return_immediately
    assert probe.last.context.parameters["x-one"] == "1"
    assert probe.last.context.deadline is not None


@pytest.mark.parametrize(
    ("answer", "code", "out"),
    [
        (task(hub.TASK_STATE_COMPLETED, "one", "two"), 0, "one\ntwo\n"),
        (task(hub.TASK_STATE_WORKING), 0, ""),
        (task(hub.TASK_STATE_INPUT_REQUIRED, said="which?"), 0, "which?\n"),
        (task(hub.TASK_STATE_FAILED, said="broken"), 1, "broken\n"),
        (task(hub.TASK_STATE_REJECTED), 1, ""),
        (task(hub.TASK_STATE_CANCELED), 1, ""),
        (task(hub.TASK_STATE_AUTH_REQUIRED), 5, ""),
        (A2AError(Reason.TASK_NOT_FOUND), 4, ""),
        (A2AError(Reason.INTERNAL_ERROR, code=-32050, name="OWN"), 4, ""),
        (A2AError(Reason.UNAUTHENTICATED), 5, ""),
        (A2AError(Reason.PERMISSION_DENIED), 5, ""),
        (A2AError(Reason.UNAVAILABLE), 3, ""),
        (A2AError(Reason.DEADLINE_EXCEEDED), 124, ""),
    ],
    ids=repr,
)
async def test_exit_codes(probe: Probe, answer: Any, code: int, out: str) -> None:
    probe.on_unary = answering(answer)
    async with agent(probe) as server:
        done = await command("call", url(server), "hi")
    assert (done.code, done.out) == (code, out), done.err
    assert "Traceback" not in done.err


async def test_a_task_that_asks_prints_the_command_to_answer(probe: Probe) -> None:
    probe.on_unary = answering(task(hub.TASK_STATE_INPUT_REQUIRED, said="which?"))
    async with agent(probe) as server:
        done = await command("call", url(server), "hi")
    assert "--task task-1" in done.err


async def test_an_unreachable_agent_ends_with_3(unused_tcp_port: int) -> None:
    for target in (f":{unused_tcp_port}", f"127.0.0.1:{unused_tcp_port}"):
        done = await command("call", target, "hi")
        assert (done.code, done.out) == (3, "")


async def test_an_http_address_taken_for_grpc_gets_advice(probe: Probe) -> None:
    async with agent(probe, "JSONRPC") as server:
        done = await command("call", str(server.http), "hi")
    assert done.code == 3
    assert f"http://{server.http}" in done.err


@pytest.mark.parametrize("flags", [(), ("--stream",), ("--binding", "all")], ids=" ".join)
async def test_time_is_up_ends_with_124(probe: Probe, flags: tuple[str, ...]) -> None:
    async def silent(_: Any) -> Any:
        await asyncio.Event().wait()
        yield

    probe.on_unary = waiting
    probe.on_stream = silent
    async with agent(probe) as server:
        done = await command("call", url(server), "hi", "--timeout", "1", *flags)
    assert done.code == 124, done.err
    assert done.out == "" or "all" in flags


async def test_json_is_one_document(probe: Probe) -> None:
    async with agent(probe) as server:
        done = await command("call", url(server), "hi", "-o", "json")
    assert done.json == {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}}


async def test_an_error_in_json_is_one_document_too(probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND, metadata={"taskId": "t"}))
    async with agent(probe) as server:
        done = await command("call", url(server), "hi", "-o", "json")
    assert done.code == 4
    assert (done.json["error"]["reason"], done.json["error"]["code"]) == ("TASK_NOT_FOUND", -32001)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_is_printed_as_it_comes(probe: Probe, binding: str) -> None:
    async with agent(probe) as server:
        text = await command("call", url(server), "hi", "--stream", "--binding", binding)
        lines = await command("call", url(server), "hi", "--stream", "--binding", binding, "-o", "json")
    assert (text.code, text.out) == (0, "one two\nthree\n")
    assert [next(iter(event)) for event in lines.lines] == [
        *("task", "statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate")
    ]


async def test_all_bindings_are_compared(probe: Probe) -> None:
    async with agent(probe) as server:
        for flags in ((), ("--stream",)):
            done = await command("call", url(server), "hi", "--binding", "all", *flags)
            rows = done.out.splitlines()
            assert done.code == 0, done.err
            assert [row.split()[0] for row in rows] == list(BINDINGS)
            assert ["identical" in row for row in rows] == [False, True, True]


async def test_answers_that_differ_end_with_4_and_say_where(probe: Probe) -> None:
    async def by_binding(call: Any) -> Any:
        answer = hub.SendMessageResponse()
        answer.CopyFrom(MESSAGE)
        answer.message.parts[0].text = call.context.origin.binding.replace("HTTP+JSON", "JSONRPC")
        return answer

    probe.on_unary = by_binding
    async with agent(probe) as server:
        done = await command("call", url(server), "hi", "--binding", "all", "-o", "json")
        text = await command("call", url(server), "hi", "--binding", "all")
    assert (done.code, text.code) == (4, 4)
    assert done.json["identical"] is False
    assert [one["identical"] for one in done.json["answers"]] == [True, True, False]
    assert "message.parts[0].text" in text.err


async def test_answers_that_differ_in_generated_values_are_equal_and_say_where(probe: Probe) -> None:
    async def with_id(call: Any) -> Any:
        answer = hub.SendMessageResponse()
        answer.CopyFrom(MESSAGE)
        answer.message.metadata["run"] = str(uuid4())
        return answer

    probe.on_unary = with_id
    async with agent(probe) as server:
        done = await command("call", url(server), "hi", "--binding", "all", "-o", "json")
        text = await command("call", url(server), "hi", "--binding", "all")
    assert (done.code, text.code) == (0, 0)
    assert done.json["identical"] is False
    assert ["generated" in one for one in done.json["answers"]] == [False, True, True]
    assert text.out.count("equal but for generated values") == 2
    assert "generated: [0].message.metadata.run" in text.err


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (hub.TASK_STATE_COMPLETED, 0),
        (hub.TASK_STATE_INPUT_REQUIRED, 0),
        (hub.TASK_STATE_FAILED, 1),
        (hub.TASK_STATE_AUTH_REQUIRED, 5),
    ],
)
async def test_a_comparison_ends_as_the_task_did(probe: Probe, state: hub.TaskState, code: int) -> None:
    update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))
    late = hub.StreamResponse(artifact_update=events()[2].artifact_update)
    probe.on_unary = answering(task(state))
    probe.on_stream = yielding(events()[0], hub.StreamResponse(status_update=update), late)
    async with agent(probe) as server:
        for flags in ((), ("--stream",)):
            done = await command("call", url(server), "hi", "--binding", "all", *flags)
            assert done.code == code, done.err
            assert done.out.count("identical") == 2


async def test_an_error_on_every_binding_is_compared_too(probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND, metadata={"taskId": "t"}))
    async with agent(probe) as server:
        done = await command("call", url(server), "hi", "--binding", "all", "-o", "json")
    assert done.code == 4
    assert done.json["identical"] is True
    assert {one["error"]["reason"] for one in done.json["answers"]} == {"TASK_NOT_FOUND"}


@pytest.mark.parametrize(
    ("binding", "sent", "received"),
    [
        ("JSONRPC", "> POST / HTTP/1.1", "< HTTP/1.1 200 OK"),
        ("HTTP+JSON", "> POST /message:stream HTTP/1.1", "< HTTP/1.1 200 OK"),
        ("GRPC", "> /lf.a2a.v1.A2AService/SendStreamingMessage", "< grpc-status: 0 OK"),
    ],
)
async def test_verbose_shows_the_frames_and_no_secret(
    probe: Probe, binding: str, sent: str, received: str
) -> None:
    flags = ("--stream", "-v", "--binding", binding, "-H", "Authorization: Bearer s3cret")
    async with agent(probe) as server:
        done = await command("call", url(server), "hi there", *flags)
    shown = [line.lower() for line in done.err.splitlines()]
    assert done.out == "one two\nthree\n"
    assert sent.lower() in shown
    assert received.lower() in shown
    assert "> a2a-version: 1.0" in shown
    assert "> authorization: bearer ***" in shown
    assert "s3cret" not in done.err
    assert any("hi there" in line for line in shown if line.startswith(">"))
    assert any("three" in line for line in shown if line.startswith("<"))


async def test_verbose_shows_how_a_grpc_call_failed(probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
    async with agent(probe, "GRPC") as server:
        done = await command("call", str(server.grpc), "hi", "-v")
    assert done.code == 4
    assert "< grpc-status: 5 NOT_FOUND" in done.err


async def test_the_card_as_text_and_as_json(probe: Probe) -> None:
    async with agent(probe) as server:
        text = await command("card", url(server))
        document = await command("card", url(server), "-o", "json")
    assert text.code == 0
    for binding in BINDINGS:
        assert binding in text.out
    assert [one["protocolBinding"] for one in document.json["supportedInterfaces"]] == list(BINDINGS)


async def test_the_extended_card_is_asked_for_with_credentials(probe: Probe) -> None:
    probe.on_unary = answering(hub.AgentCard(name="Extended"))
    async with agent(probe) as server:
        done = await command("card", url(server), "--extended", "-o", "json", "-H", "Authorization: Bearer t")
    assert done.json["name"] == "Extended"
    assert probe.last.context.parameters["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"from a pipe", "from a pipe"),
        (b"a line\n", "a line"),
        (b"two\nlines\n\n", "two\nlines\n"),
        (b"windows\r\n", "windows"),
        ("n\u00e4\n".encode(), "n\u00e4"),
    ],
)
async def test_text_from_standard_input(probe: Probe, octets: bytes, text: str) -> None:
    async with agent(probe) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "a2a_bridge", "call", url(server), "-"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(octets), PATIENCE)
    assert out == b"hello\n"
    assert probe.last.request.message.parts[0].text == text


async def test_standard_input_that_is_no_text(probe: Probe) -> None:
    async with agent(probe) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "a2a_bridge", "call", url(server), "-"),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        _, err = await asyncio.wait_for(process.communicate(b"na\xefve"), PATIENCE)
    assert process.returncode == 2
    assert b"not UTF-8 (byte 2)" in err
    assert b"Traceback" not in err
    assert not probe.calls


@pytest.mark.parametrize("words", [("cancel", "URL"), ("URL", "cancel"), ("URL", "cancel", "--task", "t")])
async def test_a_verb_of_the_protocol_is_not_sent_as_a_message(probe: Probe, words: tuple[str, ...]) -> None:
    async with agent(probe) as server:
        done = await command("call", *(url(server) if word == "URL" else word for word in words))
    assert done.code == 2
    assert "cannot cancel tasks" in " ".join(done.err.replace("│", " ").split())
    assert not probe.calls


async def test_the_reason_of_a_failure_is_printed_beside_the_artifacts(probe: Probe) -> None:
    probe.on_unary = answering(task(hub.TASK_STATE_FAILED, "half", said="the disk is full"))
    async with agent(probe) as server:
        done = await command("call", url(server), "hi")
    assert (done.code, done.out) == (1, "half\n")
    assert "failed: the disk is full" in done.err.lower()


async def test_a_reader_that_goes_away_is_no_crash(probe: Probe) -> None:
    async with agent(probe) as server:
        script = f"'{sys.executable}' -m a2a_bridge call {url(server)} hi --stream -o json | head -n 0"
        process = await asyncio.create_subprocess_shell(script, stderr=subprocess.PIPE)
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert b"Traceback" not in err


async def test_no_colour_without_a_terminal(probe: Probe) -> None:
    async with agent(probe) as server:
        done = await command("call", url(server), "hi", "-v")
    assert "\x1b" not in done.err + done.out


def test_version_and_help_load_no_transport_and_no_protobuf() -> None:
    script = (
        "import sys; from a2a_bridge.cli import app; "
        "heavy = {'grpc', 'aiohttp', 'google.protobuf', 'a2a_bridge.runtime'} & set(sys.modules); "
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_version_is_one_line() -> None:
    done = await command("--version")
    assert (done.code, done.out.count("\n")) == (0, 1)
    assert done.out.startswith("a2a-bridge ")
    assert json.dumps(done.err) == '""'


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_that_breaks_is_followed_when_that_is_wanted(binding: str, tmp_path: Path) -> None:
    log = Log(*whole(3))
    async with agent(log) as server:
        there = server.grpc if binding == "GRPC" else server.http
        assert there is not None
        async with cutting(there.host, there.port) as cutter:
            card = {
                "name": "cut",
                "capabilities": {"streaming": True, "extensions": [{"uri": RESUME_URI}]},
                "supportedInterfaces": [
                    {
                        "url": cutter.address if binding == "GRPC" else f"http://{cutter.address}",
                        "protocolBinding": binding,
                        "protocolVersion": "1.0",
                    }
                ],
            }
            target = tmp_path / "card.json"
            target.write_text(json.dumps(card))
            cutter.hold_after(3)
            process = await spawn("call", str(target), "go", "--follow", "-o", "json")
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE):
                before = [await process.stdout.readline() for _ in range(3)]
            cutter.cut()
            done = await ended(process)
    assert done.code == 0, done.err
    assert len(before) + len(done.lines) == 6
    assert [call.operation.name for call in log.calls] == ["SendStreamingMessage", "SubscribeToTask"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("call", "-o", "json", ":8080"),
        ("call", "--output=json", ":8080", "hi", "--binding", "REST"),
        ("call", ":8080", "hi", "--nope", "-ojson"),
        ("call", "no_such_file.py", "hi", "--output", "json"),
        ("card", "-o", "json"),
    ],
)
async def test_a_usage_error_is_a_json_document_too(arguments: tuple[str, ...]) -> None:
    done = await command(*arguments)
    assert done.code == 2
    error = done.json["error"]
    assert (error["reason"], error["code"]) == ("USAGE", 2)
    assert error["message"] in done.err


async def test_an_unknown_binding_is_a_usage_error_of_every_command() -> None:
    for name, *more in (("call", "hi"), ("gateway",)):
        done = await command(name, "http://127.0.0.1:1", *more, "--binding", "REST")
        assert (done.code, done.out) == (2, "")
        assert "'REST' is not one of JSONRPC, HTTP+JSON, GRPC" in done.err


def test_an_address_of_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """The second one is asyncio's on Python 3.13, which has no number."""
    for error in (
        OSError(errno.EADDRNOTAVAIL, "cannot assign requested address"),
        OSError("could not bind on any address out of [('203.0.113.7', 8080)]"),
    ):
        assert cannot_listen(error).exit_code == 2
        assert "an address of this machine" in capsys.readouterr().err
