"""The options of a gateway for its agent: credentials, and what happens when the agent fails."""

from __future__ import annotations

from dataclasses import dataclass

from a2a_bridge.gateway.credentials import UpstreamCredentials


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """See docs/upstreams.md. Times in seconds."""

    #: what proves the caller to the agent; None: what the options of the client side and of the edge say
    credentials: UpstreamCredentials | None = None
