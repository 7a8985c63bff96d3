"""Fixtures of this folder."""

from tests.peers.processes import peer_clients

__all__ = ["peer_clients"]
