"""One of several agents as it is given to a server: its name, how it is opened, and its options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from a2a_bridge.app.planning import EVERYTHING, ServeOptions
from a2a_bridge.app.runtime import serve_agent, serve_gateway
from a2a_bridge.app.serving import Server, Shared
from a2a_bridge.bindings.binding import (
    DialOptions,
    ListenAddress,
)
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.dialects import GRPC
from a2a_bridge.dialects.v0_3.card import is_old
from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub

#: names are segments of paths, tenants and parts of URNs
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
PATH = "/agents"
#: stands for the common hosts in the options of one agent
SHARED = ListenAddress("", -1)

#: opens an agent on its part of the hosts. Raises A2AError UNAVAILABLE if it cannot be reached now
Opening = Callable[[Shared], AbstractAsyncContextManager[Server]]


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent to serve among others. Raises ValueError for an invalid name.

    name: in its path and as its tenant. names: host names at which it is served, too. at_root: it is also
    served where the only agent of a server is: at the root, and over gRPC for every other tenant.
    """

    name: str
    opening: Opening
    names: tuple[str, ...] = ()
    at_root: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is no name of an agent: lower-case letters, digits and -, at most 63"
            )


def hosted(
    name: str,
    agent: Agent,
    options: ServeOptions,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    *,
    names: tuple[str, ...] = (),
    at_root: bool = False,
) -> AgentEntry:
    """An agent of this process. options: for it alone; an interface without a URL is served on the common
    hosts.
    """

    def open_server(shared: Shared) -> AbstractAsyncContextManager[Server]:
        own = options_of(name, options, shared.options)
        served = interfaces_of(name, interfaces, names, at_root=at_root)
        return serve_agent(agent, served, own, shared=shared)

    return AgentEntry(name, open_server, names, at_root)


def remote(
    name: str,
    card: hub.AgentCard,
    candidates: Sequence[Candidate],
    options: ServeOptions,
    dial_options: DialOptions | None = None,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    *,
    names: tuple[str, ...] = (),
    at_root: bool = False,
) -> AgentEntry:
    """A remote agent; see `serve_gateway` and `hosted`."""

    def open_server(shared: Shared) -> AbstractAsyncContextManager[Server]:
        own = options_of(name, options, shared.options)
        served = interfaces_of(name, interfaces, names, at_root=at_root)
        return serve_gateway(card, candidates, served, own, dial_options, shared=shared)

    return AgentEntry(name, open_server, names, at_root)


def options_of(name: str, options: ServeOptions, server: ServeOptions) -> ServeOptions:
    """The options of one agent. Who may call and TLS are the server's; its public URL, unless the agent has
    one of its own, gets the agent's path.
    """
    path = f"{PATH}/{name}"
    return replace(
        options,
        name=name,
        http=SHARED,
        grpc=SHARED,
        host=replace(options.host, tls=server.host.tls),
        tls=server.tls,
        grpc_tls=server.grpc_tls,
        admin=None,
        metrics=server.metrics,
        usage=server.usage,
        authentication=server.authentication,
        allow_unauthenticated=server.allow_unauthenticated,
        access_rules=options.access_rules or server.access_rules,
        public_url=options.public_url or (server.public_url and server.public_url.rstrip("/") + path),
        public_grpc=options.public_grpc or server.public_grpc,
    )


def interfaces_of(
    name: str,
    interfaces: Sequence[hub.AgentInterface],
    names: tuple[str, ...] = (),
    *,
    at_root: bool = False,
) -> tuple[hub.AgentInterface, ...]:
    """The interfaces of one agent: gRPC on the common address has its name as the tenant. Versions without
    tenants are served over gRPC only at an address or a host name of the agent's own.
    """
    found = []
    for one in interfaces:
        if one.protocol_binding != GRPC.name or one.url or at_root:
            found.append(one)
        elif not is_old(one):
            found.append(interface(one.protocol_binding, version=one.protocol_version, tenant=name))
        elif names:
            found.append(one)
    return tuple(found)
