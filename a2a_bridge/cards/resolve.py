"""Finds and reads an agent's card. The caller passes in HTTP and the clock.

Rules (spec 8.2, 8.6):
1. A URL of a document (its path ends in .json, or it has a query) is fetched unchanged. Any other URL is a
   base: its well-known path is tried first, then the well-known path of its origin, unless `exact`. The card
   of the origin may be the card of another agent, so the result says where the card was found.
2. A card is cached for its max-age and then revalidated with If-None-Match and If-Modified-Since.
3. Cards are public: credentials of callers are never sent, but those of an operator in the Fetch are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cachetools import FIFOCache

from a2a_bridge.bindings.binding import CheckCard, Fetch
from a2a_bridge.bindings.probing import QUESTIONS
from a2a_bridge.cards.read import CORRECTED, CardError, parse_bytes, without_mark
from a2a_bridge.codec import JsonSyntaxError, loads
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import KNOWN, V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import UNKNOWN, Profile, profiles

#: the AI Catalog of an origin (ai-catalog.io, 1.0), and the types of its entries
CATALOG_PATH = "/.well-known/ai-catalog.json"
CARD_TYPE, CATALOG_TYPE = "application/a2a-agent-card+json", "application/ai-catalog+json"
#: agents of a catalogue in the text of an error, and characters of the URL of one
_SHOWN, _LONGEST = 5, 200
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Located:
    """A card and where it was found."""

    #: the card
    card: hub.AgentCard
    #: the URL of the document
    location: str
    #: whether the requested path has no card, so that this is the card of its origin
    fallback: bool = False
    #: the implementation that the response shows
    profile: Profile = UNKNOWN
    #: seconds for which the document is fresh, by its Cache-Control; 0 if it does not say
    fresh_for: float = 0.0


@dataclass(slots=True)
class _Entry:
    """A card in the cache."""

    card: hub.AgentCard
    profile: Profile
    #: headers of a request that revalidates it
    validators: dict[str, str]
    #: seconds, by the clock of the resolver
    fresh_until: float
    #: as it was received, if it is checked again with each response that it has not changed
    body: bytes = b""


class _RejectedError(Exception):
    """A card was found and rejected: no other place is tried."""

    def __init__(self, error: A2AError) -> None:
        super().__init__(error)
        self.error = error


class Resolver:
    """Resolves and caches `limit` cards. clock: monotonic seconds. check: see `DialOptions.check_card`."""

    def __init__(
        self,
        fetch: Fetch,
        clock: Callable[[], float] = monotonic,
        limit: int = 256,
        *,
        check: CheckCard | None = None,
    ) -> None:
        self._fetch = fetch
        self._check = check
        self._clock = clock
        self._entries: FIFOCache[str, _Entry] = FIFOCache(limit)

    async def resolve(self, url: str) -> hub.AgentCard:
        """The card behind a base URL or card URL. Raises A2AError: UNAVAILABLE without a response,
        UNAUTHENTICATED or PERMISSION_DENIED if there is no card and a place answered 401 or 403,
        INVALID_AGENT_RESPONSE if the document is not a card.
        """
        return (await self.locate(url)).card

    async def locate(self, url: str, *, exact: bool = False, revalidate: bool = False) -> Located:
        """The card behind a base URL or card URL, and where it was found. Raises A2AError as `resolve` does.
        exact: do not fall back to the card of the origin. revalidate: ask, even if the known card is fresh.
        """
        if revalidate:
            for entry in self._entries.values():
                entry.fresh_until = 0.0
        try:
            return await self._search(url, exact=exact)
        except _RejectedError as rejected:
            raise rejected.error from None

    async def _search(self, url: str, *, exact: bool) -> Located:
        tried: list[str] = []
        guarded: set[int] = set()
        absent = True
        own = card_locations(url, exact=True)
        *earlier, last = own if exact else card_locations(url)
        for location in earlier:
            try:
                found = await self._at(location, tried, guarded)
            except A2AError as error:
                # A site may answer any path with its front page: its origin may have a card all the same.
                if error.reason is not Reason.INVALID_AGENT_RESPONSE:
                    raise
                tried.append(error.message)
                absent = False
            else:
                if found is not None:
                    return self._locate(location, own, found)
        found = await self._at(last, tried, guarded)
        if found is not None:
            return self._locate(last, own, found)
        if guarded:
            reason = Reason.UNAUTHENTICATED if 401 in guarded else Reason.PERMISSION_DENIED
            text = f"the card at {url} requires authentication: {'; '.join(tried)}"
            raise A2AError(reason, text, blame=Blame.PEER)
        text = f"no agent card at {url}: {'; '.join(tried)}"
        if all(one.endswith(" 404") for one in tried) and (others := await self._others(url)):
            text = f"{text}. The agents of this server are at {others}"
        raise CardError(text, absent=absent, hint="" if absent else CORRECTED)

    async def _others(self, url: str) -> str:
        """The agents that the origin of a URL lists, for the text of an error; empty if it lists none."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        try:
            async with QUESTIONS.at(origin):
                reply = await self._fetch(f"{origin}{CATALOG_PATH}", {"accept": "application/json"})
            listed: Any = loads(reply.body) if reply.status == 200 else {}
            found = [str(one["url"]) for one in listed["entries"] if one["type"] == CARD_TYPE]
        except (A2AError, JsonSyntaxError, LookupError, TypeError):
            return ""
        own = [
            one for one in found if one.startswith(f"{origin}/") and one.isprintable() and len(one) < _LONGEST
        ]
        shown = ", ".join(one.removesuffix(V1_0.card.paths[0]) for one in own[:_SHOWN])
        return f"{shown} and {len(own) - _SHOWN} more" if len(own) > _SHOWN else shown

    def _locate(self, location: str, own: Sequence[str], found: tuple[hub.AgentCard, Profile]) -> Located:
        entry = self._entries.get(location)
        fresh_for = 0.0 if entry is None else max(0.0, entry.fresh_until - self._clock())
        return Located(found[0], location, location not in own, found[1], fresh_for)

    async def _at(
        self, location: str, tried: list[str], guarded: set[int]
    ) -> tuple[hub.AgentCard, Profile] | None:
        entry = self._entries.get(location)
        if entry is not None and self._clock() < entry.fresh_until:
            return entry.card, entry.profile
        headers = {"accept": "application/json, application/a2a+json"}
        if entry is not None:
            headers |= entry.validators
        async with QUESTIONS.at(location):
            reply = await self._fetch(location, headers)
        if reply.status == 304 and entry is not None:
            if self._check is not None:  # its keys may have changed, and with them what may be read
                entry.card = parse_bytes(await self._check_body(entry.body, location), location)
            entry.fresh_until = self._clock() + _max_age(reply.headers)
            return entry.card, entry.profile
        if reply.status != 200:
            if reply.status in (401, 403):
                guarded.add(reply.status)
            tried.append(f"{location} answered {reply.status}")
            return None
        body = without_mark(reply.body)
        received = body if self._check is not None else b""
        reply = reply._replace(body=await self._check_body(body, location))
        card = parse_bytes(reply.body, location)
        members: Any = loads(reply.body)  # an object: it is a card
        profile = profiles().agent(reply.headers, members)
        if "no-store" in reply.headers.get("cache-control", "").lower():
            self._entries.pop(location, None)
            return card, profile
        self._entries[location] = _Entry(
            card, profile, _validators(reply.headers), self._clock() + _max_age(reply.headers), received
        )
        return card, profile

    async def _check_body(self, body: bytes, location: str) -> bytes:
        if self._check is None:
            return body
        try:
            return await self._check(body, location)
        except A2AError as error:
            raise _RejectedError(error) from None


async def resolve(url: str, fetch: Fetch) -> hub.AgentCard:
    """The card behind a URL, fetched once. See `Resolver.resolve`."""
    return await Resolver(fetch).resolve(url)


async def locate(url: str, fetch: Fetch, *, exact: bool = False, check: CheckCard | None = None) -> Located:
    """The card behind a URL and where it was found, fetched once. See `Resolver`, and `Resolver.locate`."""
    return await Resolver(fetch, check=check).locate(url, exact=exact)


def card_locations(url: str, *, exact: bool = False) -> list[str]:
    """The URLs of the card of `url`, in the order to try. exact: without the URLs of its origin."""
    parts = urlsplit(url)
    if parts.query or parts.path.endswith(".json"):
        return [url]
    bases = [parts.path.rstrip("/")]
    if bases[0] and not exact:
        bases.append("")
    paths = [path for dialect in KNOWN for path in dialect.card.paths]
    return [
        urlunsplit((parts.scheme, parts.netloc, base + path, "", ""))
        for base in bases
        for path in dict.fromkeys(paths)
    ]


def _max_age(headers: Mapping[str, str]) -> float:
    control = headers.get("cache-control", "").lower()
    found = _MAX_AGE.search(control)
    return 0.0 if found is None or "no-cache" in control else float(found[1])


def _validators(headers: Mapping[str, str]) -> dict[str, str]:
    validators = {}
    if etag := headers.get("etag"):
        validators["if-none-match"] = etag
    if modified := headers.get("last-modified"):
        validators["if-modified-since"] = modified
    return validators
