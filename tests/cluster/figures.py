"""The figures of docs/explanation/replicas.md: `make cluster ARGS="--figures"`.

A figure is a ratio of two measurements in one run, or a count, so that it means the same on every machine.
The disk of 20 ms is `commit_delay`: each flush of the log waits so long, and commits that come meanwhile
share the next one.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.nats import Nats, running
from tests.postgres import Postgres, _folder, _running
from tests.stores.conftest import filled

ROOT = Path(__file__).resolve().parents[2]


class Engine:
    """A process of `tests.cluster.engine`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def do(self, command: str, number: float = 0, more: object = None) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command} {number}\n".encode())
        if more is not None:
            self.process.stdin.write(json.dumps(more).encode() + b"\n")
        return await self.answer()

    async def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(await self.process.stdout.readline())


class Bench:
    def __init__(self, postgres: Postgres, nats: Nats) -> None:
        self._postgres, self._nats = postgres, nats

    @asynccontextmanager
    async def engines(self, count: int, *, polls: bool = False, lease: float = 10.0) -> AsyncIterator[Any]:
        """So many replicas on a new database, and its address."""
        url = self._postgres.create()
        filled(url)
        async with AsyncExitStack() as stack:
            made = []
            for _ in range(count):
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "tests.cluster.engine"),
                    *(url, "" if polls else self._nats.url, str(lease)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    cwd=ROOT,
                    limit=1 << 24,
                )
                stack.push_async_callback(_end, process)
                made.append(Engine(process))
                await made[-1].answer()
            yield made, url
        self._postgres.drop(url)

    def disk(self, milliseconds: int) -> None:
        with psycopg.connect(self._postgres.url(), autocommit=True) as connection:
            for setting, value in (
                ("fsync", "on" if milliseconds else "off"),
                ("commit_delay", str(1000 * milliseconds)),
                ("commit_siblings", "0" if milliseconds else "5"),
            ):
                connection.execute(f"ALTER SYSTEM SET {setting} = {value}".encode())
            connection.execute("SELECT pg_reload_conf()")

    async def throughput(self, count: int, seconds: float = 6.0) -> tuple[float, float]:
        """Tasks a second of all replicas, each with the same callers, and seconds of their CPU per task."""
        async with self.engines(count) as (engines, _):
            done = await asyncio.gather(*(one.do("tasks", seconds) for one in engines))
            tasks = sum(one["tasks"] for one in done)
            return tasks / seconds, sum(one["cpu"] for one in done) / tasks

    async def idle(self, *, polls: bool) -> tuple[float, float]:
        """Statements a second and connections of each of three idle replicas."""
        async with self.engines(3, polls=polls) as (engines, url):
            await asyncio.gather(*(one.do("tasks", 1) for one in engines))
            await asyncio.sleep(REST)
            before = _transactions(url)
            await asyncio.sleep(20.0)
            after = _transactions(url)
            return (after[0] - before[0]) / 60.0, after[1] / 3

    async def cancel(self) -> tuple[float, float]:
        """Wall time and CPU of a forwarded cancellation, in those of a local one."""
        async with self.engines(2) as ((here, there), _):
            ids = (await here.do("hang", 400))["tasks"]
            await here.do("cancel", 0, ids[:100])
            await there.do("cancel", 0, ids[100:200])
            local = await here.do("cancel", 0, ids[200:300])
            before = (await here.do("cpu"))["cpu"]
            far = await there.do("cancel", 0, ids[300:])
            served = ((await here.do("cpu"))["cpu"] - before) / 100
            return far["wall"] / local["wall"], (far["cpu"] + served) / local["cpu"]

    async def orphans(self, count: int = 10_000) -> dict[str, float]:
        """Tasks of a killed replica that others take over a second, and the latency of calls meanwhile."""
        async with self.engines(4, lease=4.0) as ((dead, *others), url):
            for _ in range(count // 1000):
                await dead.do("hang", 1000)
            before = await others[0].do("look", 10)
            cpu = sum([(await one.do("cpu"))["cpu"] for one in others[1:]])
            dead.process.kill()
            looking = asyncio.create_task(others[0].do("look", 14))
            first = 0.0
            while (left := _held(url)) > 0:
                if left < count and not first:
                    first = time.monotonic()
                await asyncio.sleep(0.05)
            last = time.monotonic()
            meanwhile = await looking
            cpu = sum([(await one.do("cpu"))["cpu"] for one in others[1:]]) - cpu
            return {
                "a second": count / (last - first),
                "CPU of two, s": cpu,
                "p99 before, ms": 1000 * _percentile(before["looks"], 0.0, first),
                "p99 meanwhile, ms": 1000 * _percentile(meanwhile["looks"], first, last),
            }


#: seconds after which idle connections are closed
REST = 65.0


def _percentile(looks: list[tuple[float, float]], first: float, last: float) -> float:
    """The 99th percentile of the seconds of the calls that started between two times."""
    seconds = sorted(took for began, took in looks if first <= began < last)
    return seconds[int(0.99 * len(seconds))]


def _transactions(url: str) -> tuple[int, int]:
    """Transactions so far, and other connections."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_clear_snapshot()")
        (found,) = connection.execute(
            "SELECT xact_commit + xact_rollback, numbackends - 1 FROM pg_stat_database"
            " WHERE datname = current_database()"
        )
        return int(found[0]), int(found[1])


def _held(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        (found,) = connection.execute("SELECT count(*) FROM tasks WHERE holder <> '' AND state = 2")
        return int(found[0])


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(20):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def figures(only: str = "") -> None:
    with _running(_folder(os.getpid(), "figures")) as postgres, running() as nats:
        bench = Bench(postgres, nats)
        if only in ("", "disk"):
            bench.disk(20)
            one, _ = await bench.throughput(1)
            four, _ = await bench.throughput(4)
            bench.disk(0)
            print(
                f"disk of 20 ms: {one:.0f} tasks/s of one replica, {four:.0f} of four: {four / one:.1f} times"
            )
        if only in ("", "cpu"):
            _, alone = await bench.throughput(1)
            _, of_eight = await bench.throughput(8)
            print(f"CPU per task with eight replicas: {of_eight / alone:.2f} times that with one")
        if only in ("", "idle"):
            for polls in (False, True):
                statements, connections = await bench.idle(polls=polls)
                name = "without NATS" if polls else "with NATS"
                print(f"idle {name}: {statements:.1f} statements/s, {connections:.1f} connections a replica")
        if only in ("", "cancel"):
            wall, cpu = await bench.cancel()
            print(
                f"forwarded cancellation: {wall:.1f} times the time, {cpu:.1f} times the CPU of a local one"
            )
        if only in ("", "orphans"):
            print("10,000 orphans:", ", ".join(f"{k} {v:.1f}" for k, v in (await bench.orphans()).items()))


if __name__ == "__main__":
    asyncio.run(figures(*sys.argv[1:]))
