"""Decides which interfaces of a card may be dialled, which get the operator's credentials, which answer.

The content of a card is not trusted. Rules:
1. The operator has named the host of the given URL, at any port, and the origins in `credentials_for`. Named
   hosts may be dialled, and get the parameters (`-H`) and the query of the options; over TLS only, if the
   given URL or the origin is https.
2. Other hosts get neither. They are not dialled if they are link-local or a metadata
   service; if they are this machine and the named host is not; or if they are in a private network and the
   named host is public. All addresses of a host count. They are checked again for each connection.
3. An interface that is rejected or does not answer is replaced by the named host: same path, or the named
   path if the card has none; for gRPC the same port. `trust_card_urls` uses the card's URLs unchanged.
4. Forwarded parameters of callers (`forward`) go to the same hosts as the parameters of the options, except
   parameters that do not identify the caller.
5. The operator also names further endpoints of the agent (`with_endpoints`). These endpoints get credentials,
   and may have private addresses.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit, urlunsplit

from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ssrf_policy import is_public

#: resolves host and port to addresses; raises OSError if there are none
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
#: tries to connect to host and port; returns the reason for a failure, empty after success
Probe = Callable[[str, int], Awaitable[str]]

#: link-local addresses and the metadata services of clouds, which are never agents
_NEVER = tuple(
    ip_network(text)
    for text in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "168.63.129.16/32", "100.100.100.200/32")
)
_LOCALHOST = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104  nothing listens here
_DEFAULT_PORTS = {"http": 80, "grpc": 80, "https": 443, "grpcs": 443}
#: the most seconds for a test connection, in which a packet may be lost once. Nobody is served until it ends
TRIAL = 3.0
#: prefixes of gRPC's own targets: `dns:host:port`, `dns:///host:port`, `ipv4:1.2.3.4:5`, `ipv6:[::1]:5`
_NATIVE = re.compile(r"(?:dns|ipv4|ipv6):(?://[^/]*/)?")
_SECURE = frozenset({"https", "grpcs"})


class Reach(IntEnum):
    """The network from which an address can be reached; larger values are wider networks."""

    NEVER = 0
    LOOPBACK = 1
    PRIVATE = 2
    PUBLIC = 3


@dataclass(frozen=True, slots=True)
class Place:
    """The host and port behind a URL or `host:port`."""

    host: str
    port: int
    #: True for TLS
    secure: bool

    @property
    def is_local(self) -> bool:
        """True if the name is a name or a loopback address of this machine."""
        return self.is_localhost or _reach(self.host) is Reach.LOOPBACK

    @property
    def is_localhost(self) -> bool:
        """True for the names and addresses that mean `localhost`. Of the other loopback addresses, such as
        127.0.0.2, each is a host of its own: containers and tests separate services by them.
        """
        return self.host in _LOCALHOST or self.host.endswith(".localhost")

    def is_at(self, other: Place) -> bool:
        """True if both have the same host."""
        return self.host == other.host or (self.is_localhost and other.is_localhost)


@dataclass(frozen=True, slots=True)
class Destination:
    """The result of checking one interface."""

    candidate: Candidate
    #: why it is not dialled; empty if it may be dialled
    rejection: str = ""
    #: why it did not answer; empty if it did, or was not tried
    silence: str = ""
    #: the URL of the card that this interface replaces, and the reason; empty for none
    instead_of: str = ""


def place_of(url: str) -> Place | None:
    """The place of a URL, a gRPC URL, `host:port`, or a gRPC target with a single address; else None."""
    native = _NATIVE.match(url)
    if native is not None:
        url = url[native.end() :]
    separator = "://" in url
    try:
        parts = urlsplit(url if separator else f"//{url}")
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    if not parts.hostname or not port or (separator and parts.scheme not in _DEFAULT_PORTS):
        return None
    secure = parts.scheme in _SECURE or (not separator and port == _DEFAULT_PORTS["https"])
    return Place(parts.hostname.rstrip(".").lower(), port, secure)


def _origin(text: str) -> Place:
    found = place_of(text)
    if found is None:
        raise ValueError(f"credentials_for: {text!r} is no origin such as https://host or host:port")
    return found


def move_to(candidate: Candidate, named: str) -> Candidate | None:
    """The same interface at the named host; None if that is the same place in the same spelling. Another
    spelling of this machine is another place: a server that listens on one address may not listen on another,
    and in a container `::1` may not exist.
    """
    url, base = candidate.interface.url, place_of(named)
    here, family = place_of(url), _family(candidate)
    if base is None or family not in ("http", "grpc"):
        return None
    if family == "http" and not _is_http(named):
        return None
    if family == "grpc":
        if here is None or here.host == base.host:
            return None
        host = f"[{base.host}]" if ":" in base.host else base.host
        scheme, separator, _ = url.partition("://")
        target = f"{scheme + separator if separator else ''}{host}:{here.port}"
    else:
        if here is not None and here.host == base.host and here.port == base.port:
            return None
        try:
            given, parts = urlsplit(named), urlsplit(url if "://" in url else f"http://{url}")
        except ValueError:
            return None  # nothing of it can be kept
        path = parts.path
        if path in ("", "/") and not given.query and not given.path.endswith(".json"):
            path = given.path or path
        target = urlunsplit((given.scheme, given.netloc, path, parts.query, ""))
    interface = type(candidate.interface)()
    interface.CopyFrom(candidate.interface)
    interface.url = target
    return Candidate(interface, candidate.dialect, grpc_tls=candidate.grpc_tls)


def _is_http(named: str) -> bool:
    """Whether the operator named a URL of HTTP, and no address of gRPC."""
    return named.partition("://")[0].lower() in ("http", "https")


class Destinations:
    """Checks the interfaces of a card. options: with `named`, the URL that the operator gave; without it
    every host counts as named. lookup, probe: how to resolve names and to test connections. Raises ValueError
    for an entry of `credentials_for` that is no origin.
    """

    def __init__(
        self, options: DialOptions, *, lookup: Lookup | None = None, probe: Probe | None = None
    ) -> None:
        self._options = options
        self._lookup = lookup or _system
        self._probe = probe or self._connect
        self._named = place_of(options.named) if options.named else None
        if self._named is not None and options.grpc_tls is not None and not _is_http(options.named):
            self._named = replace(self._named, secure=options.grpc_tls)
        #: the reach of the named host, resolved on first use
        self._agent_reach: Reach | None = None
        self._origins = [_origin(text) for text in options.credentials_for]

    async def check(self, candidates: Sequence[Candidate]) -> list[Destination]:
        """The usable interfaces, with or without credentials, and the rejected ones. Makes no connection."""
        if self._named is None:
            return [Destination(one) for one in candidates]
        return [await self._vet(one, self._named) for one in candidates]

    async def check_and_connect(self, candidates: Sequence[Candidate]) -> list[Destination]:
        """The result of `check` after test connections: an interface that is rejected or silent is replaced
        if the replacement works.
        """
        found = await self.check(candidates)
        return list(await asyncio.gather(*map(self._settle, found)))

    def fallbacks(self, found: Sequence[Destination]) -> list[Candidate]:
        """The interfaces that may be dialled, followed by the same interfaces at the named host."""
        usable = [one.candidate for one in found if not one.rejection]
        if self._named is None or self._options.trust_card_urls:
            return usable
        known = {one.interface.url for one in usable}
        for one in found:
            other = self._move(one.candidate, self._named)
            if other is not None and other.interface.url not in known:
                known.add(other.interface.url)
                usable.append(other)
        return usable

    async def _vet(self, candidate: Candidate, named: Place) -> Destination:
        url = candidate.interface.url
        place = self._place(candidate)
        if place is not None and self._is_named(place, named):
            return Destination(candidate)
        candidate = replace(candidate, credentials=False)
        if self._options.trust_card_urls or (place is not None and place.is_at(named)):
            return Destination(candidate)
        if place is None:
            if url.startswith("unix"):
                return Destination(candidate, "a socket of this machine")
            return Destination(candidate, "addresses that cannot be checked" if _NATIVE.match(url) else "")
        if self._agent_reach is None:
            self._agent_reach = await self._reach_of(named)
        try:
            rejection = _rejection(await self._reach_of(place), self._agent_reach)
        except OSError:
            rejection = ""  # no connection is possible either, unless a proxy can resolve it
        if not rejection and not _is_proxied(candidate, place):
            candidate = replace(candidate, resolve=self._build_lookup(self._agent_reach))
        return Destination(candidate, rejection)

    async def _settle(self, one: Destination) -> Destination:
        silence = one.rejection or await self._silence(one.candidate)
        if not silence or self._named is None or self._options.trust_card_urls:
            return one if one.rejection else replace(one, silence=silence)
        other = self._move(one.candidate, self._named)
        if other is not None and not await self._silence(other):
            return Destination(other, instead_of=f"{one.candidate.interface.url} ({silence})")
        return one if one.rejection else replace(one, silence=silence)

    def _move(self, candidate: Candidate, named: Place) -> Candidate | None:
        """See `move_to`. The replacement gets credentials under the same rules."""
        other = move_to(candidate, self._options.named)
        place = None if other is None else self._place(other)
        if other is None or place is None:
            return None
        return replace(other, credentials=self._is_named(place, named))

    def _place(self, candidate: Candidate) -> Place | None:
        place = place_of(candidate.interface.url)
        secure = candidate.grpc_tls if self._options.grpc_tls is None else self._options.grpc_tls
        if place is None or secure is None or _family(candidate) != "grpc":
            return place
        return replace(place, secure=secure)

    def _is_named(self, place: Place, named: Place) -> bool:
        known = [named, *(one for one in self._origins if one.port == place.port)]
        return any(place.is_at(one) and (place.secure or not one.secure or one.is_local) for one in known)

    async def _silence(self, candidate: Candidate) -> str:
        place = place_of(candidate.interface.url)
        if place is None or _family(candidate) not in ("http", "grpc") or _is_proxied(candidate, place):
            return ""
        return await self._probe(place.host, place.port)

    async def _connect(self, host: str, port: int) -> str:
        try:
            async with asyncio.timeout(min(TRIAL, self._options.connect_timeout)):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            return "no answer in time"
        except (OSError, UnicodeError) as error:
            return getattr(error, "strerror", None) or "no connection"
        writer.close()
        return ""

    async def _reach_of(self, place: Place) -> Reach:
        """The nearest reach among its addresses. Raises OSError if there are none."""
        if place.is_local:
            return Reach.LOOPBACK
        literal = _reach(place.host)
        if literal is not None:
            return literal
        try:
            addresses = await self._lookup(place.host, place.port)
        except OSError:
            if place is self._named:
                return Reach.PUBLIC  # the strictest: a card cannot lead to any internal address
            raise
        return min((_reach(text) or Reach.NEVER for text in addresses), default=Reach.PUBLIC)

    def _build_lookup(self, named: Reach) -> Lookup:
        """Resolves a host that only the card names, for a connection."""

        async def resolve(host: str, port: int) -> Sequence[str]:
            literal = _reach(host)
            addresses = [host] if literal is not None else await self._lookup(host, port)
            for text in addresses:
                reason = _rejection(_reach(text) or Reach.NEVER, named)
                if reason:
                    raise A2AError(
                        Reason.UNAVAILABLE,
                        f"the card's host {host} leads to {reason}",
                        metadata={"phase": "connect"},
                        blame=Blame.PEER,
                    )
            return addresses

        return resolve


def _rejection(found: Reach, named: Reach) -> str:
    if found is Reach.NEVER:
        return "an address that is never an agent's (link-local, metadata)"
    if found is Reach.LOOPBACK and named is not Reach.LOOPBACK:
        return "this machine, and the agent was named elsewhere"
    if found is Reach.PRIVATE and named is Reach.PUBLIC:
        return "a private network, and the agent was named outside of it"
    return ""


def _reach(text: str) -> Reach | None:
    """The reach of an address; None if the text is not an address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    if any(address.version == network.version and address in network for network in _NEVER):
        return Reach.NEVER
    if address.is_loopback or address.is_unspecified:
        return Reach.LOOPBACK
    return Reach.PUBLIC if is_public(address) else Reach.PRIVATE


def _is_proxied(candidate: Candidate, place: Place) -> bool:
    """True if a proxy of the environment makes the connection and resolves the host."""
    if _family(candidate) != "http" or place.is_local:
        return False
    # It imports the HTTP client of the standard library: 3 MB that a server without a gateway never needs.
    from urllib.request import getproxies, proxy_bypass

    scheme = urlsplit(candidate.interface.url).scheme or "http"
    return bool(getproxies().get(scheme)) and not proxy_bypass(f"{place.host}:{place.port}")


def _family(candidate: Candidate) -> str:
    try:
        return find(candidate.interface.protocol_binding).family
    except LookupError:
        return ""


async def _system(host: str, port: int) -> Sequence[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("no such host") from error
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def check_endpoint(text: str) -> None:
    """Raises ValueError for an endpoint that is neither an http(s) or grpc(s) URL nor `host:port`."""
    if place_of(text) is None:
        raise ValueError(f"{text!r} is neither an http(s) URL nor the host:port of gRPC")


def with_endpoints(candidates: Sequence[Candidate], endpoints: Iterable[str]) -> list[tuple[int, Candidate]]:
    """Each interface and the same at the endpoints, with its rank among the interfaces.

    An http(s) URL is another base of the agent: its interfaces over HTTP are there at their own path, or at
    the path of the URL if they have none; its interfaces over gRPC are at the same port of that host.
    `host:port`, or a `grpc(s)://` URL, is a place of gRPC.

    Raises ValueError for an endpoint that fits no interface.
    """
    endpoints = tuple(endpoints)
    found = [(rank, candidate) for rank, candidate in enumerate(candidates)]
    known = {(rank, candidate.interface.url) for rank, candidate in found}
    for text in endpoints:
        check_endpoint(text)
        fits = False
        for rank, candidate in enumerate(candidates):
            there = _at(candidate, text)
            if there is None:
                continue
            fits = True
            if (rank, there.interface.url) not in known:
                known.add((rank, there.interface.url))
                found.append((rank, there))
        if not fits:
            raise ValueError(f"the endpoint {text} fits none of the agent's interfaces")
    return sorted(found, key=lambda one: one[0])


def _is_same(one: Candidate, other: Candidate) -> bool:
    here, there = place_of(one.interface.url), place_of(other.interface.url)
    return here is not None and there is not None and here.is_at(there) and here.port == there.port


def _at(candidate: Candidate, endpoint: str) -> Candidate | None:
    """The interface at an endpoint; None if it cannot be there."""
    scheme, separator, _ = endpoint.partition("://")
    family = find(candidate.interface.protocol_binding).family
    if separator and scheme.lower() in ("http", "https"):
        if family not in ("http", "grpc"):
            return None
        moved = move_to(candidate, endpoint)
        # Without a change it is the place of the interface itself, also in another spelling.
        return candidate if moved is None or _is_same(moved, candidate) else moved
    if family != "grpc":
        return None
    interface = hub.AgentInterface()
    interface.CopyFrom(candidate.interface)
    interface.url = endpoint
    return replace(candidate, interface=interface, credentials=True, resolve=None)
