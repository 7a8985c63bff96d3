"""The flags of `gateway`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from a2a_bridge.cli.agent_settings import AgentSettings
from a2a_bridge.cli.declared import table
from a2a_bridge.cli.flags import ServerFlags, UpstreamFlags, flag


@dataclass(frozen=True, kw_only=True)
class GatewayFlags(ServerFlags, UpstreamFlags):
    """The flags of `gateway`, with the defaults of ReplayOptions; a test compares them."""

    agents: Mapping[str, AgentSettings] = table(dict, "The agents, by name.", live=True)
    push_relay: str = flag(
        "",
        "Relay push notifications in the version of their receivers; URL of this gateway.",
        "URL",
        group="Push notifications",
    )
    store: str = flag(
        "",
        "Store of the notifications of --push-relay: sqlite:///PATH, postgresql://…; default: memory.",
        "URL",
        group="Store",
        common=True,
        secret=True,
    )
    linger: float = flag(
        30.0,
        "Keep the stream of an agent that cannot resume open this long without readers.",
        "SECONDS",
        least=0,
        group="Upstream",
    )
    replay_memory: int = flag(
        67108864,
        "Memory for events of streams, for readers that resume or join; 0: keep none.",
        "BYTES",
        least=0,
        group="Limits",
    )
    revalidate: float = flag(
        60.0,
        "Cache the agent's permission for a caller to join a stream this long; 0: ask each time.",
        "SECONDS",
        least=0,
        group="Upstream",
    )
