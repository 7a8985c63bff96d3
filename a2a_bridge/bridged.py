"""An agent elsewhere with what belongs to it: its dialled interfaces, what is kept of its streams, and the relay of its
notifications. It serves nothing.

Rules:
1. What is opened here is closed here, when nobody calls any more: streams, then notifications, then the agent's
   connections, then the store.
2. A store that somebody else opened is theirs to close.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from a2a_bridge.bindings import DialOptions, Document, Receive, http_post
from a2a_bridge.cards import Candidate
from a2a_bridge.core.service import Service
from a2a_bridge.dialects.marks import finality
from a2a_bridge.gateway import Dial, Route, Router, Sharing, dialled
from a2a_bridge.gateway.contexts import Contexts
from a2a_bridge.gateway.depot import Depot
from a2a_bridge.gateway.silence import SilenceLimit
from a2a_bridge.gateway.unstreamed import Unstreamed
from a2a_bridge.gateway.webhooks import PATH as RELAY_PATH
from a2a_bridge.gateway.webhooks import Relay
from a2a_bridge.hosted import opened
from a2a_bridge.hosting.ports import Store
from a2a_bridge.memory import MemoryAccount
from a2a_bridge.middleware.resume import OffersResume
from a2a_bridge.mounting import ServeOptions
from a2a_bridge.push import JWKS_PATH, Gatekeeper, Webhook, pushing
from a2a_bridge.push.notification import Names

#: seconds that one attempt to pass a notification on may take
_PUSH_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Bridged:
    """An agent elsewhere, ready to be served.

    receivers: what takes posts below a path. documents: to be published, by path. close: sends what waits to be sent,
    within a grace in seconds.
    """

    service: Service
    receivers: Mapping[str, Receive]
    documents: Mapping[str, Document]
    close: Callable[[float], Awaitable[None]]


@asynccontextmanager
async def bridged(
    candidates: Sequence[Candidate],
    options: ServeOptions,
    dial_options: DialOptions,
    *,
    dial: Dial,
    resumes: bool = False,
    names: Names | None = None,
) -> AsyncIterator[Bridged]:
    """An agent elsewhere while the context is open. Raises CannotOpen, ValueError for options that make no sense, and
    UNSUPPORTED_OPERATION when none of the interfaces can be dialled.

    dial: how its interfaces are dialled. resumes: whether its card offers to go on after the ids of events. names: how versions in which callers name their tasks know them.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opened(options)) if options.push_relay else None
        upstream = await stack.enter_async_context(
            dialled(candidates, dial_options, discreet=True, dial=dial)
        )
        await upstream.open()
        first = upstream.upstreams[0].candidate
        dialect = first.dialect
        is_final = finality(dialect, first.interface.protocol_binding) if dialect.final_events else None
        limit = dial_options.silence_timeout
        sharing = Sharing(
            Unstreamed(SilenceLimit(upstream, limit) if limit else upstream),
            options.replay,
            forward=dial_options.forward,
            is_final=is_final,
            resumes=resumes,
            memory=MemoryAccount(options.store_options.max_memory) if store is None else store.memory,
        )
        service: Service = Router(Route(Contexts(sharing), first.interface.tenant))
        receivers: dict[str, Receive] = {}
        documents: Mapping[str, Document] = {}
        close: Callable[[float], Awaitable[None]] = _nothing
        if options.push_relay:
            version = first.dialect.version
            relay, documents, close = await _relay(stack, options, store, version, names)
            service = relay.wrap(service)
            receivers[RELAY_PATH] = relay.receive
        stack.push_async_callback(sharing.aclose)
        if options.replay.tasks:
            service = OffersResume(service)
        yield Bridged(service, receivers, documents, close)


async def _relay(
    stack: AsyncExitStack, options: ServeOptions, store: Store | None, version: str, names: Names | None
) -> tuple[Relay, Mapping[str, Document], Callable[[float], Awaitable[None]]]:
    durable = store is not None and store.durable
    if options.push_options.signing_keys and not durable:
        raise ValueError("a relay signs what it sends from a store that is durable, and there is none")
    gatekeeper = Gatekeeper(options.push_options.guard())
    stack.callback(gatekeeper.close)
    post = await stack.enter_async_context(http_post(DialOptions(timeout=_PUSH_TIMEOUT), gatekeeper.resolve))
    depot = None
    documents: dict[str, Document] = {}
    close: Callable[[float], Awaitable[None]] = _nothing
    if store is not None and store.durable:
        depot = Depot(store.push_configs, store.outbox)
        await depot.open()
        sending = await stack.enter_async_context(
            pushing(
                store.outbox,
                store.task_at,
                options.push_options,
                sender=gatekeeper,
                issuer=options.public_url or options.push_relay,
            )
        )
        close = sending.close
        if sending.jwks is not None:
            documents[JWKS_PATH] = sending.jwks
    relay = Relay(
        Webhook(post),
        options.push_relay,
        check=gatekeeper.check,
        depot=depot,
        agent_version=version,
        names=names,
    )
    return relay, documents, close


async def _nothing(grace: float) -> None:
    """Nothing waits to be sent."""
