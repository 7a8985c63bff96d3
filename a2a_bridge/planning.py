"""Where declared interfaces go: which listener, path and version, and under which options. It opens nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from a2a_bridge.bindings import HostOptions, ListenAddress, find
from a2a_bridge.cards import GrpcUrls, Mounted, interface
from a2a_bridge.core.service import Middleware
from a2a_bridge.dialects import JSONRPC, KNOWN, Dialect, by_version
from a2a_bridge.gateway import REMEMBERED, ReplayOptions
from a2a_bridge.hosting.options import EngineOptions
from a2a_bridge.hosting.ports import Store
from a2a_bridge.hosting.stores.options import StoreOptions
from a2a_bridge.middleware import Limits, Usage
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How to serve.

    http, grpc: where interfaces listen whose declaration names no host. public_url, public_grpc: what
    the card says instead of the listening addresses. grace: seconds running calls get when the server is
    left. middleware: further middleware, innermost, listed from the outside in. grpc_tls: server
    credentials for gRPC, which cannot use the `host.tls` that HTTP takes. usage: counts callers, if given.
    grpc_urls: how the card writes gRPC addresses. advertise, card_versions: the bindings and the versions that the card
    lists; empty for all that are served. push: post notifications to the webhooks of hosted tasks,
    where the card declares them; push_options says where they may lead. push_relay: base URL by which the
    agent behind a gateway reaches the gateway, which then posts on what the agent posts, in the version of whoever
    registered; empty leaves it to the agent. list_tasks_memory: for how many tasks a gateway answers ListTasks where
    the agent cannot; 0 refuses it. store: where a hosted agent keeps its tasks: a URL (see
    `a2a_bridge.hosting.stores.open_store`), or a store that whoever gives it opens and closes; in memory unless given.
    store_options: how a store is opened that a URL names. engine: how a hosted agent's tasks are treated.
    limits: what one principal may have. replay: what a gateway keeps of streams so that they can be resumed and shared.
    """

    http: ListenAddress = field(default_factory=ListenAddress)
    grpc: ListenAddress = field(default_factory=ListenAddress)
    host: HostOptions = field(default_factory=HostOptions)
    public_url: str = ""
    public_grpc: str = ""
    grace: float = 10.0
    middleware: tuple[Middleware, ...] = ()
    grpc_tls: Any = None
    usage: Usage | None = None
    grpc_urls: GrpcUrls = "both-in-0.x"
    advertise: tuple[str, ...] = ()
    card_versions: tuple[str, ...] = ()
    push: bool = True
    push_options: PushOptions = field(default_factory=PushOptions)
    push_relay: str = ""
    list_tasks_memory: int = REMEMBERED
    store: Store | str | None = None
    store_options: StoreOptions = field(default_factory=StoreOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    limits: Limits = field(default_factory=Limits)
    replay: ReplayOptions = field(default_factory=ReplayOptions)

    def host_of(self, family: str) -> HostOptions:
        """The options of the hosts of a binding family."""
        if family == "grpc" and self.grpc_tls is not None:
            return replace(self.host, tls=self.grpc_tls)
        return self.host


#: the versions that are served unless told otherwise; 0.1 has to be asked for, since it needs memory of its callers' ids
VERSIONS = ("1.0", "0.3", "0.2.5")

#: what is mounted when nothing is declared: JSON-RPC at `/`, HTTP+JSON at the root paths, and gRPC, in each version
EVERYTHING = tuple(
    interface(binding, version=version)
    for version in VERSIONS
    for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
)
#: the same without gRPC, for hosts that speak HTTP only
EVERYTHING_HTTP = tuple(one for one in EVERYTHING if one.protocol_binding != "GRPC")


def placed(declared: hub.AgentInterface, options: ServeOptions) -> Mounted:
    """Where a declared interface goes. Raises LookupError or ValueError for one that cannot be served."""
    binding = find(declared.protocol_binding)
    dialect = by_version(declared.protocol_version)
    if dialect is None or dialect.form(binding.kind) is None:
        raise ValueError(f"{declared.protocol_binding} {declared.protocol_version} cannot be served")
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
    """Where clients of an agent know its JSON-RPC, by its own card: they may only change the host when they move."""
    found: dict[str, None] = {}
    for one in card.supported_interfaces:
        try:
            path = urlsplit(one.url).path
        except ValueError:  # no URL, so that no client can know it
            continue
        if one.protocol_binding == JSONRPC.name and path.strip("/"):
            found[path] = None
    return tuple(found)


def grouped(
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


def declared_dialects(interfaces: Iterable[hub.AgentInterface]) -> list[Dialect]:
    """The versions of declared interfaces, newest first."""
    declared = {by_version(one.protocol_version) for one in interfaces}
    return [dialect for dialect in KNOWN if dialect in declared]


def dialects_of(plan: Iterable[Mounted]) -> list[Dialect]:
    """The versions that are served, newest first."""
    return declared_dialects(one.interface for one in plan)
