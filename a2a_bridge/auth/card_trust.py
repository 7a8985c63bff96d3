"""Which cards of agents are trusted: the rule that is applied to each card when it is read, and read again.

Rules:
1. A card without a valid signature is used, with one warning; with `required` it is rejected.
2. Of a card with a valid signature only what the signature covers is read.
3. Keys come from the configured sources. A key set that a signature names (`jku`) counts only if it is an
   https URL of an allowed host.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from cachetools import LRUCache

from a2a_bridge.auth.key_set import KeySetSource
from a2a_bridge.bindings.places import place_of
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.signing import ReceivedCard, Signature, UnverifiedCardError

_log = logging.getLogger("a2a_bridge.signing")

#: key sets that signatures name, and warnings, that are remembered
_MOST_SETS, _MOST_WARNINGS = 16, 64


class CardTrust:
    """Checks the signatures of cards; `check` is for `DialOptions.check_card`.

    keys: files or URLs of key sets (JWKS). required: reject cards without a valid signature. jku_hosts: hosts
    (or `host:port`) whose key sets signatures may name. ca: PEM file of trusted authorities for https. now:
    seconds since the epoch. Raises ValueError without any keys, MissingExtraError without joserfc.
    """

    def __init__(
        self,
        keys: Sequence[str],
        *,
        required: bool = False,
        jku_hosts: Collection[str] = (),
        ca: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        if not keys and not jku_hosts:
            raise ValueError("signatures of cards cannot be checked without keys or allowed hosts of keys")
        self._ca = ca
        hint = "--card-keys says where they are"
        self._sources = [KeySetSource(one, one, ca=ca, hint=hint) for one in keys]
        self._required = required
        self._jku_hosts = frozenset(one.lower() for one in jku_hosts)
        self._named: LRUCache[str, KeySetSource] = LRUCache(_MOST_SETS)
        self._now = now
        self._warned: dict[tuple[str, str], None] = {}

    async def check(self, raw: bytes, location: str) -> bytes:
        """The part of a card that may be read. location: for messages. Raises A2AError if a signature is
        required: INVALID_AGENT_RESPONSE without a valid one, UNAVAILABLE while no keys can be read.
        """
        missing = ""
        try:
            card = ReceivedCard(raw)
            keys, missing = await self._keys_for(card.signatures)
            verified = card.verify(lambda one: keys[one], self._now())
        except UnverifiedCardError as error:
            text = f"the card at {location} has no valid signature: {error}"
            if not error.is_signed:
                text = f"the card at {location} is not signed"
            elif missing:
                text += f"; {missing}"
            if self._required:
                reason = Reason.UNAVAILABLE if missing else Reason.INVALID_AGENT_RESPONSE
                raise A2AError(reason, text, blame=Blame.PEER) from None
            self._warn(location, text)
            return raw
        if not verified.is_complete:
            self._warn(
                location,
                f"the signature of the card at {location} covers its members of 1.0 only; the others are not"
                " used",
            )
        _log.info("the card at %s is signed by %r (%s)", location, verified.kid, verified.algorithm)
        return verified.document

    async def _keys_for(self, signatures: Sequence[Signature]) -> tuple[dict[Signature, list[Any]], str]:
        """The keys that may have made each signature, and why some cannot be had; empty if all can."""
        found: dict[Signature, list[Any]] = {}
        missing = ""
        for one in signatures:
            keys = found.setdefault(one, [])
            for source in self._sources_for(one):
                try:
                    # Whether a key suits a signature is said with the other reasons.
                    keys += await source.find(one.kid, lambda _: True)
                except A2AError:
                    missing = "the keys of its signer cannot be read now"
        return found, missing

    def _sources_for(self, one: Signature) -> list[KeySetSource]:
        if not one.jku or not self._is_allowed(one.jku):
            return self._sources
        known = self._named.get(one.jku)
        if known is None:
            hint = "the signature of a card names them"
            known = self._named[one.jku] = KeySetSource(one.jku, one.jku, ca=self._ca, hint=hint)
        return [*self._sources, known]

    def _is_allowed(self, url: str) -> bool:
        place = place_of(url)
        if place is None or place.has_user or not url.lower().startswith("https://"):
            return False
        return str(place) in self._jku_hosts or (place.port == 443 and place.host in self._jku_hosts)

    def _warn(self, location: str, text: str) -> None:
        """Logs a text about a location once."""
        if (location, text) in self._warned:
            return
        if len(self._warned) >= _MOST_WARNINGS:
            self._warned.clear()
        self._warned[location, text] = None
        _log.warning("%s", text)
