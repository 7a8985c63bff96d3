"""--log-format and --log-config, and the lines that tell of starts and stops."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import connect
from a2a_bridge.bindings.binding import DialOptions
from tests.cli.commands import ANY_PORT, FILES, Done, command, serving
from tests.cli.test_logging import LINE, written

JSON = ("--log-format", "json")
INFO = ("--log-level", "info")


async def done(target: str, *flags: str, text: str = "Bern") -> Done:
    """A server that has answered one message."""
    async with serving("serve", target, *ANY_PORT, *flags) as running:
        async with connect(running.http, version="0.3") as peer:
            await peer.send(text)
        running.signal()
        return await running.ended()


def objects(err: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.splitlines()]


async def test_a_call_is_an_object_with_its_fields(tmp_path: Path) -> None:
    lines = objects((await done(written(tmp_path), *JSON, *INFO)).err)
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    (access,) = [line for line in lines if line["logger"] == "a2a_bridge.access"]
    expected = {
        "agent": "weather",
        "binding": "JSONRPC",
        "version": "0.3",
        "operation": "SendMessage",
        "code": "OK",
        "state": "COMPLETED",
        "peer": "127.0.0.1",
        "level": "INFO",
    }
    assert expected.items() <= access.items()
    assert access["duration_ms"] > 0
    assert "trace_id" not in access
    assert [line["message"] for line in lines if line["logger"] == "weather"] == ["asked for Bern"]


async def test_lines_have_the_trace_of_their_call(tmp_path: Path) -> None:
    trace = "a" * 32
    options = DialOptions(parameters={"traceparent": f"00-{trace}-{'b' * 16}-01"})
    env = {"OTEL_TRACES_EXPORTER": "none"}
    flags = (*ANY_PORT, *JSON, *INFO, "--tracing", "on")
    async with serving("serve", written(tmp_path), *flags, env=env) as running:
        async with connect(running.http, options=options) as peer:
            await peer.send("Bern")
            async for _ in peer.stream("Bern"):
                pass
        running.signal()
        lines = objects((await running.ended()).err)
    for logger in ("weather", "a2a_bridge.access"):
        found = [line for line in lines if line["logger"] == logger]
        assert [line["trace_id"] for line in found] == [trace, trace]
    assert "trace_id" not in next(line for line in lines if line["message"].startswith("started"))


async def test_what_an_agent_sends_to_stderr_is_json_too(tmp_path: Path) -> None:
    setup = 'logging.basicConfig(level="INFO", format="mine %(name)s %(message)s")'
    lines = objects((await done(written(tmp_path, setup), *JSON, *INFO)).err)
    assert {"weather", "a2a_bridge.access"} <= {line["logger"] for line in lines}


async def test_exceptions_and_messages_are_in_their_line(tmp_path: Path) -> None:
    path = tmp_path / "weather.py"
    path.write_text(
        "from a2a_bridge import Run, agent\n"
        "@agent\n"
        "async def weather(run: Run):\n"
        "    raise ValueError('first\\nsecond')\n"
        "    yield\n"
    )
    (line,) = objects((await done(str(path), *JSON)).err)
    assert line["level"] == "ERROR"
    assert "ValueError: first\nsecond" in line["exception"]
    async with (
        serving("serve", str(path), *ANY_PORT) as running,
        serving("gateway", running.http, *ANY_PORT, *JSON) as gateway,
    ):
        gateway.signal()
        told = objects((await gateway.ended()).err)
    assert any(line["message"].startswith("upstream: ") for line in told)
    failed = objects((await command("serve", str(tmp_path / "none.py"), *ANY_PORT, *JSON)).err)
    assert failed[0]["level"] == "ERROR"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_start_and_stop_have_a_line_with_the_cause(tmp_path: Path, number: signal.Signals) -> None:
    async with serving("serve", written(tmp_path), *ANY_PORT, *INFO) as running:
        running.signal(number)
        err = (await running.ended()).err
    texts = [found[3] for line in err.splitlines() if (found := LINE.fullmatch(line)) is not None]
    assert texts == [
        f"started as process {running.process.pid}: {running.ready}",
        f"{number.name}: draining for at most 10 s",
        f"stopped, because of {number.name}",
    ]


async def test_workers_and_their_supervisor_tell_it_as_well(tmp_path: Path) -> None:
    flags = (*ANY_PORT, *INFO, *JSON, "--workers", "2")
    async with serving("serve", written(tmp_path), *flags) as running:
        running.signal()
        lines = objects((await running.ended()).err)
    supervisor = [line["message"] for line in lines if line["logger"] == "a2a_bridge.cli.workers"]
    assert supervisor[-3].startswith("started 2 workers as process ")
    assert supervisor[-2:] == ["SIGTERM: draining for at most 10 s", "stopped, because of SIGTERM"]
    workers = [line["message"] for line in lines if line["logger"] == "a2a_bridge.cli.running"]
    assert sum(text.startswith("started as process ") for text in workers) == 2
    assert workers.count("stopped, because of SIGTERM") == 2


@pytest.mark.parametrize("server", ["envoy"])
async def test_envoy_tells_it_as_well(tmp_path: Path, server: str) -> None:
    flags = ("--server", server, "--listen", "127.0.0.1:0", *INFO, *JSON)
    async with serving("serve", written(tmp_path), *flags) as running:
        running.signal()
        lines = objects((await running.ended()).err)
    own = [line["message"] for line in lines if line["logger"] == "a2a_bridge.cli.running"]
    assert own[0].endswith(running.ready)
    assert own[1:] == ["SIGTERM: draining for at most 10 s", "stopped, because of SIGTERM"]
    assert any(line["logger"].startswith("envoy.") for line in lines)


async def test_a_task_that_recovery_fails_has_a_line(tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path}/tasks.db")
    async with serving("serve", written(tmp_path), *ANY_PORT, *store, env=FILES) as running:
        async with connect(running.http) as peer:
            reply = await peer.send("wait", return_immediately=True)
        running.signal(signal.SIGKILL)
        await running.ended()
    assert reply.task is not None
    async with serving("serve", written(tmp_path), *ANY_PORT, *store, *JSON, env=FILES) as running:
        async with connect(running.http) as peer:
            await peer.get_task(type_of_get(reply.task.id))
        running.signal()
        lines = objects((await running.ended()).err)
    assert [line for line in lines if f"task {reply.task.id} failed: " in line["message"]]


def type_of_get(task_id: str) -> Any:
    from a2a_bridge.pb import lf_a2a_v1 as hub  # only this test makes a request itself

    return hub.GetTaskRequest(id=task_id)


CONFIGS = {
    "log.json": json.dumps(
        {
            "version": 1,
            "formatters": {"own": {"format": "OWN %(name)s %(message)s"}},
            "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "own"}},
            "root": {"level": "INFO", "handlers": ["err"]},
        }
    ),
    "log.toml": """
version = 1
formatters.own.format = "OWN %(name)s %(message)s"
handlers.err = {class = "logging.StreamHandler", formatter = "own"}
root = {level = "INFO", handlers = ["err"]}
""",
    "log.ini": """
[loggers]
keys=root
[handlers]
keys=err
[formatters]
keys=own
[logger_root]
level=INFO
handlers=err
[handler_err]
class=StreamHandler
args=()
formatter=own
[formatter_own]
format=OWN %(name)s %(message)s
""",
}


@pytest.mark.parametrize("name", CONFIGS)
async def test_a_configuration_decides_about_all_lines(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(CONFIGS[name])
    lines = (await done(written(tmp_path), "--log-config", str(tmp_path / name))).err.splitlines()
    assert "OWN weather asked for Bern" in lines
    assert all(line.startswith("OWN ") for line in lines)
    assert any(line.startswith("OWN a2a_bridge.access JSONRPC 0.3 SendMessage") for line in lines)


BROKEN = {
    "log.json": "{",
    "list.json": "[]",
    "log.toml": "version = ",
    "log.ini": "nothing",
    "handler.json": '{"version": 1, "handlers": {"x": {"class": "no.such.Handler"}}, "root": {"handlers": ["x"]}}',
    "version.json": "{}",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_configuration_that_is_none_is_an_error_with_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(BROKEN[name])
    for server in (ANY_PORT, ("--server", "envoy", "--listen", "127.0.0.1:0")):
        found = await command("serve", written(tmp_path), *server, "--log-config", str(tmp_path / name))
        assert found.code == 2
        assert f"error: --log-config {tmp_path / name} is no configuration of logging" in found.err
        assert "Traceback" not in found.err


async def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    found = await command(
        "gateway", "http://127.0.0.1:9", *ANY_PORT, "--log-config", str(tmp_path / "no.json")
    )
    assert found.code == 2
    assert f"--log-config {tmp_path / 'no.json'} cannot be read: No such file" in found.err
