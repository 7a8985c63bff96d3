"""A hosted agent with what belongs to it: its store, its engine, and what delivers its notifications. It serves nothing.

Rules:
1. What is opened here is closed here, when nobody calls any more: the engine, then the notifications, then the store.
2. A store that somebody else opened is theirs to close.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic

from a2a_bridge.bindings import Document
from a2a_bridge.core.agent_api import service_of
from a2a_bridge.core.call import Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.resume import offer_resume
from a2a_bridge.core.service import Service
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.hosting.ports import Store
from a2a_bridge.hosting.stores import MemoryStore, open_store
from a2a_bridge.middleware.resume import OffersResume
from a2a_bridge.mounting import ServeOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import JWKS_PATH, Gatekeeper, Pushing, pushing
from a2a_bridge.push.notification import Names


@dataclass(frozen=True, slots=True)
class Hosted:
    """An agent that is ready to be served.

    service: what answers. card: what it says of itself. options: how to serve it, with its store open. gatekeeper: who
    decides where notifications may go; None when none are sent. documents: to be published, by path. close: ends it
    within a grace in seconds, and may be called twice.
    """

    engine: Engine
    store: Store
    service: Service
    card: hub.AgentCard
    options: ServeOptions
    gatekeeper: Gatekeeper | None
    close: Callable[[float], Awaitable[None]]
    documents: Mapping[str, Document] = field(default_factory=dict)


def prepared(agent: Agent, options: ServeOptions, *, sends: bool = False) -> Hosted:
    """An agent over a store that is open already, or in memory. Raises TypeError for the URL of a store, ValueError
    for options that make no sense.

    Its engine is started by whoever can wait for that, see `started`. sends: whether notifications are.
    """
    if isinstance(options.store, str):
        raise TypeError("a store's URL has to be opened first: see a2a_bridge.hosting.stores.open_store")
    store = options.store
    if store is None:
        store = MemoryStore(max_memory=options.store_options.max_memory)
    sends = sends and agent.card.capabilities.push_notifications
    gatekeeper = Gatekeeper(options.push_options.guard()) if sends else None
    engine = Engine(agent, store=store, options=options.engine, push_sender=gatekeeper)
    host = options.host if options.host.refusal is not None else replace(options.host, refusal=store.refusal)
    if host.status is None:
        host = replace(host, status=lambda: {"tasks to take over": engine.left})
    service: Service = service_of(engine)
    if agent.card.capabilities.extended_agent_card:
        service = OffersResume(service)
    return Hosted(
        engine,
        store,
        service,
        offer_resume(agent.card),
        replace(options, store=store, host=host),
        gatekeeper,
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


def opened(options: ServeOptions) -> AbstractAsyncContextManager[Store | None]:
    """The store of options while the context is open. Raises CannotOpen."""
    if isinstance(options.store, str):
        return open_store(options.store, options.store_options)
    return nullcontext(options.store)


@asynccontextmanager
async def hosted(
    agent: Agent, options: ServeOptions, names: Names | None = None, *, sends: bool = True
) -> AsyncIterator[Hosted]:
    """An agent at work while the context is open. Raises CannotOpen, ValueError for options that make no sense.

    names: how versions in which callers name their tasks know them. sends: whether it sends notifications, if the
    options let it.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opened(options))
        one = prepared(agent, replace(options, store=store), sends=sends and options.push)
        courier: Pushing | None = None
        if one.gatekeeper is not None:
            courier = await stack.enter_async_context(
                pushing(
                    one.store.outbox,
                    one.store.task_at,
                    options.push_options,
                    names=names,
                    sender=one.gatekeeper,
                    issuer=options.public_url or agent.card.name,
                )
            )

        async def close(grace: float) -> None:
            end = monotonic() + grace
            await one.engine.close(grace)
            if courier is not None:
                await courier.close(max(0.0, end - monotonic()))

        stack.push_async_callback(close, 0.0)
        await one.engine.start()
        keys = courier.jwks if courier is not None else None
        yield replace(one, close=close, documents={} if keys is None else {JWKS_PATH: keys})
