"""Runs real agents of frameworks: `make frameworks`, ARGS: names. Each has an environment of its own.

Agents are run behind the gateway and recorded anew (test_recorded.py), and compared with direct calls (compared.py). Adapters and fronts are run with the
newest release of their framework or client, which writes the tables of their pages.
"""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import urlsplit

from tests.frameworks import adapters, compared, fronts, functions
from tests.frameworks.environments import environment, oldest_of
from tests.frameworks.programs import (
    ADAPTED,
    EXECUTORS,
    FRAMEWORKS,
    FRONTS,
    FUNCTIONS,
    HERE,
    RECORDED,
    REMOTES,
    Framework,
)
from tests.frameworks.recording import recording
from tests.frameworks.running import running
from tests.frameworks.talking import through_a_gateway


async def record(framework: Framework) -> dict[str, list[str]]:
    """Talks to a framework's agent through the gateway in every cell, and writes the recording down."""
    python = environment(framework.name, framework.packages)
    async with (
        running(python, HERE / "agents" / framework.program) as agent,
        recording(agent) as recorder,
    ):
        found = await through_a_gateway(
            f"{recorder.origin}/{framework.card}", *framework.flags, tasks=framework.tasks
        )
    RECORDED.mkdir(exist_ok=True)
    told = {"packages": framework.packages, "note": framework.note, "exchanges": recorder.exchanges}
    text = json.dumps(told, indent=1, ensure_ascii=False).replace(urlsplit(agent).netloc, "{origin}")
    (RECORDED / f"{framework.name}.json").write_text(text + "\n", "utf-8")
    return found


def told(kind: str, name: str, found: dict[str, Any], *, lacks: bool = False) -> int:
    """Records and prints what is directly and through this project; how many outcomes through it are not as the
    table says.
    """
    compared.record(kind, name, found)
    wrong = 0
    for where, outcome in found.items():
        for call, fault in outcome.items() if where != "packages" else ():
            print(f"{kind:8} {name:20} {where:20} {call:8} {fault or 'ok'}", flush=True)
            wrong += bool(fault) is not lacks and not where.startswith("directly")
    return wrong


def main() -> int:
    """0 only if every cell of every framework gives the answer."""
    known = {one.name for one in (*FRONTS, *FRAMEWORKS, *ADAPTED, *EXECUTORS, *FUNCTIONS)}
    known |= {one.environment for one in REMOTES}
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
        wrong += told("servers", framework.name, asyncio.run(compared.server(framework)))
    for remote in REMOTES:
        if remote.environment in wanted:
            wrong += told("clients", remote.name, asyncio.run(compared.client(remote)), lacks=remote.lacks)
    print(f"frameworks: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
