"""From declared interfaces to listeners, paths and versions, and the options of a server. No sockets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any
from urllib.parse import urlsplit

from a2a_bridge.auth import Authentication, LiveRules, Rule
from a2a_bridge.auth.rules import permit
from a2a_bridge.bindings.binding import HostOptions, ListenAddress, find
from a2a_bridge.bindings.server_tls import ServerTls
from a2a_bridge.cards import Mounted, interface
from a2a_bridge.core.kinds import NUMBER, Kinds, check_kinds
from a2a_bridge.core.option_classes import EngineOptions, ReplayOptions, ServeValues, StoreOptions
from a2a_bridge.core.service import Middleware
from a2a_bridge.dialects import JSONRPC, KNOWN, Dialect, by_version
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.tasks import MOST_LISTED
from a2a_bridge.middleware import Limits, Metrics, Usage
from a2a_bridge.middleware.limits import LiveLimits
from a2a_bridge.middleware.tracing import Tracing
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions
from a2a_bridge.stores.ports import Store

_ADDRESS = 'an address such as ListenAddress("127.0.0.1", 8080)'
_OPTIONS: Mapping[str, type[Any]] = {
    "host": HostOptions,
    "push_options": PushOptions,
    "store_options": StoreOptions,
    "engine": EngineOptions,
    "replay": ReplayOptions,
    "upstream": UpstreamOptions,
}
_KINDS: Kinds = {
    **dict.fromkeys(("http", "grpc"), ((ListenAddress,), _ADDRESS)),
    "admin": ((ListenAddress, NoneType), _ADDRESS),
    **dict.fromkeys(
        ("public_url", "public_grpc", "push_relay", "name", "grpc_urls", "task_access"), ((str,), "text")
    ),
    **dict.fromkeys(
        ("push", "mcp", "openai", "allow_unauthenticated", "pass_credentials"), ((bool,), "True or False")
    ),
    **{name: ((kind,), f"{kind.__name__}(…)") for name, kind in _OPTIONS.items()},
    "card_signing_keys": ((tuple, list), "a tuple of keys (PEM or JWK)"),
    "grace": (NUMBER, "a number of seconds"),
    "list_tasks_memory": ((int,), "a number of tasks"),
    "middleware": ((tuple, list), "a tuple of functions such as (f,)"),
    "tls": ((ServerTls, NoneType), "ServerTls(certificate, key)"),
    "advertise": ((tuple, list, frozenset), 'a tuple such as ("JSONRPC",)'),
    "card_versions": ((tuple, list, frozenset), 'a tuple such as ("1.0",)'),
    "authentication": ((Authentication, NoneType), "Authentication([…])"),
    "access_rules": ((tuple, list, LiveRules), "a tuple of rules"),
    "limits": ((Limits, LiveLimits), "Limits(…)"),
    "usage": ((Usage, NoneType), "Usage()"),
}


@dataclass(frozen=True, slots=True)
class ServeOptions(ServeValues):
    """The options of a server: of a hosted agent or of a gateway."""

    #: address of HTTP interfaces whose declaration has no host
    http: ListenAddress = field(default_factory=ListenAddress)
    #: address of gRPC interfaces whose declaration has no host
    grpc: ListenAddress = field(default_factory=ListenAddress)
    host: HostOptions = field(default_factory=HostOptions)
    #: private keys (PEM or JWK; EC P-256 or P-384, Ed25519) that sign the card; the first signs, all are
    #: published at `/.well-known/jwks.json`. The addresses in a signed card do not depend on the caller
    card_signing_keys: tuple[str, ...] = ()
    #: further middleware, innermost, outermost of them first
    middleware: tuple[Middleware, ...] = ()
    #: TLS of all listeners; None: as `host.tls` and `grpc_tls` say. Not for ASGI: its server has the TLS
    tls: ServerTls | None = None
    #: server credentials of gRPC, in place of `tls`; it cannot use an SSLContext in `host.tls`
    grpc_tls: Any = None
    #: counts calls by caller, if set
    usage: Usage | None = None
    #: where notifications may go, and how often delivery is tried
    push_options: PushOptions = field(default_factory=PushOptions)
    #: number of tasks for which a gateway answers ListTasks in place of an agent that cannot; 0: none
    list_tasks_memory: int = MOST_LISTED
    #: the task store: a URL (see `open_store`), or an open store of the application; None: in memory
    store: Store | str | None = None
    #: options of a store that is opened by its URL
    store_options: StoreOptions = field(default_factory=StoreOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    #: identifies the callers; None: they stay unknown, unless `middleware` identifies them
    authentication: Authentication | None = None
    #: which callers may use which operations; empty: all may use all. LiveRules can change while running
    access_rules: tuple[Rule, ...] | LiveRules = ()
    #: whether a gateway sends the credentials that `authentication` has checked to the agent, too
    pass_credentials: bool = False
    #: limits of one principal; LiveLimits can change while the server runs
    limits: Limits | LiveLimits = field(default_factory=Limits)
    #: the listener for operators: metrics, probes and, with `usage`, call counts. None: none
    admin: ListenAddress | None = None
    #: the metrics of this server; None: `admin` makes some, if it is set
    metrics: Metrics | None = None
    #: whether calls are traced; see `middleware.tracing`
    tracing: Tracing = "auto"
    #: the replay logs of a gateway, for readers that resume or join
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    #: what a gateway sends to its agent, and what it does when the agent fails
    upstream: UpstreamOptions = field(default_factory=UpstreamOptions)
    #: name of the agent on a server with several, for access rules; see `serve_agents`
    name: str = ""

    def __post_init__(self) -> None:
        """Raises TypeError for a field of another type, ValueError for a value that cannot be served."""
        check_kinds(self, _KINDS)
        if not (self.store is None or isinstance(self.store, str) or hasattr(self.store, "durable")):
            kind = type(self.store).__name__
            raise TypeError(
                f'ServeOptions.store is a URL such as "sqlite:///tasks.db", or an open store, not {kind}'
            )
        for one in self.middleware:
            if not callable(one):
                raise TypeError(f"ServeOptions.middleware has {type(one).__name__}, which is no function")
        if self.grace < 0:
            raise ValueError("ServeOptions.grace is a number of seconds, 0 or more")
        if self.public_url and not self.public_url.startswith(("http://", "https://")):
            raise ValueError(
                f"ServeOptions.public_url is no URL: write https://{self.public_url.lstrip('/')}"
            )

    def host_of(self, family: str) -> HostOptions:
        """The options of the hosts of a binding family."""
        host = self.host
        if self.authentication is not None and host.authenticate is None:
            host = replace(host, authenticate=self.authentication)
        if self.access_rules and host.permit is None:
            host = replace(host, permit=permit(self.access_rules, self.name))
        if family == "grpc" and self.grpc_tls is not None:
            return replace(host, tls=self.grpc_tls)
        return host if self.tls is None else replace(host, tls=self.tls)


def identifies(options: ServeOptions) -> bool:
    """Whether something may identify the callers."""
    return bool(options.authentication or options.middleware or options.host.authenticate)


def keeps_owners(options: ServeOptions) -> bool:
    """Whether a gateway keeps the tasks of callers apart: it identifies them, and the agent does not."""
    credentials = options.upstream.credentials
    if options.task_access == "all" or options.pass_credentials or not identifies(options):
        return False
    if credentials is not None:
        # Those made from the credentials of a caller tell the agent who it is.
        return not credentials.made_from
    # Without methods of the edge, callers' credentials go to the agent.
    return options.authentication is not None


#: versions that are served by default: without 0.1, which needs memory for the ids of its callers
VERSIONS = ("1.0", "0.3", "0.2.5")

#: default interfaces: JSON-RPC at `/`, HTTP+JSON at the root paths, and gRPC, in each version
EVERYTHING = tuple(
    interface(binding, version=version)
    for version in VERSIONS
    for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
)


def place(declared: hub.AgentInterface, options: ServeOptions) -> Mounted:
    """Listener, path and version of a declared interface. Raises LookupError, ValueError if it is invalid."""
    binding = find(declared.protocol_binding)
    dialect = by_version(declared.protocol_version)
    if dialect is None or dialect.form(binding.kind) is None:
        known = ", ".join(one.version for one in KNOWN if one.form(binding.kind) is not None)
        text = f"{declared.protocol_binding} {declared.protocol_version} cannot be served"
        raise ValueError(f"{text}; versions over {declared.protocol_binding}: {known}")
    default = options.http if binding.family == "http" else options.grpc
    url = declared.url
    if url.startswith("/") or not url:
        return Mounted(declared, binding.family, default, url.rstrip("/"))
    parts = urlsplit(url if "://" in url else f"//{url}")
    # urlsplit reads no port out of an address without one, and 0 is a port here.
    port = parts.port if parts.port is not None else {"https": 443, "http": 80}.get(parts.scheme, 0)
    if parts.hostname is None:
        raise ValueError(f"{url!r} names no host")
    return Mounted(declared, binding.family, ListenAddress(parts.hostname, port), parts.path.rstrip("/"))


def jsonrpc_paths(card: hub.AgentCard) -> tuple[str, ...]:
    """The paths of JSON-RPC in an agent's own card: clients of a gateway may change nothing but the host."""
    found: dict[str, None] = {}
    for one in card.supported_interfaces:
        try:
            path = urlsplit(one.url).path
        except ValueError:  # no URL, so that no client can know it
            continue
        if one.protocol_binding == JSONRPC.name and path.strip("/"):
            found[path] = None
    return tuple(found)


def check_ports(plan: Sequence[Mounted]) -> None:
    """Raises ValueError for an address of two families of listeners."""
    families: dict[ListenAddress, str] = {}
    for one in plan:
        if one.address.port > 0 and families.setdefault(one.address, one.family) != one.family:
            kinds = f"{families[one.address]} and {one.family}"
            raise ValueError(f"{one.address} is given to {kinds}: each needs a port of its own")


def group(
    plan: Sequence[Mounted],
) -> dict[tuple[str, ListenAddress, str], dict[str, list[Dialect]]]:
    """Interfaces that share an address and a path: one mount per kind, with all its versions."""
    groups: dict[tuple[str, ListenAddress, str], dict[str, list[Dialect]]] = {}
    for one in plan:
        dialect = by_version(one.interface.protocol_version)
        kinds = groups.setdefault((one.family, one.address, one.path), {})
        dialects = kinds.setdefault(one.interface.protocol_binding, [])
        if dialect is not None and dialect not in dialects:
            dialects.append(dialect)
    return groups


def list_dialects(interfaces: Iterable[hub.AgentInterface]) -> list[Dialect]:
    """The versions of declared interfaces, newest first."""
    declared = {by_version(one.protocol_version) for one in interfaces}
    return [dialect for dialect in KNOWN if dialect in declared]
