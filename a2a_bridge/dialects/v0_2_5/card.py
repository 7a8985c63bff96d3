"""The agent card of 0.2.5: that of 0.3 at another path (spec 0.2.5, 5.3). Additions of 0.3 are further
members.
"""

from __future__ import annotations

from a2a_bridge.dialects.v0_3.card import OLD_WELL_KNOWN_PATH, card_form

#: the version of cards that name none
VERSION = "0.2.5"

FORM = card_form(VERSION, OLD_WELL_KNOWN_PATH)
