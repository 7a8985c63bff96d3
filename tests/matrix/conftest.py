"""Fixtures of this folder."""

from tests.interop.deviations import sdk_agents
from tests.peers.processes import peer_agents, peer_clients

__all__ = ["peer_agents", "peer_clients", "sdk_agents"]
