"""The agent card as 1.0 encodes it: strict ProtoJSON with all REQUIRED members, and with no member of another
version (spec 4.4, 8.2).
"""

from __future__ import annotations

from a2a_bridge.codec import decoder, encoder
from a2a_bridge.dialects.boundary import card_decoder
from a2a_bridge.dialects.dialect import CardForm
from a2a_bridge.pb import lf_a2a_v1 as hub

WELL_KNOWN_PATH = "/.well-known/agent-card.json"

#: unknown members are ignored
decode = card_decoder(decoder(hub.AgentCard))

FORM = CardForm(paths=(WELL_KNOWN_PATH,), encode=encoder(hub.AgentCard, whole=True), decode=decode)
