"""The gateway: any client to any upstream. A dialled client is mounted in the place of an agent."""

from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.gateway.cards import (
    note_signatures,
    rewrite,
    rewrite_extended_card,
    synthesise_card,
    without_lacking,
)
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.failover import Failover, dial_failover
from a2a_bridge.gateway.polyfill import add_polyfill
from a2a_bridge.gateway.stream_sharing import StreamSharing
from a2a_bridge.gateway.upstream import Dial, Upstream, is_connect_failure

__all__ = [
    "Dial",
    "Failover",
    "ReplayOptions",
    "StreamSharing",
    "Upstream",
    "UpstreamOptions",
    "add_polyfill",
    "dial_failover",
    "is_connect_failure",
    "note_signatures",
    "rewrite",
    "rewrite_extended_card",
    "synthesise_card",
    "without_lacking",
]
