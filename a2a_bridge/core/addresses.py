"""Addresses of listeners and of trusted peers. Supervisors and `--help` load this module, so it needs no
protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from a2a_bridge.core.kinds import Kinds, check_kinds

_LAST_PORT = 65_535
_KINDS: Kinds = {"host": ((str,), "text"), "port": ((int,), "a number")}


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a TCP port. Port 0 asks the system for a free one."""

    host: str = "127.0.0.1"
    port: int = 0

    def __post_init__(self) -> None:
        """Raises TypeError for another type, ValueError for a port in the host or above the last one."""
        check_kinds(self, _KINDS)
        host, colon, port = self.host.rpartition(":")
        if colon and ":" not in host and port.isdecimal():
            raise ValueError(f'the port is an argument of its own: write ListenAddress("{host}", {port})')
        if self.port > _LAST_PORT:
            raise ValueError(f"ListenAddress.port is a TCP port, {_LAST_PORT} at most")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach it."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


def is_address(host: str) -> bool:
    """Whether a host is an IP address, and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Trust:
    """The peers whose forwarded headers are trusted: addresses, networks, or "*" for all. Raises ValueError
    for any other entry.
    """

    def __init__(self, entries: tuple[str, ...]) -> None:
        self._trusts_all = "*" in entries
        self._networks = [ip_network(entry, strict=False) for entry in entries if entry != "*"]

    def __contains__(self, peer: str) -> bool:
        if self._trusts_all:
            return True
        if not self._networks:
            return False
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any(address in network or (mapped and mapped in network) for network in self._networks)
