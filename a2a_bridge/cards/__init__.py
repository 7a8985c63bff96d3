"""Agent cards: building, fetching and selecting an interface. Pure except for the Fetch that the caller
passes in.
"""

from a2a_bridge.cards.build import Advertisement, GrpcUrls, Mounted, interface
from a2a_bridge.cards.resolve import Resolver, resolve
from a2a_bridge.cards.select import Candidate, select

__all__ = ["Advertisement", "Candidate", "GrpcUrls", "Mounted", "Resolver", "interface", "resolve", "select"]
