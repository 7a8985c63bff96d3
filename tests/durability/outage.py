"""A server whose database stops working, as callers and operators see it. No tests."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability.callers import Caller
from tests.durability.comparing import Comparison
from tests.durability.ledger import Ledger
from tests.durability.serving import Served, until
from tests.patience import PATIENCE


@dataclass
class Outage:
    """One server while its database is in trouble.

    times: durations in seconds by name: `rejected BINDING`, `unready`, `works BINDING`, `ready`.
    """

    served: Served
    store: str
    ways: Sequence[Caller]
    ledger: Ledger = field(default_factory=Ledger)
    times: dict[str, float] = field(default_factory=dict)
    rejections: dict[str, A2AError] = field(default_factory=dict)
    ended: str = ""
    #: how often a stream broke
    breaks: int = 0
    _number: int = 0
    #: messages that were sent during the outage; each is answered in the end
    _attempts: list[asyncio.Task[None]] = field(default_factory=list)

    async def before(self) -> None:
        """Some work, so that there is data to lose."""
        for way in self.ways:
            for kind in ("quick", "chunks 3", "ask"):
                sent = self._text(kind)
                answer = await way.send(f"{kind} {sent}", sent)
                self.ledger.acknowledged(answer.task)
                if answer.task.status.state in TERMINAL:
                    self.ended = answer.task.id

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """A task that works all the time, with a caller that watches it from its first event to its last."""
        stream, there = self.ledger.stream(""), asyncio.Event()

        async def watch() -> None:
            mark = self._text("watched")
            events = self.ways[0].stream(f"ticks 0.05 {mark}", mark)
            while True:
                try:
                    async with aclosing(events):
                        async for shown in events:
                            stream.show(shown)
                            there.set()
                except A2AError as error:
                    # It may break, as long as it can be resumed without a gap.
                    if error.reason is not Reason.UNAVAILABLE:
                        raise
                    self.breaks += 1
                    await asyncio.sleep(0.2)
                    events = self.ways[0].subscribe(stream.task_id, stream.position)
                else:
                    return

        watching = asyncio.create_task(watch())
        try:
            async with asyncio.timeout(PATIENCE):
                await there.wait()
            yield
            self.ledger.acknowledged(await self.ways[-1].cancel(stream.task_id))
            async with asyncio.timeout(PATIENCE):
                await watching
        finally:
            watching.cancel()

    async def rejected(self) -> None:
        """Waits until new work is rejected on every binding, and the readiness fails."""
        began = time.monotonic()

        async def one(way: Caller) -> None:
            while way.name not in self.rejections:
                attempt = asyncio.create_task(self._attempt(way, began))
                self._attempts.append(attempt)
                await asyncio.wait([attempt], timeout=0.1)

        async def unready() -> None:
            await until(self._not_ready, PATIENCE)
            self.times["unready"] = time.monotonic() - began

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(unready())
            for way in self.ways:
                group.create_task(one(way))

    async def _attempt(self, way: Caller, began: float) -> None:
        mark = self._text("rejected")
        try:
            answer = await way.send(f"quick {mark}", mark)
        except A2AError as error:
            self.times.setdefault(f"rejected {way.name}", time.monotonic() - began)
            self.rejections.setdefault(way.name, error)
        else:
            self.ledger.acknowledged(answer.task)

    async def again(self) -> float:
        """The time in seconds until a further message is rejected, once the outage is known: the longest."""
        longest = 0.0
        for way in self.ways:
            began, mark = time.monotonic(), self._text("again")
            with contextlib.suppress(A2AError):
                answer = await way.send(f"quick {mark}", mark)
                raise AssertionError(f"{way.name} was answered {answer}")
            longest = max(longest, time.monotonic() - began)
        return longest

    async def reads(self) -> None:
        """Reads a task that had ended, and the list, on every binding. Raises A2AError."""
        for way in self.ways:
            self.ledger.acknowledged(await way.get(self.ended))
            for task in await way.list():
                self.ledger.acknowledged(task)

    async def recovered(self) -> None:
        """Waits until work is accepted on every binding again."""
        began = time.monotonic()

        async def one(way: Caller) -> None:
            async def works() -> bool:
                mark = self._text("works")
                try:
                    answer = await way.send(f"quick {mark}", mark)
                except A2AError as error:
                    if error.reason is not Reason.UNAVAILABLE:
                        raise
                    return False
                self.ledger.acknowledged(answer.task)
                return True

            await until(works, PATIENCE)
            self.times[f"works {way.name}"] = time.monotonic() - began

        async def ready() -> None:
            await until(self._ready, PATIENCE)
            self.times["ready"] = time.monotonic() - began

        async with asyncio.TaskGroup() as group:
            group.create_task(ready())
            for way in self.ways:
                group.create_task(one(way))

    async def compared(self) -> list[str]:
        """The losses: looks for every task and event that a caller has seen."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._attempts)
        comparison = Comparison(self.store, self.ledger)
        await comparison.all(self.ways, random.Random(1), list(self.ledger.seen))
        assert comparison.totals["compared"]
        return self.ledger.wrong

    # ------------------------------------------------------------------ readiness

    async def _ready(self) -> bool:
        return await self.readiness() == (200, health_pb2.HealthCheckResponse.SERVING)

    async def _not_ready(self) -> bool:
        return await self.readiness() == (503, health_pb2.HealthCheckResponse.NOT_SERVING)

    async def readiness(self) -> tuple[int, Any]:
        """The readiness over HTTP and gRPC."""
        async with httpx.AsyncClient(base_url=self.served.http, timeout=PATIENCE) as http:
            status = (await http.get("/readyz")).status_code
        async with grpc.aio.insecure_channel(self.served.grpc) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        return status, answer.status

    def _text(self, kind: str) -> str:
        self._number += 1
        return f"{kind.split(maxsplit=1)[0]}-{self._number}"


async def raw_rejection(served: Served) -> httpx.Response:
    """The rejection of a message over HTTP+JSON, as it is on the wire."""
    message = hub.Message(message_id="raw", role=hub.ROLE_USER, parts=[hub.Part(text="quick raw")])
    body = {
        "message": {
            "messageId": message.message_id,
            "role": "ROLE_USER",
            "parts": [{"text": message.parts[0].text}],
        }
    }
    async with httpx.AsyncClient(base_url=served.http, timeout=PATIENCE) as http:
        return await http.post("/message:send", json=body, headers={"A2A-Version": "1.0"})
