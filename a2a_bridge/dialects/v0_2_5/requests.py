"""The JSON-RPC methods of 0.2.5 as rows: those of 0.3 with their differences (spec 0.2.5, 7).

1. A configuration always lists media types; an empty list means none.
2. `unknown` is a state that ends a stream, so its events are `final` unless annotated otherwise.
3. The extended card is a plain GET beside the agent's URL; 0.2.6 also has a method for it.
"""

from __future__ import annotations

from a2a_bridge.dialects.v0_2_5 import card
from a2a_bridge.dialects.v0_3.params import send_params
from a2a_bridge.dialects.v0_3.requests import rows
from a2a_bridge.dialects.v0_3.shapes import FINAL_STATES, events, status_update

EXTENDED_CARD = "GET ../agent/authenticatedExtendedCard"
"""Not a method: bindings decide how to serve it."""
EXTENDED_CARD_METHOD = "agent/authenticatedExtendedCard"

SEND = send_params(modes=True)
EVENT = events(status_update(FINAL_STATES | {"unknown"}))

ROWS = rows(SEND, EVENT, card.FORM, EXTENDED_CARD, EXTENDED_CARD_METHOD)
