"""From the flags of `gateway` for its agent to options. It opens no connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from a2a_bridge.app.planning import ServeOptions, identifies
from a2a_bridge.cli.options import PREFIX, file_text
from a2a_bridge.cli.upstream_flags import ClientAuth, ReachFlags, UpstreamAuth
from a2a_bridge.gateway.credentials import (
    ClientCredentials,
    StaticCredentials,
    TokenEndpoint,
    TokenExchange,
    UpstreamCredentials,
)
from a2a_bridge.gateway.endpoints import check_endpoint

_SECRET = "--upstream-client-secret"  # noqa: S105  the name of a flag
#: the kinds that ask a token endpoint
_TOKENS = (UpstreamAuth.CLIENT_CREDENTIALS, UpstreamAuth.TOKEN_EXCHANGE)


def with_upstream(
    options: ServeOptions, flags: ReachFlags, parameters: Mapping[str, str], *, ca: str = ""
) -> ServeOptions:
    """The options of a gateway with those of the flags.

    parameters: those of every call. ca: PEM file of trusted authorities for the token endpoint. Raises
    typer.BadParameter.
    """
    for text in flags.endpoint or ():
        try:
            check_endpoint(text)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--endpoint") from None
    if flags.upstream_auth is UpstreamAuth.TOKEN_EXCHANGE and not identifies(options):
        raise typer.BadParameter(
            "is token-exchange, which needs callers that this gateway authenticates by bearer tokens",
            param_hint="--upstream-auth",
        )
    upstream = replace(
        options.upstream,
        credentials=_credentials(flags, parameters, ca),
        endpoints=tuple(flags.endpoint or ()),
        affinity=flags.affinity,
        retries=flags.retries,
        card_refresh=flags.card_refresh,
    )
    passes = flags.upstream_auth is UpstreamAuth.PASS_THROUGH
    return replace(
        options,
        upstream=upstream,
        pass_credentials=options.pass_credentials or passes,
        task_access=flags.task_access.value,
    )


def _credentials(flags: ReachFlags, parameters: Mapping[str, str], ca: str) -> UpstreamCredentials | None:
    kind = flags.upstream_auth
    if kind not in _TOKENS:
        _reject_token_flags(flags)
    if kind is None:
        return None
    if "authorization" in parameters and kind is not UpstreamAuth.STATIC:
        raise typer.BadParameter(
            f"is {kind.value}, and a header Authorization is configured for all calls",
            param_hint="--upstream-auth",
        )
    if kind is UpstreamAuth.PASS_THROUGH:
        return None
    if kind is UpstreamAuth.NONE:
        return StaticCredentials({})
    if kind is UpstreamAuth.STATIC:
        if not parameters:
            raise typer.BadParameter(
                f"is static, which needs -H 'NAME: @FILE' or {PREFIX}HEADER_NAME",
                param_hint="--upstream-auth",
            )
        # The client side sends them already.
        return StaticCredentials({}, also=frozenset(parameters))
    make = ClientCredentials if kind is UpstreamAuth.CLIENT_CREDENTIALS else TokenExchange
    return make(
        _endpoint(flags, ca),
        scope=flags.upstream_scope,
        audience=flags.upstream_audience,
        resource=flags.upstream_resource,
    )


def _endpoint(flags: ReachFlags, ca: str) -> TokenEndpoint:
    if bool(flags.upstream_token_url) == bool(flags.upstream_issuer):
        raise typer.BadParameter(
            "needs one of --upstream-token-url and --upstream-issuer", param_hint="--upstream-auth"
        )
    try:
        return TokenEndpoint(
            url=flags.upstream_token_url,
            issuer=flags.upstream_issuer,
            client_id=flags.upstream_client_id,
            secret=_secret(flags.upstream_client_secret),
            method="" if flags.upstream_client_auth is ClientAuth.AUTO else flags.upstream_client_auth.value,
            ca=ca,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--upstream-auth") from None


def _secret(text: str) -> Callable[[], str]:
    """Reads the client secret. A file is read for each token, because secrets are rotated."""
    if not text:
        raise typer.BadParameter("is missing", param_hint=_SECRET)
    if text.startswith("@"):
        file_text(text[1:], _SECRET)
        return partial(_read, text[1:])
    if text != os.environ.get(PREFIX + "UPSTREAM_CLIENT_SECRET"):
        # Everybody on the machine can read the arguments of a process.
        raise typer.BadParameter(
            f"is @FILE; the secret itself belongs into {PREFIX}UPSTREAM_CLIENT_SECRET", param_hint=_SECRET
        )
    return lambda: text


def _read(path: str) -> str:
    return Path(path).read_text("utf-8").strip()


def _reject_token_flags(flags: ReachFlags) -> None:
    for name in ("token_url", "issuer", "client_id", "client_secret", "scope", "audience", "resource"):
        if getattr(flags, f"upstream_{name}"):
            raise typer.BadParameter(
                "needs --upstream-auth client-credentials or token-exchange",
                param_hint=f"--upstream-{name.replace('_', '-')}",
            )
