"""Runs a row about a server that is hurt while it runs, and compares what is seen. No tests."""

import os
import shlex
from contextlib import AsyncExitStack
from pathlib import Path

from tests.cli.commands import serving
from tests.docs.pages import DOCS
from tests.oncall.rows import Fault, check_fix, check_parts
from tests.oncall.scene import Scene

#: of every server: ports of its own, its metrics, all of its log, and no wait for calls that hang
_FLAGS = (
    "--http 127.0.0.1:0 --grpc 127.0.0.1:0 --admin 127.0.0.1:0 --log-level info "
    "--timeout-graceful-shutdown 0.5 --drain-window 0"
)


async def run(row: Fault, names: dict[str, str], folder: Path) -> None:
    """Starts the server of a row, hurts it, ends it, and checks what was seen."""
    async with AsyncExitStack() as stack:
        scene = Scene(folder, {**names, "own": str(folder)}, stack)
        if row.prepare is not None:
            scene.made = await row.prepare(scene)
        line = f"{row.command} {_FLAGS} {row.flags}".format(**scene.names)
        async with serving(*shlex.split(line), env={"COLUMNS": "500"}) as scene.running:
            seen = await row.hurt(scene)
            if scene.code is None:
                for part in row.log:
                    await scene.logged(part)
                if row.metric is not None:
                    await scene.measured(*row.metric, row.value)
                scene.running.signal()
                await scene.ended()
    said = scene.said
    if os.environ.get("SHOW"):
        print(f"## {row.name} {seen} {scene.code}\n{said}")
    assert seen == row.status, f"{row.name}: {seen}\n{said}"
    assert scene.code == row.code, f"{row.name}: {scene.code}\n{said}"
    assert row.traceback or "Traceback" not in said, said
    check_parts(row.log, said, row.name)
    symptoms = (DOCS / "reference/symptoms.md").read_text()
    check_fix(row.fix, said if row.fix in said else symptoms, row.name)
