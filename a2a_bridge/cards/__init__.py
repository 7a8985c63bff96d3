"""Agent cards: building, resolving and choosing from them. Pure but for the Fetch that is handed in."""

from a2a_bridge.cards.build import Advertisement, GrpcUrls, Mounted, interface
from a2a_bridge.cards.resolve import Located, Resolver, locate, resolve
from a2a_bridge.cards.select import Candidate, select, unusable

__all__ = [
    "Advertisement",
    "Candidate",
    "GrpcUrls",
    "Located",
    "Mounted",
    "Resolver",
    "interface",
    "locate",
    "resolve",
    "select",
    "unusable",
]
