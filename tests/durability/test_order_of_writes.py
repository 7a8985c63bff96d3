"""Nothing is sent before it is on the disk: observed by system calls and by a lock."""

import asyncio
import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.durability import order
from tests.durability.callers import BINDINGS, callers
from tests.durability.serving import NotServing, Stage
from tests.durability.tracer import FORBIDDEN

#: messages of each kind on each binding
MESSAGES = 3
PIECES = 6
#: number of moments of a power cut
CUTS = 12
#: seconds in which an answer that does not wait for the disk would arrive
MOMENT = 0.7


async def traced(
    folder: Path, **environment: str
) -> tuple[list[order.Promise], list[dict[str, object]], Path]:
    """The trace of a server while callers on every binding run tasks, unary and streamed."""
    database, trace = folder / "traced.db", folder / "trace"
    tracer = (sys.executable, "-m", "tests.durability.tracer", "--content", str(trace), "--")
    stage = Stage(f"sqlite:///{database}", env={"TRIALS_PACE": "0", **environment}, wrapper=tracer)
    try:
        served = await stage.start()
    except NotServing as error:
        if str(error).startswith(f"exit code {FORBIDDEN}"):
            pytest.skip(f"{error}; the lock below says the same in another way")
        raise
    chance = random.Random(1)
    try:
        async with callers(served, official=()) as ways:
            for way in ways:
                for _ in range(MESSAGES):
                    mark = f"m{chance.getrandbits(60):015x}"
                    await way.send(f"quick {mark}", mark)
                    mark = f"m{chance.getrandbits(60):015x}"
                    assert [shown async for shown in way.stream(f"chunks {PIECES} {mark}", mark)]
    finally:
        await served.stop()
    lines = order.read(trace)
    return order.promises(lines, database), lines, database


async def test_sent_data_was_synced_and_survives_a_power_cut(tmp_path: Path) -> None:
    promises, lines, database = await traced(tmp_path)
    assert len(promises) == len(BINDINGS) * MESSAGES * (2 + PIECES)
    assert [promise for promise in promises if not promise.kept and not promise.elsewhere] == []
    # A mark may be split over two pages of the database; the other half of this test handles that.
    assert sum(promise.elsewhere for promise in promises) <= len(promises) // 10
    chance = random.Random(2)
    for place, cut in order.cuts(lines, database, chance, CUTS):
        told = {promise.mark for promise in promises if promise.place <= place}
        assert told - order.found_after(cut, tmp_path) == set()


async def test_the_trace_shows_unsynced_data(tmp_path: Path) -> None:
    # A tempting setting: ten times the commits, and equal until the power fails. OFF shows the same.
    promises, lines, database = await traced(tmp_path, TRIALS_SYNCHRONOUS="NORMAL")
    assert sum(not promise.kept for promise in promises) > len(promises) // 2
    lost = 0
    for place, cut in order.cuts(lines, database, random.Random(3), CUTS):
        told = {promise.mark for promise in promises if promise.place <= place}
        try:
            lost += bool(told - order.found_after(cut, tmp_path))
        except sqlite3.DatabaseError:
            lost += 1
    assert lost


async def test_no_answer_while_the_commit_is_held_up(tmp_path: Path) -> None:
    database = tmp_path / "locked.db"
    async with Stage(f"sqlite:///{database}").serving() as served, callers(served, official=()) as ways:
        await ways[0].send("quick m1", "1")
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            answers = [asyncio.ensure_future(way.send("quick m2", "2")) for way in ways]
            streams = [way.stream("quick m3", "3") for way in ways]
            firsts = [asyncio.ensure_future(anext(stream)) for stream in streams]
            done, _ = await asyncio.wait([*answers, *firsts], timeout=MOMENT)
            assert not done
            other.execute("ROLLBACK")
        for answer in answers:
            assert (await answer).task.artifacts[0].parts[0].text == "done m2"
        for first, stream in zip(firsts, streams, strict=True):
            assert (await first).event.task.id
            await stream.aclose()
