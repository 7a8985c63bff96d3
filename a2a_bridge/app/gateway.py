"""A gateway in front of a remote agent: its connections, shared streams and the relay of its notifications.
No sockets of its own. Resources opened here are closed here, after the last call: streams, notifications, the
connections to the agent, the store. A store that the application opened is closed by the application.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from a2a_bridge.app.agent import open_store_of
from a2a_bridge.app.layers import GATEWAY, ClientSide, GatewaySide, dial_through, present
from a2a_bridge.app.planning import ServeOptions, identifies, keeps_owners
from a2a_bridge.bindings.binding import DialOptions, Document, Receive, http_post
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.cards import Candidate
from a2a_bridge.cards.select import without_security
from a2a_bridge.core.callers import ScopeOf
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.resume import offer_resume, offers_resume
from a2a_bridge.core.service import Middleware, Service, compose
from a2a_bridge.gateway.cards import CardReading, CardRefresh, without_lacking
from a2a_bridge.gateway.connections import Connections, ask_while_gone, rejection
from a2a_bridge.gateway.credentials.grants import TokenExchange
from a2a_bridge.gateway.credentials.sending import note_mismatch
from a2a_bridge.gateway.ownership import Owners, StoredOwners
from a2a_bridge.gateway.relay_store import RelayStore
from a2a_bridge.gateway.tasks import Tasks, scopes_by
from a2a_bridge.gateway.upstream import Dial, dial
from a2a_bridge.gateway.webhooks import PATH as RELAY_PATH
from a2a_bridge.gateway.webhooks import Relay, pass_unchanged
from a2a_bridge.middleware.tracing import delivery_spans
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import JWKS_PATH, Webhook, WebhookResolver, push_service
from a2a_bridge.push.notification import Names
from a2a_bridge.stores.ports import Outbox, Store

#: seconds that one attempt to pass a notification on may take
_PUSH_TIMEOUT = 10.0
#: seconds after which the agent's card is read for the second time
_FIRST_CARD = 30.0


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
    #: to the agent
    connections: Connections
    memory: MemoryAccount
    #: of the relay; None without a store
    outbox: Outbox | None = None

    def rejection(self) -> A2AError | None:
        """Why the gateway takes no new work; see HostOptions."""
        return rejection(self.connections.failover)


@dataclass(frozen=True, slots=True)
class RemotePlan:
    """A remote agent, and how a gateway reaches it and shows it: decided once, by `of`."""

    #: the agent's own card, and its interfaces to dial, best first
    card: hub.AgentCard
    candidates: Sequence[Candidate]
    options: ServeOptions
    dial_options: DialOptions
    #: opens one interface of the agent
    dial: Dial
    #: what the gateway remembers of tasks
    tasks: Tasks

    @classmethod
    def of(
        cls,
        card: hub.AgentCard,
        candidates: Sequence[Candidate],
        options: ServeOptions,
        dial_options: DialOptions | None,
    ) -> RemotePlan:
        """Raises ValueError for contradictory options."""
        dial_options = dial_options or DialOptions(timeout=None)
        if options.authentication is not None and not options.pass_credentials:
            forward = dial_options.forward - options.authentication.parameters
            dial_options = replace(dial_options, forward=forward)
        credentials = options.upstream.credentials
        if isinstance(credentials, TokenExchange) and not identifies(options):
            raise ValueError(
                "token exchange needs a gateway that authenticates its callers with bearer tokens"
            )
        note_mismatch(card, credentials, dial_options.tls)
        tasks = Tasks(most_listed=options.list_tasks_memory)
        side = ClientSide(
            tasks,
            options.upstream,
            # Lists of callers whose tasks are kept apart are answered above the connections.
            lists=bool(options.list_tasks_memory) and not keeps_owners(options),
            tracing=options.tracing,
            metrics=options.metrics,
            agent=options.name or card.name,
        )
        return cls(card, candidates, options, dial_options, dial_through(dial, side), tasks)

    @property
    def name(self) -> str:
        """Of the agent, in metrics."""
        return self.options.name or self.card.name

    def offered(self, card: hub.AgentCard, candidates: Sequence[Candidate]) -> hub.AgentCard:
        """A card of the agent with what the gateway in front of it offers."""
        if candidates:
            first = candidates[0]
            card = without_lacking(card, first.dialect, first.interface.protocol_binding)
        if self.options.upstream.credentials is not None:
            card = without_security(card)
        return offer_resume(card) if self.options.replay.tasks else card


@asynccontextmanager
async def gateway_app(plan: RemotePlan, names: Names | None = None) -> AsyncIterator[GatewayApp]:
    """A gateway to a remote agent while the context is open. names: of tasks, where callers name them. Raises
    StoreOpenError, ValueError for contradictory options, and UNSUPPORTED_OPERATION if none of the interfaces
    can be dialled.
    """
    options, tasks = plan.options, plan.tasks
    async with AsyncExitStack() as stack:
        owning = keeps_owners(options)
        opens = options.push_relay or owning
        store = await stack.enter_async_context(open_store_of(options)) if opens else None
        memory = MemoryAccount(options.store_options.max_memory) if store is None else store.memory
        tasks.count_in(memory)
        connections = Connections(
            plan.dial_options, options.upstream, options.replay, dial=plan.dial, memory=memory, tasks=tasks
        )
        await connections.open(plan.candidates, resumes=offers_resume(plan.card))
        stack.push_async_callback(connections.aclose)
        receivers: dict[str, Receive] = {}
        documents: Mapping[str, Document] = {}
        close: Callable[[float], Awaitable[None]] = _nothing
        owners: Owners | None = None
        if owning and store is not None and store.durable:
            owners = StoredOwners(store.push_configs, tasks, options.name)
        elif owning:
            owners = Owners(tasks)
        relay: Middleware | None = None
        if options.push_relay:
            relay, documents, close = await _relay(
                stack,
                receivers,
                options,
                store,
                lambda: connections.version,
                names,
                owners,
                scopes_by(plan.dial_options.forward),
                memory,
            )
        service = compose(connections, *present(GATEWAY, GatewaySide(options, tasks, owners, relay)))
        stack.push_async_callback(connections.aclose_streams)
        asking = asyncio.create_task(ask_while_gone(lambda: connections.failover), name="ask a lost agent")
        stack.push_async_callback(_cancel, asking)

        outbox = store.outbox if store is not None and options.push_relay else None
        yield GatewayApp(service, receivers, documents, close, connections, memory, outbox)


@asynccontextmanager
async def follow_card(
    app: GatewayApp, plan: RemotePlan, show: Callable[[hub.AgentCard], None]
) -> AsyncIterator[None]:
    """Follows changes of the agent's card, if it can be read again. show: shows a card to callers."""
    upstream = plan.options.upstream
    if upstream.read_card is None or not upstream.card_refresh:
        yield
        return

    async def apply(found: CardReading) -> None:
        await app.connections.replace(found.candidates, resumes=offers_resume(found.card))
        # Between two calls: nothing is awaited after the change.
        show(plan.offered(found.card, found.candidates))

    # How long the first card is fresh is not known here: the next reading says.
    known = CardReading(plan.card, plan.candidates, fresh_for=_FIRST_CARD)
    refresh = CardRefresh(upstream.read_card, known, apply, upstream.card_refresh)
    app.connections.on_doubt = refresh.doubt
    task = asyncio.create_task(refresh.run(), name="read the agent's card again")
    try:
        yield
    finally:
        await _cancel(task)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _relay(
    stack: AsyncExitStack,
    receivers: dict[str, Receive],
    options: ServeOptions,
    store: Store | None,
    version: Callable[[], str],
    names: Names | None,
    owners: Owners | None,
    scoped: ScopeOf,
    memory: MemoryAccount,
) -> tuple[Middleware, Mapping[str, Document], Callable[[float], Awaitable[None]]]:
    """The relay as a layer, its documents, and the function that closes it. receivers: gets the handler when
    the layer is made.
    """
    if options.push_options.signing_keys and not (store is not None and store.durable):
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
                traced=delivery_spans(options.tracing),
            )
        )
        close = sending.close
        if sending.jwks is not None:
            documents[JWKS_PATH] = sending.jwks

    def around(service: Service) -> Service:
        relay = Relay(
            service,
            Webhook(post),
            options.push_relay,
            check=resolver.check,
            store=relay_store,
            agent_version=version,
            names=names,
            announced=pass_unchanged if owners is None else owners.rename_notification,
            scoped=scoped,
            memory=memory,
        )
        receivers[RELAY_PATH] = relay.receive
        return relay

    return around, documents, close


async def _nothing(grace: float) -> None:
    """Without a durable relay no notification is pending."""
