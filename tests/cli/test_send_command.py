"""`a2a-bridge send`, `compare` and `card get` as processes: results on stdout, talk on stderr, exit codes."""

import asyncio
import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from a2a_bridge.app.runtime import Server
from a2a_bridge.cards import interface
from a2a_bridge.cli.output import cannot_listen
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.resume import RESUME_URI
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, waiting, yielding
from a2a_bridge_tools.client.comparing import rule_of
from tests.cli.commands import Done, agent, card, command, ended, spawn
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


async def send(server: Server, *words: str, **options: Any) -> Done:
    return await command("send", "-a", url(server), *words, **options)


@pytest.mark.parametrize("binding", ["", *BINDINGS])
async def test_the_answer_is_on_stdout(probe: Probe, binding: str) -> None:
    async with agent(probe, shown=card(capabilities=None)) as server:
        done = await send(server, "hi", *(("--transport", binding) if binding else ()))
    assert (done.code, done.out) == (0, "Message: m\nText:\nhello\n\n")
    assert probe.last.context.origin.binding == (binding or "JSONRPC")
    assert [part.text for part in probe.last.request.message.parts] == ["hi"]


async def test_every_way_to_name_the_agent_reaches_it(probe: Probe, tmp_path: Path) -> None:
    async with agent(probe) as server:
        assert server.http is not None
        shown = await command("card", "get", "-a", url(server), "-o", "json")
        (tmp_path / "card.json").write_text(shown.out)
        references = [
            f":{server.http.port}",
            f"127.0.0.1:{server.http.port}",
            f"localhost:{server.http.port}",
            f"{url(server)}/.well-known/agent-card.json",
            f"grpc://{server.grpc}",
            str(tmp_path / "card.json"),
            (tmp_path / "card.json").as_uri(),
        ]
        for reference in references:
            done = await command("send", "-a", reference, "hi", "-o", "json")
            assert done.json["task"]["status"]["state"] == "TASK_STATE_COMPLETED", reference
            done = await command("send", "hi", "--async", env={"A2ACLI_AGENT_CARD": reference})
            assert done.text == "hello", done.err
        for binding, address in (("JSONRPC", url(server)), ("rest", url(server)), ("grpc", str(server.grpc))):
            done = await command("send", "-e", address, "--transport", binding, "hi", "--async")
            assert done.text == "hello", done.err


async def test_flags_are_in_the_request(probe: Probe) -> None:
    flags = ("--task-id", "task-9", "--context-id", "context-9", "--async", "-H", "X-One: 1")
    async with agent(probe) as server:
        await send(server, "hi", *flags, "--timeout", "30s", "--metadata", '{"a": {"b": 1}}')
    request = probe.last.request
    assert (request.message.task_id, request.message.context_id) == ("task-9", "context-9")
    assert request.configuration.return_immediately
    assert request.metadata["a"]["b"] == 1
    assert probe.last.context.parameters["x-one"] == "1"
    assert probe.last.context.deadline is not None


@pytest.mark.parametrize(
    ("answer", "state", "warned"),
    [
        (task(hub.TASK_STATE_COMPLETED, "one", "two"), "completed", ""),
        (task(hub.TASK_STATE_INPUT_REQUIRED, said="which?"), "input-required", "input-required: which?"),
        (task(hub.TASK_STATE_FAILED, said="broken"), "failed", "failed: broken"),
        (task(hub.TASK_STATE_REJECTED), "rejected", "rejected"),
        (task(hub.TASK_STATE_CANCELED), "canceled", "canceled"),
        (task(hub.TASK_STATE_AUTH_REQUIRED), "auth-required", "auth-required"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
async def test_what_becomes_of_a_task_is_no_exit_code(
    probe: Probe, answer: Any, state: str, warned: str
) -> None:
    probe.on_unary = answering(answer)
    async with agent(probe, shown=card(capabilities=None)) as server:
        done = await send(server, "hi")
    assert (done.code, done.fields["State"]) == (0, state), done.err
    assert (done.fields["Task"], done.fields["Context"]) == ("task-1", "context-1")
    assert f"warning: the task is {warned}" in done.err if warned else "warning" not in done.err


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (A2AError(Reason.TASK_NOT_FOUND), 1, "TaskNotFoundError"),
        (A2AError(Reason.CONTENT_TYPE_NOT_SUPPORTED), 1, "ContentTypeNotSupportedError"),
        (A2AError(Reason.INTERNAL_ERROR), 1, "InternalError"),
        (A2AError(Reason.INTERNAL_ERROR, code=-32050, name="OWN"), 1, "OWN"),
        (A2AError(Reason.UNAUTHENTICATED), 4, "A2ACLI_ERR_CREDENTIALS_MISSING"),
        (A2AError(Reason.PERMISSION_DENIED), 4, "A2ACLI_ERR_CREDENTIALS_MISSING"),
        (A2AError(Reason.UNAVAILABLE), 3, "A2ACLI_ERR_UNREACHABLE"),
        (A2AError(Reason.DEADLINE_EXCEEDED), 5, "A2ACLI_ERR_TIMEOUT"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("binding", BINDINGS)
async def test_errors_are_the_same_over_every_binding(
    probe: Probe, binding: str, error: A2AError, code: int, name: str
) -> None:
    probe.on_unary = answering(error)
    async with agent(probe) as server:
        done = await send(server, "hi", "--async", "-o", "json", "--transport", binding)
    shown = done.json["error"]
    assert (done.code, shown["code"]) == (code, name), done.err
    assert set(shown) == {"code", "message", "hint", "a2aCode"}
    assert shown["a2aCode"] == (error.code if name.endswith("Error") else None)
    assert "Traceback" not in done.err


async def test_a_rejected_credential_is_another_error(probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.UNAUTHENTICATED))
    async with agent(probe) as server:
        done = await send(server, "hi", "--async", "-o", "json", "--bearer", "s3cret")
    assert (done.code, done.json["error"]["code"]) == (4, "A2ACLI_ERR_AUTH_FAILED")
    assert "s3cret" not in done.out + done.err


async def test_a_task_that_asks_prints_the_command_to_answer(probe: Probe) -> None:
    probe.on_unary = answering(task(hub.TASK_STATE_INPUT_REQUIRED, said="which?"))
    async with agent(probe, shown=card(capabilities=None)) as server:
        done = await send(server, "hi")
        again = shlex.split(done.fields["Next"])
        assert again[:2] == ["a2a-bridge", "send"]
        await command(*again[1:])
    assert probe.last.request.message.task_id == "task-1"


async def test_an_unreachable_agent_ends_with_3(unused_tcp_port: int) -> None:
    for reference in (f":{unused_tcp_port}", f"grpc://127.0.0.1:{unused_tcp_port}"):
        done = await command("send", "-a", reference, "hi", "-o", "json")
        assert (done.code, done.json["error"]["code"]) == (3, "A2ACLI_ERR_UNREACHABLE")


async def test_a_grpc_address_taken_for_http_gets_advice(probe: Probe) -> None:
    async with agent(probe, "GRPC") as server:
        done = await command("send", "-a", str(server.grpc), "hi")
    assert done.code == 3
    assert f"grpc://{server.grpc}" in done.err


@pytest.mark.parametrize(
    "words", [("send",), ("send", "--stream"), ("send", "--async"), ("compare",)], ids=" ".join
)
async def test_time_is_up_ends_with_5(probe: Probe, words: tuple[str, ...]) -> None:
    async def silent(_: Any) -> Any:
        await asyncio.Event().wait()
        yield

    probe.on_unary = waiting
    probe.on_stream = silent
    async with agent(probe) as server:
        done = await command(
            words[0], "-a", url(server), "hi", "--timeout", "500ms", *words[1:], "-o", "json"
        )
    assert (done.code, done.json["error"]["code"]) == (5, "A2ACLI_ERR_TIMEOUT"), done.err


async def test_json_is_one_document(probe: Probe) -> None:
    async with agent(probe, shown=card(capabilities=None)) as server:
        done = await send(server, "hi", "-o", "json")
    assert done.json == {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}}


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_is_printed_as_it_comes(probe: Probe, binding: str) -> None:
    async with agent(probe) as server:
        text = await send(server, "hi", "--stream", "--transport", binding)
        lines = await send(server, "hi", "--stream", "--transport", binding, "-o", "json")
    assert (text.code, text.text) == (0, "one two\nthree")
    tail = text.out.rstrip().splitlines()[-4:]
    assert [line.partition(":")[0] for line in tail] == ["Task", "Context", "State", "Next"]
    assert [next(iter(event)) for event in lines.lines] == [
        *("task", "statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate")
    ]


async def test_without_stream_the_events_are_one_task(probe: Probe) -> None:
    async with agent(probe) as server:
        done = await send(server, "hi", "-o", "json")
    shown = done.json["task"]
    assert (shown["id"], shown["status"]["state"]) == ("t", "TASK_STATE_COMPLETED")
    parts = [[part["text"] for part in one["parts"]] for one in shown["artifacts"]]
    assert parts == [["one", " two"], ["three"]]


async def test_compare_says_that_the_card_has_no_such_binding(probe: Probe) -> None:
    async with agent(probe, "JSONRPC") as server:
        done = await command("compare", "-a", url(server), "hi", "--transport", "GRPC", "-o", "json")
    assert (done.code, done.json["error"]["code"]) == (1, "UnsupportedOperationError"), done.err


@pytest.mark.parametrize("words", [("--dry-run",), ("--as", "curl")], ids=" ".join)
async def test_compare_sends_nothing_where_a_call_should_be_shown(
    probe: Probe, words: tuple[str, ...]
) -> None:
    async with agent(probe) as server:
        done = await command("compare", "-a", url(server), "hi", *words)
    assert (done.code, done.out) == (2, ""), done.err
    assert not probe.calls


async def test_all_bindings_are_compared(probe: Probe) -> None:
    async with agent(probe) as server:
        for flags in ((), ("--stream",)):
            done = await command("compare", "-a", url(server), "hi", *flags)
            rows = done.out.splitlines()
            assert done.code == 0, done.err
            assert [row.split()[0] for row in rows] == list(BINDINGS)
            assert all("✓" in row for row in rows)
            assert ["identical" in row for row in rows] == [False, True, True]


@pytest.mark.parametrize("generated", [False, True])
async def test_answers_that_differ_say_where(probe: Probe, generated: bool) -> None:
    async def differing(call: Any) -> Any:
        answer = hub.SendMessageResponse()
        answer.CopyFrom(MESSAGE)
        if generated:
            answer.message.metadata["run"] = str(uuid4())
        else:
            answer.message.parts[0].text = call.context.origin.binding.replace("HTTP+JSON", "JSONRPC")
        return answer

    probe.on_unary = differing
    async with agent(probe) as server:
        done = await command("compare", "-a", url(server), "hi", "-o", "json")
        text = await command("compare", "-a", url(server), "hi")
    assert (done.code, text.code) == ((0, 0) if generated else (1, 1))
    assert done.json["identical"] is False
    if generated:
        assert ["generated" in one for one in done.json["answers"]] == [False, True, True]
        assert text.out.count("equal but for generated values") == 2
        assert "generated: [0].message.metadata.run" in text.err
    else:
        assert [one["identical"] for one in done.json["answers"]] == [True, True, False]
        assert "message.parts[0].text" in text.err


def test_a_difference_names_the_rule_of_its_version() -> None:
    current, older = interface("JSONRPC"), interface("JSONRPC", version="0.1")
    assert rule_of("[0].task.history", current, older).startswith("0.1: StreamResponse.task.history: ")
    assert rule_of("[0].task.history", current, current) == ""
    assert rule_of("[0].task.artifacts", current, older) == ""


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (hub.TASK_STATE_COMPLETED, 0),
        (hub.TASK_STATE_INPUT_REQUIRED, 0),
        (hub.TASK_STATE_FAILED, 0),
        (hub.TASK_STATE_AUTH_REQUIRED, 0),
    ],
)
async def test_a_comparison_of_equal_answers_is_done_whatever_they_are(
    probe: Probe, state: hub.TaskState, code: int
) -> None:
    update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))
    late = hub.StreamResponse(artifact_update=events()[2].artifact_update)
    probe.on_unary = answering(task(state))
    probe.on_stream = yielding(events()[0], hub.StreamResponse(status_update=update), late)
    async with agent(probe) as server:
        for flags in ((), ("--stream",)):
            done = await command("compare", "-a", url(server), "hi", *flags)
            assert done.code == code, done.err
            assert done.out.count("identical") == 2


async def test_an_error_on_every_binding_is_compared_too(probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND, metadata={"taskId": "t"}))
    async with agent(probe) as server:
        done = await command("compare", "-a", url(server), "hi", "-o", "json")
    assert done.code == 1
    assert done.json["identical"] is True
    assert {one["error"]["code"] for one in done.json["answers"]} == {"TaskNotFoundError"}


@pytest.mark.parametrize(
    ("binding", "sent", "received"),
    [
        ("JSONRPC", "> POST / HTTP/1.1", "< HTTP/1.1 200 OK"),
        ("HTTP+JSON", "> POST /message:stream HTTP/1.1", "< HTTP/1.1 200 OK"),
        ("GRPC", "> /lf.a2a.v1.A2AService/SendStreamingMessage", "< grpc-status: 0 OK"),
    ],
)
async def test_debug_shows_the_frames_and_no_secret(
    probe: Probe, binding: str, sent: str, received: str
) -> None:
    flags = ("--stream", "--debug", "--binding", binding, "-H", "X-Session: s3cret", "--bearer", "t0ken")
    async with agent(probe) as server:
        done = await send(server, "hi there", *flags, "--verbose")
    shown = [line.lower() for line in done.err.splitlines()]
    assert done.text == "one\n two\nthree"
    assert sent.lower() in shown
    assert received.lower() in shown
    assert "> a2a-version: 1.0" in shown
    assert "> authorization: bearer ***" in shown
    assert "> x-session: ***" in shown
    assert "s3cret" not in done.err
    assert "t0ken" not in done.err
    assert any("hi there" in line for line in shown if line.startswith(">"))
    assert any("three" in line for line in shown if line.startswith("<"))


async def test_debug_shows_how_a_grpc_call_failed(probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
    async with agent(probe, "GRPC") as server:
        done = await command("send", "-a", f"grpc://{server.grpc}", "hi", "--async", "--debug")
    assert done.code == 1
    assert "< grpc-status: 5 NOT_FOUND" in done.err


async def test_the_card_as_text_and_as_json(probe: Probe) -> None:
    async with agent(probe) as server:
        text = await command("card", "get", "-a", url(server))
        document = await command("card", "get", "-a", url(server), "-o", "json")
    assert text.code == 0
    for binding in BINDINGS:
        assert binding in text.out
    assert [one["protocolBinding"] for one in document.json["supportedInterfaces"]] == list(BINDINGS)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_extended_card_is_asked_for_with_credentials(probe: Probe, binding: str) -> None:
    probe.on_unary = answering(hub.AgentCard(name="Extended"))
    shown = card(security_requirements=[hub.SecurityRequirement(schemes={"key": hub.StringList()})])
    shown.capabilities.extended_agent_card = True
    shown.security_schemes["key"].api_key_security_scheme.location = "header"
    shown.security_schemes["key"].api_key_security_scheme.name = "X-Own-Key"
    async with agent(probe, shown=shown) as server:
        words = ("card", "get", "-a", url(server), "--extended", "-o", "json", "--transport", binding)
        done = await command(*words, env={"A2ACLI_API_KEY": "k", "A2ACLI_BEARER": "never"})
    assert done.json["name"] == "Extended", done.err
    assert probe.last.context.parameters["x-own-key"] == "k"
    assert "authorization" not in probe.last.context.parameters
    assert "no security scheme of the card takes --bearer" in done.err


@pytest.mark.parametrize(
    ("raw_bytes", "text"),
    [
        (b"from a pipe", "from a pipe"),
        (b"a line\n", "a line"),
        (b"two\nlines\n\n", "two\nlines\n"),
        (b"windows\r\n", "windows"),
        ("n\u00e4\n".encode(), "n\u00e4"),
    ],
)
async def test_text_from_standard_input(probe: Probe, raw_bytes: bytes, text: str) -> None:
    async with agent(probe) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "a2a_bridge", "send", "-a", url(server), "-", "--async"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(raw_bytes), PATIENCE)
    assert b"hello" in out
    assert probe.last.request.message.parts[0].text == text


async def test_standard_input_that_is_no_text(probe: Probe) -> None:
    async with agent(probe) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "a2a_bridge", "send", "-a", url(server), "-", "--async"),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        _, err = await asyncio.wait_for(process.communicate(b"na\xefve"), PATIENCE)
    assert process.returncode == 2
    assert b"not UTF-8 (byte 2)" in err
    assert b"Traceback" not in err
    assert not probe.calls


async def test_a_command_that_is_gone_names_its_successor() -> None:
    done = await command("call", ":8080", "hi")
    assert done.code == 2
    assert "a2a-bridge send -a TARGET TEXT" in done.err
    assert "compare" in done.err


@pytest.mark.parametrize("words", [("send", "hi", "--stream", "-a"), ("check",), ("conformance", "-a")])
async def test_a_reader_that_goes_away_is_no_crash(probe: Probe, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    async with agent(probe) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "a2a_bridge", *words, url(server)), stdout=writer, stderr=subprocess.PIPE
        )
        os.close(writer)
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, b"Traceback" in err) == (141, False), err


async def test_no_colour_without_a_terminal(probe: Probe) -> None:
    async with agent(probe) as server:
        done = await send(server, "hi", "-v", "--debug")
    assert "\x1b" not in done.err + done.out


def test_version_and_help_load_no_transport_and_no_protobuf() -> None:
    script = (
        "import sys; from a2a_bridge.cli import app; "
        "heavy = {'grpc', 'aiohttp', 'google.protobuf', 'a2a_bridge.app.runtime'} & set(sys.modules); "
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
            process = await spawn("send", "-a", str(target), "go", "--stream", "-o", "json")
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
        ("send", "-o", "json", "-a", ":8080"),
        ("send", "--output=json", "-a", ":8080", "hi", "--binding", "SOAP"),
        ("send", "-a", ":8080", "hi", "--nope", "-ojson"),
        ("send", "hi", "--output", "json"),
        ("card", "get", "-o", "json", "x"),
    ],
)
async def test_a_usage_error_is_a_json_document_too(arguments: tuple[str, ...]) -> None:
    done = await command(*arguments)
    assert done.code == 2
    error = done.json["error"]
    assert error["code"] == "A2ACLI_ERR_USAGE"
    assert error["message"] in done.err


async def test_an_unknown_binding_is_a_usage_error_of_every_command() -> None:
    for words in (("send", "hi", "-a"), ("gateway",)):
        done = await command(*words, "http://127.0.0.1:1", "--binding", "SOAP")
        assert (done.code, done.out) == (2, "")
        assert "'SOAP' is not one of JSONRPC, HTTP+JSON, GRPC" in done.err


def test_an_address_of_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """The second one is asyncio's on Python 3.13, which has no number."""
    for error in (
        OSError(errno.EADDRNOTAVAIL, "cannot assign requested address"),
        OSError("could not bind on any address out of [('203.0.113.7', 8080)]"),
    ):
        assert cannot_listen(error).exit_code == 2
        assert "an address of this machine" in capsys.readouterr().err
