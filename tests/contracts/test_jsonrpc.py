"""JSONRPC passes the contract of bindings."""

from __future__ import annotations

from a2a_bridge.bindings.binding import ListenAddress, find
from a2a_bridge.dialects import V0_2_5, V0_3
from a2a_bridge.testing.contracts import BindingContract


class TestJsonRpc(BindingContract):
    binding = find("JSONRPC")

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"


class TestJsonRpc03(BindingContract):
    binding = find("JSONRPC")
    dialect = V0_3
    tenants = False

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"


class TestJsonRpc025(TestJsonRpc03):
    dialect = V0_2_5
