"""A line on stderr about what takes long, for a person at a terminal.

Rules:
1. Where stderr is no terminal nothing is written, and stdout never gets any of it.
2. The line appears after a second, changes every second, and is wiped before anything else is printed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from a2a_bridge.cli.output import on_terminal, progress
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.reaching import Session

_T = TypeVar("_T")
#: seconds between two changes of the line
_TICK = 1.0


@asynccontextmanager
async def show_waiting(
    session: Session, request: hub.SendMessageRequest | None = None
) -> AsyncIterator[None]:
    """Shows while the block runs how the task of a session is, and for how long it has run. request: the
    message that is sent; until there is a task, the line names the size of its files.
    """
    if not on_terminal():
        yield
        return
    started = time.monotonic()
    sizes = [len(part.raw) for part in request.message.parts if part.raw] if request is not None else []
    files = f" ({len(sizes)} file{'s' * (len(sizes) > 1)}, {sum(sizes)} bytes)" if sizes else ""

    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK)
            task = session.task
            what = f"waiting for the agent{files}"
            if task is not None:
                what = f"task {task.id}: {text.state_name(task.status.state)}"
            leave = "; Ctrl-C leaves it" if task is not None else ""
            progress(f"{what}, {time.monotonic() - started:.0f} s{leave}")

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        progress("")


def count_steps(what: str, things: Iterable[tuple[str, _T]]) -> Iterator[_T]:
    """The second of each pair; shows `what`, its number and its name, the first, while it is worked on."""
    every = list(things)
    try:
        for number, (name, thing) in enumerate(every, 1):
            progress(f"{what} {number} of {len(every)}: {name}")
            yield thing
    finally:
        progress("")
