"""Agent cards: building, resolving and choosing from them. Pure but for the Fetch that is handed in."""

from a2a_bridge.cards.build import Advertisement, Mounted, interface
from a2a_bridge.cards.resolve import Resolver, resolve
from a2a_bridge.cards.select import Candidate, select

__all__ = ["Advertisement", "Candidate", "Mounted", "Resolver", "interface", "resolve", "select"]
