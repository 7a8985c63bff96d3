"""A gateway in front of a remote agent: its connections, its shared streams and the relay of its
notifications. No sockets of its own.

Rules:
1. Resources opened here are closed here, after the last call: streams, then notifications, then the
   connections to the agent, then the store.
2. A store that the application opened is closed by the application.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from a2a_bridge.agent_app import open_store_of
from a2a_bridge.bindings import DialOptions, Document, Receive, http_post
from a2a_bridge.cards import Candidate
from a2a_bridge.core.service import Service
from a2a_bridge.dialects.annotation import finality
from a2a_bridge.gateway import Dial, Failover, Route, Router, StreamSharing, dialled
from a2a_bridge.gateway.contexts import Contexts
from a2a_bridge.gateway.relay_store import RelayStore
from a2a_bridge.gateway.silence import SilenceLimit
from a2a_bridge.gateway.unstreamed import Unstreamed
from a2a_bridge.gateway.webhooks import PATH as RELAY_PATH
from a2a_bridge.gateway.webhooks import Relay
from a2a_bridge.hosting.ports import Outbox, Store
from a2a_bridge.memory import MemoryAccount
from a2a_bridge.planning import ServeOptions
from a2a_bridge.push import JWKS_PATH, Webhook, WebhookResolver, push_service
from a2a_bridge.push.notification import Names

#: seconds that one attempt to pass a notification on may take
_PUSH_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class GatewayApp:
    """A gateway to a remote agent, ready to be served."""

    service: Service
    #: handlers of POST requests, by path prefix
    receivers: Mapping[str, Receive]
    #: documents to publish, by path
    documents: Mapping[str, Document]
    #: sends the pending notifications, within a grace in seconds
    close: Callable[[float], Awaitable[None]]
    #: the connections to the agent
    upstreams: Failover
    memory: MemoryAccount
    #: of the relay; None without a store
    outbox: Outbox | None = None


@asynccontextmanager
async def gateway_app(
    candidates: Sequence[Candidate],
    options: ServeOptions,
    dial_options: DialOptions,
    *,
    dial: Dial,
    resumes: bool = False,
    names: Names | None = None,
) -> AsyncIterator[GatewayApp]:
    """A gateway to a remote agent while the context is open.

    dial: opens one interface of the agent. resumes: whether the agent's card offers to resume streams after
    an event id. names: the task names of versions in which callers name their tasks. Raises StoreOpenError,
    ValueError for contradictory options, and UNSUPPORTED_OPERATION when none of the interfaces can be
    dialled.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store_of(options)) if options.push_relay else None
        upstream = await stack.enter_async_context(
            dialled(candidates, dial_options, discreet=True, dial=dial)
        )
        await upstream.open()
        first = upstream.upstreams[0].candidate
        dialect = first.dialect
        is_final = finality(dialect, first.interface.protocol_binding) if dialect.final_events else None
        limit = dial_options.silence_timeout
        memory = MemoryAccount(options.store_options.max_memory) if store is None else store.memory
        sharing = StreamSharing(
            Unstreamed(SilenceLimit(upstream, limit) if limit else upstream),
            options.replay,
            forward=dial_options.forward,
            is_final=is_final,
            resumes=resumes,
            memory=memory,
        )
        service: Service = Contexts(sharing)
        if first.interface.tenant:
            service = Router(Route(service, first.interface.tenant))
        receivers: dict[str, Receive] = {}
        documents: Mapping[str, Document] = {}
        close: Callable[[float], Awaitable[None]] = _nothing
        if options.push_relay:
            version = first.dialect.version
            relay, documents, close = await _relay(stack, options, store, version, names)
            service = relay.wrap(service)
            receivers[RELAY_PATH] = relay.receive
        stack.push_async_callback(sharing.aclose)
        outbox = store.outbox if store is not None else None
        yield GatewayApp(service, receivers, documents, close, upstream, memory, outbox)


async def _relay(
    stack: AsyncExitStack, options: ServeOptions, store: Store | None, version: str, names: Names | None
) -> tuple[Relay, Mapping[str, Document], Callable[[float], Awaitable[None]]]:
    durable = store is not None and store.durable
    if options.push_options.signing_keys and not durable:
        raise ValueError("signing keys of a relay need a durable store, and none is configured")
    resolver = WebhookResolver(options.push_options.policy())
    stack.callback(resolver.close)
    post = await stack.enter_async_context(http_post(DialOptions(timeout=_PUSH_TIMEOUT), resolver.resolve))
    relay_store = None
    documents: dict[str, Document] = {}
    close: Callable[[float], Awaitable[None]] = _nothing
    if store is not None and store.durable:
        relay_store = RelayStore(store.push_configs, store.outbox)
        await relay_store.open()
        sending = await stack.enter_async_context(
            push_service(
                store.outbox,
                store.task_at,
                options.push_options,
                sender=resolver,
                issuer=options.public_url or options.push_relay,
            )
        )
        close = sending.close
        if sending.jwks is not None:
            documents[JWKS_PATH] = sending.jwks
    relay = Relay(
        Webhook(post),
        options.push_relay,
        check=resolver.check,
        store=relay_store,
        agent_version=version,
        names=names,
    )
    return relay, documents, close


async def _nothing(grace: float) -> None:
    """Without a durable relay no notification is pending."""
