"""Decides which interfaces of a card may be dialled, which get the operator's credentials, which answer.

The content of a card is not trusted. Rules:
1. The operator has named the host of the given URL, at any port, and the origins in `credentials_for`. Named
   hosts may be dialled, and get the parameters (`-H`) and the query of the options; over TLS only, if the
   given URL or the origin is https.
2. Other hosts get neither. They are not dialled if they are link-local or a metadata
   service; if they are this machine and the named host is not; or if they are in a private network and the
   named host is public. All addresses of a host count. They are checked again for each connection, which
   uses no others. A URL that `bindings.places` cannot read is not dialled, nor is a gRPC target with several
   addresses or with a DNS server of its own.
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
from ipaddress import IPv4Address, IPv6Address, ip_network
from urllib.parse import urlsplit, urlunsplit

from a2a_bridge.bindings.binding import DialOptions, Resolve, find
from a2a_bridge.bindings.places import Place, address_of, place_name, place_of, read_place
from a2a_bridge.bindings.probing import QUESTIONS, within
from a2a_bridge.cards.build import interface
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ssrf_policy import is_public

#: resolves host and port to addresses; raises OSError if there are none
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
#: tries to connect to host and port; returns the reason for a failure, empty after success
Probe = Callable[[str, int], Awaitable[str]]

#: link-local addresses and the metadata services of clouds, which are never agents
_NEVER = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::/32",  # AWS
        "fd20:ce::254/128",  # Google Cloud
        "168.63.129.16/32",  # Azure
        "100.100.100.200/32",  # Alibaba Cloud
        "192.0.0.192/32",  # Oracle Cloud
        "fd00:c1::a9fe:a9fe/128",  # Oracle Cloud
        "fd00:42::42/128",  # Scaleway
    )
)
#: networks of IPv6 whose last 32 bits are an IPv4 address: compatible, translated, NAT64, NAT64 for local use
_EMBEDDING = tuple(
    ip_network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)
#: families whose client sides connect only to the addresses that `Candidate.resolve` gives
_CHECKED = frozenset({"http", "grpc"})
#: addresses of gRPC that are a socket of this machine
_SOCKETS = ("unix:", "unix-abstract:")
_UNREAD = "an address that cannot be checked"
#: the most seconds for a test connection, in which a packet may be lost once. Nobody is served until it ends
TRIAL = 3.0


class Reach(IntEnum):
    """The network from which an address can be reached; larger values are wider networks."""

    NEVER = 0
    LOOPBACK = 1
    PRIVATE = 2
    PUBLIC = 3


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


def _origin(text: str) -> Place:
    found = place_of(text)
    if found is None:
        raise ValueError(f"credentials_for: {text!r} is no origin such as https://host or host:port")
    return found


def _named_place(text: str) -> Place:
    """The place of the address that the operator gave; that of a socket with a path is this machine."""
    if text.startswith(_SOCKETS):
        return Place("localhost", 0, secure=False)
    found = place_of(text)
    if found is None:
        raise ValueError(f"{text[:200]!r} is neither an http(s) URL nor a gRPC address, of one host and port")
    return found


def move_to(candidate: Candidate, named: str) -> Candidate | None:
    """The same interface at the named host; None if that is the same place in the same spelling. Another
    spelling of this machine is another place: a server that listens on one address may not listen on another,
    and in a container `::1` may not exist.
    """
    url, base = candidate.interface.url, place_of(named)
    here, family = place_of(url), _family(candidate)
    if base is None or family not in _CHECKED:
        return None
    if family == "http" and not _is_http(named):
        return None
    if family == "grpc":
        if here is None or here.host == base.host:
            return None
        scheme, separator, _ = url.partition("://")
        target = f"{scheme + separator if separator else ''}{place_name(base.host, here.port)}"
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
    for an entry of `credentials_for` that is no origin, and for a named address that cannot be read.
    """

    def __init__(
        self, options: DialOptions, *, lookup: Lookup | None = None, probe: Probe | None = None
    ) -> None:
        self._options = options
        self._lookup = lookup or _system
        self._probe = probe or self._connect
        self._named = _named_place(options.named) if options.named else None
        if self._named is not None and options.grpc_tls is not None and not _is_http(options.named):
            self._named = replace(self._named, secure=options.grpc_tls)
        #: the reach of the named host, resolved on first use
        self._agent_reach: Reach | None = None
        #: of the interfaces that are being checked: those at one place need one test connection
        self._trials: dict[tuple[str, int, bool], asyncio.Future[str]] = {}
        self._origins = [_origin(text) for text in options.credentials_for]

    async def check(self, candidates: Sequence[Candidate]) -> list[Destination]:
        """The usable interfaces, with or without credentials, and the rejected ones. Makes no connection."""
        if self._named is None:
            return [Destination(one) for one in candidates]
        return [await self._vet(one, self._named) for one in candidates]

    async def check_url(self, url: str) -> Destination:
        """The same for an http(s) URL that a document of the agent names."""
        (found,) = await self.check([Candidate(interface("JSONRPC", url), V1_0)])
        return found

    async def check_and_connect(self, candidates: Sequence[Candidate]) -> list[Destination]:
        """The result of `check` after test connections: an interface that is rejected or silent is replaced
        if the replacement works.
        """
        found = await self.check(candidates)
        try:
            return list(await asyncio.gather(*map(self._settle, found)))
        finally:
            self._trials.clear()

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
        if url == self._options.named or (place is not None and self._is_named(place, named)):
            return Destination(candidate)
        candidate = replace(candidate, credentials=False)
        if self._options.trust_card_urls or (place is not None and place.is_at(named)):
            return Destination(candidate)
        if place is None or _is_number(place.host):
            return Destination(candidate, "a socket of this machine" if url.startswith("unix") else _UNREAD)
        if self._agent_reach is None:
            self._agent_reach = await self._reach_of(named)
        try:
            rejection = _rejection(await self._reach_of(place), self._agent_reach)
        except OSError:
            # No connection is possible either, unless a proxy can resolve it. Other transports may not use
            # the addresses that are checked for each connection.
            rejection = "" if _family(candidate) in _CHECKED else "a host without an address"
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
        url, family = candidate.interface.url, _family(candidate)
        if family == "http":
            return place_of(url if "://" in url else f"http://{url}")
        if family != "grpc":
            return _place_of_other(url)
        place = place_of(url)
        secure = candidate.grpc_tls if self._options.grpc_tls is None else self._options.grpc_tls
        return place if place is None or secure is None else replace(place, secure=secure)

    def _is_named(self, place: Place, named: Place) -> bool:
        known = [named, *(one for one in self._origins if one.port == place.port)]
        return any(place.is_at(one) and (place.secure or not one.secure or one.is_local) for one in known)

    async def _silence(self, candidate: Candidate) -> str:
        place = self._place(candidate)
        if place is None or _family(candidate) not in _CHECKED or _is_proxied(candidate, place):
            return ""
        key = (place.host, place.port, candidate.resolve is None)
        if key not in self._trials:
            self._trials[key] = asyncio.ensure_future(self._try(place, candidate.resolve))
        return await self._trials[key]

    async def _try(self, place: Place, resolve: Resolve | None) -> str:
        if resolve is None:
            return await self._probe(place.host, place.port)
        try:
            addresses = await resolve(place.host, place.port)
        except OSError:
            return "its host has no address"
        except A2AError as error:
            return error.message
        trials = [asyncio.ensure_future(self._probe(text, place.port)) for text in addresses]
        try:
            for trial in asyncio.as_completed(trials):
                if not await trial:
                    return ""
            return trials[0].result() if trials else ""
        finally:
            for one in trials:
                one.cancel()
            await asyncio.gather(*trials, return_exceptions=True)

    async def _connect(self, host: str, port: int) -> str:
        limit = min(TRIAL, self._options.connect_timeout)
        try:
            async with QUESTIONS.at(place_name(host, port)):
                _, writer = await within(limit, asyncio.open_connection(host, port))
        except TimeoutError:
            return "no answer in time"
        except (OSError, UnicodeError) as error:
            return getattr(error, "strerror", None) or "no connection"
        writer.close()
        return ""

    async def _reach_of(self, place: Place) -> Reach:
        """The nearest reach among its addresses. Raises OSError if there are none."""
        if place.is_localhost:
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
    address = address_of(text)
    if address is None:
        return None
    if "%" in text or any(address in network for network in _NEVER):
        return Reach.NEVER
    if address.is_loopback or address.is_unspecified:
        return Reach.LOOPBACK
    reach = Reach.PUBLIC if is_public(address) else Reach.PRIVATE
    inner = [_reach(str(one)) for one in _embedded(address)]
    return min([reach, *(one for one in inner if one is not None)])


def _embedded(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses to which an address of IPv6 may lead, through a tunnel or a translator."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _EMBEDDING):
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def _is_number(host: str) -> bool:
    """True for a number that only some parsers take for an address, such as 127.1 or 0x7f000001."""
    last = host.rpartition(".")[2]
    return address_of(host) is None and (last.isdecimal() or re.fullmatch("0x[0-9a-f]*", last) is not None)


def _place_of_other(url: str) -> Place | None:
    """The place of an address of another transport, whose scheme is its own."""
    try:
        return read_place(url, known=False)
    except ValueError:
        return None


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
    if place_of(text) is None and not text.startswith("dns:"):
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
