"""Every Python block of README.md is a program that runs unchanged, except for the ports."""

import asyncio
import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from a2a_bridge import connect
from tests.docs.pages import ROOT, blocks, section, table
from tests.patience import PATIENCE

PROGRAMS = {
    re.match(r"# (\w+\.py)\n", block.body)[1]: block.body  # type: ignore[index]  # each has its name
    for block in blocks(ROOT / "README.md", "python")
}
PORTS = re.compile(r"(?<=127\.0\.0\.1):(?:8080|50051)\b")
#: the program that serves until it is stopped
SERVING = "serving.py"
ANSWER = "looking… Oslo: 21 °C"
OUTPUT = {"weather.py": "", "app.py": ""}


async def started(name: str, folder: Path) -> asyncio.subprocess.Process:
    for other, text in PROGRAMS.items():
        (folder / other).write_text(PORTS.sub(":0", text))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        name,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'transports'}",
            "PYTHONWARNINGS": "error",
        },
    )


def test_each_is_known() -> None:
    assert PROGRAMS.keys() == {*OUTPUT, SERVING}


def test_it_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_numbers_are_those_of_the_last_run() -> None:
    """How much faster than the SDK the best host is, as the table of the benchmarks has them."""
    page = ROOT / "docs" / "reference" / "benchmarks.md"
    best = {row[0]: row[8] for row in table(page.read_text(), "what", "unit", "builtin")}
    ratio = {row[0]: row[4] for row in table(page.read_text(), "what", "unit", "ours")}
    said = section(ROOT / "README.md", "Numbers")
    for text, value in (
        ("JSON-RPC message", best["JSON-RPC message"]),
        ("task", best["JSON-RPC task"]),
        ("stream", best["JSON-RPC stream"]),
        ("gRPC message", best["gRPC message"]),
        ("gateway JSON-RPC → gRPC", best["gateway JSON-RPC to gRPC"]),
    ):
        assert f"{text} {float(value):.1f}" in " ".join(said.split()), text
    assert f"SQLite {float(ratio['SQLite task']):.0f}" in said
    assert f"PostgreSQL {float(ratio['PostgreSQL task']):.0f}" in said
    assert f"stream {ratio['open SSE stream']}" in said


@pytest.mark.parametrize("name", OUTPUT)
async def test_a_program_runs_to_its_end(name: str, tmp_path: Path) -> None:
    process = await started(name, tmp_path)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, out.decode(), err.decode()) == (0, OUTPUT[name], "")


async def test_the_application_runs_on_uvicorn(tmp_path: Path) -> None:
    await (await started("weather.py", tmp_path)).communicate()  # the files
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "uvicorn", "app:app", "--fd", str(listener.fileno()), "--lifespan", "on"),
            pass_fds=[listener.fileno()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'transports'}"},
        )
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with asyncio.timeout(PATIENCE), connect(address) as peer:
        assert (await peer.send("Oslo")).text == ANSWER
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.wait(), PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_serving_process_drains_at_sigterm(number: signal.Signals, tmp_path: Path) -> None:
    process = await started(SERVING, tmp_path)
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()
    places = re.fullmatch(r"ready http=(http://127\.0\.0\.1:\d+) grpc=(127\.0\.0\.1:\d+)\n", line)
    assert places is not None, line
    for place in places.groups():
        async with connect(place) as peer:
            assert (await peer.send("Oslo")).text == ANSWER
    process.send_signal(number)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, out.decode(), err.decode()) == (0, "", "")
