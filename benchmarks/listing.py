"""The cost of a page of ListTasks with few and with many tasks, and the rate of a resumed stream.

Tasks are written directly into the tables of each side, because a million calls would take too long.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import create_engine

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.sql.tasks import recount
from benchmarks import agent
from benchmarks.databases import SQLITE, Databases
from benchmarks.probe import SECONDS, ask, http_answer
from benchmarks.processes import BenchmarkError, Cores, Server
from benchmarks.tools import Target, wrk
from benchmarks.work import JSON_HEADERS, SEND, Work, is_response_task, raw_bytes

FEW, MANY = 1_000, 1_000_000
PAGE = 50
#: the factor between pages with many tasks and with few that still counts as noise
GROWTH = 1.5
RESUMED = 50_000.0

Steps = Callable[[str], None]


# ---------------------------------------------------------------- lists


def list_rows(
    few: int, many: int, cores: Cores, databases: Databases, on_step: Steps
) -> list[dict[str, Any]]:
    """Milliseconds of the first page with `few` and with `many` tasks, and of one that lies behind others."""
    rows = []
    found: dict[int, dict[str, float]] = {}
    for number in (few, many):
        times: dict[str, list[float]] = {}
        for side, fill in (("ours", _fill_ours), ("sdk", _fill_sdk)):
            on_step(f"ListTasks: {side}, {number:,} tasks are written")
            url = databases.url(SQLITE)
            with _filled(side, url, number, fill, cores) as server:
                on_step(f"ListTasks: {side}, {number:,} tasks")
                times[side] = _page_times(server.address("http"), number)
        found[number] = {side: statistics.median(values) for side, values in times.items()}
        ours, sdk = found[number]["ours"], found[number]["sdk"]
        rows.append(
            {
                "suite": "list",
                "title": f"ListTasks, page of {PAGE} of {number:,}",
                "unit": "ms",
                "ours": round(ours, 2),
                "sdk": round(sdk, 2),
                "ratio": round(sdk / ours, 2),
                "target": None,
                "reached": None,
                "rounds": {side: [round(value, 2) for value in values] for side, values in times.items()},
            }
        )
    growth = found[many]["ours"] / found[few]["ours"]
    rows[-1] |= {"target": round(GROWTH * found[few]["ours"], 2), "reached": growth <= GROWTH}
    return rows


@contextlib.contextmanager
def _filled(
    side: str, url: str, number: int, fill: Callable[[sqlite3.Connection, int], None], cores: Cores
) -> Iterator[Server]:
    # The first server creates the tables; no process has the file open while it is filled.
    with Server(side, None, store=url) as first:
        first.address("http")
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        fill(connection, number)
        connection.commit()
    finally:
        connection.close()
    if side == "ours":
        engine = create_engine(url)
        with engine.begin() as counted:
            recount(counted)
        engine.dispose()
    with Server(side, cores.server, store=url) as server:
        yield server


def _page_times(address: str, number: int) -> list[float]:
    """Milliseconds of pages: the first one several times, and the following ones."""
    times: list[float] = []
    token = ""
    for _ in range(30):
        params: dict[str, Any] = {"pageSize": PAGE} | ({"pageToken": token} if token else {})
        frame = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params}
        begun = time.perf_counter()
        try:
            body, _ = http_answer(Target("POST", address, "/", JSON_HEADERS, raw_bytes(frame)))
        except TimeoutError:
            # The page takes longer than the time limit, which then counts as its time.
            return [*times, SECONDS * 1000]
        times.append((time.perf_counter() - begun) * 1000)
        page = json.loads(body)["result"]
        if len(page["tasks"]) != PAGE or page.get("totalSize") != number:
            raise BenchmarkError(
                f"not a page of {PAGE} of {number}: {len(page['tasks'])} of {page.get('totalSize')}"
            )
        token = page["nextPageToken"] if len(times) % 10 else ""
        if sum(times) > 20_000:
            break
    return times


def _tasks(number: int) -> Iterator[hub.Task]:
    begun = time.time_ns() - number * 1_000_000
    for index in range(number):
        task = hub.Task(
            id=str(uuid4()),
            context_id=str(uuid4()),
            status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED),
            artifacts=[
                hub.Artifact(artifact_id="a", name=agent.ARTIFACT, parts=[hub.Part(text=agent.ANSWER)])
            ],
            history=[hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=agent.TASK)])],
        )
        task.status.timestamp.FromNanoseconds(begun + index * 1_000_000)
        yield task


def _fill_ours(connection: sqlite3.Connection, number: int) -> None:
    rows, bodies = [], []
    for task in _tasks(number):
        time_ = task.status.timestamp.ToNanoseconds()
        rows.append((task.id, "", "", task.context_id, task.status.state, time_, 1, 4, 4, "", time_ / 1e9))
        bodies.append((task.id, task.SerializeToString()))
        if len(rows) == 10_000:
            _insert_ours(connection, rows, bodies)
    _insert_ours(connection, rows, bodies)


def _insert_ours(connection: sqlite3.Connection, rows: list[Any], bodies: list[Any]) -> None:
    columns = "id, tenant, owner, context, state, time, version, last, applied, holder, written"
    connection.executemany(f"INSERT INTO tasks ({columns}) VALUES ({', '.join('?' * 11)})", rows)  # noqa: S608
    connection.executemany("INSERT INTO bodies (task, data) VALUES (?, ?)", bodies)
    rows.clear()
    bodies.clear()


def _fill_sdk(connection: sqlite3.Connection, number: int) -> None:
    columns = (
        "id, context_id, kind, owner, last_updated, status, artifacts, history, metadata, protocol_version"
    )
    statement = f"INSERT INTO tasks ({columns}) VALUES ({', '.join('?' * 10)})"  # noqa: S608
    parts = [{"text": agent.ANSWER}]
    artifacts = json.dumps([{"artifactId": "a", "name": agent.ARTIFACT, "parts": parts}])
    history = json.dumps([{"messageId": "m", "role": "ROLE_USER", "parts": [{"text": agent.TASK}]}])

    def rows() -> Iterator[tuple[Any, ...]]:
        for task in _tasks(number):
            at = datetime.fromtimestamp(task.status.timestamp.ToNanoseconds() / 1e9, UTC)
            status = {"state": "TASK_STATE_COMPLETED", "timestamp": task.status.timestamp.ToJsonString()}
            yield (
                *(task.id, task.context_id, "task", "", at.strftime("%Y-%m-%d %H:%M:%S.%f")),
                *(json.dumps(status), artifacts, history, "null", "1.0"),
            )

    connection.executemany(statement, rows())


# ---------------------------------------------------------------- resumed streams


def resume_row(seconds: int, cores: Cores, databases: Databases, on_step: Steps) -> dict[str, Any]:
    """Events per second of a task of LONG_EVENTS that is read from its first event on, over server-sent
    events.
    """
    title = f"{SQLITE} resume of {agent.LONG_EVENTS:,} events"
    with Server("ours", cores.server, store=databases.url(SQLITE)) as server:
        address = server.address("http")
        on_step(f"{title}: the task is made")
        made = Work("a task", "JSONRPC", SEND, agent.LONG, None, is_response_task)
        (answer,), _ = ask(made, made.target(address))
        frame = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SubscribeToTask",
            "params": {"id": answer["task"]["id"]},
        }
        target = Target("POST", address, "/", {**JSON_HEADERS, "Last-Event-ID": "0"}, raw_bytes(frame))
        body, size = http_answer(target)
        ids = [int(line[3:]) for line in body.splitlines() if line.startswith(b"id:")]
        if ids != list(range(1, agent.LONG_EVENTS + 1)):
            raise BenchmarkError(f"{title}: {len(ids)} events, not each once and in order")
        rates = []
        for number in range(3):
            on_step(f"{title}: round {number + 1} of 3")
            load = wrk(target, seconds=seconds, connections=4, core=cores.load)
            if load.failures:
                raise BenchmarkError(f"{title}: {load.failures} streams failed")
            rates.append(load.raw_bytes / size * agent.LONG_EVENTS / load.seconds)
    rate = statistics.median(rates)
    return {
        "suite": "list",
        "title": title,
        "unit": "events/s",
        "ours": round(rate, 1),
        "target": RESUMED,
        "reached": rate >= RESUMED,
        "rounds": {"ours": [round(one, 1) for one in rates]},
    }
