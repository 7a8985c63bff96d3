"""A hosted agent with what belongs to it: its store, its engine, and what delivers its notifications. It serves nothing.

Rules:
1. What is opened here is closed here, when nobody calls any more: the engine, then the notifications, then the store.
2. A store that somebody else opened is theirs to close.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from time import monotonic

from a2a_bridge.core.agent_api import service_of
from a2a_bridge.core.call import Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.resume import offer_resume
from a2a_bridge.core.service import Service
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.hosting.ports import PushSender, Store
from a2a_bridge.hosting.stores import MemoryStore, open_store
from a2a_bridge.middleware.resume import OffersResume
from a2a_bridge.mounting import ServeOptions
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class Hosted:
    """An agent that is ready to be served.

    service: what answers. card: what it says of itself. options: how to serve it. close: ends it within a grace in
    seconds; may be called twice, and must be before the context that gave it ends.
    """

    engine: Engine
    service: Service
    card: hub.AgentCard
    options: ServeOptions
    close: Callable[[float], Awaitable[None]]


def prepared(agent: Agent, options: ServeOptions, sender: PushSender | None = None) -> Hosted:
    """An agent over a store that is open already, or in memory. Raises TypeError for the URL of a store.

    Its engine is started by whoever can wait for that, see `started`.
    """
    if isinstance(options.store, str):
        raise TypeError(
            f"{options.store!r} has to be opened first: see a2a_bridge.hosting.stores.open_store"
        )
    store: Store = MemoryStore() if options.store is None else options.store
    engine = Engine(agent, store=store, options=options.engine, push_sender=sender)
    host = options.host if options.host.refusal is not None else replace(options.host, refusal=store.refusal)
    return Hosted(
        engine,
        OffersResume(service_of(engine)),
        offer_resume(agent.card),
        replace(options, store=store, host=host),
        engine.close,
    )


def started(one: Hosted) -> Service:
    """The service of an agent that is served where nobody starts anything: the first call starts the engine."""
    return _Started(one)


class _Started:
    def __init__(self, one: Hosted) -> None:
        self._one = one
        self._lock = asyncio.Lock()
        self._done = False

    async def _start(self) -> None:
        async with self._lock:
            if not self._done:
                await self._one.engine.start()
                self._done = True

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if not self._done:
            await self._start()
        return await self._one.service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> AsyncGenerator[Res, None]:
        return self._one.service.stream(call) if self._done else self._late(call)

    async def _late(self, call: Call[Req, Res]) -> AsyncGenerator[Res, None]:
        await self._start()
        async with aclosing(self._one.service.stream(call)) as events:
            async for event in events:
                yield event


def opened(store: Store | str | None) -> AbstractAsyncContextManager[Store | None]:
    """The store of options while the context is open. Raises CannotOpen."""
    return open_store(store) if isinstance(store, str) else nullcontext(store)


@asynccontextmanager
async def hosted(agent: Agent, options: ServeOptions) -> AsyncIterator[Hosted]:
    """An agent at work while the context is open. Raises CannotOpen."""
    async with opened(options.store) as store:
        one = prepared(agent, replace(options, store=store))
        await one.engine.start()

        async def close(grace: float) -> None:
            end = monotonic() + grace
            await one.engine.close(max(0.0, end - monotonic()))

        try:
            yield replace(one, close=close)
        finally:
            await close(0)
