"""What client commands show and keep of the wire: --as, --dry-run, --record, and compare --replay."""

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from a2a_bridge.bindings.frames import Frame
from a2a_bridge.core.masking import Secrets
from a2a_bridge_tools.client.recording import Recorder, calls_of
from tests.cli.commands import command
from tests.tools.client.live import Live, lines


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("flags", [(), ("--stream",)], ids=["", "stream"])
async def test_the_printed_curl_command_does_the_same(
    demo: dict[str, str], binding: str, flags: tuple[str, ...]
) -> None:
    words = ("send", 'it\'s $5 "now"', "-a", demo["http"], "--transport", binding, "--as", "curl", *flags)
    done = await command(*words, env={"A2ACLI_BEARER": "s3cret"})
    assert (done.code, done.out.startswith("curl ")) == (0, True), done.err
    assert "s3cret" not in done.out + done.err
    assert '"authorization: Bearer $A2ACLI_BEARER"' in done.out
    ran = subprocess.run(  # noqa: ASYNC221  it is short
        ["sh", "-c", done.out],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "A2ACLI_BEARER": "x"},
    )
    assert 'it\'s $5 \\"now\\"' in ran.stdout
    assert "TASK_STATE_" in ran.stdout


@pytest.mark.parametrize("place", ["cookie", "query"])
@pytest.mark.parametrize(("kind", "binding"), [("curl", "HTTP+JSON"), ("grpcurl", "GRPC")])
async def test_a_card_puts_no_command_into_a_printed_one(
    kind: str, binding: str, place: str, tmp_path: Path
) -> None:
    hostile = "$(touch${IFS}made)`touch${IFS}made`$A2ACLI_BEARER;'\"!"
    url = f"http://127.0.0.1:9/{hostile}" if kind == "curl" else "https://127.0.0.1$(touch${IFS}made);x:443"
    scheme = {"apiKeySecurityScheme": {"location": place, "name": hostile}}
    card = {
        "name": "n",
        "description": "d",
        "version": "1",
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
        "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}],
        "securitySchemes": {"key": scheme},
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
    }
    (tmp_path / "card.json").write_text(json.dumps(card))
    # Prints its words, one on a line.
    (tmp_path / kind).write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / kind).chmod(0o700)
    words = ("send", "hello", "-a", str(tmp_path / "card.json"), "--as", kind)
    done = await command(*words, env={"A2ACLI_API_KEY": "s3cret-key"})
    assert done.code == 0, done.err
    path = f"{tmp_path}:{os.environ['PATH']}"
    env = {"PATH": path, "A2ACLI_API_KEY": "the-variable", "A2ACLI_BEARER": "never"}
    ran = subprocess.run(  # noqa: ASYNC221  it is short
        ["sh", "-c", done.out], capture_output=True, text=True, check=True, env=env, cwd=tmp_path
    )
    assert not (tmp_path / "made").exists()
    assert (ran.stderr, "never" in ran.stdout) == ("", False)
    if place == "cookie":
        assert f"cookie: {hostile}=the-variable" in ran.stdout.splitlines()
    elif kind == "curl":
        assert "=the-variable" in ran.stdout
    if kind == "grpcurl":
        assert "127.0.0.1$(touch${IFS}made);x:443" in ran.stdout.splitlines()


async def test_other_commands_as_curl(one: Live) -> None:
    done = await one.run("task", "get", "some-id", "--as", "curl")
    assert done.out.startswith("curl ")
    assert "some-id" in done.out
    rest = await command("task", "list", "-a", one.reference, "--transport", "rest", "--as", "curl")
    assert "-X" not in rest.out
    assert shlex.split(rest.out)[2].startswith(f"{one.reference}/tasks")


async def test_a_call_as_grpcurl(demo: dict[str, str]) -> None:
    words = ("send", "hello", "-a", demo["http"], "--as", "grpcurl", "-H", "x-key: s3cret")
    done = await command(*words)
    assert done.code == 0, done.err
    parts = shlex.split(done.out)
    assert parts[:2] == ["grpcurl", "-plaintext"]
    assert parts[-2:] == [demo["grpc"], "lf.a2a.v1.A2AService/SendMessage"]
    assert json.loads(parts[parts.index("-d") + 1])["message"]["parts"] == [{"text": "hello"}]
    assert "a2a-version: 1.0" in parts
    assert "x-key: ***" in parts


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("flags", [(), ("--stream",)], ids=["", "stream"])
async def test_the_printed_program_does_the_same(
    demo: dict[str, str], binding: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    words = ("send", "hello", "-a", demo["http"], "--transport", binding, "--as", "python", *flags)
    done = await command(*words)
    assert done.code == 0, done.err
    program = tmp_path / "program.py"
    program.write_text(done.out)
    ran = subprocess.run(  # noqa: ASYNC221
        [sys.executable, program], capture_output=True, text=True, check=True
    )
    assert "TASK_STATE_COMPLETED" in ran.stdout


async def test_a_dry_run_sends_nothing(one: Live) -> None:
    before = (await one.run("task", "list", "-o", "json")).json.get("totalSize", 0)
    done = await one.run("send", "hello", "--dry-run", "--bearer", "s3cret")
    assert done.out.startswith(f"POST {one.reference}/")
    assert "authorization: Bearer $A2ACLI_BEARER" in done.out
    assert json.loads(done.out.splitlines()[-1])["method"] == "SendMessage"
    assert (await one.run("task", "list", "-o", "json")).json.get("totalSize", 0) == before


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_record_has_the_frames_of_both_directions(
    demo: dict[str, str], binding: str, tmp_path: Path
) -> None:
    file = tmp_path / "record.ndjson"
    words = ("send", "to be recorded", "-a", demo["http"], "--transport", binding, "--record", str(file))
    done = await command(*words, "--bearer", "s3cret-1", "-H", "x-mine: s3cret-2")
    assert done.code == 0, done.err
    text = file.read_text()
    assert "s3cret" not in text
    rows = [json.loads(line) for line in text.splitlines()]
    assert rows[0]["call"] == "SendStreamingMessage"
    assert rows[0]["request"]["message"]["parts"] == [{"text": "to be recorded"}]
    frames = [row for row in rows if "sent" in row]
    assert {row["sent"] for row in frames} == {True, False}
    assert {row["hop"] for row in rows} == {"upstream"}
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    assert ["x-mine", "***"] in [
        [name.lower(), value] for row in frames for name, value in row.get("headers", ())
    ]
    assert sys.platform == "win32" or stat.S_IMODE(file.stat().st_mode) == 0o600
    replayed = await command("compare", "-a", demo["http"], "--replay", str(file), "-o", "json")
    assert replayed.code == 0, replayed.err
    assert len(replayed.json["answers"]) == 9
    assert "to be recorded" in replayed.out
    assert lines(replayed)[0]["answers"][0]["events"]


async def test_a_comparison_is_recorded_and_can_be_repeated(demo: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "record.ndjson"
    words = ("compare", "to be recorded", "-a", demo["http"], "-o", "json")
    done = await command(*words, "--record", str(file), "-H", "x-mine: s3cret")
    assert done.code == 0, done.err
    assert "s3cret" not in file.read_text()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["call"] for row in rows if "call" in row] == ["SendMessage"]
    cells = [f"{one['binding']} {one['version']}" for one in done.json["answers"]]
    frames = [row for row in rows if "sent" in row]
    assert list(dict.fromkeys(row["cell"] for row in frames)) == cells
    replayed = await command("compare", "-a", demo["http"], "--replay", str(file), "-o", "json")
    assert (replayed.code, len(lines(replayed))) == (0, 1), replayed.err
    nowhere = await command(*words, "--record", str(tmp_path / "none" / "x"))
    assert (nowhere.code, nowhere.json["error"]["code"]) == (2, "A2ACLI_ERR_USAGE")


async def test_the_request_for_a_card_is_recorded(demo: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "record.ndjson"
    done = await command("card", "get", "-a", demo["http"], "--record", str(file), "-H", "x-mine: s3cret")
    assert done.code == 0, done.err
    sent, received = map(json.loads, file.read_text().splitlines()[:2])
    assert sent["head"].startswith("GET /.well-known/agent-card.json")
    assert received["head"].startswith("HTTP/1.1 200")
    assert "s3cret" not in file.read_text()


async def test_a_comparison_needs_a_card(demo: dict[str, str]) -> None:
    endpoint = ("-e", demo["http"], "--transport", "JSONRPC")
    for words, env in (
        (endpoint, {}),
        ((*endpoint, "-a", demo["http"]), {}),
        ((), {"A2ACLI_ENDPOINT": demo["http"]}),
    ):
        done = await command("compare", "hi", *words, env=env)
        said = " ".join(done.err.split())
        assert (done.code, "--endpoint" in said, "needs a card" in said) == (2, True, True), done.err
    # The variable is for other commands.
    done = await command("compare", "hi", "-a", demo["http"], env={"A2ACLI_ENDPOINT": "http://127.0.0.1:1"})
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{}", "has no message that was sent"),
        ("no json", "line 1 is no line of a record"),
        ('{"call": "SendMessage"}', "line 1 is no line of a record"),
        ('\n{"call": "Fly", "request": {}}', "line 2 is no line of a record"),
    ],
)
async def test_a_file_that_is_no_record(one: Live, content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "record.ndjson"
    file.write_text(content)
    done = await command("compare", "-a", one.reference, "--replay", str(file))
    assert (done.code, says in done.err) == (2, True), done.err


def test_a_recorder_of_several_hops() -> None:
    written: list[str] = []
    recorder = Recorder(written.append, clock=iter([5.0, 5.5, 6.0]).__next__)
    recorder.observer("front")(Frame(True, "POST /?key=abc HTTP/1.1", (("Cookie", "a=b"),), b"{}"))
    recorder.observer("upstream")(Frame(False, "HTTP/1.1 200 OK", (("X-Own", "c"),), b"\xff"))
    recorder.secrets = Secrets(frozenset({"x-own"}))
    recorder.observer("upstream")(Frame(False, "", (("X-Own", "c"),)))
    assert [json.loads(line) for line in written] == [
        {
            "at": 0,
            "hop": "front",
            "exchange": 1,
            "sent": True,
            "head": "POST /?key=*** HTTP/1.1",
            "headers": [["Cookie", "***"]],
            "body": "{}",
        },
        {
            "at": 0.5,
            "hop": "upstream",
            "exchange": 1,
            "sent": False,
            "head": "HTTP/1.1 200 OK",
            "headers": [["X-Own", "c"]],
            "base64": "/w==",
        },
        {"at": 1, "hop": "upstream", "exchange": 1, "sent": False, "headers": [["X-Own", "***"]]},
    ]
    assert calls_of(line.encode() for line in written) == []
