"""The binding GRPC: protobuf over HTTP/2. It has no generated stubs and knows no version.

The server side has two hosts: grpc.aio, and an ASGI application on a server that sends trailers.
`add_to_server` attaches it to an existing grpc.aio server.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import GRPC, BindingKind, Dialect
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.asgi import AsgiHost

if TYPE_CHECKING:
    from a2a_bridge_transports.grpc.host import GrpcHost, add_to_server


class GrpcBinding:
    """`bindings.Binding` for GRPC. What needs grpcio is imported when it is used."""

    kind: BindingKind[str, bytes] = GRPC
    family = "grpc"

    def host(self, address: ListenAddress, options: HostOptions) -> GrpcHost:
        """A grpc.aio server with health and reflection. Raises ValueError for a `tls` that gRPC
        cannot use.
        """
        from a2a_bridge_transports.grpc.host import GrpcHost

        return GrpcHost(address, options)

    def mount(
        self,
        host: GrpcHost | AsgiHost,
        path: str,  # noqa: ARG002
        service: Service,
        dialects: Sequence[Dialect],
    ) -> None:
        """Attaches the server side; gRPC has no mount paths. Raises ValueError if the host serves an address
        of a version already.
        """
        if not isinstance(host, AsgiHost):
            host.add(service, dialects)
            return
        from a2a_bridge_transports.grpc.asgi import GrpcCalls

        calls = host.calls if isinstance(host.calls, GrpcCalls) else GrpcCalls(host.options)
        calls.add(service, dialects)
        host.calls = calls

    def dial(
        self, interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
    ) -> AbstractAsyncContextManager[Service]:
        """A channel to the interface. Raises ValueError for a URL or credentials that gRPC cannot use,
        LookupError if the version has no gRPC form.
        """
        from a2a_bridge_transports.grpc.client import dial

        return dial(interface, dialect, options)


BINDING = GrpcBinding()

__all__ = ["BINDING", "GrpcBinding", "GrpcHost", "add_to_server"]


def __getattr__(name: str) -> Any:
    if name in ("GrpcHost", "add_to_server"):
        from a2a_bridge_transports.grpc import host

        return getattr(host, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
