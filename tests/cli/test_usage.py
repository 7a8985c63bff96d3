"""`a2a-bridge usage`, and the counting of the servers whose counts it shows."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from a2a_bridge.app.runtime import connect
from a2a_bridge.cli import app
from a2a_bridge.codec import dumps
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.cli.commands import ANY_PORT, agent, command, serving
from tests.patience import PATIENCE

RUNNER = CliRunner()
NOW = 1_800_000_000.0
DAY = 86_400.0


def row(client: str, version: str, binding: str, operation: str, days: float, **more: Any) -> dict[str, Any]:
    return {
        "client": client,
        "principal": "",
        "binding": binding,
        "version": version,
        "operation": operation,
        "calls": 3,
        "errors": 0,
        "first": NOW - 100 * DAY,
        "last": NOW - days * DAY,
        **more,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "usage.json"
    rows = [
        row("old/1", "0.3", "JSONRPC", "SendMessage", 40, profile="a2a-go-0.3"),
        row("old/1", "0.3", "JSONRPC", "GetTask", 35, errors=2, profile="a2a-go-0.3"),
        row("slow/2", "0.3", "JSONRPC", "GetTask", 2, principal="ann"),
        row("new/3", "1.0", "GRPC", "SendMessage", 0),
    ]
    path.write_bytes(dumps({"format": 1, "now": NOW, "usage": rows}))
    return path


def lines(*arguments: str) -> list[list[str]]:
    result = RUNNER.invoke(app, ["usage", *arguments])
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()]


def test_callers_are_listed_by_cell_the_latest_first(file: Path) -> None:
    assert lines(str(file)) == [
        ["VERSION", "BINDING", "PEER", "CALLER", "CALLS", "ERRORS", "LAST"],
        ["0.3", "JSONRPC", "-", "ann", "slow/2", "3", "0", "2d", "ago"],
        ["0.3", "JSONRPC", "a2a-go-0.3", "old/1", "6", "2", "35d", "ago"],
        ["1.0", "GRPC", "-", "new/3", "3", "0", "0s", "ago"],
    ]


def test_filters(file: Path) -> None:
    assert [row[3] for row in lines(str(file), "--a2a-version", "1.0")[1:]] == ["new/3"]
    assert [row[3] for row in lines(str(file), "--binding", "JSONRPC", "--since", "30d")[1:]] == ["ann"]
    assert [row[3] for row in lines(str(file), "--binding", "grpc")[1:]] == ["new/3"]
    assert lines(str(file), "--a2a-version", "0.3", "--since", "1h") == [["no", "calls"]]
    assert [row[3] for row in lines(str(file), "--peer", "a2a-go-0.3")[1:]] == ["old/1"]
    by_operation = lines(str(file), "--by-operation", "--since", "8w")
    assert [row[3:5] for row in by_operation if row[3] == "old/1"] == [
        ["old/1", "GetTask"],
        ["old/1", "SendMessage"],
    ]


def test_json_is_a_usage_document_again(file: Path, tmp_path: Path) -> None:
    shown = RUNNER.invoke(app, ["usage", str(file), "-o", "json", "--a2a-version", "0.3"])
    again = tmp_path / "again.json"
    again.write_text(shown.stdout)
    assert len(lines(str(again))) == 3


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1, "usage": [1], "now": 0}']
)
def test_a_file_without_counts_is_a_usage_error(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    result = RUNNER.invoke(app, ["usage", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "x.json" in result.stderr


def test_an_age_that_is_none_is_usage_error(file: Path) -> None:
    assert RUNNER.invoke(app, ["usage", str(file), "--since", "soon"]).exit_code == 2


async def test_a_gateway_counts_across_restarts_and_shows_its_counts(tmp_path: Path) -> None:
    probe = Probe()
    message = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text="hello")])
    probe.on_unary = answering(hub.SendMessageResponse(message=message))
    file = tmp_path / "usage.json"
    flags = ("--usage-file", str(file), "--usage-listen", "127.0.0.1:0")
    async with agent(probe, "JSONRPC") as upstream:
        for run in (1, 2):
            async with serving("gateway", f"http://{upstream.http}", *ANY_PORT, *flags) as gateway:
                async with connect(gateway.http) as peer:
                    await peer.send("hi")
                async with connect(gateway.grpc) as peer:
                    await peer.send("hi")
                shown = (await command("usage", gateway.addresses["usage"], "-o", "json")).json
                assert {(one["binding"], one["calls"]) for one in shown["usage"]} == {
                    ("JSONRPC", run),
                    ("GRPC", run),
                }
                async with asyncio.timeout(PATIENCE):  # the documents show the file while the server runs
                    while file.read_text().count(f'"calls":{run}') != 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                gateway.signal()
                assert (await gateway.ended()).code == 0
    done = await command("usage", str(file), "-o", "json")
    assert {(one["version"], one["binding"], one["calls"]) for one in done.json["usage"]} == {
        ("1.0", "JSONRPC", 2),
        ("1.0", "GRPC", 2),
    }


async def test_a_usage_file_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "precious.json"
    file.write_text('{"mine": true}')
    done = await command(
        "gateway", "127.0.0.1:1", "--a2a-version", "1.0", *ANY_PORT, "--usage-file", str(file)
    )
    assert file.read_text() == '{"mine": true}'
    assert done.code != 0
