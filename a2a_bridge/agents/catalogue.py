"""The documents that list the agents of a server: `GET /agents`, and the AI Catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a_bridge.agents.entry import PATH
from a2a_bridge.agents.member import Member
from a2a_bridge.cards.build import host_of
from a2a_bridge.cards.page import list_page
from a2a_bridge.codec import dumps

CATALOG_PATH = "/.well-known/ai-catalog.json"


def render_catalogue(members: Iterable[Member], base_url: str) -> bytes:
    """All agents, with their cards' URLs and whether they are available."""
    return dumps({"agents": [_row(one, base_url) for one in members]})


def catalogue(members: Iterable[Member], base_url: str) -> bytes:
    """The AI Catalog (ai-catalog.io, 1.0): one entry for each available agent."""
    found = [_entry(one, base_url) for one in members if one.server is not None]
    return dumps({"specVersion": "1.0", "host": {"displayName": host_of(base_url)}, "entries": found})


def front_page(members: Iterable[Member], base_url: str) -> bytes:
    """The page for people at the root: the available agents, with their own pages."""
    available = [one for one in members if one.server is not None]
    cards = [(one.entry.name, one.server.card) for one in available if one.server is not None]
    return list_page(
        (card.name or name, card.description, f"{base_url}{PATH}/{name}/") for name, card in cards
    )


def _card_url(member: Member, base_url: str) -> str:
    return f"{base_url}{PATH}/{member.entry.name}/.well-known/agent-card.json"


def _row(member: Member, base_url: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": member.entry.name, "card": _card_url(member, base_url)}
    if member.server is None:
        return {**row, "state": "unavailable"}
    card = member.server.card
    return {**row, "state": "available", "displayName": card.name, "description": card.description}


def _entry(member: Member, base_url: str) -> dict[str, Any]:
    assert member.server is not None  # noqa: S101  for the type checker
    card = member.server.card
    entry: dict[str, Any] = {
        "identifier": f"urn:air:{host_of(base_url)}:agent:{member.entry.name}",
        "displayName": card.name,
        "type": "application/a2a-agent-card+json",
        "url": _card_url(member, base_url),
        "description": card.description,
        "version": card.version,
        "tags": list(dict.fromkeys(tag for skill in card.skills for tag in skill.tags)),
    }
    return {name: value for name, value in entry.items() if value}
