"""The lists of the agents of a server: `GET /agents`, the AI Catalog (ai-catalog.io, 1.0), a page for people.

Rules:
1. Everybody gets the same lists, as everybody gets the cards. They have only members of cards that are the
   same for all callers.
2. A list has pages of `PAGE` agents. `/agents` names the next page. The AI Catalog has no pages, but catalogs
   in it: its first one lists the others, so that a reader needs no more than two steps.
3. A page is made once, and again when one of its agents comes, goes or shows another card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from urllib.parse import parse_qs

from cachetools import FIFOCache

from a2a_bridge.agents.member import PATH, Member
from a2a_bridge.app.fronts import Fronts
from a2a_bridge.bindings.binding import DocumentHost
from a2a_bridge.cards.build import host_of
from a2a_bridge.cards.page import list_page
from a2a_bridge.cards.resolve import CARD_TYPE, CATALOG_PATH, CATALOG_TYPE
from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.pb import lf_a2a_v1 as hub

#: agents of a page
PAGE: Final = 500
#: pages that are kept; callers choose the base URL
_KEPT = 64

#: an agent on a page: its name, and its card; None while it is not available
_Listed = tuple[str, hub.AgentCard | None]
_Render = Callable[[Sequence[_Listed], str, int, int], bytes]


class Catalogue:
    """The lists of some agents. members: by name, in the order of the lists. fronts: of all of them."""

    def __init__(self, members: Mapping[str, Member], fronts: Fronts) -> None:
        self._members = members
        self._fronts = fronts
        #: (list, base URL, page) → the number of pages and the agents that it was made of, and the page
        self._made: FIFOCache[tuple[_Render, str, int], tuple[int, list[_Listed], bytes]] = FIFOCache(_KEPT)

    def publish(self, host: DocumentHost) -> None:
        """Serves the lists."""
        for path, render in ((PATH, _agents), (CATALOG_PATH, _catalog)):
            self._publish(host, path, render)
        host.front(lambda base_url: self._page(self._front_page, base_url, 1))

    def _publish(self, host: DocumentHost, path: str, render: _Render) -> None:
        host.publish(
            path,
            lambda base_url: self._page(render, base_url, 1),
            lambda base_url, query, _version: self._page(render, base_url, _number(query)),
        )

    def _page(self, render: _Render, base_url: str, number: int) -> bytes:
        """A page of a list. Raises INVALID_PARAMS if there is none of this number."""
        pages = max(1, -(-len(self._members) // PAGE))
        if number > pages:
            raise invalid_params("page", f"is from 1 to {pages}")
        members = islice(self._members.values(), (number - 1) * PAGE, number * PAGE)
        listed = [(one.entry.name, None if one.server is None else one.server.described) for one in members]
        key = (render, base_url, number)
        known = self._made.get(key)
        # A change of a card makes another object.
        if known is not None and known[0] == pages and _are_same(known[1], listed):
            return known[2]
        made = render(listed, base_url, number, pages)
        self._made[key] = pages, listed, made
        return made

    def _front_page(self, listed: Sequence[_Listed], base_url: str, _number: int, pages: int) -> bytes:
        """The page for people at the root: the first available agents, with their own pages, and the list."""
        rows = [
            (card.name or name, card.description, f"{base_url}{PATH}/{name}/")
            for name, card in listed
            if card is not None
        ]
        if pages > 1:
            rows.append(("further agents", "the list of all", f"{base_url}{PATH}?page=2"))
        return list_page(rows, self._fronts.addresses(base_url))


def _are_same(some: Sequence[_Listed], others: Sequence[_Listed]) -> bool:
    return len(some) == len(others) and all(
        one[1] is other[1] and one[0] == other[0] for one, other in zip(some, others, strict=True)
    )


def _number(query: str) -> int:
    """The number of a page in a query, 1 without one. Raises INVALID_PARAMS."""
    text = parse_qs(query, keep_blank_values=True).get("page", ["1"])[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
        raise invalid_params("page", "is a number from 1 on")
    return int(text)


def _agents(listed: Sequence[_Listed], base_url: str, number: int, pages: int) -> bytes:
    """All agents, with their cards' URLs and whether they are available."""
    tree: dict[str, Any] = {"agents": [_row(name, card, base_url) for name, card in listed]}
    if number < pages:
        tree["next"] = f"{base_url}{PATH}?page={number + 1}"
    return dumps(tree)


def _row(name: str, card: hub.AgentCard | None, base_url: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "card": _card_url(name, base_url)}
    if card is None:
        return {**row, "state": "unavailable"}
    return {**row, "state": "available", "displayName": card.name, "description": card.description}


def _catalog(listed: Sequence[_Listed], base_url: str, number: int, pages: int) -> bytes:
    """The AI Catalog: an entry for each available agent. The first one has an entry for each other one."""
    host = host_of(base_url)
    entries = [_entry(name, card, base_url, host) for name, card in listed if card is not None]
    if number == 1:
        entries += [
            {
                "identifier": f"urn:air:{host}:catalog:{other}",
                "displayName": f"Agents, part {other} of {pages}",
                "type": CATALOG_TYPE,
                "url": f"{base_url}{CATALOG_PATH}?page={other}",
            }
            for other in range(2, pages + 1)
        ]
    return dumps({"specVersion": "1.0", "host": {"displayName": host}, "entries": entries})


def _entry(name: str, card: hub.AgentCard, base_url: str, host: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "identifier": f"urn:air:{host}:agent:{name}",
        "displayName": card.name,
        "type": CARD_TYPE,
        "url": _card_url(name, base_url),
        "description": card.description,
        "version": card.version,
        "tags": list(dict.fromkeys(tag for skill in card.skills for tag in skill.tags)),
    }
    return {member: value for member, value in entry.items() if value}


def _card_url(name: str, base_url: str) -> str:
    return f"{base_url}{PATH}/{name}/.well-known/agent-card.json"
