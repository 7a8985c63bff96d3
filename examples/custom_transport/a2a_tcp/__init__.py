"""A fourth transport: JSON in length-prefixed frames over TCP, one connection for each call. No TLS.

The kind is `TCP+JSON`. No protocol version has a form for it, so it uses the canonical one of 1.0: an
operation's name as its address and ProtoJSON as its wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from a2a_bridge.ext import Binding, Dialect, DialOptions, HostOptions, ListenAddress, Service, hub

from .client import dial
from .host import TcpHost
from .server import Side
from .wire import KIND


class TcpBinding:
    """The binding that `find_binding("TCP+JSON")` returns."""

    kind = KIND
    family = "tcp"

    def host(self, address: ListenAddress, options: HostOptions) -> TcpHost:
        return TcpHost(address, options)

    def mount(self, host: TcpHost, path: str, service: Service, dialects: Sequence[Dialect]) -> None:
        if path or host.side is not None:
            raise ValueError("one TCP host serves one service")
        host.side = Side(service, dialects, host.options)

    def dial(
        self, interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
    ) -> AbstractAsyncContextManager[Service]:
        return dial(interface, dialect, options)


BINDING: Binding[TcpHost] = TcpBinding()
