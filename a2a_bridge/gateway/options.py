"""The options of a gateway for its agent: credentials, and what happens when the agent fails or changes."""

from __future__ import annotations

from dataclasses import dataclass

from a2a_bridge.gateway.card_refresh import ReadCard
from a2a_bridge.gateway.credentials import UpstreamCredentials


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """See docs/upstreams.md. Times in seconds."""

    #: what proves the caller to the agent; None: what the options of the client side and of the edge say
    credentials: UpstreamCredentials | None = None
    #: repetitions of a call that could not reach the agent, and of a read that it was not ready for; 0: none
    retries: int = 2
    #: repetitions as a share of all calls, and how many more a few calls may cause
    retry_share: float = 0.2
    retry_burst: float = 10.0
    #: failures to connect in a row after which an endpoint gets nothing for a pause
    trip: int = 5
    #: the first and the longest of these pauses
    pause: float = 1.0
    longest_pause: float = 10.0
    #: further endpoints of the agent: http(s) URLs, or `host:port` of gRPC (see `gateway.endpoints`)
    endpoints: tuple[str, ...] = ()
    #: whether calls about a task go to the endpoint that has it
    affinity: bool = True
    #: reads the card of the agent again; None: it stays as it is
    read_card: ReadCard | None = None
    #: the longest time after which it is read again
    card_refresh: float = 300.0

    @property
    def is_apart(self) -> bool:
        """Whether there are endpoints that do not share their tasks."""
        return bool(self.endpoints) and self.affinity
