"""The flags of `--server envoy`, and the options of Envoy that follow from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.options import PREFIX, Exit, LogLevel, LoopKind, listen_address
from a2a_bridge.core.extras import MissingExtraError


class ServerKind(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """The server that listens."""

    BUILTIN = "builtin"
    ENVOY = "envoy"


Server = Annotated[
    ServerKind,
    typer.Option(
        envvar=PREFIX + "SERVER",
        help="builtin: aiohttp and grpc.aio; envoy: one port for everything, with TLS (extra `envoy`).",
    ),
]
Listen = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar=PREFIX + "LISTEN",
        help="Envoy: listen here for every binding; port 0 takes a free port. Default: 127.0.0.1:8080.",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--ssl-certfile",
        metavar="FILE",
        envvar=PREFIX + "SSL_CERTFILE",
        help="Envoy: serve with TLS, with this certificate and its chain (PEM).",
    ),
]
CertificateKey = Annotated[
    Path | None,
    typer.Option(
        "--ssl-keyfile",
        metavar="FILE",
        envvar=PREFIX + "SSL_KEYFILE",
        help="Envoy: private key of --ssl-certfile, if it is not in the same file.",
    ),
]
ClientAuthorities = Annotated[
    Path | None,
    typer.Option(
        "--ssl-ca-certs",
        metavar="FILE",
        envvar=PREFIX + "SSL_CA_CERTS",
        help="Envoy: refuse callers without a client certificate of these authorities (PEM).",
    ),
]
PrintConfig = Annotated[
    bool, typer.Option("--print-envoy-config", help="Print the configuration of Envoy and exit.")
]

#: flags of each server that the other one does not have
_OF_ENVOY = ("listen", "ssl_certfile", "ssl_keyfile", "ssl_ca_certs", "print_envoy_config")
_OF_BUILTIN = ("http", "grpc")
_LISTEN = "127.0.0.1:8080"
#: see HostOptions and the HTTP host: a test compares
MAX_HEADER, HEADER_TIMEOUT, IDLE_TIMEOUT, BACKLOG = 16384, 20.0, 75.0, 1024


@dataclass(frozen=True, slots=True)
class EnvoyFlags:
    """The flags of Envoy, and those of all servers that concern it."""

    server: ServerKind
    listen: str
    ssl_certfile: Path | None
    ssl_keyfile: Path | None
    ssl_ca_certs: Path | None
    print_envoy_config: bool
    max_body: int
    max_connections: int
    max_connection_streams: int
    #: whether headers of proxies are trusted
    trusts_proxies: bool
    workers: int
    loop: LoopKind
    log_level: LogLevel
    grace: float

    @property
    def address(self) -> str:
        """HOST:PORT that Envoy listens on; empty if another server listens."""
        return (self.listen or _LISTEN) if self.server is ServerKind.ENVOY else ""

    def run_if_asked(self, context: typer.Context) -> None:
        """Runs the command in Envoy, if the flags ask for that and this process is not Envoy already.

        Raises typer.Exit at the end of Envoy, typer.BadParameter for flags of another server and for
        unusable files.
        """
        if inside() is not None:
            return
        for name in _OF_BUILTIN if self.server is ServerKind.ENVOY else _OF_ENVOY:
            source = context.get_parameter_source(name)
            if source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
                flag = f"--{name.replace('_', '-')}"
                if self.server is ServerKind.ENVOY:
                    raise typer.BadParameter(
                        "Envoy has one port for every binding: --listen", param_hint=flag
                    )
                raise typer.BadParameter("needs --server envoy", param_hint=flag)
        if self.server is ServerKind.BUILTIN:
            return
        if self.workers > 1:
            raise typer.BadParameter(
                "Envoy runs one interpreter; start several replicas instead", param_hint="--workers"
            )
        raise typer.Exit(self._run())

    def _run(self) -> int:
        from a2a_bridge.cli.envoy import supervisor
        from a2a_bridge.cli.envoy.bootstrap import EnvoyOptions, bootstrap
        from a2a_bridge.cli.output import fail

        host, port = listen_address(self.address, "--listen")
        tls = self._tls()
        try:
            hosts = supervisor.addresses(host, port)
            options = EnvoyOptions(
                hosts=tuple(hosts),
                port=port,
                module=supervisor.module(),
                admin=supervisor.ADMIN,
                loop="asyncio" if self.loop is LoopKind.ASYNCIO else "uvloop",
                max_body=self.max_body,
                max_connections=self.max_connections,
                max_connection_streams=self.max_connection_streams,
                max_header=MAX_HEADER,
                header_timeout=HEADER_TIMEOUT,
                idle_timeout=IDLE_TIMEOUT,
                backlog=BACKLOG,
                trusts_proxies=self.trusts_proxies,
                tls=tls,
            )
            if self.print_envoy_config:
                typer.echo(json.dumps(bootstrap(options), indent=2))
                return Exit.OK
            for one in hosts:
                supervisor.check_free(one, port)
            return supervisor.run(options, self.log_level, self.grace)
        except MissingExtraError as error:
            raise fail(Exit.USAGE, f"--server envoy: {error.text}", error.remedy) from None
        except supervisor.NoLibraryError as error:
            raise fail(Exit.USAGE, f"--server envoy: {error}", error.remedy) from None
        except OSError as error:
            raise fail(Exit.USAGE, f"cannot listen: {error}", "another port, or port 0 for any") from None

    def _tls(self) -> Any:
        from a2a_bridge.cli.envoy.bootstrap import Tls

        if self.ssl_certfile is None:
            for value, flag in (
                (self.ssl_keyfile, "--ssl-keyfile"),
                (self.ssl_ca_certs, "--ssl-ca-certs"),
            ):
                if value:
                    raise typer.BadParameter("needs --ssl-certfile", param_hint=flag)
            return None
        tls = Tls(self.ssl_certfile, self.ssl_keyfile or self.ssl_certfile, self.ssl_ca_certs)
        _check(tls)
        return tls


def _check(tls: Any) -> None:
    """Raises typer.BadParameter for files that cannot be used: Envoy would only say that it cannot start."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    flag = "--ssl-certfile"
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        flag = "--ssl-ca-certs"
        if tls.clients is not None:
            context.load_verify_locations(tls.clients)
    except OSError as error:
        raise typer.BadParameter(f"cannot be used: {error}", param_hint=flag) from None
