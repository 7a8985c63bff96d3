"""The suite every transport has to pass, run over this one."""

from __future__ import annotations

from a2a_tcp import BINDING

from a2a_bridge.ext import ListenAddress
from a2a_bridge.testing.contracts import BindingContract


class TestTcpBinding(BindingContract):
    """The suite without the tests for paths, which TCP does not have."""

    binding = BINDING
    paths = False

    def url(self, address: ListenAddress, _path: str) -> str:
        return f"tcp://{address}"
