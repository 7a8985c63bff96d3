"""A store, a delivery worker over real sockets, and a clock and chance of the test. No tests."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from a2a_bridge.bindings.binding import DialOptions, http_post
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import DeliveryWorker, PushOptions, WebhookResolver
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.memory_push import MemoryOutbox, MemoryPushConfigStore
from a2a_bridge.stores.ports import Registered, Store
from a2a_bridge.testing.store_scene import HERE, Author
from tests.push.receiver import PATIENCE


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


async def until(look: Callable[[], Any]) -> Any:
    """The value of `look` once it is true. For states without a notification."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = look()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.005)


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
        self._outbox = outbox
        self._error = error
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
