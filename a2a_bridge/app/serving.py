"""Any service on the declared interfaces: middleware, hosts, card. It knows neither agents nor gateways.

Rules:
1. Declared interfaces are mounted, and the card lists exactly these.
2. Transports are reached by name only (`bindings.find`), so this module imports none of them.
3. Every service gets the same middleware, hosted agent and gateway alike: the rows of `layers.py`.
4. Callers choose the Host header. So a signed card has the addresses of the options and of the listeners
   only, and a public URL is needed where callers can use none of these. One document has the keys of
   cards and of notifications.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import cast

from a2a_bridge.app.admin import Admin, announce
from a2a_bridge.app.fronts import Fronts
from a2a_bridge.app.layers import MOUNT, SERVER, MountSide, Remembered, ServerSide, present
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.planning import (
    EVERYTHING,
    ServeOptions,
    check_ports,
    group,
    jsonrpc_paths,
    list_dialects,
    place,
)
from a2a_bridge.bindings.binding import (
    ApplicationHost,
    Document,
    DocumentHost,
    Host,
    HostOptions,
    ListenAddress,
    Receive,
    find,
)
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.cards import Advertisement, Mounted
from a2a_bridge.cards.build import WILDCARDS
from a2a_bridge.cards.page import agent_page
from a2a_bridge.codec import rounded
from a2a_bridge.core.service import Middleware, Service, compose
from a2a_bridge.gateway.cards import note_signatures, rewrite
from a2a_bridge.middleware.metrics import Gather, Metrics
from a2a_bridge.middleware.validate import Offer
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import profiles
from a2a_bridge.push import JWKS_PATH
from a2a_bridge.signing import CardSigner, merge_key_sets

_log = logging.getLogger("a2a_bridge.serving")


@dataclass(frozen=True, slots=True)
class Shared:
    """The part of hosts that several agents share which belongs to one agent. Its owner starts the hosts."""

    #: of the server
    options: ServeOptions
    #: the path of the agent
    prefix: str
    #: see `Advertisement`
    grpc_here: Callable[[], bool] | None
    #: middleware around everything of the agent
    wrap: Middleware
    #: the agent's part of a host; None for a host of its own
    host: Callable[[str, ListenAddress, HostOptions], Host | None]


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
        fronts: Fronts,
        *,
        secure: bool = False,
    ) -> None:
        self._hosts = hosts
        #: those that are open
        self.fronts = fronts
        #: the listener for operators; None without `ServeOptions.admin`
        self.admin: ListenAddress | None = None
        #: shows another card from now on, with the same interfaces, and offers its extensions
        self.replace_card = replace_card
        #: whether the HTTP listeners speak TLS
        self.secure = secure
        self._advertisement = advertisement
        self._close = close
        #: True once `drain` has begun
        self.draining = False

    @property
    def http(self) -> ListenAddress | None:
        """The first HTTP listener."""
        return next((host.address for (family, _), host in self._hosts.items() if family == "http"), None)

    @property
    def grpc(self) -> ListenAddress | None:
        """The first gRPC listener."""
        return next((host.address for (family, _), host in self._hosts.items() if family == "grpc"), None)

    @property
    def card(self) -> hub.AgentCard:
        """The card as a caller on this machine sees it."""
        return self._advertisement.card_with_tls()

    @property
    def cards(self) -> Mapping[str, hub.AgentCard]:
        """The card under the name "", as servers of several agents have theirs by name."""
        return {"": self.card}

    def card_at(self, url: str) -> hub.AgentCard:
        """The card as a caller at a base URL sees it."""
        return self._advertisement.card(url)

    @property
    def described(self) -> hub.AgentCard:
        """The card without addresses, to be read only; another object after each change of the card."""
        return self._advertisement.described

    async def drain(self, grace: float) -> None:
        """Rejects new work; running calls get `grace` seconds, then end as UNAVAILABLE. May be repeated."""
        if self.draining:
            return
        self.draining = True
        end = monotonic() + grace
        await asyncio.gather(*(host.drain(grace) for host in self._hosts.values()))
        # Tasks without callers get the rest of the same grace.
        await self._close(max(0.0, end - monotonic()))


def guard(service: Service, of: ServerSide) -> Service:
    """A service behind the layers of every server."""
    rounded.on_first = log_rounding
    return compose(service, *present(SERVER, of))


async def _nothing(grace: float) -> None:
    """The close function of a service without one."""


@dataclass(frozen=True, slots=True)
class Served:
    """A service with what belongs to it on a server."""

    service: Service
    card: hub.AgentCard
    #: the card and extended cards are a remote agent's: they get our addresses and lose their signatures
    rewrites_card: bool = False
    #: called with the grace after the hosts are drained
    close: Callable[[float], Awaitable[None]] = _nothing
    #: the memory of callers of 0.x, if it is shared
    remembered: Remembered | None = None
    #: handlers of POST requests below these paths of the first HTTP listener; without one: ValueError
    receivers: Mapping[str, Receive] = field(default_factory=dict)
    #: documents at these paths of the first HTTP listener, if any
    documents: Mapping[str, Document] = field(default_factory=dict)
    #: further metrics
    gauges: Gather | None = None
    #: the account of its process
    memory: MemoryAccount | None = None


@asynccontextmanager
async def serve_service(
    service: Service,
    card: hub.AgentCard,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    *,
    rewrites_card: bool = False,
) -> AsyncIterator[Server]:
    """Serves any service on the declared interfaces; see `serve_agent`.

    rewrites_card: the card, and extended cards that pass through, come from a remote agent: they get our
    addresses and lose their signatures.
    """
    async with serve(Served(service, card, rewrites_card), interfaces, options or ServeOptions()) as server:
        yield server


@asynccontextmanager
async def serve(
    served: Served,
    interfaces: Sequence[hub.AgentInterface],
    options: ServeOptions,
    *,
    host: ApplicationHost | None = None,
    shared: Shared | None = None,
    admin: Admin | None = None,
) -> AsyncIterator[Server]:
    """Serves a service on the declared interfaces. host: an application in place of listeners, which its
    owner starts and drains; only the paths of the interfaces count. shared: see `Shared`. admin: the listener
    of `options.admin`, if it is open already.
    """
    profiles()  # a broken entry point must fail the start, and not each call later
    options = add_metrics(options)
    rewrites = served.rewrites_card
    paths = jsonrpc_paths(served.card)
    signer = card_signer(options)

    def shown(card: hub.AgentCard) -> hub.AgentCard:
        if options.authentication is not None:
            card = options.authentication.describe(card)
        if rewrites:
            if signer is None:
                note_signatures(card)
            card = rewrite(card)
        return card

    card = shown(served.card)
    plan = _plan(interfaces, options, host)
    fronts = Fronts(options)
    fronts.check_paths(plan, paths if rewrites else ())
    secure = options.host_of("http").tls is not None
    advertisement = Advertisement(
        card,
        plan,
        options,
        card_address=None if host is None else options.http,
        secure=secure,
        grpc_secure=options.host_of("grpc").tls is not None,
        carries=rewrites,
        grpc_here=shared.grpc_here if shared is not None else _grpc_of(host),
        prefix="" if shared is None else shared.prefix,
        sign=None if signer is None else signer.sign,
    )
    offer = Offer(card) if rewrites else None
    service = guard(
        served.service,
        ServerSide(
            options,
            card,
            served.remembered or Remembered(list_dialects(one.interface for one in plan)),
            elsewhere=rewrites,
            offer=offer,
            advertisement=advertisement,
            counting=None if shared is None else shared.wrap,
        ),
    )
    peer = Peer(service, card)
    peer.memory = served.memory

    def replace_card(card: hub.AgentCard) -> None:
        card = peer.card = shown(card)
        if offer is not None:
            offer.replace(card)
        advertisement.replace(card)

    if host is not None:
        host.options = replace(options.host_of("http"), jsonrpc_paths=paths)
        host.cards = lambda url: {"": advertisement.card(url)}
    hosts = _mount(service, plan, options, paths, host, shared)
    http = host or next((found for (family, _), found in hosts.items() if family == "http"), None)
    if signer is not None:
        check_signable(plan, options, serves=http is not None, mounted=host is not None)
    if http is not None:
        _publish(cast("DocumentHost", http), advertisement, served, signer, fronts)
    elif served.receivers:
        raise ValueError("notifications cannot be relayed without an HTTP interface")

    async def close(grace: float) -> None:
        await fronts.close(grace)
        await served.close(grace)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(fronts.close, 0)
        if http is not None:
            # The only agent of a file is served as the agent of a command is.
            name = options.name if shared is not None and shared.prefix else ""
            await fronts.start(cast("DocumentHost", http), lambda _, front, *of: front.open(peer, *of, name))
        for opened in hosts.values():
            await opened.start()
            stack.push_async_callback(opened.drain, 0)
        stack.pop_all()
    if host is None:
        advertisement.settle(
            [replace(one, address=hosts[one.family, one.address].address) for one in plan],
            http.address if http is not None else None,
        )
    server = Server(hosts, advertisement, close, replace_card, fronts, secure=secure)
    try:
        async with announce(server, options, admin, host, served.gauges, whole=shared is None):
            yield server
    finally:
        await server.drain(options.grace)


def _plan(
    interfaces: Sequence[hub.AgentInterface], options: ServeOptions, host: ApplicationHost | None
) -> list[Mounted]:
    """Where the declared interfaces are. Raises ValueError for interfaces that cannot be served there."""
    if not interfaces:
        raise ValueError("no interfaces are declared, so there is nothing to serve")
    plan = [place(one, options) for one in interfaces]
    if host is not None:
        return [replace(one, address=options.http) for one in plan]
    secure = options.host_of("http").tls is not None
    for one in interfaces:
        # An error is better than plain text in place of TLS.
        if one.url.lower().startswith("https://") and not secure:
            raise ValueError(f"{one.url!r} needs TLS, and ServeOptions.tls is not set")
    check_ports(plan)
    return plan


def _mount(
    service: Service,
    plan: Sequence[Mounted],
    options: ServeOptions,
    paths: tuple[str, ...],
    application: ApplicationHost | None,
    shared: Shared | None,
) -> dict[tuple[str, ListenAddress], Host]:
    """Mounts a service on hosts, which are not started; none with an application. paths: see HostOptions."""
    hosts: dict[tuple[str, ListenAddress], Host] = {}
    for (family, address, path), mounts in group(plan).items():
        mounted = application or hosts.get((family, address))
        for kind, dialects in mounts.items():
            binding = find(kind)
            if mounted is None:
                host_options = replace(options.host_of(family), jsonrpc_paths=paths)
                own = None if shared is None else shared.host(family, address, host_options)
                mounted = hosts[family, address] = own or binding.host(address, host_options)
            side = MountSide(binding.kind, kind, options.host_of(family).authenticate is not None)
            binding.mount(mounted, path, compose(service, *present(MOUNT, side)), dialects)
    return hosts


def _grpc_of(host: ApplicationHost | None) -> Callable[[], bool] | None:
    return None if host is None else lambda: bool(host.trailers)


def _publish(
    host: DocumentHost,
    advertisement: Advertisement,
    served: Served,
    signer: CardSigner | None,
    fronts: Fronts,
) -> None:
    for path in advertisement.paths():
        host.publish(path, advertisement.at(path), advertisement.variant_at(path))
    host.front(lambda url: agent_page(advertisement.card(url), url, fronts.addresses(url)))
    for path, document in with_keys(served.documents, signer).items():
        host.publish(path, document)
    for path, receive in served.receivers.items():
        host.receive(path, receive)


def log_rounding(path: str) -> None:
    """Logs the first number that was rounded."""
    _log.warning(
        "%s holds an integer that no double can hold, or a number beyond 64 bits; it was rounded, as protobuf"
        " does. "
        "Logged once: further ones are only counted",
        path or "a message",
    )


def card_signer(options: ServeOptions) -> CardSigner | None:
    """Signs the card; None without keys. Raises ValueError for keys that cannot."""
    if not options.card_signing_keys:
        return None
    public = options.public_url.rstrip("/")
    return CardSigner(options.card_signing_keys, jku=f"{public}{JWKS_PATH}" if public else "")


def check_signable(plan: Sequence[Mounted], options: ServeOptions, *, serves: bool, mounted: bool) -> None:
    """Raises ValueError if the card would have no addresses of its own to sign. serves: whether there is an
    HTTP listener. mounted: whether that listener is an application.
    """
    if not serves:
        raise ValueError("a signed card needs an HTTP interface, which serves it")
    if options.public_url:
        return
    named = [one.address for one in plan if one.family != "grpc" or not options.public_grpc]
    wild = next((one for one in named if one.host in WILDCARDS), None)
    if wild is not None or mounted:
        where = "an ASGI application" if wild is None else str(wild)
        raise ValueError(
            f"a signed card needs `public_url`: callers choose the Host header, and {where} is no address"
            " for a card"
        )


def with_keys(documents: Mapping[str, Document], signer: CardSigner | None) -> Mapping[str, Document]:
    """The documents with the keys of the signer, beside other keys at the same path."""
    if signer is None:
        return documents
    own, others = signer.jwks(), documents.get(JWKS_PATH)
    keys = own if others is None else merge_key_sets([others(""), own])
    return {**documents, JWKS_PATH: lambda _: keys}


def add_metrics(options: ServeOptions) -> ServeOptions:
    """Options with the metrics that their `admin` asks for."""
    if options.admin is None or options.metrics is not None:
        return options
    return replace(options, metrics=Metrics())
