"""Compares the answers of tasks with what the plain call of a framework returns, over shapes of agents.

Programs beside this one have the shapes of a framework. They run in its environment, without the packages of
tests, and print the faults.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import redirect_stdout
from typing import Any, NamedTuple

from a2a_bridge import Agent, connect
from a2a_bridge.ext import hub

#: what a guard of a shape withholds
WITHHELD = "ann@x.example"


class Answer(NamedTuple):
    """An answer. files: the bytes of its files. ended: False if the call failed."""

    text: str
    files: tuple[bytes, ...] = ()
    ended: bool = True


class Shape(NamedTuple):
    """make: a new agent. plain: the answer of its plain call. options: of `Agent.of`."""

    make: Callable[[], Any]
    plain: Callable[[Any], Awaitable[Answer]]
    options: Mapping[str, Any] = {}


async def fault_of(shape: Shape, stream: bool | None) -> str:
    """What is wrong with the task of a shape; empty if it is right."""
    try:
        wanted = await shape.plain(shape.make())
    except Exception:  # noqa: BLE001  the task has to fail, too
        wanted = Answer("", ended=False)
    told: list[str] = []
    async with connect(Agent.of(shape.make(), **shape.options, stream=stream)) as peer:
        async for event in peer.stream("go"):
            if event.HasField("artifact_update"):
                told += [part.text for part in event.artifact_update.artifact.parts]
            elif event.HasField("task"):
                task_id = event.task.id
        task = await peer.get_task(hub.GetTaskRequest(id=task_id))
    parts = [part for one in task.artifacts for part in one.parts]
    found = Answer(
        "".join(part.text for part in parts),
        tuple(part.raw for part in parts if part.HasField("raw")),
        task.status.state == hub.TASK_STATE_COMPLETED,
    )
    if found != wanted:
        return f"the plain call gives {wanted}, and the task {found}"
    if stream is not True and WITHHELD not in wanted.text and WITHHELD in "".join(told):
        return f"a caller got what a guard withholds: {told}"
    return ""


async def _faults(shapes: Mapping[str, Shape]) -> dict[str, str]:
    return {
        f"{name}, stream={stream}": fault
        for name, shape in shapes.items()
        for stream in (None, True, False)
        if (fault := await fault_of(shape, stream))
    }


def main(shapes: Mapping[str, Shape]) -> None:
    """Prints the number of shapes, and the faults."""
    logging.disable()
    with redirect_stdout(sys.stderr):  # frameworks print there, too
        faults = asyncio.run(_faults(shapes))
    print(json.dumps({"shapes": len(shapes), "faults": faults}, indent=1))
