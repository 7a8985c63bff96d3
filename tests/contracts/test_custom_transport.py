"""The example of a third-party transport passes the suite it points its readers to."""

from __future__ import annotations

from a2a_bridge.bindings import ListenAddress
from a2a_bridge.testing.contracts import BindingContract
from examples.custom_transport.a2a_tcp import BINDING


class TestTcpBinding(BindingContract):
    binding = BINDING
    paths = False

    def url(self, address: ListenAddress, path: str) -> str:
        return f"tcp://{address}"
