"""The flags of `gateway`, and its agents in a configuration file.

`--help` and `--version` load this module, so it imports nothing but declarations of flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from a2a_bridge.cli.flags import AgentFlags, CardTrustFlags
from a2a_bridge.cli.server_flags import ServedAgent, ServerFlags
from a2a_bridge.core.option_classes import DialValues, Limits, ReplayOptions, ServeValues, UpstreamValues
from a2a_bridge.core.options import Table, flag, of, required, table


class UpstreamAuth(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """The credentials that are sent to the agent."""

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
    endpoint: list[str] | None = of(UpstreamValues, "endpoints", default=None)
    affinity: bool = of(UpstreamValues, "affinity")
    retries: int = of(UpstreamValues, "retries")
    card_refresh: float = of(UpstreamValues, "card_refresh")
    task_access: TaskAccess = flag(
        TaskAccess.OWN,
        "Tasks that a caller reaches, if the agent cannot tell callers apart.",
        group="Authentication",
    )


@dataclass(frozen=True, kw_only=True)
class UpstreamFlags(AgentFlags, CardTrustFlags, ReachFlags):
    """How a gateway calls one agent."""

    card: Path | None = flag(None, "Card of the agent, if the agent serves none.", "FILE", group="Upstream")
    binding: str = flag(
        "",
        "Binding to use with the agent; default: the first of the card.",
        "BINDING",
        group="Upstream",
        aliases=("--transport",),
    )
    forward: list[str] | None = flag(
        None, "Pass on this header of the caller too; may be repeated.", "NAME", variable="", group="Upstream"
    )
    silence_timeout: float = of(DialValues, "silence_timeout")


@dataclass(frozen=True, kw_only=True)
class AgentSettings(UpstreamFlags, Table):
    """One `[agents.NAME]` of `gateway`. The command decides an option that is not in `given`."""

    upstream: str = required("The agent: URL, :PORT, host:port (gRPC) or card file.", "UPSTREAM")
    host: str = of(ServedAgent, "host")
    grpc: str = of(ServedAgent, "grpc")
    public_url: str = of(ServedAgent, "public_url")
    versions: str = of(ServedAgent, "versions")
    store: str = of(ServedAgent, "store", help="Store of this agent; see --store.")
    max_calls: int | None = of(Limits, "calls", default=None)
    max_streams: int | None = of(Limits, "streams", default=None)


@dataclass(frozen=True, kw_only=True)
class GatewayFlags(ServerFlags, UpstreamFlags):
    """The flags of `gateway`."""

    agents: Mapping[str, AgentSettings] = table(dict, "The agents, by name.", live=True)
    push_relay: str = of(ServeValues, "push_relay")
    store: str = flag(
        "",
        "Store of the notifications of --push-relay: sqlite:///PATH, postgresql://…; default: memory.",
        "URL",
        group="Store",
        common=True,
        secret=True,
    )
    linger: float = of(ReplayOptions, "linger")
    replay_memory: int = of(ReplayOptions, "total")
    revalidate: float = of(ReplayOptions, "revalidate")
