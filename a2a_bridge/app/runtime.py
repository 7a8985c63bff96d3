"""The composition root: an agent or a gateway on a server, and clients. It implements none of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from a2a_bridge.app.admin import admin_listener, agent_gauges, gateway_gauges
from a2a_bridge.app.agent import (
    StartsLazily,
    agent_app,
    build_agent_app,
    check_interfaces,
    note_other_workers,
    opened_as,
    take_target,
)
from a2a_bridge.app.gateway import GatewayApp, RemotePlan, follow_card, gateway_app
from a2a_bridge.app.layers import ClientSide, Remembered, ServerSide, dial_through
from a2a_bridge.app.lifetime import Lifetime
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.planning import EVERYTHING, ServeOptions, identifies, list_dialects, place
from a2a_bridge.app.serving import (
    Served,
    Server,
    Shared,
    add_metrics,
    guard,
    log_rounding,
    serve,
    serve_service,
)
from a2a_bridge.auth import UncheckedCredentialsError
from a2a_bridge.bindings.binding import (
    ApplicationHost,
    DialOptions,
    asgi_host,
    find,
    grpc_attach,
    http_fetch,
    names,
)
from a2a_bridge.bindings.places import place_of
from a2a_bridge.cards import Candidate, interface, select
from a2a_bridge.cards.resolve import locate
from a2a_bridge.codec import rounded
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.kinds import Kinds, check_options, check_values, require
from a2a_bridge.dialects import KNOWN, by_version
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.gateway.failover import dial_failover
from a2a_bridge.gateway.tasks import Tasks, scopes_by
from a2a_bridge.gateway.upstream import dial
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.middleware.validate import Offer
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Store

__all__ = [
    "EVERYTHING",
    "ServeOptions",
    "Server",
    "add_to_server",
    "asgi",
    "asgi_gateway",
    "connect",
    "guard",
    "guarded_agent",
    "guarded_gateway",
    "serve_agent",
    "serve_gateway",
    "serve_service",
]

_log = logging.getLogger("a2a_bridge.runtime")


@opened_as("async with serve(…) as server:", Agent.of)
async def serve_agent(
    agent: Agent | Any,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    *,
    host: ApplicationHost | None = None,
    shared: Shared | None = None,
) -> AsyncIterator[Server]:
    """Serves a hosted agent on the declared interfaces while the context is open.

    agent: an Agent, or an object that `Agent.of` takes. interfaces: see `a2a_bridge.interface`. host,
    shared: of `asgi` and `serve_agents`. Raises ValueError or LookupError for a declaration that cannot be
    served, TypeError for something else than an agent, interfaces or options, OSError for an address that
    cannot be listened on, StoreOpenError for a store that cannot be opened, UncheckedCredentialsError for a
    card that demands credentials which nothing here checks, AgentFactoryError for a factory that fails.
    """
    check_interfaces(interfaces)
    check_options(options, ServeOptions)
    options = add_metrics(options or ServeOptions())
    async with agent.open() as opened:
        check_credentials(opened.card, options)
        tasks = Tasks()
        remembered = Remembered(list_dialects(interfaces), tasks=tasks, registers=False)
        async with (
            admin_listener(options) as admin,
            agent_app(opened, options, remembered.legacy.names) as one,
            serve(
                Served(
                    one.service,
                    one.card,
                    close=one.close,
                    remembered=remembered,
                    documents=one.documents,
                    gauges=agent_gauges(options.name or opened.card.name, one),
                    memory=one.store.memory,
                ),
                interfaces,
                one.options,
                host=host,
                shared=shared,
                admin=admin,
            ) as server,
        ):
            tasks.count_in(one.store.memory)
            in_asgi = host is not None or (shared is not None and shared.grpc_here is not None)
            if in_asgi and one.store.remote is None:
                note_other_workers(opened.card.name)
            yield server


@opened_as("async with serve_gateway(…) as server:")
async def serve_gateway(
    card: hub.AgentCard,
    candidates: Sequence[Candidate],
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    dial_options: DialOptions | None = None,
    *,
    host: ApplicationHost | None = None,
    shared: Shared | None = None,
) -> AsyncIterator[Server]:
    """Serves a remote agent. candidates: its interfaces to dial, best first. host, shared: of
    `asgi_gateway` and `serve_agents`. Raises ValueError for contradictory options.
    """
    check_interfaces(interfaces)
    check_options(options, ServeOptions)
    check_options(dial_options, DialOptions, "dial_options")
    options = add_metrics(options or ServeOptions())
    plan = RemotePlan.of(card, candidates, options, dial_options)
    # Task names are easy to guess, and the agent may know its callers although the gateway does not.
    remembered = Remembered(list_dialects(interfaces), scopes_by(plan.dial_options.forward), plan.tasks)
    async with (
        admin_listener(options) as admin,
        gateway_app(plan, remembered.legacy.names) as one,
        serve(
            Served(
                one.service,
                plan.offered(card, candidates),
                rewrites_card=True,
                close=one.close,
                remembered=remembered,
                receivers=one.receivers,
                documents=one.documents,
                gauges=gateway_gauges(plan.name, one),
                memory=one.memory,
            ),
            interfaces,
            # Of several agents, a lost agent leaves the server ready for the others.
            options if shared is not None and shared.prefix else _ready_with(options, one),
            host=host,
            shared=shared,
            admin=admin,
        ) as server,
        follow_card(one, plan, server.replace_card),
    ):
        yield server


@opened_as("async with guarded_agent(…) as peer:", Agent.of)
async def guarded_agent(agent: Agent, options: ServeOptions | None = None) -> AsyncIterator[Peer]:
    """A hosted agent behind the middleware of a server, without a binding: for servers of other protocols.
    The principal is in the context of each call. Raises the errors of `serve_agent`.
    """
    options = options or ServeOptions()
    async with agent.open() as opened:
        check_credentials(opened.card, options)
        async with agent_app(opened, options, sends=False) as one:
            peer = Peer(guard(one.service, ServerSide(one.options, one.card)), one.card)
            peer.memory = one.store.memory
            yield peer
            await one.close(options.grace)


@opened_as("async with guarded_gateway(…) as peer:")
async def guarded_gateway(
    card: hub.AgentCard,
    candidates: Sequence[Candidate],
    options: ServeOptions | None = None,
    dial_options: DialOptions | None = None,
) -> AsyncIterator[Peer]:
    """A gateway without a binding: see `guarded_agent` and `serve_gateway`. Its card follows the agent's."""
    options = options or ServeOptions()
    plan = RemotePlan.of(card, candidates, options, dial_options)
    async with gateway_app(plan) as one:
        offered = plan.offered(card, candidates)
        offer = Offer(offered)
        peer = Peer(guard(one.service, ServerSide(options, offered, elsewhere=True, offer=offer)), offered)
        peer.memory = one.memory

        def show(changed: hub.AgentCard) -> None:
            offer.replace(changed)
            peer.card = changed

        async with follow_card(one, plan, show):
            yield peer


def _ready_with(options: ServeOptions, app: GatewayApp) -> ServeOptions:
    """Options whose readiness depends on the agent behind a gateway."""
    if options.host.rejection is not None:
        return options
    return replace(options, host=replace(options.host, rejection=app.rejection))


def check_credentials(card: hub.AgentCard, options: ServeOptions) -> None:
    """Raises UncheckedCredentialsError for a card that demands credentials which nothing here checks."""
    if card.security_requirements and not (identifies(options) or options.allow_unauthenticated):
        schemes = dict.fromkeys(name for one in card.security_requirements for name in one.schemes)
        raise UncheckedCredentialsError(card.name, tuple(schemes))


def asgi(
    agent: Agent | Any,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
) -> Any:
    """An agent as an ASGI 3 application: all bindings and the card, to be mounted anywhere.

    agent: an Agent, or an object that `Agent.of` takes. gRPC needs a server that sends HTTP trailers, and no
    mount path; without them it is rejected, and the card does not list it. gRPC-Web needs neither. The
    application starts at the lifespan's startup, or before the first request if there is no lifespan.
    Addresses in the card follow the mount path and trusted forwarded headers, also in an extended card
    without addresses. Only the paths of `interfaces` count. Raises ValueError or LookupError for a
    declaration that cannot be served; further errors of `serve_agent` fail the start: the lifespan's startup,
    or else each request, with UNAVAILABLE and the reason in the log.
    """
    agent = Agent.of(agent)
    check_options(options, ServeOptions)
    options = options or ServeOptions()
    if agent.is_open:
        check_credentials(agent.card, options)
    return application(interfaces, options, lambda host: serve_agent(agent, interfaces, options, host=host))


def asgi_gateway(
    card: hub.AgentCard,
    candidates: Sequence[Candidate],
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    dial_options: DialOptions | None = None,
) -> Any:
    """A gateway to a remote agent as an ASGI 3 application: see `asgi` and `serve_gateway`."""
    check_options(options, ServeOptions)
    check_options(dial_options, DialOptions, "dial_options")
    options = options or ServeOptions()
    return application(
        interfaces,
        options,
        lambda host: serve_gateway(card, candidates, interfaces, options, dial_options, host=host),
    )


def application(
    interfaces: Sequence[hub.AgentInterface],
    options: ServeOptions,
    serve: Callable[[ApplicationHost], AbstractAsyncContextManager[Server]],
) -> ApplicationHost:
    """What `serve` opens on a host, as an ASGI 3 application: see `asgi`."""
    check_interfaces(interfaces)
    if options.store is not None and not isinstance(options.store, str):
        require(options.store, Store)  # now, and not at the first request
    for one in interfaces:
        if place(one, options).family not in ("http", "grpc"):
            raise ValueError(f"{one.protocol_binding} cannot be served by an ASGI application")
    lifetime = Lifetime(lambda: serve(host))
    host = asgi_host(
        options.host_of("http"), startup=lifetime.start, close=lifetime.close, grace=options.grace
    )
    return host


def add_to_server(
    agent: Agent | Any,
    server: Any,
    *,
    options: ServeOptions | None = None,
    health: bool = False,
    reflection: bool = False,
) -> Engine:
    """Adds an agent's gRPC service to a grpc.aio server that the application starts and stops.

    agent: an Agent, or an object that `Agent.of` takes; a factory is opened first, by `Agent.open`. The
    address of that server is not known here, so an extended card keeps its own interfaces.
    health, reflection: add these services too. Returns the engine; await its `close(grace)` after the server
    has stopped to let running tasks finish. Raises ValueError for `options.admin`.
    """
    agent = Agent.of(agent)
    check_options(options, ServeOptions)
    options = options or ServeOptions()
    if options.admin is not None:
        raise ValueError("the server of the application has no `admin` of ours: set ServeOptions.metrics")
    if not agent.is_open:
        text = "open it first, `async with Agent.of(…).open() as opened:`, and add that"
        raise TypeError(f"{agent!r} has to be opened and closed, and the server here is not ours: {text}")
    check_credentials(agent.card, options)
    one = build_agent_app(agent, options)
    remembered = Remembered(KNOWN, registers=False)
    service = guard(StartsLazily(one), ServerSide(one.options, one.card, remembered))
    if options.metrics is not None:
        options.metrics.watch(agent_gauges(agent.card.name, one))
    host = one.options.host_of("grpc")
    grpc_attach(
        service,
        server,
        health=health,
        reflection=reflection,
        rejection=host.rejection,
        authenticate=host.authenticate,
        permit=host.permit,
    )
    return one.engine


_CHOICE: Kinds = dict.fromkeys(("binding", "version"), ((str,), "text"))


@opened_as("async with connect(…) as peer:", take_target)
async def connect(
    target: Agent | hub.AgentCard | hub.AgentInterface | str | Any,
    *,
    binding: str = "",
    version: str = "",
    options: DialOptions | None = None,
) -> AsyncIterator[Peer]:
    """A client to an agent while the context is open.

    target: a URL (of the agent or of its card), `host:port` or `grpc://…` of a gRPC agent, a card, one
    interface, or an Agent in this process (or an object that `Agent.of` takes), which is called without a
    socket. The first interface of the card that can be spoken is used, or the one of `binding`/`version`; the
    next one only when connecting fails.

    Raises A2AError: UNAVAILABLE or INVALID_AGENT_RESPONSE when there is no card to be had,
    UNSUPPORTED_OPERATION when it offers nothing usable. Raises TypeError for a target that is none of these,
    ValueError for an invalid one or an invalid entry of `DialOptions.credentials_for`, LookupError for an
    unknown binding or version.
    """
    check_values("connect", {"binding": binding, "version": version}, _CHOICE)
    check_options(options, DialOptions)
    options = options or DialOptions()
    binding = find(binding).kind.name if binding else ""
    if version and by_version(version) is None:
        raise LookupError(f"no version {version!r}; known: {', '.join(one.version for one in KNOWN)}")
    if isinstance(target, Agent):
        async with target.open() as agent, agent_app(agent, ServeOptions(), sends=False) as one:
            yield Peer(guard(one.service, ServerSide(one.options, one.card)), one.card)
        return
    card, candidates, options = await locate_agent(target, binding=binding, version=version, options=options)
    rounded.on_first = log_rounding
    dialling = dial_through(dial, ClientSide(tracing=options.tracing))
    async with dial_failover(candidates, options, dial=dialling) as service:
        yield Peer(service, card, candidates[0].interface)


async def locate_agent(
    target: hub.AgentCard | hub.AgentInterface | str,
    *,
    binding: str = "",
    version: str = "",
    options: DialOptions | None = None,
) -> tuple[hub.AgentCard, Sequence[Candidate], DialOptions]:
    """The agent's card, its interfaces to dial, best first, and the options for them; see `connect`."""
    options = options or DialOptions()
    if isinstance(target, hub.AgentInterface):
        target = hub.AgentCard(supported_interfaces=[target])
    elif isinstance(target, str) and "://" in target and not options.named:
        options = replace(options, named=target)
    destinations = Destinations(options)  # before the card is read: the named address may be wrong
    if isinstance(target, str):
        target, options = await _card_of(target, options)
    found = await destinations.check(select(target, known=names(), binding=binding, version=version))
    candidates = destinations.fallbacks(found)
    rejected = [one for one in found if one.rejection]
    for other in rejected:
        url = other.candidate.interface.url
        _log.warning("the card's interface %s is not used: it leads to %s", url, other.rejection)
    if not candidates:
        text = f"no interface of the card may be used: {'; '.join(other.rejection for other in rejected)}"
        raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
    return target, candidates, options


async def _card_of(target: str, options: DialOptions) -> tuple[hub.AgentCard, DialOptions]:
    """The card of a target, and the options for the implementation that it shows to be."""
    scheme = target.partition("://")[0].lower() if "://" in target else ""
    if scheme in ("http", "https"):
        async with http_fetch(options) as fetch:
            found = await locate(target, fetch, exact=options.exact, check=options.check_card)
        if found.fallback:
            _log.warning(
                "%s shows no card of its own; this is the agent %r of %s",
                target,
                found.card.name,
                found.location,
            )
        return found.card, options.with_profile(found.profile)
    if not scheme and place_of(target) is None and not target.startswith(("dns:", "unix:")):
        if target.endswith(".py"):
            raise ValueError(
                f"{target!r} is a file: import its agent, and give that; or start `a2a-bridge serve {target}`"
                " and give the URL that it prints"
            )
        raise ValueError(f"{target!r} names no port: write https://… for a URL, or host:port for gRPC")
    if scheme in ("", "grpc", "grpcs", "dns", "unix"):
        return hub.AgentCard(supported_interfaces=[interface("GRPC", target)]), options
    raise ValueError(f"{target!r} is neither an http(s) URL nor a gRPC address")
