"""The host and port in a URL or an address: read once, for the checks and for the dialler.

Parsers differ where a spelling is unusual: one reads the port `+80` as 80 and another finds none, one takes
`,10.0.0.1` for a name and another for an address. So only spellings with a single meaning are read, and every
other spelling is an error for everybody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address

#: schemes whose URLs need no port, with the port that they mean
DEFAULT_PORTS = {"http": 80, "grpc": 80, "https": 443, "grpcs": 443}
SECURE = frozenset({"https", "grpcs"})
#: port for which `host:port` without a scheme means TLS
TLS_PORT = 443

_LOCALHOST = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104  nothing listens here
_PLACE = re.compile(
    r"""(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<user>[A-Za-z0-9._~!$&'()*+,;=:%-]*)@)?)?
    (?P<host>\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._~-]+)?\]|[A-Za-z0-9_.-]+)
    (?::(?P<port>[0-9]{0,5}))?
    (?P<rest>[/?\#][^\x00-\x20\x7f-\x9f]*)?""",
    re.VERBOSE,
)
#: gRPC's own targets of one address, without a DNS server: `dns:host:1`, `dns:///host:1`, `ipv4:1.2.3.4:5`
_NATIVE = re.compile(r"(dns|ipv4|ipv6):(?:///)?(?P<place>[^/].*)")
_VERSIONS = {"ipv4": IPv4Address, "ipv6": IPv6Address}


@dataclass(frozen=True, slots=True)
class Place:
    """The host and port behind a URL or `host:port`."""

    host: str
    port: int
    #: True for TLS
    secure: bool
    #: True for a URL with the name of a user, or with an empty one
    has_user: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return place_name(self.host, self.port)

    @property
    def is_local(self) -> bool:
        """True if the name is a name or a loopback address of this machine."""
        address = address_of(self.host)
        if self.is_localhost or self.host.endswith(".localhost"):
            return True
        return address is not None and (address.is_loopback or address.is_unspecified)

    @property
    def is_localhost(self) -> bool:
        """True for the names and addresses that mean `localhost`. Of the other loopback addresses, such as
        127.0.0.2, each is a host of its own: containers and tests separate services by them. So is each name
        below `localhost`: some resolvers look for it elsewhere.
        """
        return self.host in _LOCALHOST

    def is_at(self, other: Place) -> bool:
        """True if both have the same host."""
        return self.host == other.host or (self.is_localhost and other.is_localhost)


def place_name(host: str, port: int) -> str:
    """`host:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is, an IPv4 address for one that is mapped to IPv6; None for a name."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def read_place(url: str, *, known: bool = True) -> Place:
    """The place of a URL, or of `host:port`. known: only schemes of HTTP and gRPC; else any scheme, with a
    port. Raises ValueError for an address without a host and port, or in a spelling that parsers read
    differently.
    """
    found = _PLACE.fullmatch(url)
    if found is None or (not found["port"] and (found["rest"] or "").startswith("//")):
        hint = "" if url.isascii() else "; write a name of other letters as xn--…"
        raise ValueError(f"{url[:200]!r}: its host and port cannot be read{hint}")
    scheme = (found["scheme"] or "").lower()
    if known and scheme and scheme not in DEFAULT_PORTS:
        raise ValueError(f"{url[:200]!r}: {scheme[:32]!r} is no scheme of HTTP or gRPC")
    host = found["host"]
    if host.startswith("["):
        host = host[1:-1]
        IPv6Address(host.partition("%")[0])
    port = int(found["port"] or 0) or (0 if found["port"] else DEFAULT_PORTS.get(scheme, 0))
    host = host.rstrip(".").lower()
    if not host or not 0 < port < 65536:
        raise ValueError(f"{url[:200]!r}: expected host:port")
    secure = scheme in SECURE or (not scheme and port == TLS_PORT)
    return Place(host, port, secure, found["user"] is not None)


def place_of(url: str) -> Place | None:
    """The place of a URL, a gRPC URL, `host:port`, or a gRPC target with a single address; else None."""
    native = _NATIVE.fullmatch(url)
    try:
        if native is None:
            return read_place(url)
        place = read_place(native["place"]) if "/" not in native["place"] else None
        return None if place is None or _is_of_other_kind(native[1], place.host) else place
    except ValueError:
        return None


def _is_of_other_kind(kind: str, host: str) -> bool:
    wanted = _VERSIONS.get(kind)
    return wanted is not None and not isinstance(address_of(host), wanted)
