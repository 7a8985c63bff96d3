"""Which interfaces of a card a caller can use, best first. It opens no connection."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import Dialect, by_version
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class Candidate:
    """An interface together with the dialect to speak there."""

    interface: hub.AgentInterface
    dialect: Dialect


def select(
    card: hub.AgentCard, *, known: Collection[str], binding: str = "", version: str = ""
) -> list[Candidate]:
    """The usable interfaces in the card's order, which is the agent's preference (spec 8.3).

    known: the bindings at hand. binding, version: what was asked for, if anything.
    Raises A2AError UNSUPPORTED_OPERATION that lists what the card offers when nothing is usable.
    """
    wanted = by_version(version) if version else None
    found = [
        Candidate(interface, dialect)
        for interface in card.supported_interfaces
        if interface.protocol_binding in known
        and binding in ("", interface.protocol_binding)
        and (dialect := by_version(interface.protocol_version)) is not None
        and (not version or dialect is wanted)
    ]
    if found:
        return found
    offers = ", ".join(f"{i.protocol_binding} {i.protocol_version}" for i in card.supported_interfaces)
    asked = " ".join(filter(None, (binding, version))) or "anything this client speaks"
    raise A2AError(
        Reason.UNSUPPORTED_OPERATION,
        f"the card offers no interface for {asked}; it offers: {offers or 'none'}",
        blame=Blame.PEER,
    )
