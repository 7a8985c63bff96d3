"""The log of the commands: lines of the bridge, of the agent's own loggers, and the causes of failures."""

import json
import re
from pathlib import Path

import grpc
import grpc.aio
import httpx
import pytest

from a2a_bridge import connect
from a2a_bridge.core.errors import A2AError
from tests.cli.commands import serving
from tests.patience import PATIENCE
from tests.transports.http_peer import http, peering

ANY_PORT = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--store", "memory://")
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\w+) ([\w.]+): (.*)")

AGENT = """
import asyncio, logging
from a2a_bridge import Run, agent
{setup}
log = logging.getLogger("weather")

@agent
async def weather(run: Run):
    log.info("asked for %s", run.text)
    if run.text == "wait":
        yield run.status("working")
        await asyncio.Event().wait()
    yield run.reply(run.text)
"""


def written(folder: Path, setup: str = "") -> str:
    path = folder / "weather.py"
    path.write_text(AGENT.format(setup=setup))
    return str(path)


async def logged(target: str, *flags: str) -> str:
    """What a server has logged when it has answered one message."""
    async with serving("serve", target, *ANY_PORT, *flags) as running:
        async with connect(running.http) as peer:
            await peer.send("Bern")
        running.signal()
        return (await running.ended()).err


@pytest.mark.parametrize(("flags", "shown"), [((), False), (("--log-level", "info"), True)])
async def test_the_loggers_of_an_agent(tmp_path: Path, flags: tuple[str, ...], shown: bool) -> None:
    lines = [LINE.fullmatch(line) for line in (await logged(written(tmp_path), *flags)).splitlines()]
    assert all(lines)
    found = [line.groups() for line in lines if line is not None and line[2] == "weather"]
    assert found == ([("INFO", "weather", "asked for Bern")] if shown else [])


async def test_an_agent_that_configures_logging_has_it_for_all(tmp_path: Path) -> None:
    setup = 'logging.basicConfig(level="INFO", format="mine %(name)s %(message)s")'
    lines = (await logged(written(tmp_path, setup), "--log-level", "info")).splitlines()
    assert "mine weather asked for Bern" in lines
    assert any(line.startswith("mine a2a_bridge.") for line in lines)
    assert all(line.startswith("mine ") for line in lines)


async def test_a_task_that_ends_with_its_server_is_logged(tmp_path: Path) -> None:
    at_once = ("--timeout-graceful-shutdown", "0")
    async with (
        serving("serve", written(tmp_path), *ANY_PORT, *at_once) as running,
        connect(running.http) as peer,
    ):
        reply = await peer.send("wait", return_immediately=True)
        running.signal()
        err = (await running.ended()).err
    assert f"task {reply.task.id} failed: the agent was stopped before it finished the task" in err


def _rpc(method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": 1}}).encode()


async def test_rejected_requests_are_one_line_each(tmp_path: Path) -> None:
    """Before: nothing at any level."""
    version = {"A2A-Version": "1.0"}
    requests: list[tuple[str, str, bytes, dict[str, str], str]] = [
        (
            "POST",
            "/",
            _rpc("NoSuch"),
            version,
            "POST / NoSuch from 127.0.0.1, version 1.0: METHOD_NOT_FOUND: ",
        ),
        ("POST", "/", b"{", version, "POST / from 127.0.0.1, version 1.0: PARSE_ERROR: "),
        ("POST", "/", _rpc("GetTask"), version, "POST / GetTask from 127.0.0.1, version 1.0: INVALID_"),
        ("POST", "/", b"{}", {"Content-Type": "text/x"}, "POST / from 127.0.0.1: CONTENT_TYPE_NOT"),
        ("POST", "/", _rpc("GetTask"), {"A2A-Version": "9.9"}, "version 9.9: VERSION_NOT_SUPPORTED: "),
        ("GET", "/no/such?key=s3cret", b"", {}, "GET /no/such from 127.0.0.1: METHOD_NOT_FOUND: "),
        ("DELETE", "/livez", b"", {}, "DELETE /livez from 127.0.0.1: METHOD_NOT_FOUND: "),
        (
            "GET",
            "/tasks?pageSize=x",
            b"",
            version,
            "GET /tasks ListTasks from 127.0.0.1, version 1.0: INVALID_P",
        ),
        ("GET", "/", b"", {"Host": "a@b"}, "GET / from 127.0.0.1: INVALID_REQUEST: the Host header"),
    ]
    async with serving("serve", written(tmp_path), *ANY_PORT, "--log-level", "info") as running:
        async with httpx.AsyncClient(base_url=running.http, verify=False) as http:  # noqa: S501
            for method, path, body, headers, _ in requests:
                media = {"Content-Type": "application/json", **headers}
                await http.request(method, path, content=body, headers=media)
        async with grpc.aio.insecure_channel(running.grpc) as channel:
            for name, data in (("GetTask", b"\xff"), ("NoSuch", b"")):
                call = channel.unary_unary(f"/lf.a2a.v1.A2AService/{name}")(data, timeout=PATIENCE)
                assert await call.code() is not grpc.StatusCode.OK
        running.signal()
        lines = [
            line for line in (await running.ended()).err.splitlines() if " a2a_bridge.rejected: " in line
        ]
    assert len(lines) == len(requests) + 2, "\n".join(lines)
    for line, (*_, expected) in zip(lines, requests, strict=False):
        assert expected in line
        assert " INFO " in line
    assert " /lf.a2a.v1.A2AService/GetTask from 127.0.0.1: PARSE_ERROR: " in lines[-2]
    assert " an unknown method from 127.0.0.1: METHOD_NOT_FOUND: " in lines[-1]
    assert "s3cret" not in "".join(lines)


@pytest.mark.parametrize(
    ("status", "answer", "cause"),
    [
        ("500 Internal Server Error", "out of memory", "the peer said: out of memory; HTTP 500 from {url}"),
        ("404 Not Found", "no such page", "HTTP 404 from {url}, the URL in the card"),
        (
            "307 Temporary Redirect\r\nLocation: /?zz=s3cret",
            "",
            "HTTP 307 from {url}, the URL in the card, leads to '/?zz=***'",
        ),
        ("200 OK", "<html>", "the agent's answer is not a JSON-RPC response"),
    ],
)
async def test_a_gateway_logs_why_its_agent_fails(
    status: str, answer: str, cause: str, tmp_path: Path
) -> None:
    card = '{"name":"a","description":"a","version":"1","url":"%s","protocolVersion":"0.3.0","preferredTransport":"JSONRPC"}'
    async with peering(http(answer, status=status)) as peer:
        (tmp_path / "card.json").write_text(card % peer.url)
        where = ("--card", str(tmp_path / "card.json"))
        async with serving("gateway", f"{peer.url}/?zz=s3cret", *where, *ANY_PORT) as running:
            async with connect(running.http, binding="JSONRPC") as caller:
                with pytest.raises(A2AError) as caught:
                    await caller.send("hi")
            running.signal()
            err = (await running.ended()).err
    assert "does not answer as an agent: " in err
    assert err.count("SendMessage failed at <Upstream JSONRPC ") == 1
    assert err.count(cause.format(url=f"{peer.url}/?zz=***")) >= 2
    assert "s3cret" not in err
    assert peer.url not in str(caught.value)
