"""Which interfaces of a card a caller can use, best first. It opens no connection."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from a2a_bridge.bindings import Resolve
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0, Dialect, Kind, by_version
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class Candidate:
    """An interface together with the dialect to speak there."""

    interface: hub.AgentInterface
    dialect: Dialect
    #: whether the parameters of DialOptions, which may be credentials, are sent there
    credentials: bool = True
    #: says for every connection which addresses may be connected to, where the host is not trusted
    resolve: Resolve | None = None


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
        if binding in ("", interface.protocol_binding)
        and (dialect := _spoken(interface, known)) is not None
        and (not version or dialect is wanted)
    ]
    if found:
        return found
    offers = ", ".join(map(_words, card.supported_interfaces))
    asked = " ".join(filter(None, (binding, version))) or "anything this client speaks"
    raise A2AError(
        Reason.UNSUPPORTED_OPERATION,
        f"the card offers no interface for {asked}; it offers: {offers or 'none'}",
        blame=Blame.PEER,
    )


def unusable(card: hub.AgentCard, *, known: Collection[str]) -> list[str]:
    """Why interfaces of a card can never be used: one text each, in the card's order. known: the bindings at hand."""
    texts = []
    for interface in card.supported_interfaces:
        if _spoken(interface, known) is not None:
            continue
        dialect = _dialect(interface)
        if interface.protocol_binding not in known:
            why = f"the binding {interface.protocol_binding!r} is unknown"
        elif dialect is None:
            why = f"the version {interface.protocol_version!r} is unknown"
        else:
            why = f"version {dialect.version} has no {interface.protocol_binding}"
        texts.append(f"{_words(interface)} {interface.url}: {why}")
    return texts


def _spoken(interface: hub.AgentInterface, known: Collection[str]) -> Dialect | None:
    """The dialect to speak at an interface; None when its binding or version is unknown, or do not go together."""
    dialect = _dialect(interface)
    if dialect is None or interface.protocol_binding not in known:
        return None
    return dialect if dialect.form(Kind(interface.protocol_binding)) is not None else None


def _dialect(interface: hub.AgentInterface) -> Dialect | None:
    return by_version(interface.protocol_version or V1_0.version)


def _words(interface: hub.AgentInterface) -> str:
    return f"{interface.protocol_binding} {interface.protocol_version}".rstrip()
