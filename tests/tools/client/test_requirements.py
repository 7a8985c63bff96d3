"""The requirements of an A2A command line, against live agents over each binding (`make cli`)."""

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.cli.commands import agent, card, command, ended, spawn
from tests.patience import PATIENCE
from tests.resume.cutting import cutting
from tests.tools.client.live import Live, lines, states

req = pytest.mark.requirement
FIELD = re.compile(r"[A-Z][A-Za-z ]*: .*")
LABEL = re.compile(r"[A-Z][A-Za-z ]*:")


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
    most = await live.run("task", "get", task["id"], "--history", str(10**30))
    assert (most.code, most.out) == (0, text.out), most.err
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
            assert (done.code, [next(iter(line)) for line in done.lines]) == (1, ["task", "error"])
            assert done.lines[-1]["error"]["code"] == "InvalidParamsError"


@req("EXIT_002")
@pytest.mark.parametrize("behaviour", ["fail", "reject", "auth"])
async def test_what_becomes_of_a_task_is_no_exit_code(live: Live, behaviour: str) -> None:
    done = await live.send(behaviour, "--timeout", "20s")
    assert done.code == 0, done.err
    assert done.fields["State"] in ("failed", "rejected", "auth-required")
    assert f"warning: the task is {done.fields['State']}" in done.err


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
    most = await live.run(*words, "--page-size", str(10**30), "-o", "json")
    assert "tasks" in most.json or most.json["error"]["code"] == "InvalidParamsError"  # of the agent
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


@req("DOWNLOAD_001")
async def test_a_name_is_cut_by_bytes_and_a_file_that_fails_stops_no_other(tmp_path: Path) -> None:
    names = [f"{'é' * 200}.txt", "a" * 400, f"b.{'c' * 400}", "blocked", "last.txt"]
    task = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED))
    task.artifacts.add(artifact_id="a", parts=[hub.Part(raw=b"x", filename=name) for name in names])
    probe = Probe()
    probe.on_unary = answering(task)
    out = tmp_path / "out"
    (out / "blocked").mkdir(parents=True)
    plain = card(capabilities=hub.AgentCapabilities())
    async with agent(probe, shown=plain) as server:
        address = f"http://{server.http}"
        words = ("task", "download", "t", "-a", address, "--overwrite", "--output-dir", str(out))
        done = await command(*words, "-o", "json")
        cut = f"{'é' * 98}.txt"
        assert sorted(path.name for path in out.iterdir() if path.is_file()) == sorted(
            [cut, "a" * 200, f"b.{'c' * 198}", "last.txt"]
        )
        assert f"{out / 'blocked'} cannot be written" in done.err
        assert done.code == 1, done.err
        assert [Path(one["path"]).name for one in done.json["files"]][-1] == "last.txt"
        nowhere = tmp_path / "file"
        nowhere.write_text("")
        sending = ("send", "x", "-a", address, "--transport", "JSONRPC", "--save-fileparts", str(nowhere))
        probe.on_unary = answering(hub.SendMessageResponse(task=task))
        sent = await command(*sending)
    assert (sent.code, sent.err.count("cannot be written")) == (1, len(names))
    assert sent.fields["State"] == "completed"  # the answer is shown all the same


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


@req("CHAT_001", "OUT_005")
async def test_chat_without_a_terminal_ends_and_names_send(one: Live) -> None:
    done = await one.run("chat", "-o", "json")
    assert (done.code, done.json["error"]["code"]) == (2, "A2ACLI_ERR_USAGE")
    assert "a2a-bridge send" in done.json["error"]["hint"]


@req("TASK_LIST_001")
@pytest.mark.parametrize("repeats", [True, False], ids=["the same page", "further pages"])
@pytest.mark.parametrize("words", [("list", "--all"), ("push-config", "list", "t")], ids=" ".join)
async def test_a_list_without_an_end(words: tuple[str, ...], repeats: bool) -> None:
    probe = Probe()
    asked = 0

    async def answer(call: Any) -> Any:
        nonlocal asked
        asked += 1
        token = "same" if repeats else f"page-{asked}"
        if isinstance(call.request, hub.ListTasksRequest):
            return hub.ListTasksResponse(next_page_token=token)
        return hub.ListTaskPushNotificationConfigsResponse(next_page_token=token)

    probe.on_unary = answer
    shown = card(capabilities=hub.AgentCapabilities(push_notifications=True))
    async with agent(probe, "JSONRPC", shown=shown) as server:
        done = await command("task", *words, "-a", f"http://{server.http}")
    assert done.code == 1, done.err
    assert ("a second time" in done.err) is repeats
    assert asked == (2 if repeats else 1000 if words[0] == "list" else 100)
    assert ("--page-token page-1000" in done.err) is (not repeats and words[0] == "list")
