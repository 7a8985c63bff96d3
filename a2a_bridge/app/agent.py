"""A hosted agent with its store, its engine and the delivery of its notifications. No sockets.

Rules:
1. Resources opened here are closed here, after the last call: the engine, then the notifications, then the
   store.
2. A store that the application opened is closed by the application.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.binding import Document
from a2a_bridge.core.call import Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.resume import offer_resume
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.middleware.tracing import delivery_spans
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import JWKS_PATH, PushService, WebhookResolver, push_service
from a2a_bridge.push.notification import Names
from a2a_bridge.stores import MemoryStore, open_store
from a2a_bridge.stores.ports import Store


@dataclass(frozen=True, slots=True)
class AgentApp:
    """A hosted agent, ready to be served."""

    engine: Engine
    store: Store
    #: the engine as a service
    service: Service
    #: the agent's card, with the extensions that the engine adds
    card: hub.AgentCard
    #: the given options, with the opened store
    options: ServeOptions
    #: which addresses notifications may go to; None for an agent that sends none
    resolver: WebhookResolver | None
    #: ends the agent within a grace in seconds; may be called twice
    close: Callable[[float], Awaitable[None]]
    #: documents to publish, by path
    documents: Mapping[str, Document] = field(default_factory=dict)


def build_agent_app(agent: Agent, options: ServeOptions, *, sends: bool = False) -> AgentApp:
    """An agent over an open store or, without one, over memory. The engine is not started: see
    `start_lazily`.

    sends: whether the agent sends notifications. Raises TypeError when the store is still a URL, ValueError
    for contradictory options.
    """
    if isinstance(options.store, str):
        raise TypeError("open the store of a URL first: see a2a_bridge.stores.open_store")
    store = options.store
    if store is None:
        store = MemoryStore(max_memory=options.store_options.max_memory)
    sends = sends and agent.card.capabilities.push_notifications
    resolver = WebhookResolver(options.push_options.policy()) if sends else None
    engine = Engine(agent, store=store, options=options.engine, push_sender=resolver)
    host = (
        options.host
        if options.host.rejection is not None
        else replace(options.host, rejection=store.rejection)
    )
    if host.status is None:
        host = replace(host, status=lambda: {"tasks to take over": engine.left})
    return AgentApp(
        engine,
        store,
        engine.service,
        offer_resume(agent.card),
        replace(options, store=store, host=host),
        resolver,
        engine.close,
    )


def start_lazily(one: AgentApp) -> Service:
    """The agent's service; the first call starts the engine. For servers of the application."""
    return _StartsLazily(one)


class _StartsLazily:
    def __init__(self, one: AgentApp) -> None:
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

    def stream(self, call: Call[Req, Res], /) -> Events:
        return self._one.service.stream(call) if self._done else HandedOver(partial(self._late, call))

    async def _late(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        await self._start()
        return await open_stream(self._one.service.stream(call))


def open_store_of(options: ServeOptions) -> AbstractAsyncContextManager[Store | None]:
    """The store of the options while the context is open. Raises StoreOpenError."""
    if isinstance(options.store, str):
        return open_store(options.store, options.store_options)
    return nullcontext(options.store)


@asynccontextmanager
async def agent_app(
    agent: Agent, options: ServeOptions, names: Names | None = None, *, sends: bool = True
) -> AsyncIterator[AgentApp]:
    """A running agent while the context is open. Raises StoreOpenError, ValueError for contradictory options.

    names: the task names of versions in which callers name their tasks. sends: whether the agent sends
    notifications, if the options allow it.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store_of(options))
        one = build_agent_app(agent, replace(options, store=store), sends=sends and options.push)
        worker: PushService | None = None
        if one.resolver is not None:
            worker = await stack.enter_async_context(
                push_service(
                    one.store.outbox,
                    one.store.task_at,
                    options.push_options,
                    names=names,
                    sender=one.resolver,
                    issuer=options.public_url or agent.card.name,
                    traced=delivery_spans(options.tracing),
                )
            )

        async def close(grace: float) -> None:
            end = monotonic() + grace
            await one.engine.close(grace)
            if worker is not None:
                await worker.close(max(0.0, end - monotonic()))

        stack.push_async_callback(close, 0.0)
        await one.engine.start()
        keys = worker.jwks if worker is not None else None
        yield replace(one, close=close, documents={} if keys is None else {JWKS_PATH: keys})
