"""Agent cards: building, resolving and choosing from them. Pure but for the Fetch that is handed in."""

from a2a_bridge.cards.build import Advertisement, GrpcUrls, Mounted, interface
from a2a_bridge.cards.resolve import Resolver, resolve
from a2a_bridge.cards.select import Candidate, select

__all__ = ["Advertisement", "Candidate", "GrpcUrls", "Mounted", "Resolver", "interface", "resolve", "select"]
