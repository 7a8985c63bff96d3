"""`a2a-bridge export`: prints configurations of other programs, made of the options of a server.
It serves nothing, and reads no file but the configuration of the bridge: it can run anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.output import data, print_message
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.server_flags import ServerFlags, ServerKind
from a2a_bridge.cli.values import listen_address, usage_error
from a2a_bridge.core.option_classes import ServerTlsValues
from a2a_bridge.core.options import flag

if TYPE_CHECKING:
    from a2a_bridge.cli.envoy.front import FrontAgent, FrontOptions, Replica, ReplicaTls

app = command_group("export", "Print configurations of other programs for a bridge.")


@app.callback()
def group() -> None:
    """With a callback, Typer keeps the name of an only command."""


@dataclass(frozen=True, kw_only=True)
class EnvoyExportFlags:
    """The flags of `export envoy`. They have no variables: variables of the bridge have the same names."""

    config: Path | None = flag(
        None,
        "The configuration file of the replicas; else their variables and defaults.",
        "FILE",
        variable="",
    )
    replica: list[str] | None = flag(
        None,
        "A replica, or a DNS name of several; default ports: those of --config. May be repeated.",
        "HOST[:PORT[:GRPC_PORT]]",
        variable="",
    )
    listen: str = flag("127.0.0.1:10000", "Envoy listens here for every binding.", "IP:PORT", variable="")
    admin: str = flag("127.0.0.1:9901", "Envoy's administration listens here.", "IP:PORT", variable="")
    ssl_certfile: Path | None = flag(
        None, "Certificate of Envoy's listener, with its chain (PEM).", "FILE", variable=""
    )
    ssl_keyfile: Path | None = flag(None, "Private key, if it is not in the same file.", "FILE", variable="")
    ssl_ca_certs: Path | None = flag(
        None, "Reject callers without a client certificate of these authorities.", "FILE", variable=""
    )
    replica_name: str = flag(
        "",
        "Name in the certificates of replicas with TLS; default: that of --public-url.",
        "NAME",
        variable="",
    )
    replica_cacert: Path | None = flag(
        None, "Authorities of these certificates; default: those of the system.", "FILE", variable=""
    )


@app.command(cls=Command)
@with_flags
def envoy(context: typer.Context, *, flags: EnvoyExportFlags) -> None:
    """Print the configuration of an Envoy in front of replicas of a bridge.

    One port for HTTP and gRPC, TLS, health checks, streams without time limits. Files are named as they are
    given, and have to exist where Envoy runs.

    For example:

      a2a-bridge export envoy --replica a2a-1 --replica a2a-2 --config bridge.toml > envoy.json
    """
    import json

    from a2a_bridge.cli.config import reading_of
    from a2a_bridge.cli.envoy.front import front

    served: ServerFlags = reading_of(context, None, flags.config).flags
    options = front_options(flags, served)
    for text in _notes(served, options):
        print_message(f"note: {text}", "yellow")
    data(json.dumps(front(options), indent=2))


def front_options(flags: EnvoyExportFlags, served: ServerFlags) -> FrontOptions:
    """The values of a configuration. served: the options of the replicas. Raises typer.BadParameter."""
    from a2a_bridge.cli.envoy.front import FrontOptions

    certificate = flags.ssl_certfile
    for value, name in ((flags.ssl_keyfile, "--ssl-keyfile"), (flags.ssl_ca_certs, "--ssl-ca-certs")):
        if value and certificate is None:
            raise usage_error(name, "needs --ssl-certfile")
    replicas = _replicas(flags.replica or (), served)
    agents = _agents(served)
    return FrontOptions(
        listen=_ip(flags.listen, "--listen"),
        admin=_ip(flags.admin, "--admin"),
        replicas=replicas,
        agents=agents,
        path="" if agents else urlsplit(served.public_url).path.rstrip("/"),
        tls=None
        if certificate is None
        else ServerTlsValues(str(certificate), str(flags.ssl_keyfile or ""), str(flags.ssl_ca_certs or "")),
        replica_tls=_replica_tls(flags.replica_name, flags.replica_cacert, served),
        max_connections=served.max_connections * len(replicas),
        max_connection_streams=served.max_connection_streams,
        removed_headers=(served.proxy_user_header,) if served.proxy_user_header else (),
    )


def _replicas(named: Sequence[str], served: ServerFlags) -> tuple[Replica, ...]:
    one_port = served.envoy_address
    http = 0 if served.no_http else listen_address(one_port or served.http, "--http")[1]
    grpc = 0 if served.no_grpc else listen_address(one_port or served.grpc, "--grpc")[1]
    if not named:
        raise usage_error("--replica", "at least one is needed: a host name or address that Envoy can reach")
    return tuple(_replica(text, http, grpc, served) for text in named)


def _replica(text: str, http: int, grpc: int, served: ServerFlags) -> Replica:
    """The replica that a flag names. http, grpc: ports that it does not name. Raises typer.BadParameter."""
    from a2a_bridge.cli.envoy.front import Replica

    host, _, rest = text.partition("]") if text.startswith("[") else text.partition(":")
    host, ports = host.lstrip("["), [one for one in rest.lstrip(":").split(":") if one]
    if (
        not host
        or len(ports) > 2
        or not all(one.isascii() and one.isdigit() and 0 < int(one) <= 65535 for one in ports)
    ):
        raise usage_error("--replica", f"{text!r} is not HOST, HOST:PORT or HOST:PORT:GRPC_PORT")
    numbers = [int(one) for one in ports]
    one_port = served.server is ServerKind.ENVOY
    if numbers and not served.no_http:
        http = numbers[0]
    if not served.no_grpc and (len(numbers) > 1 or (numbers and (one_port or served.no_http))):
        grpc = numbers[-1]
    for port, missing, name in ((http, served.no_http, "--http"), (grpc, served.no_grpc, "--grpc")):
        if not missing and not port:
            raise usage_error(
                "--replica",
                f"the replicas have {name} with port 0, so the port has to be named: HOST:PORT:GRPC_PORT",
            )
    return Replica(host, http, grpc)


def _agents(served: ServerFlags) -> tuple[FrontAgent, ...]:
    from a2a_bridge.cli.envoy.front import FrontAgent

    agents = getattr(served, "agents", {})
    found = []
    for name, settings in agents.items():
        own = 0
        if "grpc" in settings.given and settings.grpc:
            own = listen_address(settings.grpc, f"[agents.{name}] grpc")[1]
        found.append(FrontAgent(name, settings.host.lower(), own))
    return tuple(found)


def _replica_tls(name: str, ca: Path | None, served: ServerFlags) -> ReplicaTls | None:
    from a2a_bridge.cli.envoy.front import ReplicaTls

    if served.ssl_certfile is None:
        needs = {"--replica-name": name, "--replica-cacert": ca}
        for hint, value in needs.items():
            if value:
                raise usage_error(hint, "the replicas have no TLS: ssl_certfile")
        return None
    if served.ssl_ca_certs is not None:
        raise usage_error(
            "--config",
            "the replicas ask for client certificates, which Envoy does not pass on; ask for them at Envoy:"
            " --ssl-ca-certs here, and none in the configuration of the replicas",
        )
    found = name or urlsplit(served.public_url).hostname
    if not found:
        raise usage_error(
            "--replica-name", "the replicas speak TLS: the name in their certificates is needed"
        )
    return ReplicaTls(found, ca)


def _ip(text: str, name: str) -> tuple[str, int]:
    host, port = listen_address(text, name)
    try:
        ip_address(host)
    except ValueError:
        raise usage_error(
            name, f"{host!r} is no IP address, and Envoy resolves no names to listen on"
        ) from None
    return host, port


def _notes(served: ServerFlags, options: FrontOptions) -> list[str]:
    """What the replicas lack for their place behind Envoy."""
    from a2a_bridge.cli.envoy.front import HEALTH_INTERVAL
    from a2a_bridge.cli.running import FRONTS

    notes = []
    if not served.forwarded_allow_ips:
        notes.append(
            "the replicas do not believe the headers of Envoy, and see Envoy as the caller:"
            " --forwarded-allow-ips with the addresses of Envoy"
        )
    if not served.no_grpc and not served.public_grpc and served.server is ServerKind.BUILTIN:
        notes.append(
            "the card names the gRPC port of the replicas, not that of Envoy: --public-grpc HOST:PORT"
        )
    if (served.drain_window or 0.0) <= 2 * HEALTH_INTERVAL:
        notes.append(
            f"a replica that stops has to listen until Envoy has looked at it, which it does every"
            f" {HEALTH_INTERVAL:g} s: --drain-window 5"
        )
    kept = [f"--{name}" for name in FRONTS if getattr(served, name)]
    if kept and len(options.replicas) > 1:
        notes.append(
            f"{' and '.join(kept)}: sessions and conversations are those of one replica, and Envoy sends each"
            " request to any of them: export one --replica"
        )
    notes += [
        f"no host name leads to the gRPC port of agent {agent.name!r}: [agents.{agent.name}] host"
        for agent in options.agents
        if agent.grpc and not agent.host
    ]
    return notes
