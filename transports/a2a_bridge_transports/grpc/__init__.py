"""The binding GRPC: protobuf over HTTP/2 through grpc.aio. It has no generated stubs and knows no version.

`add_to_server` attaches the server side to an existing grpc.aio server.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from a2a_bridge.bindings import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import GRPC, Dialect, Kind
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports.grpc.client import dial
from a2a_bridge_transports.grpc.host import GrpcHost, add_to_server


class GrpcBinding:
    """`bindings.Binding` for GRPC."""

    kind: Kind[str, bytes] = GRPC
    family = "grpc"

    def host(self, address: ListenAddress, options: HostOptions) -> GrpcHost:
        """A grpc.aio server with health and reflection. Raises ValueError for a `tls` that gRPC
        cannot use.
        """
        return GrpcHost(address, options)

    def mount(self, host: GrpcHost, path: str, service: Service, dialects: Sequence[Dialect]) -> None:  # noqa: ARG002
        """Attaches the server side; gRPC has no mount paths. Raises ValueError if a version's addresses are
        taken on this host.
        """
        host.add(service, dialects)

    def dial(
        self, interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
    ) -> AbstractAsyncContextManager[Service]:
        """A channel to the interface. Raises ValueError for a URL or credentials that gRPC cannot use,
        LookupError if the version has no gRPC form.
        """
        return dial(interface, dialect, options)


BINDING = GrpcBinding()

__all__ = ["BINDING", "GrpcBinding", "GrpcHost", "add_to_server"]
