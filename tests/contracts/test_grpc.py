"""GRPC keeps what every transport promises."""

from __future__ import annotations

from a2a_bridge.bindings import ListenAddress, find
from a2a_bridge.testing.contracts import BindingContract


class TestGrpc(BindingContract):
    binding = find("GRPC")
    paths = False

    def url(self, address: ListenAddress, path: str) -> str:
        return str(address)
