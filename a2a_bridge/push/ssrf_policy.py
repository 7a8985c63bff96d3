"""The policy against server-side request forgery (SSRF): the allowed targets of notifications. Pure.

Rules:
1. Only http and https, only some ports, only globally routed addresses. The list is here, because `ipaddress`
   differs between Python versions.
2. All addresses of a name have to be allowed: a single disallowed one makes the name suspect.
3. The operator can allow more: a host by its name, or the addresses of a network, with any port.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS = frozenset({80, 443, 8080, 8443})
SCHEMES = frozenset({"http", "https"})

#: IPv4 networks that are not globally routed (RFC 6890 and its successors), multicast, and networks that lead
#: to other IPv4 addresses indirectly; and Azure's WireServer, which looks public but is local to each
#: machine, like the metadata below 169.254
_CLOSED_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
#: the global unicast range of IPv6; excludes loopback, mapped, NAT64, unique and link-local, site-local
_OPEN_6 = IPv6Network("2000::/3")
#: excluded parts of that range: protocol assignments with Teredo and ORCHID, documentation, 6to4, 6bone
_CLOSED_6 = tuple(
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20")
)


def is_public(address: Address) -> bool:
    """True if an address is globally routed and leads to no private network indirectly."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _CLOSED_4)
    if address.scope_id is not None or address not in _OPEN_6:
        return False
    return not any(address in network for network in _CLOSED_6)


@dataclass(frozen=True, slots=True)
class Allowed:
    """An exception of the operator: a host by its name, or a network."""

    host: str = ""
    network: Network | None = None
    #: only this port; 0 for any
    port: int = 0

    @staticmethod
    def parse(text: str) -> Allowed:
        """`HOST`, `HOST:PORT`, `ADDRESS`, `[ADDRESS]:PORT`, `NETWORK/BITS`. Raises ValueError."""
        entry = text.strip()
        try:
            return Allowed(network=ip_network(entry, strict=False))
        except ValueError:
            pass
        try:
            parts = urlsplit(f"//{entry}")
            host, port = parts.hostname or "", parts.port or 0
        except ValueError:
            host, port = "", 0
        if not host or parts.path or parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f"{text!r} is no host, address or network")
        try:
            return Allowed(network=ip_network(host), port=port)
        except ValueError:
            return Allowed(host=_name(host), port=port)


@dataclass(frozen=True, slots=True)
class SsrfPolicy:
    """The policy."""

    #: exceptions of the operator
    allow: Sequence[Allowed] = ()
    ports: frozenset[int] = PORTS
    schemes: frozenset[str] = field(default=SCHEMES)

    def scheme(self, scheme: str) -> bool:
        """True if URLs of a scheme are allowed."""
        return scheme.lower() in self.schemes

    def rejection(self, host: str, port: int, addresses: Iterable[str]) -> str:
        """Why a host must not be connected to, given all its addresses, as a text for callers; empty if it
        may. Without addresses, that is for an unknown name, only name and port are checked.
        """
        if self.admits(host, port):
            return ""
        found = list(addresses)
        for text in found:
            try:
                address = ip_address(text)
            except ValueError:
                return "leads to an address that is not allowed"
            if self._is_allowed(address, port):
                continue
            if not is_public(address):
                return "leads to an address that is not allowed"
            if port not in self.ports:
                return "names a port that is not allowed"
        if not found and port not in self.ports:
            return "names a port that is not allowed"
        return ""

    def admits(self, host: str, port: int) -> bool:
        """True if the operator allows a host by its name: then its addresses may be private."""
        return any(one.host == _name(host) and one.port in (0, port) for one in self.allow if one.host)

    def _is_allowed(self, address: Address, port: int) -> bool:
        return any(
            one.network is not None
            and one.network.version == address.version
            and address in one.network
            and one.port in (0, port)
            for one in self.allow
        )

    def allows(self, text: str, port: int) -> bool:
        """True if the operator allows an address."""
        return self._is_allowed(ip_address(text), port)


def _name(host: str) -> str:
    return host.lower().rstrip(".")


_PORTS = {"http": 80, "https": 443}


def target_of(url: str) -> str:
    """`https://host:443` of a URL, for circuits, fair queuing and logs: paths are secrets. Empty: invalid."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if not host:
        return ""
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme.lower()}://{host}:{_PORTS.get(parts.scheme.lower(), 0) if port is None else port}"
