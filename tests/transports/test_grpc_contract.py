"""The contract of every binding, kept by GRPC."""

from __future__ import annotations

from typing import Any

from a2a_bridge.bindings import Binding, ListenAddress
from a2a_bridge.testing.binding_contract import BindingContract
from a2a_bridge_transports.grpc import BINDING


class TestGrpc(BindingContract):
    binding: Binding[Any] = BINDING
    paths = False

    def url(self, address: ListenAddress, path: str) -> str:
        assert not path, "gRPC has no paths"
        return str(address)
