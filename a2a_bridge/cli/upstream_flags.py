"""The flags of `gateway` for its agent: credentials, and what happens when the agent fails.

`--version` loads this module, so it imports nothing but the declaration of flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from a2a_bridge.cli.declared import flag


class UpstreamAuth(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """What is sent to the agent to prove who calls."""

    PASS_THROUGH = "pass-through"  # noqa: S105  no secret
    STATIC = "static"
    CLIENT_CREDENTIALS = "client-credentials"
    TOKEN_EXCHANGE = "token-exchange"  # noqa: S105  no secret
    NONE = "none"


class TaskAccess(str, Enum):  # noqa: UP042
    """Which tasks a caller reaches, if the agent cannot tell callers apart."""

    OWN = "own"
    UNOWNED = "unowned"
    ALL = "all"


class ClientAuth(str, Enum):  # noqa: UP042
    """How the gateway proves its identity to the token endpoint."""

    AUTO = "auto"
    BASIC = "basic"
    POST = "post"


@dataclass(frozen=True, kw_only=True)
class ReachFlags:
    """How a gateway calls its agent."""

    upstream_auth: UpstreamAuth | None = flag(
        None,
        "Credentials for the agent; default: those of callers, unless this gateway authenticates callers.",
        group="Upstream",
    )
    upstream_token_url: str = flag(
        "", "Token endpoint (OAuth 2) of the agent's identity provider.", "URL", group="Upstream"
    )
    upstream_issuer: str = flag(
        "",
        "Identity provider of the agent, whose discovery document names the token endpoint.",
        "URL",
        group="Upstream",
    )
    upstream_client_id: str = flag(
        "", "Client id of this gateway at the token endpoint.", "ID", group="Upstream"
    )
    upstream_client_secret: str = flag(
        "",
        "Client secret of this gateway; from a file or the variable only.",
        "@FILE",
        group="Upstream",
        secret=True,
    )
    upstream_client_auth: ClientAuth = flag(
        ClientAuth.AUTO,
        "How the secret is sent to the token endpoint; auto: as the issuer says, else basic.",
        group="Upstream",
    )
    upstream_scope: str = flag("", "Scopes of the token, separated by spaces.", "SCOPES", group="Upstream")
    upstream_audience: str = flag("", "Audience of the token.", "AUDIENCE", group="Upstream")
    upstream_resource: str = flag("", "Resource of the token (RFC 8707).", "URI", group="Upstream")
    # The defaults are those of UpstreamOptions; a test compares them.
    endpoint: list[str] | None = flag(
        None,
        "Further address of the agent, to share the calls with; may be repeated.",
        "URL|HOST:PORT",
        group="Upstream",
    )
    affinity: bool = flag(
        True,
        "Send calls about a task to the endpoint that has it.",
        None,
        "--affinity/--no-affinity",
        group="Upstream",
    )
    retries: int = flag(
        2,
        "Repetitions of a call that did not reach the agent, and of a read that it was not ready for.",
        "N",
        least=0,
        group="Upstream",
    )
    card_refresh: float = flag(
        300.0,
        "Read the card of the agent again after this time at the latest; 0: never.",
        "SECONDS",
        least=0,
        group="Upstream",
    )
    task_access: TaskAccess = flag(
        TaskAccess.OWN,
        "Tasks that a caller reaches, if the agent cannot tell callers apart.",
        group="Authentication",
    )
