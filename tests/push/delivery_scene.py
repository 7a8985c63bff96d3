"""A store, a delivery worker over real sockets, and a clock and chance of the test. No tests."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.bindings.binding import DialOptions, http_post
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import DeliveryWorker, PushOptions, WebhookResolver
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.memory_push import MemoryOutbox, MemoryPushConfigStore
from a2a_bridge.stores.ports import Registered, Store
from a2a_bridge.testing.store_scene import HERE, Author
from tests.patience import PATIENCE


def options(**members: Any) -> PushOptions:
    """For receivers on this machine, with short times."""
    return PushOptions(**({"allow": ("127.0.0.1",), "first": 0.001, "timeout": 5.0} | members))


def config(url: str, config_id: str = "p", task_id: str = "t", **members: Any) -> Registered:
    return Registered(hub.TaskPushNotificationConfig(task_id=task_id, id=config_id, url=url, **members))


async def register(store: Store, url: str, config_id: str = "p", task_id: str = "t", **members: Any) -> None:
    await store.push_configs.put(HERE, config(url, config_id, task_id, **members))


async def author(store: Store, task_id: str = "t") -> Author:
    """Writes a task whose events go to the outbox."""
    return await Author(store, HERE, push=True).begin(task_id).sync()


def memory(now: Callable[[], float] = time.monotonic) -> MemoryStore:
    """A store whose delays use a clock of the test."""
    configs = MemoryPushConfigStore()
    store = MemoryStore(push_configs=configs)
    store.outbox = store.memory_outbox = MemoryOutbox(configs, now=now)
    return store


@asynccontextmanager
async def delivering(
    store: Store | None = None, how: PushOptions | None = None, **members: Any
) -> AsyncIterator[tuple[Any, DeliveryWorker]]:
    """A store (in memory unless given), and a delivery worker on it."""
    store = memory(members.get("now", time.monotonic)) if store is None else store
    how = how or options()
    keeper = WebhookResolver(how.policy())
    async with http_post(DialOptions(timeout=how.timeout), keeper.resolve) as post:
        worker = DeliveryWorker(store.outbox, post, how, **({"task_at": store.task_at} | members))
        worker.start()
        try:
            yield store, worker
        finally:
            await worker.close()


class Broken:
    """An outbox whose calls fail so many times."""

    def __init__(self, outbox: Any, error: A2AError) -> None:
        self._outbox, self._error = outbox, error
        self.failures: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._outbox, name)
        if name == "on_new":
            return method

        async def call(*given: Any, **named: Any) -> Any:
            if self.failures.get(name):
                self.failures[name] -= 1
                raise self._error
            return await method(*given, **named)

        return call


# A webhook without code of the product: it accepts posts on its own socket and answers as a test chooses.


@dataclass(frozen=True)
class Posted:
    """A request, unchanged. Header names are lower-case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """statuses: the answers, one after the other; then 204. headers: of the answers. silent: it never
    answers. endless: its answers never end. text: of its answers. connections: their number so far. fault:
    called for each request; returns a status, "drop" to close the connection, or nothing. posted: all
    requests. taken: the acknowledged ones.
    """

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    posted: list[Posted] = field(default_factory=list)
    taken: list[Posted] = field(default_factory=list)
    silent: bool = False
    endless: bool = False
    text: str = ""
    connections: int = 0
    fault: Callable[[], str] | None = None
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def arrived(self, count: int) -> list[Posted]:
        """All requests, once there are `count` or more."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.posted) >= count)
        return self.posted

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.split("\r\n")
                assert line.startswith("POST ")
                headers = {}
                for one in rest:
                    name, colon, value = one.partition(":")
                    if colon:
                        headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers["content-length"]))
                fault = self.fault() if self.fault is not None else ""
                usual = 200 if self.text else 204
                status = int(fault) if fault.isdecimal() else self.statuses.pop(0) if self.statuses else usual
                came = Posted(line.split(" ")[1], headers, body)
                if status < 300 and fault != "drop" and not self.silent:
                    self.taken.append(came)
                async with self._changed:
                    self.posted.append(came)
                    self._changed.notify_all()
                if self.silent:
                    await reader.read()
                    return
                if fault == "drop":
                    return
                said = dict(self.headers)
                if 300 <= status < 400:
                    said["Location"] = "http://127.0.0.1:1/"
                if not self.endless:
                    said["Content-Length"] = str(len(self.text))
                lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
                writer.write(
                    f"HTTP/1.1 {200 if self.endless else status} X\r\n{lines}\r\n{self.text}".encode()
                )
                await writer.drain()
                while self.endless:
                    writer.write(b"x" * 65536)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver._take, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()
