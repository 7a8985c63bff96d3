"""GRPC passes the contract of bindings."""

from typing import Any

from a2a_bridge.bindings.binding import ListenAddress, find
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import V0_2_5, V0_3
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


# --- HTTP+JSON passes the contract of bindings ---


class TestHttpJson(BindingContract):
    binding = find("HTTP+JSON")

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"


class TestHttpJson03(BindingContract):
    binding = find("HTTP+JSON")
    dialect = V0_3
    tenants = False

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"

    def has(self, operation: Any) -> bool:
        # Agents of 0.3 have no such route, so clients do not call it.
        return operation is not ops.LIST_TASKS and super().has(operation)


class TestHttpJson025(TestHttpJson03):
    dialect = V0_2_5


# --- JSONRPC passes the contract of bindings ---


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
