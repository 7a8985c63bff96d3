"""HTTP+JSON, the REST binding (spec 11). The binding only: paths are in `wire`, the two sides beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import HTTP_JSON, BindingKind, Dialect
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.mounts import Mounts, canonical
from a2a_bridge_transports.http_json.server import HttpJsonServer

if TYPE_CHECKING:
    from a2a_bridge_transports._http.host import HttpHost


class HttpJsonBinding:
    """Implements Binding. HTTP server and HTTP client are imported when they are used."""

    kind: BindingKind[Any, Any] = HTTP_JSON
    family = "http"

    def host(self, address: ListenAddress, options: HostOptions) -> HttpHost:
        from a2a_bridge_transports._http.host import HttpHost

        return HttpHost(address, options)

    def mount(self, host: Mounts, path: str, service: Service, dialects: Sequence[Dialect]) -> None:
        server = HttpJsonServer(service, dialects, host.options, len(canonical(path)))
        host.mount_tree(path, server.handle)

    def dial(
        self, interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
    ) -> AbstractAsyncContextManager[Service]:
        from a2a_bridge_transports._http.calling import dial
        from a2a_bridge_transports.http_json.client import HttpJsonClient

        return dial(HttpJsonClient, interface, dialect, options)


BINDING = HttpJsonBinding()
