"""From flags to the keys that sign cards, and to those that verify the card of an agent."""

from __future__ import annotations

from pathlib import Path

import typer

from a2a_bridge.auth import KeySetSource
from a2a_bridge.auth.card_trust import CardTrust
from a2a_bridge.bindings.binding import CheckCard
from a2a_bridge.cards.build import WILDCARDS
from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.flags import CardTrustFlags, ServerFlags
from a2a_bridge.cli.options import file_text, listen_address
from a2a_bridge.signing import CardSigner

_SIGN = "--card-signing-key"


def card_signing_keys(flags: ServerFlags) -> tuple[str, ...]:
    """The keys of `--card-signing-key`, newest first. Raises typer.BadParameter."""
    keys = tuple(file_text(path, _SIGN) for path in flags.card_signing_key or ())
    if not keys:
        return ()
    if flags.no_http:
        raise typer.BadParameter("the card is served over HTTP", param_hint=_SIGN)
    wild = [
        one
        for one, flag, served in (
            (flags.http, "--http", True),
            (flags.grpc, "--grpc", not flags.no_grpc and not flags.public_grpc),
        )
        if served and listen_address(one, flag)[0] in WILDCARDS
    ]
    if not flags.public_url and (wild or inside() is not None):
        raise typer.BadParameter(
            "needs --public-url: a signed card cannot follow the Host header, which callers choose",
            param_hint=_SIGN,
        )
    try:
        CardSigner(keys)
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error), param_hint=_SIGN) from None
    return keys


def check_card(flags: CardTrustFlags, ca: Path | None) -> CheckCard | None:
    """How the card of the agent is checked; None if it is not. ca: trusted authorities for key sets. Raises
    typer.BadParameter.
    """
    keys, hosts = flags.card_keys or (), flags.card_jku_host or ()
    if not keys and not hosts:
        if flags.require_signed_card:
            raise typer.BadParameter(
                "needs --card-keys FILE|URL, or --card-jku-host HOST", param_hint="--require-signed-card"
            )
        return None
    try:
        trust = CardTrust(keys, required=flags.require_signed_card, jku_hosts=hosts, ca=str(ca or ""))
        for source in keys:
            check_key_file(KeySetSource(source, source), source, "--card-keys")
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error), param_hint="--card-keys") from None
    return trust.check


def check_key_file(keys: KeySetSource, source: str, flag: str) -> None:
    """Raises typer.BadParameter if keys are in a file that has none."""
    try:
        keys.check_file()
    except (OSError, ValueError) as error:
        reason = (
            f"cannot be read: {error.strerror}" if isinstance(error, OSError) else f"has no keys: {error}"
        )
        raise typer.BadParameter(f"{source} {reason}", param_hint=flag) from None
