"""An agent for tests of durability: it writes its runs to a journal file, and reports the resources of its
process.

It runs in a process of its own, `a2a-bridge serve tests/durability/agent.py`. The last word of a message is
its mark. Everything that the agent sends contains the mark, so that it can be found in a log, a socket or a
file.

- `quick MARK`: a task that is completed at once
- `chunks N MARK`: a task with an artifact in N pieces, with pauses between them
- `steady N MARK`: the same; the task continues when a dead process is replaced
- `ask MARK`: a task that asks, and completes with the answer
- `hang MARK`: a task that works until it is cancelled
- `ticks S MARK`: a task that sends a status every S seconds until it is cancelled
- `big N MARK`: a completed task with N random bytes
- `say MARK`: a direct message
- `held`: a direct message: the resources of this process as JSON (see held.py)

TRIALS_JOURNAL: a file with a line for each run, `execute|resume MESSAGE TASK`. TRIALS_RESUMES=0: no task can
be resumed. TRIALS_PACE: seconds between pieces. sabotage.py makes faults of its database.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

from a2a_bridge.hosting import Agent, Event, Run
from tests.durability import held, sabotage

_JOURNAL = os.environ.get("TRIALS_JOURNAL", "")
_PACE = float(os.environ.get("TRIALS_PACE", "0.01"))


def _note(how: str, run: Run) -> None:
    """Writes one line at the end of a file with one write, which survives a kill of the process."""
    if not _JOURNAL:
        return
    line = f"{how} {run.message.message_id or '-'} {run.task_id}\n".encode()
    descriptor = os.open(_JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


class Dying:
    """Its tasks fail when their process dies."""

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        _note("execute", run)
        words = run.text.split()
        if run.task is not None:
            yield run.status("working")
            await asyncio.sleep(_PACE)
            yield run.artifact(f"answered {words[-1]}", artifact_id="answer")
            yield run.status("completed")
            return
        async for event in _VERBS[words[0]](run, words[1:]):
            yield event


class Resuming(Dying):
    """The same, but `steady` tasks are resumed."""

    async def resume(self, run: Run) -> AsyncIterator[Event]:
        _note("resume", run)
        words = run.text.split()
        if words[0] != "steady" or run.task is None:
            yield run.status("failed", "it was not steady work")
            return
        done = sum(len(artifact.parts) for artifact in run.task.artifacts)
        async for event in _pieces(run, int(words[1]), words[2], done):
            yield event


async def _quick(run: Run, words: list[str]) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working")
    yield run.artifact(f"done {words[-1]}", artifact_id="answer")
    yield run.status("completed")


async def _chunks(run: Run, words: list[str]) -> AsyncIterator[Event]:
    yield run.start()
    async for event in _pieces(run, int(words[0]), words[1], 0):
        yield event


async def _pieces(run: Run, count: int, mark: str, done: int) -> AsyncIterator[Event]:
    yield run.status("working")
    for number in range(done, count):
        if _PACE:
            await asyncio.sleep(_PACE)
        yield run.artifact(
            f"{mark}:{number}.", artifact_id="answer", append=number > 0, last=number == count - 1
        )
    yield run.status("completed")


async def _ask(run: Run, words: list[str]) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working")
    # So large that its answer is not worth a new body.
    yield run.artifact(f"{words[-1]} " * 2000, artifact_id="notes")
    yield run.status("input-required", f"and then, {words[-1]}?")


async def _hang(run: Run, words: list[str]) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working", words[-1])
    await run.wait_cancelled()


async def _ticks(run: Run, words: list[str]) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working")
    number = 0
    while not run.cancelled:
        yield run.artifact(f"{words[-1]}:{number}", artifact_id=str(number))
        number += 1
        await asyncio.sleep(float(words[0]))


async def _big(run: Run, words: list[str]) -> AsyncIterator[Event]:
    yield run.start()
    yield run.artifact(os.urandom(int(words[0])), words[1], artifact_id="answer")
    yield run.status("completed")


async def _say(run: Run, words: list[str]) -> AsyncIterator[Event]:
    yield run.reply(f"said {words[-1]}")


async def _held(run: Run, _: list[str]) -> AsyncIterator[Event]:
    yield run.reply(json.dumps(held.counts()))


_VERBS: dict[str, Callable[[Run, list[str]], Any]] = {
    "quick": _quick,
    "chunks": _chunks,
    "steady": _chunks,
    "ask": _ask,
    "hang": _hang,
    "ticks": _ticks,
    "big": _big,
    "say": _say,
    "held": _held,
}

sabotage.install()
agent = Agent(
    Dying() if os.environ.get("TRIALS_RESUMES") == "0" else Resuming(),
    name="trials",
    description="Does what a trial says",
    push_notifications=True,
)
