"""Errors of 0.2.5: those of 0.3, without a number for a missing extended card (spec 0.2.5, 8).

A request for such a card gets HTTP 404 in 0.2.5. Elsewhere the number -32007 is kept, and explained by
details.
"""

from __future__ import annotations

from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects.v0_3.errors import KNOWN, Spelling

SPELLING = Spelling(KNOWN - {Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED})
