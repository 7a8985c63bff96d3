"""The requirements of the specification of an A2A command line, against live agents over each binding.

`make cli` writes docs/cli-compliance.yaml from what these tests show.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.cli.specification import CODES, DEFAULTS, ERROR
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.cli.client.live import Live, lines
from tests.cli.commands import agent, card, command, ended, spawn
from tests.patience import PATIENCE
from tests.resume.cutting import cutting

req = pytest.mark.requirement
FIELD = re.compile(r"[A-Z][A-Za-z ]*: .*")
LABEL = re.compile(r"[A-Z][A-Za-z ]*:")


def states(done: Any) -> list[str]:
    """The states in the events of a stream."""
    found = []
    for event in lines(done):
        inner = event.get("task") or event.get("statusUpdate")
        found += [inner["status"]["state"].removeprefix("TASK_STATE_").lower()] if inner else []
    return found


@req("SEND_001", "OUT_002", "TX_004", "TX_005")
async def test_a_message_starts_an_interaction(live: Live) -> None:
    task = await live.task("artifact")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["id"]
    assert task["contextId"]


@req("SEND_003")
async def test_a_direct_answer_ends_cleanly_streamed_or_not(live: Live) -> None:
    for flags in ((), ("--stream",)):
        done = await live.send("message", "-o", "json", *flags)
        assert done.code == 0, done.err
        assert list(done.json) == ["message"]


@req("SEND_003", "OUT_003")
async def test_a_stream_is_one_event_a_line_and_the_last_one_is_terminal(live: Live) -> None:
    done = await live.send("chunks", "--stream", "-o", "json")
    assert done.code == 0, done.err
    events = lines(done)
    assert len(events) >= 3
    assert states(done)[-1] == "completed"
    assert "task" in events[-1] or "statusUpdate" in events[-1]


@req("SEND_002", "OUT_006", "TASK_POLL_001", "TASK_CANCEL_001", "TASK_GET_001")
async def test_without_waiting_ids_come_at_once_and_looks_follow(live: Live) -> None:
    for flag in ("--async", "--return-immediately", "--no-wait"):
        task = await live.task("work", flag)
        assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    got = await live.run("task", "get", task["id"], "-o", "json")
    assert (got.json["id"], got.json["contextId"]) == (task["id"], task["contextId"])
    canceled = await live.run("task", "cancel", task["id"])
    assert (canceled.code, canceled.fields["State"]) == (0, "canceled"), canceled.err
    waited = await live.run("task", "get", task["id"], "--wait", "--timeout", "20s")
    assert waited.fields["State"] == "canceled"
    again = await live.run("task", "cancel", task["id"], "-o", "json")
    assert again.code in (0, 1)
    assert again.code == 0 or again.json["error"]["code"] == "TaskNotCancelableError"


@req("TASK_GET_001", "SEND_004")
async def test_a_task_has_its_artifacts_and_history(live: Live) -> None:
    task = await live.task("artifact")
    text = await live.run("task", "get", task["id"], "--history", "5")
    assert (text.code, text.fields["State"]) == (0, "completed"), text.err
    assert "Artifact" in text.fields
    assert "History" in text.fields
    none = await live.run("task", "get", task["id"], "--history", "0", "-o", "json")
    assert "history" not in none.json


@req("SEND_004", "SEND_005", "SEND_006", "OUT_005")
async def test_parts_keep_their_order_and_none_is_dropped(live: Live, tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(b"\x00\x01\x02")
    (tmp_path / "data.json").write_text('{"n": 7}')
    parts = ("--data-part", str(tmp_path / "data.json"), "--file", str(tmp_path / "report"))
    typed = ("--media-type", "application/pdf", "--text", "last", "--file-part", "https://x.example/y.png")
    done = await live.send("echo", *parts, *typed, "-o", "json")
    assert done.code == 0, done.err
    artifact = done.json["task"]["artifacts"][0]["parts"]
    assert [next(name for name in ("text", "data", "raw", "url") if name in part) for part in artifact] == [
        *("text", "data", "raw", "text", "url")
    ]
    assert artifact[1]["data"] == {"n": 7}
    assert (artifact[2]["mediaType"], artifact[2]["filename"]) == ("application/pdf", "report")
    assert artifact[4].get("mediaType", "image/png") == "image/png"
    text = await live.run("task", "get", done.json["task"]["id"])
    order = [
        text.out.index(word)
        for word in (
            "Data:\n",
            "File: report application/pdf 3 bytes",
            "last",
            "File: https://x.example/y.png",
        )
    ]
    assert order == sorted(order)


@req("SEND_006")
async def test_data_from_standard_input(one: Live) -> None:
    words = ("-m", "a2a_bridge", "send", "hello", "-a", one.reference, "--data", "-", "-o", "json")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(b'{"from": "a pipe"}'), PATIENCE)
    assert json.loads(out)["task"]["artifacts"][0]["parts"][1]["data"] == {"from": "a pipe"}


@req("INTERACT_002", "INTERACT_004", "TASK_POLL_003", "EXIT_002")
async def test_a_task_that_asks_is_answered_with_the_printed_command(live: Live) -> None:
    asked = await live.send("ask")
    assert (asked.code, asked.fields["State"]) == (0, "input-required"), asked.err
    assert "warning: the task is input-required" in asked.err
    again = shlex.split(asked.fields["Next"])
    assert again[:2] == ["a2a-bridge", "send"]
    again[again.index("<reply>")] = live.text("answer")
    answered = await command(*again[1:], "-o", "json")
    assert answered.code == 0, answered.err
    assert answered.json["task"]["id"] == asked.fields["Task"]
    assert answered.json["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    both = await live.task("ask")
    ids = ("--task-id", both["id"], "--context-id", both["contextId"])
    assert (await live.task("answer", *ids))["id"] == both["id"]


@req("INTERACT_002", "OUT_004", "EXIT_001")
async def test_a_rejected_task_id_fails_and_creates_nothing(live: Live) -> None:
    done = await live.send("echo", "--task-id", "no-such-task", "-o", "json")
    assert (done.code, done.json["error"]["code"]) == (1, "TaskNotFoundError"), done.err
    assert done.json["error"]["a2aCode"] == -32001
    gone = await live.run("task", "get", "no-such-task", "-o", "json")
    assert (gone.code, gone.json["error"]["code"]) == (1, "TaskNotFoundError")


@req("INTERACT_001")
async def test_a_context_groups_tasks(live: Live) -> None:
    first = await live.task("complete")
    second = await live.task("complete", "--context-id", first["contextId"])
    assert second["contextId"] == first["contextId"]
    assert second["id"] != first["id"]


@req("INTERACT_003", "VER_001")
async def test_no_identifier_of_the_server_is_made_up() -> None:
    probe = Probe()
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    async with agent(probe) as server:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            await command("send", "-a", f"http://{server.http}", "hi", "--async", "--transport", binding)
            assert (probe.last.request.message.task_id, probe.last.request.message.context_id) == ("", "")
            assert probe.last.request.message.message_id
            assert probe.last.context.origin.version == "1.0"


@req("INTERACT_005", "CONFIG_001")
async def test_nothing_is_remembered(one: Live, tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    await one.send("ask", env=env)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240
    shown = await command("send", "--help")
    assert "--continue" not in shown.out


@req("SEND_002", "TASK_POLL_002", "EXIT_001")
async def test_time_is_up_and_the_task_goes_on(live: Live) -> None:
    done = await live.send("work", "--timeout", "1500ms", "-o", "json")
    assert (done.code, done.json["error"]["code"]) == (5, "A2ACLI_ERR_TIMEOUT"), done.err
    found = re.search(r"task get .* (\S+) --wait", done.json["error"]["hint"])
    assert found is not None
    assert f"task {found[1]}" in done.err
    await live.run("task", "cancel", found[1])


@req("TASK_POLL_002")
async def test_an_interruption_keeps_the_printed_id(one: Live) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "a2a_bridge", "send", one.text("work"), "-a", one.reference),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    line = await asyncio.wait_for(process.stderr.readline(), PATIENCE)
    task_id = line.decode().split()[1].rstrip(",")
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 130
    assert (await one.run("task", "cancel", task_id)).code == 0


@req("TASK_POLL_003")
async def test_an_unspecified_state_is_looked_at_again() -> None:
    probe = Probe()
    looks: list[Any] = []

    async def unary(call: Any) -> Any:
        if call.operation.name == "SendMessage":
            return hub.SendMessageResponse(task=hub.Task(id="t", context_id="c"))
        looks.append(call)
        state = hub.TASK_STATE_UNSPECIFIED if len(looks) < 3 else hub.TASK_STATE_COMPLETED
        return hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=state))

    probe.on_unary = unary
    async with agent(probe, shown=card(capabilities=None)) as server:
        done = await command("send", "-a", f"http://{server.http}", "hi", "--poll-interval", "100ms")
    assert (done.fields["State"], len(looks)) == ("completed", 3)


@req("TASK_POLL_004", "TASK_SUBSCRIBE_002")
async def test_a_broken_stream_is_followed_by_looks() -> None:
    probe = Probe()
    probe.on_stream = yielding(
        hub.StreamResponse(task=hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))),
        A2AError(Reason.INTERNAL_ERROR),
    )
    done_task = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED))
    probe.on_unary = answering(done_task)
    async with agent(probe) as server:
        for words in (("send", "hi"), ("task", "subscribe", "t")):
            done = await command(*words, "-a", f"http://{server.http}", "-o", "json")
            assert done.code == 0, done.err
            task = done.json.get("task", done.json)
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            assert "the stream broke" in done.err


@req("TASK_SUBSCRIBE_002", "TASK_POLL_004")
async def test_a_cut_connection_is_followed_up(one: Live, tmp_path: Path) -> None:
    host, port = one.reference.removeprefix("http://").split(":")
    async with cutting(host, int(port)) as cutter:
        place = {"url": f"http://{cutter.address}", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        file = tmp_path / "card.json"
        shown = {"name": "cut", "capabilities": {"streaming": True}, "supportedInterfaces": [place]}
        file.write_text(json.dumps(shown))
        process = await spawn("send", one.text("long"), "-a", str(file), "--stream", "-o", "json")
        assert process.stdout is not None
        before = [await asyncio.wait_for(process.stdout.readline(), PATIENCE) for _ in range(2)]
        cutter.cut()
        done = await ended(process)
    assert done.code == 0, done.err
    assert "task" in json.loads(before[0])
    assert states(done)[-1] == "completed"


@req("OUT_001", "OUT_005", "INTERACT_004")
async def test_text_is_fields_and_blocks_without_control_sequences(live: Live) -> None:
    done = await live.send("artifact")
    assert {"Task", "Context", "State", "Next"} <= set(done.fields)
    assert "\x1b" not in done.out + done.err
    in_block = False
    for line in done.out.splitlines():
        if in_block:
            in_block = line != ""
        else:
            assert FIELD.fullmatch(line) or LABEL.fullmatch(line), line
            in_block = bool(LABEL.fullmatch(line))


@req("OUT_005")
async def test_control_sequences_of_an_agent_are_shown_and_not_sent(one: Live) -> None:
    done = await one.run("send", "\x1b[31mred\x07\nTask: forged")
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert "\\x1b[31mred\\x07" in done.out


@req("OUT_001", "OUT_003")
async def test_the_last_event_as_text_has_ids_and_state(live: Live) -> None:
    done = await live.send("chunks", "--stream")
    tail = done.out.rstrip().splitlines()[-8:]
    labels = [line.partition(":")[0] for line in tail]
    assert {"Task", "Context", "State"} <= set(labels), done.out


@req("OUT_003", "OUT_004")
async def test_an_error_that_ends_a_stream_is_its_last_line() -> None:
    probe = Probe()
    working = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
    begun = hub.StreamResponse(task=hub.Task(id="t", context_id="c", status=working))
    probe.on_stream = yielding(begun, A2AError(Reason.INVALID_PARAMS, "no"))
    async with agent(probe) as server:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            words = ("send", "hi", "-a", f"http://{server.http}", "--transport", binding)
            done = await command(*words, "--stream", "-o", "json")
            assert done.code == 1
            assert [next(iter(line)) for line in done.lines] == ["task", "error"]
            assert done.lines[-1]["error"]["code"] == "InvalidParamsError"


@req("EXIT_002")
@pytest.mark.parametrize("behaviour", ["fail", "reject", "auth"])
async def test_what_becomes_of_a_task_is_no_exit_code(live: Live, behaviour: str) -> None:
    done = await live.send(behaviour, "--timeout", "20s")
    assert done.code == 0, done.err
    assert done.fields["State"] in ("failed", "rejected", "auth-required")
    assert f"warning: the task is {done.fields['State']}" in done.err


@req("EXIT_001", "OUT_004")
@pytest.mark.parametrize("code", CODES)
async def test_every_code_of_the_tool_has_its_exit_code(
    code: str, tmp_path: Path, unused_tcp_port: int
) -> None:
    probe = Probe()
    probe.on_unary = answering(A2AError(Reason.UNAUTHENTICATED))
    if code in ("TIMEOUT", "INTERNAL"):
        probe.on_unary = answering(A2AError(Reason.DEADLINE_EXCEEDED))
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    async with agent(probe) as server:
        url = f"http://{server.http}"
        words = {
            "USAGE": ("send", "-a", url),
            "CARD_NOT_FOUND": ("card", "get", "-a", f"{url}/none.json"),
            "CARD_INVALID": ("card", "get", "-a", str(bad)),
            "UNREACHABLE": ("card", "get", "-a", f":{unused_tcp_port}"),
            "CREDENTIALS_MISSING": ("send", "-a", url, "hi", "--async"),
            "AUTH_FAILED": ("send", "-a", url, "hi", "--async", "--bearer", "wrong"),
            "TIMEOUT": ("send", "-a", url, "hi", "--async"),
            "INTERNAL": ("send", "-a", f"{tmp_path / 'broken.py'}", "hi", "-e", ""),
        }[code]
        if code == "INTERNAL":
            (tmp_path / "broken.py").write_text(
                "from a2a_bridge import agent\n"
                "@agent\n"
                "async def broken(text): return text\n"
                "broken.card = None\n"
            )
        done = await command(*words, "-o", "json")
    assert (done.json["error"]["code"], done.code) == (ERROR + code, CODES[code]), done.err
    assert set(done.json["error"]) == {"code", "message", "hint", "a2aCode"}


@req("AUTH_001", "AUTH_002", "AUTH_008")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_credentials_go_where_the_card_wants_them(binding: str) -> None:
    probe = Probe()
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    shown = card()
    shown.security_schemes["key"].api_key_security_scheme.location = "header"
    shown.security_schemes["key"].api_key_security_scheme.name = "X-Own"
    shown.security_schemes["bearer"].http_auth_security_scheme.scheme = "Bearer"
    async with agent(probe, shown=shown) as server:
        words = ("send", "hi", "-a", f"http://{server.http}", "--async", "--transport", binding)
        env = {"A2ACLI_BEARER": "of-the-variable", "A2ACLI_API_KEY": "key-1"}
        for flags, bearer in (((), "of-the-variable"), (("--bearer", "of-the-flag"), "of-the-flag")):
            done = await command(*words, *flags, "--svc-param", "x-trace:1", "--debug", env=env)
            assert done.code == 0, done.err
            sent = probe.last.context.parameters
            assert (sent["authorization"], sent["x-own"], sent["x-trace"]) == (
                f"Bearer {bearer}",
                "key-1",
                "1",
            )
            assert not any(secret in done.err for secret in ("of-the-", "key-1"))


@req("AUTH_001")
async def test_api_keys_in_the_query_and_in_a_cookie() -> None:
    probe = Probe()
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    for location, expected in (("query", "?key=k%261"), ("cookie", "key=k&1")):
        shown = card()
        scheme = shown.security_schemes["key"].api_key_security_scheme
        scheme.location, scheme.name = location, "key"
        async with agent(probe, shown=shown) as server:
            for binding in ("JSONRPC", "HTTP+JSON"):
                words = ("send", "hi", "-a", f"http://{server.http}", "--async", "--transport", binding)
                done = await command(*words, "--debug", "--api-key", "k&1")
                assert done.code == 0, done.err
                assert "k%261" not in done.err
                assert "k&1" not in done.err
                if location == "cookie":
                    assert probe.last.context.parameters["cookie"] == expected
                else:
                    assert "key=***" in done.err


@req("AUTH_002", "CLI_001", "DEFAULT_001")
async def test_help_says_what_is_visible_and_shows_defaults(one: Live) -> None:
    done = await command("send", "--help")
    flat = " ".join(done.out.split())
    assert "other users can see it in the process table: prefer A2ACLI_BEARER" in flat
    assert "[default: text]" in flat
    for flag in DEFAULTS.values():
        assert flag in done.out
    for words in (("help",), ("help", "task", "get"), ("task", "get", "--help"), ("--help",)):
        shown = await command(*words)
        assert (shown.code, shown.out.startswith("Usage: ")) == (0, True)
    for words in (("--version",), ("-v",)):
        version = await command(*words)
        assert version.out.startswith("a2a-bridge ")
    assert one.reference


@req("AUTH_003", "DEFAULT_001")
async def test_unverified_certificates_are_a_warning(one: Live) -> None:
    plain = await one.send("message", "--insecure")
    with_secret = await one.send("message", "--insecure", "--bearer", "t0ken")
    assert "warning: certificates are not verified" in plain.err
    assert "CREDENTIALS" in with_secret.err
    assert "t0ken" not in with_secret.err + with_secret.out


@req("AUTH_004", "OUT_007")
async def test_debug_shows_the_wire_and_no_credential(live: Live) -> None:
    secrets = ("--bearer", "s3cret-1", "--svc-param", "x-whatever:s3cret-2")
    done = await live.send("message", "--debug", "--verbose", *secrets)
    assert done.code == 0, done.err
    assert any(line.startswith("> ") for line in done.err.splitlines())
    assert any(line.startswith("< ") for line in done.err.splitlines())
    assert "s3cret" not in done.out + done.err


@req("TX_001", "TX_002", "DEFAULT_001")
async def test_the_order_of_the_card_and_that_of_the_caller() -> None:
    probe = Probe()
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    order = ("HTTP+JSON", "GRPC", "JSONRPC")
    for flags, used in (
        ((), order[0]),
        (("--transport", "jsonrpc"), "JSONRPC"),
        (("--transport", "GRPC", "--transport", "JSONRPC"), "GRPC"),
    ):
        async with agent(probe, *order) as server:
            done = await command("send", "hi", "-a", f"http://{server.http}", "--async", *flags)
        assert done.code == 0, done.err
        assert probe.last.context.origin.binding == used
    async with agent(probe, "JSONRPC") as server:
        words = ("send", "hi", "-a", f"http://{server.http}", "--async")
        done = await command(*words, "--transport", "GRPC", "--transport", "JSONRPC")
        other = await command(*words, "--transport", "GRPC")
    assert (done.code, other.code) == (0, 0)
    assert "the card offers no GRPC" in other.err


@req("TX_003")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("tenant", ["", "acme"])
async def test_the_tenant_of_the_interface_is_in_every_request(
    binding: str, tenant: str, tmp_path: Path
) -> None:
    probe = Probe()
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
    async with agent(probe, binding) as server:
        url = str(server.grpc) if binding == "GRPC" else f"http://{server.http}"
        place = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0", "tenant": tenant}
        file = tmp_path / "card.json"
        file.write_text(json.dumps({"name": "x", "capabilities": {}, "supportedInterfaces": [place]}))
        for words in (("task", "get", "t"), ("task", "cancel", "t"), ("send", "hi", "--async")):
            await command(*words, "-a", str(file))
            assert (probe.last.context.tenant or probe.last.request.tenant) == tenant


@req("VER_001", "DEFAULT_001")
async def test_versions_below_1_0_only_when_asked_for(older: Live) -> None:
    refused = await command("send", "hello", "-a", older.reference, "-o", "json")
    assert (refused.code, refused.json["error"]["code"]) == (1, "VersionNotSupportedError")
    assert refused.json["error"]["hint"] == "--a2a-version 0.3"
    task = await older.task("artifact")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    streamed = await older.send("chunks", "--stream", "-o", "json")
    assert states(streamed)[-1] == "completed"


@req("CARD_GET_001", "CARD_GET_002")
async def test_a_card_from_a_host_a_url_and_a_file(live: Live, tmp_path: Path) -> None:
    shown = await live.run("card", "get", "-o", "json")
    assert shown.json["supportedInterfaces"]
    file = tmp_path / "card.json"
    file.write_text(shown.out)
    host = live.reference.removeprefix("http://")
    for reference in (host, live.reference, f"{live.reference}/.well-known/agent-card.json", file.as_uri()):
        done = await command("card", "get", "-a", reference, "--validate")
        assert (done.code, done.fields["Name"]) == (0, shown.json["name"]), done.err
        assert {"Interface", "Streaming", "Push notifications"} <= set(done.fields)


@req("TASK_LIST_001")
async def test_tasks_are_listed_in_pages_and_by_state_and_context(live: Live) -> None:
    first = await live.task("complete")
    for _ in range(2):
        await live.task("complete", "--context-id", first["contextId"])
    words = ("task", "list", "--context-id", first["contextId"])
    page = await live.run(*words, "--page-size", "2", "-o", "json")
    assert page.code == 0, page.err
    assert len(page.json["tasks"]) == 2
    rest = await live.run(*words, "--page-token", page.json["nextPageToken"], "-o", "json")
    assert len(rest.json["tasks"]) == 1
    everything = await live.run(*words, "--page-size", "1", "--all", "-o", "json")
    assert len(everything.json["tasks"]) == 3
    none = await live.run(*words, "--status", "working", "-o", "json")
    assert none.json.get("tasks", []) == []
    text = await live.run(*words)
    assert text.out.count("Task: ") == 3


@req("TASK_SUBSCRIBE_001")
async def test_a_working_task_is_followed(live: Live) -> None:
    task = await live.task("work", "--async")
    process = await spawn(
        *("task", "subscribe", task["id"], "-a", live.reference, "--transport", live.binding),
        *("--stream", "-o", "json"),
    )
    assert process.stdout is not None
    first = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
    assert first["task"]["id"] == task["id"]
    assert (await live.run("task", "cancel", task["id"])).code == 0
    done = await ended(process)
    assert done.code == 0, done.err
    assert states(done)[-1] == "canceled"


@req("DOWNLOAD_001", "SEND_004")
async def test_artifacts_are_saved_and_nothing_is_written_elsewhere(one: Live, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "report.bin"
    file.write_bytes(b"\x00content")
    saved = tmp_path / "saved"
    done = await one.run(
        "send", "hello", "--file-part", str(file), "--save-fileparts", str(saved), "-o", "json"
    )
    assert (saved / "report.bin").read_bytes() == b"\x00content"
    out = tmp_path / "out"
    words = ("task", "download", done.json["task"]["id"], "--output-dir", str(out))
    for _ in range(2):
        loaded = await one.run(*words)
        assert loaded.code == 0, loaded.err
    names = sorted(path.name for path in out.iterdir())
    assert names == ["echo-1.txt", "echo.txt", "report-1.bin", "report.bin"]
    await one.run(*words, "--overwrite")
    assert sorted(path.name for path in out.iterdir()) == names
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "saved"]  # noqa: ASYNC240


@req("DOWNLOAD_001")
async def test_names_of_an_agent_stay_in_the_folder(tmp_path: Path) -> None:
    probe = Probe()
    task = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED))
    names = ["../../escape.txt", "/etc/passwd", "a\\..\\b.txt", "..", "\x00\x1b.txt", ""]
    for name in names:
        task.artifacts.add(artifact_id="a", parts=[hub.Part(raw=b"x", filename=name)])
    probe.on_unary = answering(task)
    out = tmp_path / "deep" / "out"
    async with agent(probe) as server:
        done = await command("task", "download", "t", "-a", f"http://{server.http}", "--output-dir", str(out))
    assert done.code == 0, done.err
    assert len(list(out.iterdir())) == len(names)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.parent != out] == []  # noqa: ASYNC240


@req("VER_003")
async def test_what_the_card_does_not_offer_is_not_asked_for() -> None:
    probe = Probe()
    probe.on_unary = answering(
        hub.SendMessageResponse(task=hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED)))
    )
    async with agent(probe, shown=card(capabilities=None)) as server:
        url = ("-a", f"http://{server.http}", "-o", "json")
        hook = await command("task", "push-config", "create", "t", "--url", "https://x.example", *url)
        extended = await command("card", "get", "--extended", *url)
        assert not probe.calls
        streamed = await command("send", "hi", "--stream", *url)
    assert hook.json["error"]["code"] == "PushNotificationNotSupportedError"
    assert extended.json["error"]["code"] == "UnsupportedOperationError"
    assert [next(iter(line)) for line in streamed.lines] == ["task"]
    assert [call.operation.name for call in probe.calls] == ["SendMessage"]


@req("CONFIG_002", "CONFIG_001", "AUTH_002")
async def test_the_order_of_flags_variables_and_files(
    one: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "project" / "deep"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    home = tmp_path / "config"
    (home / "a2a-cli").mkdir(parents=True)
    (home / "a2a-cli" / ".env").write_text(
        f"A2ACLI_AGENT_CARD={one.reference}\nA2ACLI_TIMEOUT=1\nA2ACLI_POLL_INTERVAL=3\nA2ACLI_STREAM=1\n"
    )
    local = tmp_path / "project" / ".env"
    local.write_text(
        "OTHER=x y\n# A2ACLI_TIMEOUT=9\nexport A2ACLI_TIMEOUT='2'\nA2ACLI_BEARER=\"s3cret\"  # mine\n"
    )
    named = tmp_path / "named.env"
    named.write_text("A2ACLI_TIMEOUT=4\n")
    env = {"XDG_CONFIG_HOME": str(home)}

    async def timeout(*flags: str, **more: str) -> tuple[Any, str]:
        done = await command("config", "show", "-o", "json", *flags, env=env | more)
        assert "s3cret" not in done.out + done.err
        row = done.json["--timeout"]
        return row["value"], row["source"]

    assert await timeout() == (2.0, f"file {local}")
    assert await timeout("--env-file", str(named)) == (4.0, f"file {named}")
    assert await timeout("--config", str(named)) == (4.0, f"file {named}")
    assert await timeout(A2ACLI_TIMEOUT="5s") == (5.0, "variable A2ACLI_TIMEOUT")
    assert await timeout("--timeout", "6", A2ACLI_TIMEOUT="5s") == (6.0, "flag")
    shown = await command("config", "show", "-o", "json", env=env)
    assert shown.json["--poll-interval"] == {"value": 3.0, "source": f"file {home / 'a2a-cli' / '.env'}"}
    assert shown.json["--verbose"] == {"value": False, "source": "default"}
    sent = await command("send", one.text("message"), "-o", "json", env=env)
    assert sent.json["message"]
    assert "others may read it" in sent.err
    local.write_text("A2ACLI_TIMEOUT 2\n")
    wrong = await command("config", "show", env=env)
    assert (wrong.code, f"{local}:1" in wrong.err) == (2, True)


@req("CLI_002")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "pwsh"])
async def test_completion_scripts(shell: str) -> None:
    done = await command("completion", shell)
    assert done.code == 0
    assert "_A2A_BRIDGE_COMPLETE" in done.out
    assert (await command("completion", "tcsh")).code == 2


@req("CLI_002")
def test_completion_offers_the_newest_spelling() -> None:
    env = {"_A2A_BRIDGE_COMPLETE": "complete_bash", "COMP_WORDS": "a2a-bridge send --te", "COMP_CWORD": "2"}
    script = Path(sys.executable).parent / "a2a-bridge"
    done = subprocess.run([script], env={**os.environ, **env}, capture_output=True, text=True, check=True)
    assert "--text-part" in done.stdout.split()
    assert "--text" not in done.stdout.split()


@req("PUSH_001", "PUSH_002")
async def test_webhooks_of_a_task(live: Live) -> None:
    task = await live.task("work", "--async")
    words = ("task", "push-config")
    made = await live.run(*words, "create", task["id"], "--url", "https://hook.example/x", "-o", "json")
    assert made.code == 0, made.err
    listed = await live.run(*words, "list", task["id"], "-o", "json")
    assert [one["url"] for one in listed.json["configs"]] == ["https://hook.example/x"]
    got = await live.run(*words, "get", task["id"], made.json["id"])
    assert got.fields["URL"] == "https://hook.example/x"
    assert (await live.run(*words, "delete", task["id"], made.json["id"])).code == 0
    empty = await live.run(*words, "list", task["id"], "-o", "json")
    assert empty.json.get("configs", []) == []
    await live.run("task", "cancel", task["id"])


@req("PUSH_002")
async def test_the_command_is_a_webhook(one: Live) -> None:
    task = await one.task("work", "--async")
    words = ("task", "push-config", "create", task["id"], "--listen", "127.0.0.1:0", "-o", "json")
    process = await spawn(*words, "-a", one.reference)
    assert process.stdout is not None
    first = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
    assert first["task"]["id"] == task["id"]
    assert (await one.run("task", "cancel", task["id"])).code == 0
    done = await ended(process)
    assert done.code == 0, done.err
    assert states(done)[-1] == "canceled"
    left = await one.run("task", "push-config", "list", task["id"], "-o", "json")
    assert left.json.get("configs", []) == []


@req("DEMO_SERVER_001")
async def test_the_demo_agent_does_what_prefixes_ask_for(one: Live) -> None:
    for older in ("server", "demo-server"):
        assert "tck-input-required" in (await command(older, "--help")).out
    for text, state in (
        ("tck-complete-task x", "completed"),
        ("tck-artifact-file", "completed"),
        ("tck-artifact-file-url", "completed"),
        ("tck-artifact-data", "completed"),
        ("tck-multi-turn start", "input-required"),
        ("tck-stream-basic", "completed"),
        ("tck-long-running", "completed"),
        ("hello", "completed"),
    ):
        assert (await one.run("send", text)).fields["State"] == state, text


@req("AUTH_011", "EXIT_002")
async def test_a_task_that_wants_authorisation_goes_on_with_an_answer(live: Live) -> None:
    asked = await live.task("auth", "--timeout", "20s")
    assert asked["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    answered = await live.task("answer", "--task-id", asked["id"], "--bearer", "granted", "--timeout", "20s")
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], "TASK_STATE_COMPLETED")


@req("SKILL_001", "SKILL_002")
async def test_one_skill_that_defers_to_help(tmp_path: Path) -> None:
    done = await command("skill", "install", str(tmp_path))
    assert done.code == 0, done.err
    (skill,) = tmp_path.rglob("SKILL.md")  # noqa: ASYNC240
    assert skill.parent == tmp_path / ".agents" / "skills" / "a2a-bridge"
    text = skill.read_text()
    assert len(text) < 3000
    assert re.match(r"---\nname: a2a-bridge\ndescription: .+\n", text)
    assert "a2a-bridge help" in text
    assert not re.search(r"\b(MUST|SHALL|A2ACLI_[A-Z]+_\d)", text)
    assert (skill.parent / "references" / "examples.md").exists()


@req("CHAT_001", "OUT_005")
async def test_chat_without_a_terminal_ends_and_names_send(one: Live) -> None:
    done = await one.run("chat", "-o", "json")
    assert (done.code, done.json["error"]["code"]) == (2, "A2ACLI_ERR_USAGE")
    assert "a2a-bridge send" in done.json["error"]["hint"]
