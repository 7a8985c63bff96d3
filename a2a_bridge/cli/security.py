"""From the flags about security to authentication, middleware, TLS, and keys that sign or verify cards.

Rules:
1. API keys, JWTs and proxy headers are asked in this order. Client certificates identify callers where
   nothing else does; beside another method the listener requires them, and the other method names the caller.
2. A server that listens on more than this machine and checks nobody says so once.
3. The supervisor of Envoy checks TLS files with `server_tls`, and loads no protobuf.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.flags import CardTrustFlags
from a2a_bridge.cli.output import fail, print_message
from a2a_bridge.cli.server_flags import ClientCertificate, ServerFlags, TaskAccess, UpstreamAuth
from a2a_bridge.cli.values import Exit, as_usage_error, listen_address, usage_error
from a2a_bridge.cli.worker import Worker
from a2a_bridge.core.addresses import ListenAddress
from a2a_bridge.core.option_classes import CardTrustValues, JwtValues, ServerTlsValues
from a2a_bridge.core.options import taken, texts

if TYPE_CHECKING:
    from a2a_bridge.app.planning import ServeOptions
    from a2a_bridge.auth import Authentication, KeySetSource, Method
    from a2a_bridge.bindings.binding import CheckCard
    from a2a_bridge.bindings.server_tls import Part, ServerTls
    from a2a_bridge.cli.server_flags import GatewayFlags
    from a2a_bridge.core.service import Middleware
    from a2a_bridge.hosting import Agent

_log = logging.getLogger("a2a_bridge.cli.edge")

#: for messages: the flags that check callers
CHECKING = "--api-keys FILE, --jwt-issuer URL --jwt-audience NAME, --ssl-ca-certs FILE or --proxy-user-header"


def authentication(flags: ServerFlags) -> Authentication | None:
    """The methods of the flags, or None. Raises typer.BadParameter, typer.Exit without the extra `auth`."""
    from a2a_bridge.auth import Authentication, ClientCertificates
    from a2a_bridge.core.extras import MissingExtraError

    found: list[Method] = []
    try:
        if flags.api_keys is not None:
            found.append(_api_keys(flags.api_keys, flags.api_key_header))
        elif flags.api_key_header != ServerFlags.api_key_header:
            raise usage_error("--api-key-header", "needs --api-keys")
        found += _tokens(JwtValues(**taken(JwtValues, flags)))
        if flags.proxy_user_header:
            found.append(_proxy(flags.proxy_user_header, texts(flags.forwarded_allow_ips)))
        if flags.ssl_ca_certs is not None:
            # A certificate that every connection has to have may be that of a proxy: beside another method it
            # identifies nobody.
            identifies = flags.ssl_cert_reqs is ClientCertificate.OPTIONAL or not found
            found.append(ClientCertificates(identifies=identifies))
    except MissingExtraError as error:
        raise fail(Exit.USAGE, error.text, error.remedy) from None
    return Authentication(found) if found else None


def middleware_of(factories: Sequence[str]) -> tuple[Middleware, ...]:
    """The middleware of `--middleware`, outermost first. Raises typer.BadParameter."""
    return tuple(map(_middleware, factories))


def note_open(flags: ServerFlags) -> None:
    """Warns of a server that takes calls without credentials. The supervisor of workers does it."""
    if inside() is not None or Worker.of_environment() is not None:
        return
    if flags.allow_unauthenticated or flags.middleware or flags.checks_callers:
        return
    for text, name in flags.addresses:
        if not ListenAddress(*listen_address(text, name)).is_local:
            print_message(
                f"warning: {text} accepts calls without credentials. To check callers: {CHECKING}; "
                "to accept this without a warning: --allow-unauthenticated",
                "yellow",
            )
            return


def note_task_owners(flags: GatewayFlags) -> None:
    """For several workers: logs a warning if each of them will know the owners of its own tasks only. Raises
    typer.Exit for a store that they cannot share.
    """
    if flags.store.startswith("postgresql:"):
        return
    if flags.store.startswith("sqlite:"):
        raise fail(Exit.USAGE, "--workers: a SQLite file belongs to one process", "--store postgresql://…")
    tells = flags.upstream_auth in (UpstreamAuth.PASS_THROUGH, UpstreamAuth.TOKEN_EXCHANGE)
    if flags.checks_callers and not tells and flags.task_access is TaskAccess.OWN:
        _log.warning(
            "each worker knows only the callers of the tasks that it has seen begin, and a call may reach any"
            " worker: a task is often not found again. --store postgresql://… shares them;"
            " --upstream-auth pass-through leaves it to the agent"
        )


def check_card(agent: Agent, options: ServeOptions) -> None:
    """Raises typer.Exit if the card of an agent demands credentials that nothing here checks."""
    from a2a_bridge.app.runtime import check_credentials
    from a2a_bridge.auth import UncheckedCredentialsError

    try:
        check_credentials(agent.card, options)
    except UncheckedCredentialsError as error:
        text = (
            f"the card of {error.agent!r} asks for credentials ({', '.join(error.schemes)}), and nothing here"
            " checks them: everybody would be let in"
        )
        advice = f"{CHECKING}; --allow-unauthenticated if something in front of this server checks them"
        raise fail(Exit.USAGE, text, advice) from None


def _api_keys(file: Path, header: str) -> Method:
    from a2a_bridge.auth import ApiKeys, KeyFile

    try:
        return ApiKeys(KeyFile(file), header=header)
    except FileNotFoundError:
        create = f"a2a-bridge keys create --file {file} --id NAME"
        raise fail(Exit.USAGE, f"--api-keys: there is no file {file}", create) from None
    except OSError as error:
        raise usage_error("--api-keys", f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise usage_error("--api-keys", error) from None


def _tokens(options: JwtValues) -> list[Method]:
    from a2a_bridge.auth import BearerTokens, KeySetSource

    if not options.issuer:
        return []
    if not options.audience or not all(options.audience):
        text = "is required: without it, tokens that were made for other services would be accepted here"
        raise usage_error("--jwt-audience", text)
    with as_usage_error("--jwt-issuer", ValueError):
        keys = KeySetSource(options.issuer, options.jwks, ca=options.ca)
        check_key_file(keys, options.jwks, "--jwt-jwks")
    with as_usage_error("--jwt-algorithms", ValueError):
        return [BearerTokens.of(options, keys)]


def _proxy(header: str, trusted: tuple[str, ...]) -> Method:
    from a2a_bridge.auth import ProxyHeader

    if not trusted:
        raise usage_error(
            "--proxy-user-header", "needs --forwarded-allow-ips: otherwise every caller could name itself"
        )
    with as_usage_error("--proxy-user-header", ValueError):
        return ProxyHeader(header, trusted)


def _middleware(text: str) -> Middleware:
    from a2a_bridge.cli.target import BadTargetError, load_named, parse

    with as_usage_error("--middleware", BadTargetError):
        factory = load_named(parse(text))
    made: Any = factory() if callable(factory) else None
    if not callable(made):
        raise usage_error(
            "--middleware",
            f"{text} is no factory of middleware: it has to be callable without arguments and to return a"
            " function from a service to a service",
        )
    middleware: Middleware = made
    return middleware


def card_check(flags: CardTrustFlags, ca: Path | None) -> CheckCard | None:
    """The check of the agent's card, or None. ca: authorities for key sets. Raises typer.BadParameter."""
    from a2a_bridge.auth import KeySetSource
    from a2a_bridge.auth.card_trust import CardTrust

    options = CardTrustValues(**taken(CardTrustValues, flags))
    if not options.keys and not options.jku_hosts:
        if options.required:
            raise usage_error("--require-signed-card", "needs --card-keys FILE|URL, or --card-jku-host HOST")
        return None
    with as_usage_error("--card-keys", ValueError, ImportError):
        trust = CardTrust(**asdict(options), ca=str(ca or ""))
        for source in options.keys:
            check_key_file(KeySetSource(source, source), source, "--card-keys")
    return trust.check


def check_key_file(keys: KeySetSource, source: str, flag: str) -> None:
    """Raises typer.BadParameter if keys are in a file that has none."""
    try:
        keys.check_file()
    except (OSError, ValueError) as error:
        reason = (
            f"cannot be read: {error.strerror}" if isinstance(error, OSError) else f"has no keys: {error}"
        )
        raise usage_error(flag, f"{source} {reason}") from None


_FLAGS: dict[Part, str] = {
    "certificate": "--ssl-certfile",
    "key": "--ssl-keyfile",
    "client_ca": "--ssl-ca-certs",
}


def server_tls(options: ServerTlsValues) -> ServerTls | None:
    """The TLS of a server, if any. Raises typer.BadParameter that names the flag of an unusable file."""
    from a2a_bridge.bindings.server_tls import ServerTls, TlsFileError

    if not options.certificate:
        return None
    try:
        return ServerTls(**asdict(options))
    except TlsFileError as error:
        hint = _FLAGS[error.part]
        if error.part == "certificate" and not options.key and "private key" in str(error):
            raise usage_error(hint, f"{error}; --ssl-keyfile names its file") from None
        raise usage_error(hint, error) from None
