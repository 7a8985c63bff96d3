"""JSON-RPC 2.0 over HTTP (spec 9). The binding only: frames are in `wire`, the two sides beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import JSONRPC, BindingKind, Dialect
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.mounts import Mounts, canonical
from a2a_bridge_transports.jsonrpc.server import JsonRpcServer
from a2a_bridge_transports.jsonrpc.wire import beside

if TYPE_CHECKING:
    from a2a_bridge_transports._http.host import HttpHost


class JsonRpcBinding:
    """Implements Binding. HTTP server and HTTP client are imported when they are used."""

    kind: BindingKind[Any, Any] = JSONRPC
    family = "http"

    def host(self, address: ListenAddress, options: HostOptions) -> HttpHost:
        from a2a_bridge_transports._http.host import HttpHost

        return HttpHost(address, options)

    def mount(self, host: Mounts, path: str, service: Service, dialects: Sequence[Dialect]) -> None:
        options = host.options
        server = JsonRpcServer(service, dialects, options)
        host.mount(path, {"POST": server.handle})
        host.mount_below(path, server.handle_below)
        for alias in options.jsonrpc_paths:
            host.mount_alias(alias, server.handle)
        for relative, handler in server.documents.items():
            host.mount_beside(beside(canonical(path), relative), {"GET": handler})

    def dial(
        self, interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
    ) -> AbstractAsyncContextManager[Service]:
        from a2a_bridge_transports._http.calling import dial
        from a2a_bridge_transports.jsonrpc.client import JsonRpcClient

        return dial(JsonRpcClient, interface, dialect, options)


BINDING = JsonRpcBinding()
