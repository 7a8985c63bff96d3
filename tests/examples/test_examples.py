"""Every example runs as documented. The demo is here too, and a test that it can fail."""

import asyncio
import importlib.util
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from a2a_bridge import A2AError, interface
from a2a_bridge.app.runtime import connect
from tests.cli.commands import ANY_PORT, PATIENCE, command, serving

EXAMPLES = Path(__file__).parents[2] / "examples"


@asynccontextmanager
async def program(script: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """An example as a process, which must end with 0 after a signal, if it handles signals."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLES / script), *arguments, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) in (0, -signal.SIGTERM)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()


async def said(target: Any, text: str) -> str:
    async with connect(target) as peer:
        return (await peer.send(text)).text


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_weather_is_served_by_the_command() -> None:
    async with serving("serve", str(EXAMPLES / "weather.py"), *ANY_PORT) as server:
        assert await said(server.http, "Oslo") == "looking… Oslo: 21 °C"
        done = await command("compare", "-a", server.http, "Oslo")
        assert done.code == 0, done.err
        # Three versions over three bindings; the first has nothing to be compared with.
        assert done.out.count("identical") == 3 * 3 - 1
        streamed = await command("send", "-a", f"grpc://{server.grpc}", "Oslo", "--stream")
        assert streamed.text == "looking… Oslo: 21 °C"
        card = (await command("card", "get", "-a", server.http, "-o", "json")).json
    assert (card["name"], card["description"]) == ("weather", "Tells the weather of a city.")


async def test_the_echo_agent_serves_its_declarations() -> None:
    async with program("echo_agent.py") as process:
        interfaces = [(await line_of(process)).split() for _ in range(2)]
        assert [binding for binding, _ in interfaces] == ["JSONRPC", "GRPC"]
        assert await said(interfaces[1][1], "hello") == "hello"
        assert await said(interfaces[0][1].removesuffix("/rpc"), "hello") == "hello"


async def test_the_echo_agent_is_served_by_the_command() -> None:
    async with serving("serve", str(EXAMPLES / "echo_agent.py"), *ANY_PORT) as server:
        assert await said(server.http, "hello") == "hello"


async def test_an_agent_inside_a_fastapi_application() -> None:
    flags = (
        "--app-dir",
        str(EXAMPLES),
        "mount_fastapi:app",
        "--port",
        "0",
        "--no-access-log",
        "--no-use-colors",
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "uvicorn", *flags),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while b"Uvicorn running on" not in (line := await process.stderr.readline()):
                assert line, "uvicorn ended"
        origin = line.decode().split("running on ")[1].split()[0]
        assert await said(f"{origin}/agents/weather", "Oslo") == "looking… Oslo: 21 °C"
        for binding in ("JSONRPC", "HTTP+JSON"):
            done = await command("send", "-a", f"{origin}/agents/weather", "Oslo", "--transport", binding)
            assert done.text == "looking… Oslo: 21 °C"
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), PATIENCE)


async def test_the_agent_asked_from_within_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded("mount_fastapi", monkeypatch)
    assert await module.forecast("Oslo") == {"forecast": "looking… Oslo: 21 °C"}


async def test_an_agent_on_a_grpc_server_that_is_already_there() -> None:
    async with program("grpc_embed.py", "127.0.0.1:0") as process:
        address = (await line_of(process)).removeprefix("ready grpc=")
        assert await said(address, "Oslo") == "looking… Oslo: 21 °C"


async def test_a_gateway_in_code() -> None:
    async with program("sdk_agent.py", "0") as agent:
        upstream = (await line_of(agent)).removeprefix("ready http=")
        async with program("gateway_jsonrpc_to_grpc/gateway.py", upstream, "127.0.0.1:0") as gateway:
            address = (await line_of(gateway)).removeprefix("ready grpc=")
            assert await said(address, "good morning") == "good morning"


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_gateway_for_two_versions_in_code(version: str) -> None:
    script = "gateway_03_to_10/gateway.py"
    async with program("sdk_agent.py", "0", "JSONRPC", version) as agent:
        upstream = (await line_of(agent)).removeprefix("ready http=")
        async with program(script, upstream, "127.0.0.1:0", "127.0.0.1:0") as gateway:
            http = (await line_of(gateway)).split()[1].removeprefix("http=")
            for cell in product(("JSONRPC", "GRPC"), ("0.3", "1.0")):
                binding, spoken = cell
                async with connect(http, binding=binding, version=spoken) as peer:
                    assert (await peer.send("good morning")).text == "good morning", cell
                    offered = [
                        (one.protocol_binding, one.protocol_version) for one in peer.card.supported_interfaces
                    ]
            assert sorted(offered) == sorted(product(("JSONRPC", "GRPC"), ("0.3", "1.0")))


async def test_the_agent_of_the_examples_speaks_one_version_only() -> None:
    async with program("sdk_agent.py", "0", "JSONRPC", "0.3") as agent:
        upstream = (await line_of(agent)).removeprefix("ready http=")
        newer = interface("JSONRPC", f"{upstream}/", version="1.0")
        with pytest.raises(A2AError):
            await said(newer, "hello")
        assert await said(upstream, "hello") == "hello to you too"


async def test_the_demo_finds_everything_equal() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLES / "demo.py"), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 2 * PATIENCE)
    text = out.decode()
    assert process.returncode == 0, text
    assert "✗" not in text
    assert text.count("✓ ✓") == 3 * 16
    # Two clients of 1.0 and two older ones over three bindings; a second agent, in terms of 0.x.
    assert (text.count("16 of 16 ✓"), text.count("15 of 15 ✓")) == (2 * 3, 2 * 3 + 4 * 3)
    assert "✓ the whole message came back as it was sent" in text
    assert text.count("a stream over ") == 3


async def test_a_slow_demo_names_the_step_that_waited() -> None:
    """And nothing else: what was open is closed without a trace."""
    code = "import sys, demo; demo.CALLS = 1.0; sys.exit(demo.main())"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-c", code),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES)},
    )
    _, err = await asyncio.wait_for(process.communicate(), 2 * PATIENCE)
    assert process.returncode == 2
    lines = [
        one
        for one in err.decode().splitlines()
        # A call may end while its gateway connects; that is a line of the log.
        if not one.startswith(("note: ", "upstream: ")) and "a2a_bridge.gateway.failover: " not in one
    ]
    assert len(lines) == 2, err.decode()
    assert lines[0].startswith("demo: the calls of ")
    assert lines[0].endswith(" took longer than 1 s.")


def test_the_demo_sees_a_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = loaded("demo", monkeypatch)
    answer = [{"message": {"parts": [{"text": "right"}]}}]
    results = {front: {"step": answer} for front in demo.FRONTS}

    def verdict() -> bool:
        report = demo.Report()
        report.operations({"step": answer}, results)
        report.versions({"step": answer}, results, "1.0")
        return bool(report.ends(1.0))

    assert verdict() is True
    results[demo.Front("0.3", "our", "GRPC")] = {"step": [{"message": {"parts": [{"text": "wrong"}]}}]}
    assert verdict() is False
    text = capsys.readouterr().out
    assert "0 of 1 ✗" in text
    assert "✗ step, GRPC 0.3, our client, agent of 1.0: [0].message.parts[0].text" in text


def test_the_demo_compares_the_errors_of_older_versions_but_not_one_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = loaded("demo_steps", monkeypatch)
    ended, other = steps.IN_OWN_WORDS, "CancelTask, ended task"
    told = {"rejected": "UNSUPPORTED_OPERATION", "text": "so"}
    in_other_words = {**told, "text": "in other words"}
    for step, older, count in ((ended, True, 0), (ended, False, 1), (other, True, 1)):
        assert len(steps.unlike({step: told}, {step: in_other_words}, older=older)[step]) == count
    assert steps.unlike({ended: told}, {ended: {**told, "rejected": "TASK_NOT_FOUND"}}, older=True)[ended]


async def test_the_demo_continues_after_a_failed_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = loaded("demo_steps", monkeypatch)

    class Rejecting:
        async def call(self, operation: str, request: Any) -> Any:
            raise steps.Rejected("TASK_NOT_FOUND", operation)

        async def stream(self, operation: str, request: Any) -> AsyncIterator[Any]:
            raise steps.Rejected("TASK_NOT_FOUND", operation)
            yield

    results = await steps.all_steps(Rejecting(), "1.0")
    assert list(results) == list(steps.STEPS)
    assert results["SendMessage → task"]["rejected"] == "TASK_NOT_FOUND"
    assert results["GetTask"]["rejected"] == "not tried"
    assert list(await steps.all_steps(Rejecting(), "0.3")) == [one for one in results if one != "ListTasks"]


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ('"curious"', '"glad"', "an unknown member"),
        ("0.5", "0.25", "a fraction"),
        ("9007199254740993", "9007199254740992", "an integer that no double holds"),
        ('"metadata": {}, "ext', '"ext', "an empty object"),
        ('"role": "user"', '"role": "agent"', "elsewhere"),
    ],
)
def test_the_demo_notices_losses(
    old: str, new: str, differs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo, odd = loaded("demo", monkeypatch), loaded("demo_oddities", monkeypatch)
    report, sent = demo.Report(), odd.read(odd.MESSAGE)
    report.oddities(sent, odd.read(odd.MESSAGE))
    assert report.ends(1.0) is True
    assert old in odd.MESSAGE
    report.oddities(sent, odd.read(odd.MESSAGE.replace(old, new, 1)))
    assert report.ends(1.0) is False
    assert f"✗ {differs}: sent " in capsys.readouterr().out


def test_the_demo_sees_a_message_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    demo, odd = loaded("demo", monkeypatch), loaded("demo_oddities", monkeypatch)
    report = demo.Report()
    report.oddities(odd.read(odd.MESSAGE), None)
    assert report.ends(1.0) is False


@pytest.mark.parametrize(
    ("ids", "text"),
    [(["1", "2", "4"], None), (["1", "2", "2"], None), (["1", "2", "3"], "1 2 "), (["1"], None)],
)
def test_the_demo_sees_a_stream_with_a_hole(
    ids: list[str], text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo, survival = loaded("demo", monkeypatch), loaded("demo_survival", monkeypatch)
    whole = "".join(f"{number} " for number in range(1, survival.COUNT + 1))
    report = demo.Report()
    report.survival([survival.Story("GRPC", 1, ["1", "2", "3"], whole)])
    assert report.ends(1.0) is True
    report.survival([survival.Story("GRPC", 1, ids, whole if text is None else text)])
    assert report.ends(1.0) is False
