"""Runs real agents of frameworks: `make frameworks`, ARGS: names. Each has an environment of its own.

Agents are run behind the gateway and recorded anew (test_recorded.py). Adapters, fronts and functions of pages are
run with the newest release of their framework or client, which writes the tables of their pages.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.architecture.repository import ROOT
from tests.cli.commands import ANY_PORT, serving
from tests.frameworks import adapters, fronts, functions
from tests.frameworks.environments import environment, oldest_of
from tests.frameworks.programs import (
    ADAPTED,
    ANSWER,
    EXECUTORS,
    FRAMEWORKS,
    FRONTS,
    FUNCTIONS,
    HERE,
    RECORDED,
    Framework,
)
from tests.frameworks.recording import recording
from tests.frameworks.talking import through_a_gateway
from tests.patience import PATIENCE


@asynccontextmanager
async def running(framework: Framework) -> AsyncIterator[str]:
    """A framework's agent as a process; its origin, once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        str(environment(framework.name, framework.packages)),
        str(HERE / "agents" / framework.program),
        str(port),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _listens(port):
                if process.returncode is not None:
                    assert process.stderr is not None
                    raise RuntimeError((await process.stderr.read()).decode()[-2000:])
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        await asyncio.sleep(0.1)
        return False
    writer.close()
    return True


async def record(framework: Framework) -> dict[str, list[str]]:
    """Talks to a framework's agent through the gateway in every cell, and writes the recording down."""
    async with running(framework) as agent, recording(agent) as recorder:
        found = await through_a_gateway(
            f"{recorder.origin}/{framework.card}", *framework.flags, tasks=framework.tasks
        )
    RECORDED.mkdir(exist_ok=True)
    told = {"packages": framework.packages, "note": framework.note, "exchanges": recorder.exchanges}
    text = json.dumps(told, indent=1, ensure_ascii=False).replace(urlsplit(agent).netloc, "{origin}")
    (RECORDED / f"{framework.name}.json").write_text(text + "\n", "utf-8")
    return found


async def adk_client() -> list[str]:
    """An ADK agent that asks ours, and asks for a card without gRPC, because it rejects any other."""
    [adk] = [one for one in FRAMEWORKS if one.name == "google-adk-2"]
    python = environment(adk.name, adk.packages)
    echo = str(ROOT / "examples" / "echo_agent.py")
    async with serving("serve", echo, *ANY_PORT) as served:
        process = await asyncio.create_subprocess_exec(
            str(python),
            str(HERE / "agents" / "google_adk_client.py"),
            served.http,
            ANSWER,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    return [] if ANSWER in out.decode() else [err.decode()[-2000:]]


def main() -> int:
    """0 only if every cell of every framework gives the answer."""
    known = {one.name for one in (*FRONTS, *FRAMEWORKS, *ADAPTED, *EXECUTORS, *FUNCTIONS)}
    wanted = set(sys.argv[1:]) or known
    if wanted - known:
        print(
            f"frameworks: {', '.join(sorted(wanted - known))}: no such name; there are {', '.join(sorted(known))}"
        )
        return 2
    wrong = 0
    for front in FRONTS:
        if front.name in wanted:
            called = asyncio.run(fronts.check(front))
            fronts.write_table(front, called)
            oldest = oldest_of(front.name, front.name)
            for one in [called, *([asyncio.run(fronts.check(front, oldest))] if oldest else [])]:
                for name, fault in one.faults.items():
                    wrong += bool(fault)
                    if fault:
                        print(f"front {front.name:14} {name} {fault[:400]}", flush=True)
                print(f"front {front.name:14} {one.version:20} {len(one.faults)} tests", flush=True)
    for adapted in (*ADAPTED, *EXECUTORS):
        if adapted.name in wanted:
            result = asyncio.run(adapters.check(adapted))
            adapters.write_table(adapted, result)
            for name, fault in result.faults.items():
                print(f"{adapted.title:20} {name:34} {fault[:400] or 'ok'}", flush=True)
                wrong += bool(fault)
    for function in FUNCTIONS:
        if function.name in wanted:
            tried = asyncio.run(functions.check(function))
            functions.write_row(function, tried, FUNCTIONS)
            for name, fault in tried.faults.items():
                print(f"{function.title:20} {name:45} {fault[:400] or 'ok'}", flush=True)
                wrong += bool(fault)
    for framework in FRAMEWORKS:
        if framework.name not in wanted:
            continue
        for cell, found in asyncio.run(record(framework)).items():
            print(
                f"{framework.name:20} {cell:16} {'ok' if not found else '; '.join(found)[:400]}", flush=True
            )
            wrong += bool(found)
    if "google-adk-2" in wanted:
        found = asyncio.run(adk_client())
        print(f"{'google-adk-2 client':37} {'ok' if not found else found[0]}", flush=True)
        wrong += bool(found)
    print(f"frameworks: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
