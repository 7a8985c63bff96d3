"""From the flags of `serve` and `gateway` to interfaces and options. It opens no socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from a2a_bridge import runtime
from a2a_bridge.bindings import HostOptions, ListenAddress
from a2a_bridge.cards import interface
from a2a_bridge.cli.options import known_dialect, listen_address
from a2a_bridge.cli.usage_recorder import UsageRecorder
from a2a_bridge.cli.workers import Worker
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, Dialect
from a2a_bridge.middleware import Limits, Usage
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """What to mount, and how. counting: None when nobody counts callers."""

    interfaces: list[hub.AgentInterface]
    options: runtime.ServeOptions
    counting: UsageRecorder | None = None

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
        versions: str,
        lenient_versions: bool,
        usage_file: Path | None,
        usage_listen: str,
        max_body: int,
        max_connections: int,
        max_connection_streams: int,
        drain_window: float | None,
        max_values: int,
        limits: Limits,
        push_relay: str = "",
        advertise: str = "",
        card_versions: str = "",
    ) -> ListenOptions:
        """JSON-RPC at `/` and HTTP+JSON at the root paths of one listener, gRPC on another, in each version.

        Raises typer.BadParameter.
        """
        if no_http and no_grpc:
            raise typer.BadParameter("with --no-http too there is nothing to serve", param_hint="--no-grpc")
        worker = Worker.of_environment()
        if worker is not None:
            http, grpc = worker.http or http, worker.grpc or grpc
        mounted: list[hub.AgentInterface] = []
        url = f"http://{ListenAddress(*listen_address(http, '--http'))}"
        target = str(ListenAddress(*listen_address(grpc, "--grpc")))
        for dialect in _dialects(versions):
            version = dialect.version
            if not no_http and dialect.form(JSONRPC) is not None:
                mounted.append(interface("JSONRPC", f"{url}/", version=version))
            if not no_http and dialect.form(HTTP_JSON) is not None:
                mounted.append(interface("HTTP+JSON", url, version=version))
            if not no_grpc and dialect.form(GRPC) is not None:
                mounted.append(interface("GRPC", target, version=version))
        if not mounted:
            raise typer.BadParameter(
                f"{versions} cannot be served over what is left", param_hint="--versions"
            )
        listed = tuple(filter(None, map(str.strip, advertise.split(","))))
        served = dict.fromkeys(one.protocol_binding for one in mounted)
        if not served.keys() >= set(listed):
            raise typer.BadParameter(
                f"{advertise!r} is not all of {', '.join(served)}", param_hint="--advertise"
            )
        shown = tuple(dialect.version for dialect in _dialects(card_versions, "--card-versions"))
        if not {
            one.protocol_version for one in mounted if not listed or one.protocol_binding in listed
        } >= set(shown):
            raise typer.BadParameter(
                f"{card_versions!r} is not all served; see --versions and --advertise",
                param_hint="--card-versions",
            )
        for address, flag in ((public_url, "--public-url"), (push_relay, "--push-relay")):
            if address and not address.startswith(("http://", "https://")):
                raise typer.BadParameter(f"{address!r} is not an http(s) URL", param_hint=flag)
        if push_relay and no_http:
            raise typer.BadParameter("notifications come over HTTP", param_hint="--push-relay")
        trusted = tuple(part.strip() for part in forwarded_allow_ips.split(",") if part.strip())
        counting = None
        if usage_file is not None or usage_listen:
            listen = ListenAddress(*listen_address(usage_listen, "--usage-listen")) if usage_listen else None
            counting = UsageRecorder(Usage(), usage_file, listen)
        options = runtime.ServeOptions(
            host=HostOptions(
                max_body=max_body,
                trust_forwarded=trusted,
                lenient_versions=lenient_versions,
                max_connections=max_connections,
                max_connection_streams=max_connection_streams,
                drain_window=drain_window,
                max_values=max_values,
                reuse_port=worker is not None,
                listener=worker.listener if worker is not None else None,
            ),
            limits=limits,
            public_url=public_url,
            public_grpc=public_grpc,
            usage=counting.table if counting is not None else None,
            push_relay=push_relay,
            advertise=listed,
            card_versions=shown,
        )
        return cls(mounted, options, counting)


def _dialects(versions: str, flag: str = "--versions") -> list[Dialect]:
    """The dialects that a flag names, each once. Raises typer.BadParameter."""
    texts = filter(None, map(str.strip, versions.split(",")))
    return list(dict.fromkeys(known_dialect(text, flag) for text in texts))
