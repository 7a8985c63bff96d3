"""References to agents (`--agent-card`), and to entries of a catalog.

Rules:
1. A bare host is an origin, as the specification says, and so `host:port` is HTTP here; gRPC is `grpc://`.
   Over https, but http for names and addresses of this machine and of private networks. Everything else is a
   target as the other commands have it (`cli/target.py`). `reference` makes no connection.
2. A catalog (ai-catalog.io, 1.0) lists agents with the URLs of their cards: `https://host#NAME`, or
   `https://host/.well-known/ai-catalog.json#NAME`. An entry is named by its identifier, by the last part of
   the identifier, or by its display name. A catalog with one agent needs no name.
3. The user has named the host of the catalog, and not the hosts of its entries: an entry gets what an
   interface of a card at its address would get (`gateway/destinations.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from a2a_bridge.bindings.binding import DialOptions, http_fetch
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.cards.read import CardError
from a2a_bridge.cli.target import BadTargetError, Target, TargetKind, is_file, parse
from a2a_bridge.codec import JsonSyntaxError, loads
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.gateway.upstream import options_for

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-][A-Za-z0-9_.-]*)(:\d{1,5})?([/?#].*)?")


def reference(text: str) -> Target:
    """Reads a reference. Raises BadTargetError."""
    text = text.strip()
    if not text:
        raise BadTargetError("no agent is named; try: -a REF, or the variable A2ACLI_AGENT_CARD")
    if text.lower().startswith("file://"):
        return Target(TargetKind.CARD, unquote(urlsplit(text).path))
    host = _HOST.fullmatch(text)
    is_code = text.rpartition(":")[0].endswith(".py") or text.endswith(".py")
    if host is None or is_code or (text.endswith(".json") and not host[3]) or is_file(text):
        return parse(text)
    if host[2] and int(host[2][1:]) > 65535:
        raise BadTargetError(f"{host[2][1:]} is not a port")
    return Target(TargetKind.URL, f"{'http' if _is_near(host[1]) else 'https'}://{text}")


def _is_near(host: str) -> bool:
    """Whether a host is this machine, or in a private network."""
    try:
        return ip_address(host.strip("[]")).is_private
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


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
