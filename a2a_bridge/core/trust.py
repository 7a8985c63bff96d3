"""The peers whose forwarded headers are trusted."""

from __future__ import annotations

from ipaddress import ip_address, ip_network


class Trust:
    """The peers whose forwarded headers are trusted: addresses, networks, or "*" for all.

    Raises ValueError for any other entry.
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
