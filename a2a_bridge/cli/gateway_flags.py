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
from a2a_bridge.core.option_classes import (
    DialValues,
    GrantValues,
    Limits,
    ReplayOptions,
    ServeValues,
    TokenEndpointValues,
    UpstreamValues,
)
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
    upstream_token_url: str = of(TokenEndpointValues, "url")
    upstream_issuer: str = of(TokenEndpointValues, "issuer")
    upstream_client_id: str = of(TokenEndpointValues, "client_id")
    upstream_client_secret: str = flag(
        "",
        "Client secret of this gateway; from a file or the variable only.",
        "@FILE",
        group="Upstream",
        secret=True,
    )
    upstream_client_auth: ClientAuth = of(TokenEndpointValues, "method", default=ClientAuth.AUTO)
    upstream_scope: str = of(GrantValues, "scope")
    upstream_audience: str = of(GrantValues, "audience")
    upstream_resource: str = of(GrantValues, "resource")
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
