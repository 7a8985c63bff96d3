"""Runs real clients before both fronts: `make fronts`, ARGS: names of programs. It writes `latest.json`, from which
`make generate` makes the tables of docs/reference/fronts.md.

The environments are below .build. npm installs the release of Node.js that the programs run on, too.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from a2a_bridge_adapters.fronts import mcp_front, openai_front
from a2a_bridge_adapters.fronts.callers import LOCAL
from tests.architecture.repository import ROOT
from tests.frameworks.environments import environment, version_of
from tests.fronts.desk import Desk, serving
from tests.fronts.fronts import listening
from tests.fronts.grid.results import LATEST
from tests.fronts.grid.table import AGENTS, GROUPS, OPENAI, Client, Group

PROGRAMS = Path(__file__).parent / "programs"
NODE = ROOT / ".build" / "fronts" / "node"
#: seconds for one program
LONGEST = 180.0


def install_node(packages: set[str]) -> None:
    """Installs the newest releases of packages of npm, with Node.js."""
    NODE.mkdir(parents=True, exist_ok=True)
    (NODE / "package.json").write_text('{"private": true}', "utf-8")
    for one in PROGRAMS.glob("*.mjs"):
        (NODE / one.name).write_text(one.read_text("utf-8"), "utf-8")
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "node@22", *sorted(packages)]
    print(f"installing {' '.join(words[5:])}", flush=True)
    subprocess.run(words, cwd=NODE, check=True)


async def prepare(client: Client) -> tuple[list[str], str]:
    """The words that start a program, and the version of its client."""
    if client.is_node:
        told = json.loads((NODE / "node_modules" / client.packages[0] / "package.json").read_text("utf-8"))
        return [str(NODE / "node_modules/.bin/node"), str(NODE / client.program)], told["version"]
    name = f"client-{re.sub('[^a-z0-9-]+', '-', client.packages[0])}"
    python = environment(name, client.packages, newest=True)
    package = client.packages[0].partition("[")[0]
    return [str(python), str(PROGRAMS / client.program)], await version_of(python, package)


async def run(words: list[str], folder: Path) -> tuple[dict[str, str], str]:
    """The answers by feature, and the end of what a program says of its faults."""
    path = f"{NODE / 'node_modules/.bin'}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env={**os.environ, "PATH": path, "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), LONGEST)
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
    told = [line for line in out.decode().splitlines() if line.startswith('["')]
    return dict(map(json.loads, told)), err.decode()[-500:]


async def check(group: Group, client: Client, words: list[str]) -> dict[str, str]:
    """The fault of each feature, before any of the agents; empty if there is none."""
    faults = {one.name: "" for one in group.features}
    make = openai_front if group is OPENAI else mcp_front
    for binding, version in AGENTS:
        async with AsyncExitStack() as stack:
            card = await stack.enter_async_context(serving(Desk(), binding, version))
            app = make(card, allowed_hosts=LOCAL)
            stack.push_async_callback(app.close)
            url = await stack.enter_async_context(listening(app))
            extra = list(faults) if group.name == "conformance" else []
            answers, errors = await run([*words, url, *extra], PROGRAMS)
        for one in group.features:
            answer = answers.get(one.name)
            if answer is None or not re.search(one.wanted, answer):
                told = f"no answer: {errors}" if answer is None else answer[-400:]
                faults[one.name] = faults[one.name] or f"{binding} {version}: {told}"
    return faults


async def main() -> int:
    """0 only if each cell is as the table says."""
    wanted = set(sys.argv[1:])
    chosen = [
        (group, one) for group in GROUPS for one in group.clients if not wanted or one.program in wanted
    ]
    packages = {name for _, one in chosen if one.is_node for name in one.packages}
    if packages:
        install_node(
            {name for group in GROUPS for one in group.clients if one.is_node for name in one.packages}
        )
    results: dict[str, Any] = json.loads(LATEST.read_text("utf-8")) if LATEST.exists() else {}
    wrong = 0
    for group, client in chosen:
        words, version = await prepare(client)
        faults = await check(group, client, words)
        for name, fault in faults.items():
            is_wrong = bool(fault) is not (name in client.refused)
            wrong += is_wrong
            if is_wrong:
                print(f"{client.program} {name}: {fault or 'it works, and the table says that it does not'}")
        passed = sum(not one for one in faults.values())
        print(f"{client.title:45} {version:12} {passed} of {len(faults)}", flush=True)
        cells = {name: not fault for name, fault in faults.items()}
        results[client.program] = {"version": version, "cells": cells}
        known = [one.program for each in GROUPS for one in each.clients]
        kept = {name: results[name] for name in known if name in results}
        LATEST.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    print(f"fronts: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
