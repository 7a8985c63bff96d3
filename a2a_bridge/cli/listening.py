"""From the flags of `serve` and `gateway` to interfaces and options. It opens no socket."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from a2a_bridge import runtime
from a2a_bridge.bindings import HostOptions, ListenAddress
from a2a_bridge.cards import interface
from a2a_bridge.cli.options import listen_address
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class Listening:
    """What to mount, and how."""

    interfaces: list[hub.AgentInterface]
    options: runtime.ServeOptions

    @classmethod
    def of(
        cls,
        http: str,
        grpc: str,
        *,
        no_http: bool,
        no_grpc: bool,
        public_url: str,
        public_grpc: str,
        forwarded_allow_ips: str,
    ) -> Listening:
        """JSON-RPC at `/` and HTTP+JSON at the root paths of one listener, gRPC on another.

        Raises typer.BadParameter.
        """
        if no_http and no_grpc:
            raise typer.BadParameter("with --no-http too there is nothing to serve", param_hint="--no-grpc")
        mounted: list[hub.AgentInterface] = []
        if not no_http:
            url = f"http://{ListenAddress(*listen_address(http, '--http'))}"
            mounted += [interface("JSONRPC", f"{url}/"), interface("HTTP+JSON", url)]
        if not no_grpc:
            mounted.append(interface("GRPC", str(ListenAddress(*listen_address(grpc, "--grpc")))))
        if public_url and not public_url.startswith(("http://", "https://")):
            raise typer.BadParameter(f"{public_url!r} is not an http(s) URL", param_hint="--public-url")
        trusted = tuple(part.strip() for part in forwarded_allow_ips.split(",") if part.strip())
        options = runtime.ServeOptions(
            host=HostOptions(trust_forwarded=trusted), public_url=public_url, public_grpc=public_grpc
        )
        return cls(mounted, options)
