"""Loads a server for minutes, and reports the resources that are left: `make soak` (exit code 1 if any)."""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.durability import hostile
from tests.durability.serving import Stage
from tests.durability.waves import COUNTED, GROWTH, Size, Wave, quiet, settled

#: clients that read nothing when the server is stopped, and the seconds in which they could keep it from that:
#: many more than a busy machine needs
UNREAD, GRACE = 30, 60.0
#: tasks after which the memory of a server must not grow
WARM = 5000
#: growth of memory by one wave that counts as none
LEVEL = 1.02
#: time limit for the whole run, in seconds
LONGEST = 600.0


async def soak(
    stage: Stage, size: Size, waves: int, seed: int, still: float = 5.0, warm: int = 0
) -> tuple[list[str], list[Counter[str]], list[dict[str, Any]]]:
    """The faults, the work of each wave after the first, and the resources before and after.

    still: seconds without a change before the resources are counted. warm: tasks that warm up, in as many waves as
    they need, or until the memory no longer grows.
    """
    chance = random.Random(seed)
    stage = replace(stage, grace=GRACE)
    wrong: list[str] = []
    done: list[Counter[str]] = []
    async with stage.serving() as served:

        async def one(name: str) -> Counter[str]:
            wave = Wave(served, size, chance)
            await wave.run()
            wrong.extend(wave.wrong)
            print(f"{name}: {dict(wave.done)}", file=sys.stderr)
            return wave.done

        await one("warm-up")
        holdings: list[dict[str, Any]] = [await quiet(served, still)]
        warmed = size.tasks
        # A short wave does not fill what a server keeps: its memory grows with the first thousands of tasks.
        while warmed < warm:
            await one("warm-up")
            warmed += size.tasks
            before = holdings[0]["resident"]
            holdings = [await quiet(served, still)]
            if holdings[0]["resident"] < before * LEVEL:
                break
        for number in range(1, waves + 1):
            done.append(await one(f"wave {number}"))
            wrong += await settled(served, holdings[0])
            holdings.append(await quiet(served, still))
        before, after = holdings[0]["resident"], holdings[-1]["resident"]
        if after > before * GROWTH:
            wrong.append(f"{after / 1e6:.1f} MB of memory, {before / 1e6:.1f} before")
        async with hostile.unread(served, UNREAD):
            began = time.monotonic()
            code = await served.stop()
            took = time.monotonic() - began
        print(f"stopped in {took:.1f} s", file=sys.stderr)
        if took > GRACE:  # clients that do not read are cut off before
            wrong.append(f"it took {took:.1f} s to stop, with {UNREAD} clients that read nothing")
        wrong += [line for line in served.said if any(fault in line for fault in hostile.FAULTS)]
        if code:
            wrong.append(f"exit code {code}: " + "\n".join(served.said[-10:]))
    return wrong, done, holdings


async def run(arguments: argparse.Namespace, store: str) -> int:
    began = time.monotonic()
    # Each wave has its share of all tasks, and every wave has all streams.
    size = Size(arguments.streams, arguments.tasks // arguments.waves, arguments.churn // arguments.waves)
    async with asyncio.timeout(LONGEST):
        wrong, done, holdings = await soak(Stage(store), size, arguments.waves, arguments.seed, warm=WARM)
    total = sum(done, Counter())
    total["streams at once"] = size.streams
    for name, count in sorted(total.items()):
        print(f"{count:8} {name}")
    for name in (*COUNTED, "resident"):
        print(f"{name:>10}: " + " ".join(f"{held[name]}" for held in holdings))
    for line in wrong[:50]:
        print(f"WRONG {line}")
    print(f"{len(wrong)} wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.durability.soak")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--churn", type=int, default=2000)
    parser.add_argument("--waves", type=int, default=2, help="after the one that warms up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["sqlite", "memory"], default="sqlite")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'soak.db'}" if arguments.store == "sqlite" else "memory://"
        return asyncio.run(run(arguments, store))


if __name__ == "__main__":
    raise SystemExit(main())
