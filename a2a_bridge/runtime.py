"""The composition root: puts hosts, bindings, services and cards together. It implements none of them.

Rules:
1. Declared interfaces are mounted, and the card lists exactly these.
2. Transports are reached by name only (`bindings.find`), so this module imports none of them.
3. Every served service gets the same middleware, hosted agent and gateway alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from time import monotonic
from typing import Any, cast

from a2a_bridge.agent_app import agent_app, build_agent_app, start_lazily
from a2a_bridge.asgi_lifetime import Lifetime
from a2a_bridge.auth import authorise, describe_extended_card
from a2a_bridge.bindings import (
    ApplicationHost,
    DialOptions,
    Document,
    DocumentHost,
    Host,
    ListenAddress,
    Receive,
    asgi_host,
    find,
    grpc_attach,
    http_fetch,
    names,
)
from a2a_bridge.cards import Advertisement, Candidate, interface, select
from a2a_bridge.cards.resolve import locate
from a2a_bridge.codec import rounded
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.resume import offers_resume
from a2a_bridge.core.scope import scope_of
from a2a_bridge.core.service import Middleware, Service, compose
from a2a_bridge.dialects import KNOWN, V1_0, Dialect, older_versions
from a2a_bridge.gateway import (
    dialled,
    legacy,
    note_signatures,
    rewrite,
    rewrite_extended_card,
)
from a2a_bridge.gateway.card_refresh import CardReading
from a2a_bridge.gateway.credentials import TokenExchange, note_mismatch
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.gateway.index import visible_to
from a2a_bridge.gateway_app import dialling, gateway_app, offered, refreshed
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.middleware import access_log, deadline, extensions, limits, usage, validate
from a2a_bridge.middleware.extensions import Offer
from a2a_bridge.middleware.stream_compat import stream_compat
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peer import Peer
from a2a_bridge.planning import (
    EVERYTHING,
    ServeOptions,
    declared_dialects,
    dialects_of,
    grouped,
    identifies,
    jsonrpc_paths,
    placed,
)
from a2a_bridge.push import Registrations, push_memory
from a2a_bridge.shared_listener import note_other_workers

__all__ = [
    "EVERYTHING",
    "ServeOptions",
    "Server",
    "add_to_server",
    "asgi",
    "asgi_gateway",
    "connect",
    "guarded",
    "serve_agent",
    "serve_gateway",
    "serve_service",
]

_log = logging.getLogger(__name__)


class Remembered:
    """The state of one server for callers of 0.x, in memory: their push registrations and their names of
    tasks.

    registers: whether registrations are remembered here, because the service does not store them.
    """

    def __init__(
        self, dialects: Sequence[Dialect], scoped: legacy.ScopeOf = scope_of, *, registers: bool = True
    ) -> None:
        self.registrations = Registrations() if registers else None
        self.legacy = legacy.remembered(dialects, scoped)


class Server:
    """A running server.

    http, grpc: the first listener of each family; None without one.
    """

    def __init__(
        self,
        hosts: dict[tuple[str, ListenAddress], Host],
        advertisement: Advertisement,
        close: Callable[[float], Awaitable[None]],
        replace_card: Callable[[hub.AgentCard], None],
        *,
        secure: bool = False,
    ) -> None:
        self._hosts = hosts
        self._replace_card = replace_card
        self._secure = secure
        self._advertisement = advertisement
        self._close = close
        self._drained = False

    @property
    def http(self) -> ListenAddress | None:
        """The first HTTP listener."""
        return next((host.address for (family, _), host in self._hosts.items() if family == "http"), None)

    @property
    def grpc(self) -> ListenAddress | None:
        """The first gRPC listener."""
        return next((host.address for (family, _), host in self._hosts.items() if family == "grpc"), None)

    @property
    def secure(self) -> bool:
        """Whether the HTTP listeners speak TLS."""
        return self._secure

    @property
    def card(self) -> hub.AgentCard:
        """The card as a caller on this machine sees it."""
        return self._advertisement.card()

    def replace_card(self, card: hub.AgentCard) -> None:
        """Shows another card from now on, with the same interfaces, and offers its extensions."""
        self._replace_card(card)

    async def drain(self, grace: float) -> None:
        """Refuses new work; running calls get `grace` seconds, the rest ends as UNAVAILABLE. May be
        repeated.
        """
        if self._drained:
            return
        self._drained = True
        end = monotonic() + grace
        await asyncio.gather(*(host.drain(grace) for host in self._hosts.values()))
        # Tasks without callers get the rest of the same grace.
        await self._close(max(0.0, end - monotonic()))


def guarded(
    service: Service,
    card: hub.AgentCard,
    options: ServeOptions,
    dialects: Sequence[Dialect] = (V1_0,),
    remembered: Remembered | None = None,
    *,
    elsewhere: bool = False,
    offer: Offer | None = None,
) -> Service:
    """A service behind the middleware of every server.

    dialects: the served versions; middleware for 0.x is added only with them. remembered: the memory of
    callers of
    0.x, if it is shared. elsewhere: see `validate`. offer: the extensions of the card, if it can change.
    """
    rounded.on_first = _log_rounding
    bounds = options.limits
    counted = () if options.usage is None else (usage(options.usage),)
    older: tuple[Middleware, ...] = ()
    if older_versions(dialects):
        remembered = remembered or Remembered(dialects)
        known = remembered.registrations
        memory = () if known is None else (push_memory(known, dialects),)
        older = (*remembered.legacy.middleware, *memory, stream_compat(dialects))
    return compose(
        service,
        *counted,
        access_log(),
        # Outside of the middleware that looks tasks up: a caller without access learns nothing of them.
        authorise(options.access_rules),
        deadline(),
        *older,
        validate(elsewhere=elsewhere),
        extensions(offer or card),
        *options.middleware,
        # Inside the middleware of the options, which may authenticate the caller.
        limits(calls=bounds.calls, streams=bounds.streams, parts=bounds.parts),
    )


@asynccontextmanager
async def serve_agent(
    agent: Agent,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    *,
    host: ApplicationHost | None = None,
) -> AsyncIterator[Server]:
    """Serves a hosted agent on the declared interfaces while the context is open.

    interfaces: see `a2a_bridge.cards.interface`. host: see `serve_service`. Raises ValueError or LookupError
    for a declaration that cannot be served, OSError for an address that cannot be listened on, StoreOpenError
    for a store that cannot be opened.
    """
    options = options or ServeOptions()
    _note_unchecked(agent.card, options)
    remembered = Remembered(declared_dialects(interfaces), registers=False)
    async with (
        agent_app(agent, options, remembered.legacy.names) as one,
        serve_service(
            one.service,
            one.card,
            interfaces,
            one.options,
            close=one.close,
            remembered=remembered,
            documents=one.documents,
            host=host,
        ) as server,
    ):
        if host is not None and one.store.remote is None:
            note_other_workers(agent.card.name)
        yield server


@asynccontextmanager
async def serve_gateway(
    card: hub.AgentCard,
    candidates: Sequence[Candidate],
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    dial_options: DialOptions | None = None,
    *,
    host: ApplicationHost | None = None,
) -> AsyncIterator[Server]:
    """Serves a remote agent. candidates: its interfaces to dial, best first. host: see `serve_service`.

    Raises ValueError for contradictory options.
    """
    options = options or ServeOptions()
    dial_options = dial_options or DialOptions(timeout=None)
    if options.authentication is not None and not options.pass_credentials:
        forward = dial_options.forward - options.authentication.parameters
        dial_options = replace(dial_options, forward=forward)
    credentials = options.upstream.credentials
    if isinstance(credentials, TokenExchange) and not identifies(options):
        raise ValueError("token exchange needs a gateway that authenticates its callers with bearer tokens")
    note_mismatch(card, credentials, dial_options.tls)
    # Task names are easy to guess, and the agent may know its callers although the gateway does not.
    remembered = Remembered(declared_dialects(interfaces), visible_to)
    dial = dialling(options.list_tasks_memory, options.upstream)
    names = remembered.legacy.names
    resumes = offers_resume(card)
    async with (
        gateway_app(candidates, options, dial_options, dial=dial, resumes=resumes, names=names) as one,
        serve_service(
            one.service,
            offered(card, candidates, options),
            interfaces,
            options,
            close=one.close,
            rewrites_card=True,
            remembered=remembered,
            receivers=one.receivers,
            documents=one.documents,
            host=host,
        ) as server,
        refreshed(one, CardReading(card, candidates), options, server.replace_card),
    ):
        yield server


def _note_unchecked(card: hub.AgentCard, options: ServeOptions) -> None:
    """Logs that a card asks for credentials which nothing here checks."""
    if card.security_requirements and not identifies(options):
        schemes = dict.fromkeys(name for one in card.security_requirements for name in one.schemes)
        _log.warning(
            "the card of %r asks for credentials (%s), and nothing here checks them: every caller is let in",
            card.name,
            ", ".join(schemes),
        )


@asynccontextmanager
async def serve_service(
    service: Service,
    card: hub.AgentCard,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    *,
    close: Callable[[float], Awaitable[None]] | None = None,
    rewrites_card: bool = False,
    remembered: Remembered | None = None,
    receivers: Mapping[str, Receive] | None = None,
    documents: Mapping[str, Document] | None = None,
    host: ApplicationHost | None = None,
) -> AsyncIterator[Server]:
    """Serves any service on the declared interfaces; see `serve_agent`.

    close: called with the grace after the hosts are drained. rewrites_card: the card, and extended cards that
    pass
    through, come from a remote agent: they get our addresses and lose their signatures. remembered: the
    memory of callers of 0.x, if it is shared. receivers: handlers of POST requests below these paths of the
    first HTTP listener; without one: ValueError. documents: documents at these paths of the first HTTP
    listener, if any. host: an application that takes all interfaces in place of listeners; of their
    declarations only the paths count. Its owner starts and drains it.
    """
    options = options or ServeOptions()
    paths = jsonrpc_paths(card)
    if options.authentication is not None:
        service = compose(service, describe_extended_card(options.authentication))

    def shown(card: hub.AgentCard) -> hub.AgentCard:
        if options.authentication is not None:
            card = options.authentication.describe(card)
        if rewrites_card:
            note_signatures(card)
            card = rewrite(card)
        return card

    card = shown(card)
    if not interfaces:
        raise ValueError("no interfaces are declared, so there is nothing to serve")
    plan = [placed(one, options) for one in interfaces]
    if host is not None:
        plan = [replace(one, address=options.http) for one in plan]
    for one in interfaces:
        # An error is better than plain text in place of TLS.
        if host is None and one.url.lower().startswith("https://") and options.host.tls is None:
            raise ValueError(f"{one.url!r} needs TLS, and HostOptions.tls is not set")
    hosts: dict[tuple[str, ListenAddress], Host] = {}
    advertisement = Advertisement(
        card,
        plan,
        card_address=None if host is None else options.http,
        public_url=options.public_url,
        public_grpc=options.public_grpc,
        secure=options.host.tls is not None,
        grpc_urls=options.grpc_urls,
        bindings=options.advertise,
        versions=options.card_versions,
        grpc_secure=options.host_of("grpc").tls is not None,
        carries=rewrites_card,
        grpc_here=None if host is None else lambda: bool(host.trailers),
    )
    if rewrites_card or card.capabilities.extended_agent_card:
        service = compose(
            service,
            _addressed(advertisement, only_missing=not rewrites_card, resumes=offers_resume(card)),
        )
    offer = Offer(card) if rewrites_card else None
    service = guarded(
        service, card, options, dialects_of(plan), remembered, elsewhere=rewrites_card, offer=offer
    )

    def replace_card(card: hub.AgentCard) -> None:
        card = shown(card)
        if offer is not None:
            offer.replace(card)
        advertisement.replace(card)

    if host is not None:
        host.options = replace(options.host_of("http"), jsonrpc_paths=paths)
        host.card = advertisement.card
    for (family, address, path), group in grouped(plan).items():
        mounted = host or hosts.get((family, address))
        for kind, dialects in group.items():
            binding = find(kind)
            if mounted is None:
                host_options = replace(options.host_of(family), jsonrpc_paths=paths)
                mounted = hosts[family, address] = binding.host(address, host_options)
            binding.mount(mounted, path, service, dialects)
    http = host or next((found for (family, _), found in hosts.items() if family == "http"), None)
    if http is not None:
        _publish(cast("DocumentHost", http), advertisement)
        for path, document in (documents or {}).items():
            cast("DocumentHost", http).publish(path, document)
    for path, receive in (receivers or {}).items():
        if http is None:
            raise ValueError("notifications cannot be relayed without an HTTP interface")
        cast("DocumentHost", http).receive(path, receive)
    async with AsyncExitStack() as stack:
        for opened in hosts.values():
            await opened.start()
            stack.push_async_callback(opened.drain, 0)
        stack.pop_all()
    if host is None:
        advertisement.settle(
            [replace(one, address=hosts[one.family, one.address].address) for one in plan],
            http.address if http is not None else None,
        )
    secure = options.host.tls is not None
    server = Server(hosts, advertisement, close or _nothing, replace_card, secure=secure)
    try:
        yield server
    finally:
        await server.drain(options.grace)


def asgi(
    agent: Agent,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
) -> Any:
    """An agent as an ASGI 3 application: all bindings and the card, to be mounted anywhere.

    gRPC needs a server that sends HTTP trailers, and no mount path; without them it is refused, and the card
    does not list it. gRPC-Web needs neither. The application starts at the lifespan's startup, or before the
    first request if there is no lifespan. Addresses in the card follow the mount path and trusted forwarded
    headers, also in an extended card without addresses. Only the paths of `interfaces` count. Raises
    ValueError or LookupError for a declaration that cannot be served; further errors of `serve_agent` fail
    the start: the lifespan's startup, or else each request, with UNAVAILABLE and the reason in the log.
    """
    options = options or ServeOptions()
    return _application(interfaces, options, lambda host: serve_agent(agent, interfaces, options, host=host))


def asgi_gateway(
    card: hub.AgentCard,
    candidates: Sequence[Candidate],
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    dial_options: DialOptions | None = None,
) -> Any:
    """A gateway to a remote agent as an ASGI 3 application: see `asgi` and `serve_gateway`."""
    options = options or ServeOptions()
    return _application(
        interfaces,
        options,
        lambda host: serve_gateway(card, candidates, interfaces, options, dial_options, host=host),
    )


def _application(
    interfaces: Sequence[hub.AgentInterface],
    options: ServeOptions,
    serve: Callable[[ApplicationHost], AbstractAsyncContextManager[Server]],
) -> ApplicationHost:
    for one in interfaces:
        if placed(one, options).family not in ("http", "grpc"):
            raise ValueError(f"{one.protocol_binding} cannot be served by an ASGI application")
    lifetime = Lifetime(lambda: serve(host))
    host = asgi_host(
        options.host_of("http"), startup=lifetime.start, close=lifetime.close, grace=options.grace
    )
    return host


def _addressed(
    advertisement: Advertisement, *, only_missing: bool = True, resumes: bool = False
) -> Middleware:
    """Middleware that gives extended cards the interfaces of the public card, as this caller sees them."""
    # With several listeners, the base URL of a call may belong to another listener than the card's.
    alone = len({one.address for one in advertisement.mounted if one.family == "http"}) == 1

    def interfaces(context: CallContext) -> Iterable[hub.AgentInterface]:
        return advertisement.card(context.origin.base_url if alone else "").supported_interfaces

    return rewrite_extended_card(interfaces, only_missing=only_missing, resumes=resumes)


def _publish(host: DocumentHost, advertisement: Advertisement) -> None:
    for path in advertisement.paths():
        host.publish(path, advertisement.at(path), advertisement.variant_at(path))


def add_to_server(
    agent: Agent,
    server: Any,
    *,
    options: ServeOptions | None = None,
    health: bool = False,
    reflection: bool = False,
) -> Engine:
    """Adds an agent's gRPC service to a grpc.aio server that the application starts and stops.

    The address of that server is not known here, so an extended card keeps its own interfaces.
    health, reflection: add these services too. Returns the engine; await its `close(grace)` after the
    server has stopped to let running tasks finish.
    """
    one = build_agent_app(agent, options or ServeOptions())
    service = guarded(start_lazily(one), one.card, one.options, KNOWN, Remembered(KNOWN, registers=False))
    host = one.options.host_of("grpc")
    grpc_attach(
        service,
        server,
        health=health,
        reflection=reflection,
        refusal=host.refusal,
        authenticate=host.authenticate,
    )
    return one.engine


@asynccontextmanager
async def connect(
    target: Agent | hub.AgentCard | hub.AgentInterface | str,
    *,
    binding: str = "",
    version: str = "",
    options: DialOptions | None = None,
) -> AsyncIterator[Peer]:
    """A client to an agent while the context is open.

    target: a URL (of the agent or of its card), `host:port` or `grpc://…` of a gRPC agent, a card, one
    interface, or an Agent in this process, which is called without a socket. The first interface of the
    card that can be spoken is used, or the one of `binding`/`version`; the next one only when connecting
    fails.

    Raises A2AError: UNAVAILABLE or INVALID_AGENT_RESPONSE when there is no card to be had,
    UNSUPPORTED_OPERATION when it offers nothing usable. Raises ValueError for an invalid target or entry of
    `DialOptions.credentials_for`.
    """
    options = options or DialOptions()
    if isinstance(target, Agent):
        async with agent_app(target, ServeOptions(), sends=False) as one:
            yield Peer(guarded(one.service, one.card, one.options), one.card)
        return
    if isinstance(target, hub.AgentInterface):
        target = hub.AgentCard(supported_interfaces=[target])
    elif isinstance(target, str):
        if "://" in target and not options.named:
            options = replace(options, named=target)
        target, options = await _card_of(target, options)
    destinations = Destinations(options)
    found = await destinations.vetted(select(target, known=names(), binding=binding, version=version))
    candidates = destinations.fallbacks(found)
    refused = [one for one in found if one.refusal]
    for other in refused:
        url = other.candidate.interface.url
        _log.warning("the card's interface %s is not used: it leads to %s", url, other.refusal)
    if not candidates:
        text = f"no interface of the card may be used: {'; '.join(other.refusal for other in refused)}"
        raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
    rounded.on_first = _log_rounding
    async with dialled(candidates, options, dial=dialling()) as service:
        yield Peer(service, target, candidates[0].interface)


async def _card_of(target: str, options: DialOptions) -> tuple[hub.AgentCard, DialOptions]:
    """The card of a target, and the options for the implementation that it shows to be."""
    scheme = target.partition("://")[0].lower() if "://" in target else ""
    if scheme in ("http", "https"):
        async with http_fetch(options) as fetch:
            found = await locate(target, fetch, exact=options.exact)
        if found.fallback:
            _log.warning(
                "%s shows no card of its own; this is the agent %r of %s",
                target,
                found.card.name,
                found.location,
            )
        return found.card, options.recognised(found.profile)
    if scheme in ("", "grpc", "grpcs", "dns", "unix"):
        return hub.AgentCard(supported_interfaces=[interface("GRPC", target)]), options
    raise ValueError(f"{target!r} is neither an http(s) URL nor a gRPC address")


def _log_rounding(path: str) -> None:
    _log.warning(
        "%s holds an integer that no double can hold, or a number beyond 64 bits; it was rounded, as protobuf"
        " does. "
        "Logged once: further ones are only counted",
        path or "a message",
    )


async def _nothing(grace: float) -> None:
    """The close function of a service without one."""
