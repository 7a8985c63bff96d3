"""References to entries of a catalog: `https://host/.well-known/ai-catalog.json#NAME`, or `https://host#NAME`.

A catalog (ai-catalog.io, 1.0) lists agents with the URLs of their cards. An entry is named by its identifier,
by the last part of that, or by its display name. A catalog with one agent needs no name.

The user has named the host of the catalog, and not those of its entries: an entry gets what an interface of a
card at its address would get (`gateway/destinations.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from a2a_bridge.bindings.binding import DialOptions, http_fetch
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.cards.read import CardError
from a2a_bridge.cli.target import Target, TargetKind
from a2a_bridge.codec import JsonSyntaxError, loads
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.gateway.upstream import options_for

PATH = "/.well-known/ai-catalog.json"
_CARD = "application/a2a-agent-card+json"


def is_entry(target: Target) -> bool:
    """Whether a target is an entry of a catalog."""
    if target.sort is not TargetKind.URL:
        return False
    parts = urlsplit(target.place)
    return bool(parts.fragment) or parts.path.endswith("/ai-catalog.json")


async def resolve_entry(target: Target, options: DialOptions) -> tuple[Target, DialOptions]:
    """The card that an entry names, and the options to read it with. Raises CardError, and the errors of a
    fetch.
    """
    place, fragment = urldefrag(target.place)
    if urlsplit(place).path in ("", "/"):
        place = urljoin(place, PATH)
    async with http_fetch(options) as fetch:
        reply = await fetch(place, {"accept": "application/json"})
    if reply.status != 200:
        raise CardError(f"no catalog at {place}: it answered {reply.status}", absent=True)
    try:
        tree: Any = loads(reply.body)
    except JsonSyntaxError as error:
        raise CardError(f"the catalog at {place} is not JSON: {error}") from None
    entries = tree.get("entries") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise CardError(f"the document at {place} is no catalog")
    agents = [one for one in entries if isinstance(one, dict) and one.get("type") == _CARD]
    wanted = unquote(fragment)
    found = [one for one in agents if not wanted or wanted in _names(one)]
    if len(found) != 1 or not isinstance(found[0].get("url"), str):
        known = ", ".join(str(one.get("displayName") or one.get("identifier")) for one in agents)
        text = f"the catalog at {place} has {len(found)} agents named {wanted!r}; it has: {known or 'none'}"
        raise CardError(text, absent=True)
    try:
        url = urljoin(place, found[0]["url"])
    except ValueError as error:
        raise CardError(f"the catalog at {place} names no URL of a card: {error}") from None
    asked = Candidate(interface("JSONRPC", url), V1_0)
    (vetted,) = await Destinations(options).check([asked])
    if vetted.rejection:
        raise CardError(f"the catalog leads to {url}, {vetted.rejection}; name that URL yourself")
    return Target(TargetKind.URL, url), options_for(vetted.candidate, options)


def _names(entry: Any) -> Iterator[str]:
    identifier = str(entry.get("identifier", ""))
    yield identifier
    yield identifier.rpartition(":")[2]
    yield str(entry.get("displayName", ""))
