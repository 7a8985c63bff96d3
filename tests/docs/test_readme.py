"""Every Python block of README.md is a program that runs unchanged, except for the ports."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from a2a_bridge import connect
from tests.docs.pages import ROOT, blocks
from tests.patience import PATIENCE

PROGRAMS = {
    re.match(r"# (\w+\.py)\n", block.body)[1]: block.body  # type: ignore[index]  # each has its name
    for block in blocks(ROOT / "README.md", "python")
}
PORTS = re.compile(r"(?<=127\.0\.0\.1):(?:8080|50051)\b")
#: the program that serves until it is stopped
SERVING = "serving.py"
ANSWER = "looking… Oslo: 21 °C"
OUTPUT = {"weather.py": "", "beside.py": f"{ANSWER}\n", "app.py": "", "adapters.py": f"{ANSWER}\n"}


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
