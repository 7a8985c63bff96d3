"""The layers of a call: the middleware of every server, gateway and client, in the order of the tables below.

Rules:
1. Every composition takes its middleware from these rows: a server with listeners or as an application, one
   of several agents, a front without a binding, and a client. A call passes the rows from the first to the
   last.
2. A row decides alone whether it is there. The owner of the composition opens resources that a row needs.
3. Between GATEWAY and CLIENT are the connections of a gateway: `gateway/connections.py` orders their parts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.auth import LiveRules, authorise, describe_extended_card
from a2a_bridge.auth.authentication import reject_unidentified
from a2a_bridge.auth.rules import end_lapsed_calls
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Advertisement, Candidate
from a2a_bridge.cards.read import change_extended_card
from a2a_bridge.cards.select import without_security
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.callers import ScopeOf, scope_of
from a2a_bridge.core.resume import offers_resume
from a2a_bridge.core.service import Middleware, Service, compose
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, BindingKind, Dialect, older_versions
from a2a_bridge.gateway import legacy
from a2a_bridge.gateway.cards import rewrite_extended_card
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.credentials.sending import add_credentials
from a2a_bridge.gateway.ownership import Owners, Ownership
from a2a_bridge.gateway.polyfill import add_polyfill
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.gateway.upstream import Dial
from a2a_bridge.middleware import access_log, deadline, extensions, usage, validate
from a2a_bridge.middleware.limits import LiveLimits
from a2a_bridge.middleware.metrics import Metrics
from a2a_bridge.middleware.stream_compat import stream_compat
from a2a_bridge.middleware.tracing import TRACE_PARAMETERS, Tracing, client_spans, server_spans, tracer_of
from a2a_bridge.middleware.validate import Offer
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import Registrations, push_memory

#: kinds of bindings that identify callers; one of another package may ignore HostOptions.authenticate
_OWN = (JSONRPC, HTTP_JSON, GRPC)

_Of = TypeVar("_Of")
_Inner = TypeVar("_Inner")


@dataclass(frozen=True, slots=True)
class Layer(Generic[_Of, _Inner]):
    """A row: one layer of a kind of composition."""

    name: str
    #: the condition, for the table of the documentation
    when: str
    #: the functions that wrap the inner service or dial, the outermost first; empty if the layer is absent.
    #: A function may return the inner one, which also means that the layer is absent
    make: Callable[[_Of], Sequence[Callable[[_Inner], _Inner]]]


def present(rows: Iterable[Layer[_Of, _Inner]], of: _Of) -> list[Callable[[_Inner], _Inner]]:
    """The layers that a composition has, the outermost first."""
    return [wrap for row in rows for wrap in row.make(of)]


# ------------------------------------------------------------------ where a binding calls a service


@dataclass(frozen=True, slots=True)
class MountSide:
    """A binding on a host."""

    kind: BindingKind[Any, Any]
    #: the name of the binding as it was declared
    name: str
    #: whether the host identifies callers
    identifies: bool


def _identified(of: MountSide) -> Sequence[Middleware]:
    return (reject_unidentified(of.name),) if of.identifies and of.kind not in _OWN else ()


MOUNT: Sequence[Layer[MountSide, Service]] = (
    Layer("unidentified callers", "callers are authenticated, and the binding is not ours", _identified),
)

# ------------------------------------------------------------------ around the service of a server


class Remembered:
    """The state of one server for callers of 0.x, in memory: push registrations and names of tasks. dialects:
    the served versions. tasks: keeps the names; None for a table of their own. registers: whether
    registrations are remembered here, because the service does not store them.
    """

    def __init__(
        self,
        dialects: Sequence[Dialect],
        scoped: ScopeOf = scope_of,
        tasks: Tasks | None = None,
        *,
        registers: bool = True,
    ) -> None:
        self.dialects = tuple(dialects)
        self.registrations = Registrations() if registers else None
        self.legacy = legacy.build_legacy(dialects, scoped, tasks)


@dataclass(frozen=True, slots=True)
class ServerSide:
    """A service that is served."""

    options: ServeOptions
    #: as callers see it, but for its addresses
    card: hub.AgentCard
    #: of the served versions; None: 1.0 only
    remembered: Remembered | None = None
    #: whether the agent is remote; see `validate`
    elsewhere: bool = False
    #: the extensions of the card, if it can change
    offer: Offer | None = None
    #: the addresses; None without a binding
    advertisement: Advertisement | None = None
    #: of one of several agents: see `Shared.wrap`
    counting: Middleware | None = None

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self.options.name or self.card.name


def _for_older(
    make: Callable[[Remembered], Sequence[Middleware]],
) -> Callable[[ServerSide], Sequence[Middleware]]:
    """Layers of servers with a version before 1.0."""

    def made(of: ServerSide) -> Sequence[Middleware]:
        known = of.remembered
        return make(known) if known is not None and older_versions(known.dialects) else ()

    return made


def _spans(of: ServerSide) -> Sequence[Middleware]:
    tracer = tracer_of(of.options.tracing)
    return () if tracer is None else (server_spans(tracer),)


def _registrations(known: Remembered) -> Sequence[Middleware]:
    return () if known.registrations is None else (push_memory(known.registrations, known.dialects),)


def _lapsed(of: ServerSide) -> Sequence[Middleware]:
    options = of.options
    rules = options.access_rules if isinstance(options.access_rules, LiveRules) else None
    return (end_lapsed_calls(options.authentication, rules, options.name),)


def _limits(of: ServerSide) -> Sequence[Middleware]:
    limits = of.options.limits
    return ((limits if isinstance(limits, LiveLimits) else LiveLimits(limits)).wrap,)


def _addressed(of: ServerSide) -> Sequence[Middleware]:
    """Gives extended cards the interfaces of the public card, as this caller sees them."""
    advertisement = of.advertisement
    if advertisement is None or not (of.elsewhere or of.card.capabilities.extended_agent_card):
        return ()
    # With several listeners, the base URL of a call may belong to another listener than the card's.
    alone = len({one.address for one in advertisement.mounted if one.family == "http"}) == 1

    def interfaces(context: CallContext) -> Iterable[hub.AgentInterface]:
        return advertisement.card(context.origin.base_url if alone else "").supported_interfaces

    resumes = offers_resume(of.card)
    return (rewrite_extended_card(interfaces, only_missing=not of.elsewhere, resumes=resumes),)


def _described(of: ServerSide) -> Sequence[Middleware]:
    authentication = of.options.authentication
    if of.advertisement is None or authentication is None:
        return ()
    return (describe_extended_card(authentication),)


SERVER: Sequence[Layer[ServerSide, Service]] = (
    Layer(
        "count of running calls",
        "one of several agents",
        lambda of: () if of.counting is None else (of.counting,),
    ),
    Layer("spans of the server", "tracing", _spans),
    Layer(
        "metrics of the server",
        "metrics",
        lambda of: () if of.options.metrics is None else (of.options.metrics.server_middleware(of.agent),),
    ),
    Layer(
        "usage by caller",
        "`ServeOptions.usage`",
        lambda of: () if of.options.usage is None else (usage(of.options.usage),),
    ),
    Layer("access log", "always", lambda of: (access_log(agent=of.agent),)),
    # Outside of the layers that look tasks up: a caller without access learns nothing of them.
    Layer(
        "access rules",
        "access rules",
        lambda of: (authorise(of.options.access_rules, of.options.name),),
    ),
    Layer("end of lapsed calls", "authentication, or access rules that can change", _lapsed),
    Layer("deadline", "always", lambda _: (deadline(),)),
    Layer(
        "names of tasks for 0.1",
        "0.1 is served",
        _for_older(lambda known: known.legacy.middleware),
    ),
    Layer(
        "push registrations of 0.x",
        "0.x is served, and the service does not store them",
        _for_older(_registrations),
    ),
    Layer(
        "shape of streams for 0.x",
        "0.x is served",
        _for_older(lambda known: (stream_compat(known.dialects),)),
    ),
    Layer("required members", "always", lambda of: (validate(elsewhere=of.elsewhere),)),
    Layer(
        "extensions", "the card has extensions, or can change", lambda of: (extensions(of.offer or of.card),)
    ),
    Layer(
        "middleware of the application", "`ServeOptions.middleware`", lambda of: tuple(of.options.middleware)
    ),
    # Inside the middleware of the application, which may authenticate the caller.
    Layer("limits of a caller", "always", _limits),
    Layer(
        "addresses in the extended card",
        "bindings, and a remote agent or an extended card",
        _addressed,
    ),
    Layer("methods of the edge in the extended card", "bindings, and authentication", _described),
)

# ------------------------------------------------------------------ around the connections of a gateway


@dataclass(frozen=True, slots=True)
class GatewaySide:
    """The connections of a gateway to its agent."""

    options: ServeOptions
    tasks: Tasks
    #: None: the tasks of callers are not kept apart
    owners: Owners | None = None
    #: makes the relay of notifications
    relay: Middleware | None = None


def _ownership(of: GatewaySide) -> Sequence[Middleware]:
    owners = of.owners
    if owners is None:
        return ()
    lists = of.tasks if of.tasks.most_listed else None
    unowned = of.options.task_access == "unowned"
    return (lambda service: Ownership(service, owners, unowned=unowned, tasks=lists),)


def _unsecured(of: GatewaySide) -> Sequence[Middleware]:
    if of.options.upstream.credentials is None:
        return ()
    return (change_extended_card(lambda card, _: without_security(card)),)


GATEWAY: Sequence[Layer[GatewaySide, Service]] = (
    Layer("owners of tasks", "the gateway keeps the tasks of callers apart", _ownership),
    Layer(
        "relay of notifications",
        "`ServeOptions.push_relay`",
        lambda of: () if of.relay is None else (of.relay,),
    ),
    Layer("extended card without security", "credentials of the gateway's own", _unsecured),
)

# ------------------------------------------------------------------ around the client side of an interface


@dataclass(frozen=True, slots=True)
class ClientSide:
    """The interfaces of a remote agent."""

    tasks: Tasks = field(default_factory=Tasks)
    upstream: UpstreamOptions = field(default_factory=UpstreamOptions)
    #: whether ListTasks of agents that cannot is answered from `tasks`
    lists: bool = True
    tracing: Tracing = "off"
    metrics: Metrics | None = None
    #: the name of the agent, for its metrics
    agent: str = ""

    def table(self) -> Tasks:
        """The tasks of one interface: endpoints that do not share their tasks have tables of their own."""
        return self.tasks.separate() if self.upstream.is_apart else self.tasks


def _dial_inside(
    dial: Dial,
    layers: Callable[[Candidate, DialOptions], Sequence[Middleware]],
    forward: frozenset[str] = frozenset(),
) -> Dial:
    """Dials with layers around each interface. forward: further parameters of callers that go on."""

    @asynccontextmanager
    async def dial_inside(candidate: Candidate, options: DialOptions) -> AsyncIterator[Service]:
        async with dial(candidate, replace(options, forward=options.forward | forward)) as service:
            yield compose(service, *layers(candidate, options))

    return dial_inside


def _credentials(of: ClientSide) -> Sequence[Callable[[Dial], Dial]]:
    credentials = of.upstream.credentials
    return () if credentials is None else (lambda dial: add_credentials(credentials, dial),)


def _client_spans(of: ClientSide) -> Sequence[Callable[[Dial], Dial]]:
    tracer = tracer_of(of.tracing)
    if tracer is None:
        return ()

    def spans(candidate: Candidate, _: DialOptions) -> Sequence[Middleware]:
        one = candidate.interface
        return (client_spans(tracer, one.protocol_binding, candidate.dialect.version, one.url),)

    # Also where an application forwards nothing of its callers: the span is not theirs.
    return (lambda dial: _dial_inside(dial, spans, TRACE_PARAMETERS),)


def _client_metrics(of: ClientSide) -> Sequence[Callable[[Dial], Dial]]:
    metrics = of.metrics
    if metrics is None:
        return ()

    def measured(candidate: Candidate, _: DialOptions) -> Sequence[Middleware]:
        binding, version = candidate.interface.protocol_binding, candidate.dialect.version
        return (metrics.client_middleware(of.agent, binding, version),)

    return (lambda dial: _dial_inside(dial, measured),)


CLIENT: Sequence[Layer[ClientSide, Dial]] = (
    Layer(
        "operations and streams of 1.0",
        "the agent speaks 0.x",
        lambda of: (lambda dial: add_polyfill(of.table, lists=of.lists, dial=dial),),
    ),
    Layer(
        "ids for agents of 0.1",
        "the agent speaks 0.1",
        lambda of: (lambda dial: legacy.adapt_dial(dial, of.table),),
    ),
    Layer("credentials", "`UpstreamOptions.credentials`", _credentials),
    # Where calls reach the network: each attempt counts.
    Layer("spans of the client", "tracing", _client_spans),
    Layer("metrics of the client", "metrics", _client_metrics),
    Layer(
        "middleware of the client",
        "`DialOptions.middleware`",
        lambda _: (lambda dial: _dial_inside(dial, lambda _, options: options.middleware),),
    ),
)


def dial_through(dial: Dial, of: ClientSide) -> Dial:
    """Dials the interfaces of an agent with the layers of CLIENT."""
    for wrap in reversed(present(CLIENT, of)):
        dial = wrap(dial)
    return dial


#: all rows, by the place of their composition, from the caller to the agent
TABLE: Mapping[str, Sequence[Layer[Any, Any]]] = {
    "each binding": MOUNT,
    "server": SERVER,
    "gateway": GATEWAY,
    "client, for each interface": CLIENT,
}
