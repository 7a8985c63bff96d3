"""Agent cards: building, fetching and selecting an interface. Pure but for the Fetch of the caller."""

from a2a_bridge.cards.build import Advertisement, Mounted, interface
from a2a_bridge.cards.resolve import Resolver, resolve
from a2a_bridge.cards.select import Candidate, select
from a2a_bridge.core.option_classes import GrpcUrls

__all__ = ["Advertisement", "Candidate", "GrpcUrls", "Mounted", "Resolver", "interface", "resolve", "select"]
