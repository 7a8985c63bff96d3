"""HTTP+JSON keeps what every transport promises."""

from __future__ import annotations

from a2a_bridge.bindings import ListenAddress, find
from a2a_bridge.testing.contracts import BindingContract


class TestHttpJson(BindingContract):
    binding = find("HTTP+JSON")

    def url(self, address: ListenAddress, path: str) -> str:
        return f"http://{address}{path}"
