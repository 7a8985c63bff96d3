"""The agent card as 1.0 spells it: strict ProtoJSON, with no member of another version (spec 4.4, 8.2)."""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import DecodeError, decoder, encoder
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects.dialect import CardForm
from a2a_bridge.pb import lf_a2a_v1 as hub

WELL_KNOWN_PATH = "/.well-known/agent-card.json"

_decode = decoder(hub.AgentCard)


def decode(wire: Any) -> hub.AgentCard:
    """JSON → card; unknown members are ignored. Raises INVALID_AGENT_RESPONSE with the path of the member."""
    try:
        card: hub.AgentCard = _decode(wire)
    except DecodeError as error:
        text = f"not an agent card: {error}"
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER) from None
    return card


FORM = CardForm(paths=(WELL_KNOWN_PATH,), encode=encoder(hub.AgentCard), decode=decode)
