"""Dimensions of one hosted agent: what a task, a message and a conversation are made of."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.ext import hub
from a2a_bridge.hosting import AgentExecutor, Event, Run
from benchmarks.scale.dimension import Dimension, Window

#: how often the work of a dimension is done if its cost does not grow
TIMES = 200
TICKS = 50


class Made(AgentExecutor):
    """Makes what a message asks for: `artifacts 10`, `chunks 10`, `megabytes 10`, `keeps 10`, `turn`, `hold`,
    `ticks`, `go`; else an answer with the same content.
    """

    def __init__(self) -> None:
        self._go = asyncio.Event()

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        what, _, number = run.text.partition(" ")
        if what not in ("artifacts", "chunks", "megabytes", "keeps", "turn", "hold", "ticks"):
            if what == "go":
                self._go.set()
            yield run.reply(*run.message.parts)
            return
        if what != "turn" or not run.message.task_id:
            yield run.start()
        if what == "turn":
            yield run.status("input-required")
            return
        yield run.status("working")
        if what == "hold":
            await asyncio.Event().wait()
        if what == "ticks":
            await self._go.wait()
        for index in range(int(number or TICKS)):
            if what == "artifacts":
                yield run.artifact("x", artifact_id=str(index))
            elif what in ("megabytes", "keeps"):
                # Each replaces the one before, so the task does not grow.
                yield run.artifact("x" * 1_000_000, artifact_id="a")
            else:
                yield run.artifact("x", artifact_id="a", append=index > 0)
        if what == "keeps":
            await asyncio.Event().wait()
        yield run.status("completed")


def options(**changes: Any) -> ServeOptions:
    """The options of the measured servers. Limits are raised where a dimension is larger than they are."""
    return replace(ServeOptions(tracing="off"), **changes)


@asynccontextmanager
async def agent(_size: int, /, *, sqlite: bool = False, binding: str = "JSONRPC") -> AsyncIterator[str]:
    """One agent at one interface."""
    host = HostOptions(max_body=256 * 2**20)
    with tempfile.TemporaryDirectory() as folder:
        given = options(host=host, store=f"sqlite:///{folder}/tasks.db" if sqlite else None)
        async with serve(Agent(Made(), name="Made"), [interface(binding)], given) as server:
            yield f"http://{server.http}" if binding != "GRPC" else f"grpc://{server.grpc}"


async def make(url: str, size: int, window: Window, what: str) -> None:
    """One task whose executor makes so many of something, read as a stream."""
    async with connect(url) as peer:
        await peer.send(f"{what} 1")
        seen = 0
        async with window():
            async for event in peer.stream(f"{what} {size}"):
                seen += event.HasField("artifact_update")
    assert seen == size, (what, seen, size)


async def replaced(url: str, size: int, window: Window) -> None:
    """A task whose only artifact was replaced by so many, of 1 MB each, and that goes on."""
    async with connect(url) as peer:
        await peer.send("megabytes 1")
        async with aclosing(peer.stream(f"keeps {size}")) as events, window():
            seen = 0
            while seen < size:
                seen += (await anext(events)).HasField("artifact_update")


async def turns(url: str, size: int, window: Window) -> None:
    """Turns of a task that has so many messages already, answered without the history."""
    async with connect(url) as peer:
        task = (await peer.send("turn")).task
        assert task is not None

        async def turn() -> None:
            request = hub.SendMessageRequest()
            request.message.message_id, request.message.role = f"m{next(numbers)}", hub.ROLE_USER
            request.message.task_id = task.id
            request.message.parts.add(text="turn")
            request.configuration.history_length = 0
            answer = await peer.send_message(request)
            assert answer.task.status.state == hub.TASK_STATE_INPUT_REQUIRED

        numbers = iter(range(2 * size + TIMES))
        for _ in range(size):
            await turn()
        async with window():
            for _ in range(TIMES):
                await turn()


async def subscribers(url: str, size: int, window: Window) -> None:
    """So many readers of one task, and some events of it."""
    async with connect(url) as peer, AsyncExitStack() as stack:
        task = await anext(aiter(peer.stream("ticks")))
        readers = []
        for _ in range(size):
            reader = await stack.enter_async_context(aclosing(peer.subscribe(task.task.id)))
            await anext(reader)
            readers.append(reader)

        async def read(reader: Any) -> int:
            return sum([event.HasField("artifact_update") async for event in reader])

        async with window():
            _, *seen = await asyncio.gather(peer.send("go"), *map(read, readers))
    assert seen == [TICKS] * size


async def text(url: str, size: int, window: Window) -> None:
    """One message of so many KB, and the same as the answer."""
    async with connect(url) as peer:
        await peer.send("x")
        async with window():
            for _ in range(3):
                assert len((await peer.send("x" * size * 1000)).text) == size * 1000


async def keys(url: str, size: int, window: Window) -> None:
    """One data part with so many members, and the same as the answer."""
    data = {f"member {number}": number for number in range(size)}
    async with connect(url) as peer:
        await peer.send("x")
        async with window():
            for _ in range(3):
                answer = await peer.send(data)
    assert answer.message is not None
    assert len(answer.message.parts[0].data.struct_value.fields) == size


def _made(title: str, what: str, sizes: tuple[int, int, int], **given: Any) -> Dimension:
    return Dimension(title, "one task", sizes, 1.0, partial(agent, **given), partial(make, what=what))


ROWS = (
    _made("artifacts of a task", "artifacts", (1_000, 3_000, 9_000)),
    _made("artifacts of a task, in SQLite", "artifacts", (1_000, 3_000, 9_000), sqlite=True),
    _made("chunks of an artifact", "chunks", (3_000, 10_000, 30_000)),
    _made("chunks of an artifact, over gRPC", "chunks", (3_000, 10_000, 30_000), binding="GRPC"),
    Dimension(
        "MB that replace each other", "one task that goes on", (10, 100, 1_000), 1.0, agent, replaced,
        memory=0.3, small=(2, 8),
    ),
    Dimension("messages of a task", f"{TIMES} turns", (400, 2_000, 6_000), 0.0, agent, turns),
    Dimension(
        "subscribers of a task", f"{TICKS} events to each", (100, 300, 1_000), 1.0, agent, subscribers,
        small=(10, 40),
    ),
    Dimension("KB of a message", "3 messages", (100, 1_000, 10_000), 1.0, agent, text),
    Dimension(
        "KB of a message, over gRPC", "3 messages", (500, 5_000, 50_000), 1.0,
        partial(agent, binding="GRPC"), text,
    ),
    Dimension("members of a data part", "3 messages", (1_000, 9_000, 81_000), 1.0, agent, keys),
)  # fmt: skip
