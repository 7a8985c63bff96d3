"""Reads the card of an agent at a URL, and says which of its interfaces a gateway dials."""

from __future__ import annotations

from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.cards.resolve import Resolver
from a2a_bridge.cards.select import select
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.gateway.card_refresh import CardReading
from a2a_bridge.gateway.destinations import Destinations


class CardReader:
    """A `ReadCard` (see `card_refresh`). resolver: keeps the ETag of the card. options: those of the gateway,
    with the URL that the operator named. binding, version: only interfaces of these, unless empty.
    """

    def __init__(
        self, resolver: Resolver, url: str, options: DialOptions, *, binding: str = "", version: str = ""
    ) -> None:
        self._resolver = resolver
        self._url = url
        self._options = options
        self._binding = binding
        self._version = version

    async def __call__(self) -> CardReading:
        """Raises A2AError for a card that cannot be read or used."""
        found = await self._resolver.locate(self._url, exact=self._options.exact, revalidate=True)
        offered = select(found.card, known=names(), binding=self._binding, version=self._version)
        settled = await Destinations(self._options).check_and_connect(offered)
        candidates = [one.candidate for one in settled if not one.rejection]
        if not candidates:
            text = f"no interface of the card may be used: {'; '.join(one.rejection for one in settled)}"
            raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
        return CardReading(found.card, candidates, found.fresh_for)
