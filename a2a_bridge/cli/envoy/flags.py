"""From the flags of `--server envoy` to the options of Envoy, and to the command running in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.flags import ClientCertificate, LogFormat, LoopKind, ServerFlags, ServerKind
from a2a_bridge.cli.options import Exit, listen_address
from a2a_bridge.cli.reading import Reading
from a2a_bridge.core.extras import MissingExtraError

if TYPE_CHECKING:
    from a2a_bridge.cli.envoy.bootstrap import Tls


#: flags of each server that the other one does not have
_OF_ENVOY = ("listen", "print_envoy_config")
_OF_BUILTIN = ("http", "grpc")
_LISTEN = "127.0.0.1:8080"
#: see HostOptions and the HTTP host: a test compares
MAX_HEADER, HEADER_TIMEOUT, IDLE_TIMEOUT, BACKLOG = 16384, 20.0, 75.0, 1024


def address(flags: ServerFlags) -> str:
    """HOST:PORT that Envoy listens on; empty if another server listens."""
    return (flags.listen or _LISTEN) if flags.server is ServerKind.ENVOY else ""


def run_if_requested(context: typer.Context, flags: ServerFlags) -> None:
    """Runs the command in Envoy, if the flags ask for that and this process is not Envoy already.

    Raises typer.Exit at the end of Envoy, typer.BadParameter for flags of another server and for unusable
    files.
    """
    if inside() is not None:
        return
    envoy, read = flags.server is ServerKind.ENVOY, Reading.of_context(context)
    for name in _OF_BUILTIN if envoy else _OF_ENVOY:
        if not read.is_default(name):
            hint = f"--{name.replace('_', '-')}"
            reason = "Envoy has one port for every binding: --listen" if envoy else "needs --server envoy"
            raise typer.BadParameter(reason, param_hint=hint)
    if not envoy:
        return
    if flags.workers > 1:
        raise typer.BadParameter(
            "Envoy runs one interpreter; start several replicas instead", param_hint="--workers"
        )
    raise typer.Exit(_run(flags))


def _run(flags: ServerFlags) -> int:
    from a2a_bridge.cli.envoy import supervisor
    from a2a_bridge.cli.envoy.bootstrap import EnvoyOptions, bootstrap
    from a2a_bridge.cli.log_setup import configure_logging
    from a2a_bridge.cli.output import cannot_listen, fail

    configure_logging(flags)
    host, port = listen_address(address(flags), "--listen")
    tls = _tls(flags)
    try:
        hosts = supervisor.addresses(host, port)
        options = EnvoyOptions(
            hosts=tuple(hosts),
            port=port,
            module=supervisor.module(),
            admin=supervisor.ADMIN,
            loop="asyncio" if flags.loop is LoopKind.ASYNCIO else "uvloop",
            max_body=flags.max_body,
            max_connections=flags.max_connections,
            max_connection_streams=flags.max_connection_streams,
            max_header=MAX_HEADER,
            header_timeout=HEADER_TIMEOUT,
            idle_timeout=IDLE_TIMEOUT,
            backlog=BACKLOG,
            trusts_proxies=bool(flags.forwarded_allow_ips),
            tls=tls,
        )
        if flags.print_envoy_config:
            typer.echo(json.dumps(bootstrap(options), indent=2))
            return Exit.OK
        for one in hosts:
            supervisor.check_free(one, port)
        return supervisor.run(
            options,
            flags.log_level,
            flags.timeout_graceful_shutdown,
            json_log=flags.log_format is LogFormat.JSON,
            reloads=flags.config is not None,
        )
    except MissingExtraError as error:
        raise fail(Exit.USAGE, f"--server envoy: {error.text}", error.remedy) from None
    except supervisor.NoLibraryError as error:
        raise fail(Exit.USAGE, f"--server envoy: {error}", error.remedy) from None
    except OSError as error:
        raise cannot_listen(error) from None


def _tls(flags: ServerFlags) -> Tls | None:
    """The certificate files. Raises typer.BadParameter for files that cannot be used, because Envoy would
    only report that it cannot start.
    """
    from a2a_bridge.cli.envoy.bootstrap import Tls
    from a2a_bridge.cli.tls_options import server_tls

    certificate = flags.ssl_certfile
    if server_tls(flags) is None or certificate is None:
        return None
    required = flags.ssl_cert_reqs is ClientCertificate.REQUIRED
    return Tls(certificate, flags.ssl_keyfile or certificate, flags.ssl_ca_certs, required=required)
