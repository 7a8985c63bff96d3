"""An agent that the playground calls: its card, its cells, and how they are dialled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.cards import Candidate, select
from a2a_bridge.cli.connect import found_at, with_user_url
from a2a_bridge.cli.target import Target
from a2a_bridge.core.masking import NONE_KNOWN, Secrets
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client.credentials import secrets_of
from a2a_bridge_tools.playground.exchange import UpstreamTap


@dataclass(frozen=True, slots=True)
class Upstream:
    """The agent behind a gateway: its card and its first interface, and what the gateway says to it."""

    card: hub.AgentCard
    candidate: Candidate
    tap: UpstreamTap
    #: that the gateway says to it
    secrets: Secrets = NONE_KNOWN


@dataclass(frozen=True, slots=True)
class Cell:
    """An interface of a card, under a name that is unique there, such as `JSONRPC 1.0`."""

    id: str
    candidate: Candidate

    def tree(self) -> dict[str, Any]:
        """It as JSON."""
        one = self.candidate.interface
        return {
            "id": self.id,
            "binding": one.protocol_binding,
            "version": one.protocol_version,
            "url": one.url,
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """An agent. target: where its card is. upstream: of a gateway."""

    name: str
    target: Target
    options: DialOptions
    upstream: Upstream | None = None
    #: its card, if that is not read at the target
    card: hub.AgentCard | None = None

    async def found(self) -> Found:
        """Reads the card. Raises A2AError, BadTargetError."""
        card, options = self.card, self.options
        if card is None:
            card, options = await found_at(self.target, self.options)
        return Found(self, card, with_user_url(self.target, options))


@dataclass(frozen=True, slots=True)
class Found:
    """An agent whose card is known. options: to dial it with."""

    subject: Subject
    card: hub.AgentCard
    options: DialOptions
    cells: Sequence[Cell] = field(init=False)

    def __post_init__(self) -> None:
        """Raises A2AError UNSUPPORTED_OPERATION for a card without a usable interface."""
        counts: dict[str, int] = {}
        made = []
        for one in select(self.card, known=names()):
            name = f"{one.interface.protocol_binding} {one.interface.protocol_version}"
            counts[name] = counts.get(name, 0) + 1
            made.append(Cell(name if counts[name] == 1 else f"{name} ({counts[name]})", one))
        object.__setattr__(self, "cells", made)

    @property
    def secrets(self) -> Secrets:
        """The known credentials, but for the credentials of a call."""
        return secrets_of(self.card, self.options)

    def choose(self, ids: Sequence[str]) -> list[Cell]:
        """The cells of these names. Raises LookupError for a name that is none of them."""
        by_id = {one.id: one for one in self.cells}
        return [by_id[one] for one in ids]

    def dial_options(
        self, parameters: Mapping[str, str], observe: Callable[[Frame], None] | None = None
    ) -> DialOptions:
        """The options with further parameters, and an observer of frames."""
        merged = {**self.options.parameters, **parameters}
        return replace(self.options, parameters=merged, frame_observer=observe, tracing="off")

    def tree(self) -> dict[str, Any]:
        """What the page shows of the agent."""
        card, upstream = self.card, self.subject.upstream
        skills = [
            {"name": one.name, "description": one.description, "examples": list(one.examples)}
            for one in card.skills
        ]
        place = upstream.candidate.interface if upstream is not None else None
        return {
            "name": card.name or self.subject.name,
            "description": card.description,
            "url": self.subject.target.place,
            "card": card_tree(card),
            "cells": [one.tree() for one in self.cells],
            "skills": skills,
            "upstream": None
            if place is None
            else {"binding": place.protocol_binding, "version": place.protocol_version, "url": place.url},
            "upstream_card": None if upstream is None else card_tree(upstream.card),
        }


def card_tree(card: hub.AgentCard) -> Any:
    """A card as JSON of 1.0."""
    return V1_0.card.encode(card)
