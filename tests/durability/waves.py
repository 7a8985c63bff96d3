"""Waves of callers that stay, come and go, are slow and leave; and a server's resources after them.

A wave is over when every caller has ended. The server reports its resources over a new connection (see
held.py). After the first wave, which warms up, they must not grow.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from a2a_bridge import connect
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.errors import A2AError, Reason
from tests.durability import hostile
from tests.durability.callers import Caller, callers, card_of
from tests.durability.serving import Served
from tests.patience import PATIENCE

#: seconds after which the resources of gone callers must be free
SETTLING = 60.0
#: most connections in the pool of a SQLite store, including that of the writer
POOLED = 8
#: threads of the pool of an event loop, which has the name of its library
_OF_LOOP = min(32, (os.cpu_count() or 1) + 4)
#: most threads in the pools of a server, by name: a pool starts a thread when all others are at work, and keeps it
POOLS = {
    "a2a store reader": 4,
    "a2a-bridge-codec": 2,
    "a2a push names": 16,
    "asyncio": _OF_LOOP,
    "uvloop": _OF_LOOP,
}
#: names of `held` that are compared, and the allowed growth of memory
COUNTED = ("tasks", "timers", "files", "sockets", "threads")
GROWTH = 1.10
#: streams on one gRPC connection
_ON_A_CHANNEL = 50


@dataclass(frozen=True)
class Size:
    """Of a wave. streams: open at the same time, half of them SSE and half gRPC. tasks: done meanwhile, by
    `workers`. churn: callers that come and go, including slow ones and ones that break off.
    """

    streams: int
    tasks: int
    churn: int
    workers: int = 16


@dataclass
class Wave:
    """One wave against a server. wrong: the faults."""

    served: Served
    size: Size
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _marks: int = 0

    async def run(self) -> None:
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            streams = await stack.enter_async_context(self._streams())
            self.done["streams at once"] = len(streams)
            ways = await stack.enter_async_context(callers(self.served))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tasks(ways))
                group.create_task(self._churn(ways))
            await self._end(ways, streams)
        self.done["seconds"] = round(time.monotonic() - began)

    # ------------------------------------------------------------------ callers that stay

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[list[_Open]]:
        """Open streams, each of a task of its own that sends a status from time to time."""
        async with AsyncExitStack() as stack:
            ways: list[Caller] = []
            for number in range(self.size.streams):
                binding = ("JSONRPC", "GRPC", "HTTP+JSON", "GRPC")[number % 4]
                if number < 4 or (binding == "GRPC" and number % (2 * _ON_A_CHANNEL) == 1):
                    peer = await stack.enter_async_context(
                        connect(card_of(self.served), binding=binding, options=DialOptions(timeout=None))
                    )
                    ways.append(Caller(binding, peer, numbers=True))
                else:
                    ways.append(next(way for way in reversed(ways) if way.name == binding))
            streams = [_Open(way, f"ticks 5 {self._mark()}") for way in ways]
            try:
                for start in range(0, len(streams), 50):
                    async with asyncio.timeout(PATIENCE):
                        await asyncio.gather(*(one.open() for one in streams[start : start + 50]))
                yield streams
            finally:
                await asyncio.gather(*(one.close() for one in streams))

    async def _end(self, ways: Sequence[Caller], streams: Sequence[_Open]) -> None:
        """Cancels half of the tasks whose streams are open, which ends the streams; the others are left."""
        some = asyncio.Semaphore(self.size.workers)

        async def cancel(one: _Open) -> None:
            async with some, asyncio.timeout(PATIENCE):
                cancelled = asyncio.Event()

                async def try_it() -> None:
                    await self.chance.choice(ways).cancel(one.task_id)
                    cancelled.set()

                while not cancelled.is_set():
                    await self._bearing(try_it())
                if self.chance.random() < 0.5:
                    await one.reading
                    self.done["streams that ended"] += 1

        async with asyncio.TaskGroup() as group:
            for one in streams:
                group.create_task(cancel(one))
        self.done["events"] = sum(one.events for one in streams)
        self.wrong += [one.wrong for one in streams if one.wrong]

    # ------------------------------------------------------------------ callers that come and go

    async def _tasks(self, ways: Sequence[Caller]) -> None:
        left = self.size.tasks

        async def one(way: Caller) -> None:
            mark = self._mark()
            if self.chance.random() < 0.2:
                async with aclosing(way.stream(f"chunks 5 {mark}", mark)) as events:
                    self.done["events of tasks"] += len([event async for event in events])
            else:
                task = (await way.send(f"quick {mark}", mark)).task
                if task.artifacts[0].parts[0].text != f"done {mark}":
                    self.wrong.append(f"{way.name}: another answer than asked for")
            self.done["tasks"] += 1

        async def work() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await self._bearing(one(self.chance.choice(ways)))

        async with asyncio.TaskGroup() as group:
            for _ in range(self.size.workers):
                group.create_task(work())

    async def _churn(self, ways: Sequence[Caller]) -> None:
        some = asyncio.Semaphore(self.size.workers)
        kinds = (
            *(self._reconnects, self._leaves, self._slow, self._rude, self._abandons),
            *(self._resets, self._line_ends),
        )

        async def one() -> None:
            async with some, asyncio.timeout(PATIENCE):
                kind = self.chance.choice(kinds)
                await self._bearing(kind(ways))
                self.done[kind.__name__.strip("_")] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(self.size.churn):
                group.create_task(one())

    async def _reconnects(self, _: Sequence[Caller]) -> None:
        """A connection for one call."""
        binding = self.chance.choice(["JSONRPC", "HTTP+JSON", "GRPC"])
        async with connect(card_of(self.served), binding=binding) as peer:
            await Caller(binding, peer, numbers=True).send(f"quick {self._mark()}", self._mark())

    async def _leaves(self, ways: Sequence[Caller]) -> None:
        """A stream that is closed after some of its events."""
        count = self.chance.randint(1, 10)
        async with aclosing(
            self.chance.choice(ways).stream(f"chunks 12 {self._mark()}", self._mark())
        ) as events:
            async for _ in events:
                count -= 1
                if not count:
                    return

    async def _abandons(self, ways: Sequence[Caller]) -> None:
        """A call that is cancelled before its answer."""
        call = asyncio.ensure_future(self.chance.choice(ways).send(f"chunks 20 {self._mark()}", self._mark()))
        await asyncio.wait([call], timeout=self.chance.uniform(0, 0.1))
        call.cancel()
        with suppress(asyncio.CancelledError, A2AError):
            await call

    async def _slow(self, _: Sequence[Caller]) -> None:
        """A reader of a stream that reads a few bytes and then none, and disconnects with a reset."""
        async with self._socket(self._post("SendStreamingMessage", "big 300000")) as (reader, writer):
            await reader.read(100)
            # With a reset, like a machine that loses its power.
            writer.transport.abort()

    async def _rude(self, _: Sequence[Caller]) -> None:
        """A request that breaks off in the middle."""
        request = self._post("SendMessage", "quick")
        async with self._socket(request[: self.chance.randrange(1, len(request))]):
            return

    async def _resets(self, _: Sequence[Caller]) -> None:
        await hostile.resets(self.served)

    async def _line_ends(self, _: Sequence[Caller]) -> None:
        await hostile.line_ends(self.served)

    # ------------------------------------------------------------------ means

    async def _bearing(self, doing: Awaitable[None]) -> None:
        """Does work that may be rejected for a moment, if the disk is too slow."""
        try:
            await doing
        except A2AError as error:
            if error.reason is not Reason.UNAVAILABLE:
                raise
            self.done["rejected for a moment"] += 1
            await asyncio.sleep(min(error.retry_after or 1.0, 2.0))

    def _mark(self) -> str:
        return f"m{self.chance.getrandbits(60):015x}"

    def _post(self, method: str, text: str) -> bytes:
        mark = self._mark()
        message = {"messageId": mark, "role": "ROLE_USER", "parts": [{"text": f"{text} {mark}"}]}
        return _rpc(self.served, method, {"message": message})

    @asynccontextmanager
    async def _socket(self, data: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        address = urlsplit(self.served.http)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            writer.write(data)
            await writer.drain()
            yield reader, writer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@dataclass
class _Open:
    """A stream that stays open."""

    way: Caller
    text: str
    task_id: str = ""
    events: int = 0
    wrong: str = ""
    reading: Any = None

    async def open(self) -> None:
        """Returns when its task exists."""
        there = asyncio.Event()
        self.reading = asyncio.create_task(self._read(there))
        await asyncio.wait(
            [self.reading, waiting := asyncio.create_task(there.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        waiting.cancel()
        if not self.task_id:
            raise AssertionError(f"{self.way.name}: no stream: {self.wrong}")

    async def _read(self, there: asyncio.Event) -> None:
        before = 0
        try:
            async with aclosing(self.way.stream(self.text, self.text.split()[-1])) as events:
                async for shown in events:
                    if shown.number and before and shown.number != before + 1:
                        self.wrong = f"{self.way.name}: event {shown.number} came after {before}"
                    before = shown.number
                    self.events += 1
                    self.task_id = self.task_id or shown.event.task.id
                    there.set()
        except A2AError as error:
            self.wrong = f"{self.way.name}: {error.reason.name} {error}"

    async def close(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            with suppress(asyncio.CancelledError):
                await self.reading


def _rpc(served: Served, method: str, params: Any, *, close: bool = False) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    head = (
        f"POST / HTTP/1.1\r\nHost: {urlsplit(served.http).netloc}\r\nA2A-Version: 1.0\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"{'Connection: close' + chr(13) + chr(10) if close else ''}\r\n"
    )
    return head.encode() + body


async def held(served: Served) -> dict[str, Any]:
    """The resources of the server at this moment, including the connection of the request."""
    address = urlsplit(served.http)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "held"}]}
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            writer.write(_rpc(served, "SendMessage", {"message": message}, close=True))
            answer = await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()
    tree = json.loads(answer.partition(b"\r\n\r\n")[2])
    found: dict[str, Any] = json.loads(tree["result"]["message"]["parts"][0]["text"])
    return found


async def quiet(served: Served, seconds: float = 5.0) -> dict[str, Any]:
    """The resources once they have not changed for a moment."""
    async with asyncio.timeout(SETTLING):
        found, since = await held(served), time.monotonic()
        while time.monotonic() - since < seconds:
            await asyncio.sleep(0.25)
            now = await held(served)
            if any(now[name] != found[name] for name in COUNTED):
                found, since = now, time.monotonic()
    return found


async def settled(served: Served, before: dict[str, Any]) -> list[str]:
    """The resources that a server did not have before, after a while; as lines of text."""
    now: dict[str, Any] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLING):
            while not now or any(_count(now, name) > _count(before, name) for name in COUNTED):
                await asyncio.sleep(0.25 if now else 0)
                now = await held(served)
            return []
    return [
        f"{now[name]} {name}, {before[name]} before: {_more(now, before, name)}"
        for name in COUNTED
        if _count(now, name) > _count(before, name)
    ]


def _count(found: dict[str, Any], name: str) -> int:
    """The number of a kind, without what pools open when it is first needed, and keep."""
    count: int = found[name]
    if name == "files":
        databases = {file: n for file, n in found["of"]["files"].items() if ".db" in file}
        count -= sum(min(n, POOLED) for n in databases.values())
    if name == "threads":
        count -= sum(min(n, POOLS.get(pool, 0)) for pool, n in found["of"]["threads"].items())
    return count


def _more(now: dict[str, Any], before: dict[str, Any], name: str) -> dict[str, int]:
    kinds = "files" if name == "sockets" else name
    return dict(Counter(now["of"].get(kinds, {})) - Counter(before["of"].get(kinds, {})))
