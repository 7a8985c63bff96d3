"""GRPC passes the contract of bindings."""

from __future__ import annotations

from a2a_bridge.bindings.binding import ListenAddress, find
from a2a_bridge.dialects import V0_3
from a2a_bridge.testing.contracts import BindingContract


class TestGrpc(BindingContract):
    binding = find("GRPC")
    paths = False

    def url(self, address: ListenAddress, path: str) -> str:
        return str(address)


class TestGrpc03(BindingContract):
    binding = find("GRPC")
    dialect = V0_3
    tenants = False
    paths = False

    def url(self, address: ListenAddress, path: str) -> str:
        return str(address)
