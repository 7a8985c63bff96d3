"""Reads the card of an agent again while the gateway runs. How to read and to apply it, others say.

Rules:
1. The card is read again when it is no longer fresh by its Cache-Control, at the latest after `interval`; and
   when calls fail as if the agent had another card by now: at most once in `LEAST` seconds, and less often,
   up to once in `MOST` seconds, while that shows no change.
2. A card that cannot be read or used changes nothing. One log line for the first failure of a series, one for
   its end, one for each change.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger("a2a_bridge.gateway")

#: seconds between two readings that doubts cause, at first and after many without a change
LEAST = 5.0
MOST = 60.0
#: seconds for which a card is kept, whatever it says
_FRESHEST = 10.0


@dataclass(frozen=True, slots=True)
class CardReading:
    """A card of an agent and what it means for the gateway."""

    card: hub.AgentCard
    #: the interfaces to dial, best first
    candidates: Sequence[Candidate]
    #: seconds for which the card is fresh; 0 if it does not say
    fresh_for: float = 0.0

    def is_same(self, other: CardReading) -> bool:
        """Whether nothing has changed."""
        places, others = ([one.identity for one in each.candidates] for each in (self, other))
        return self.card == other.card and places == others


#: reads the card; raises A2AError, OSError, ValueError
ReadCard = Callable[[], Awaitable[CardReading]]


class CardRefresh:
    """See above. known: the reading at the start. apply: uses another one; raises A2AError or ValueError if
    it cannot be used. interval, least: seconds. sleep: waits for that long.
    """

    def __init__(
        self,
        read: ReadCard,
        known: CardReading,
        apply: Callable[[CardReading], Awaitable[None]],
        interval: float,
        *,
        least: float = LEAST,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._read = read
        self._known = known
        self._apply = apply
        self._interval = interval
        self._least = least
        self._clock = clock
        self._sleep = sleep
        self._doubt = asyncio.Event()
        self._read_at = clock()
        self._failures = 0
        #: readings in a row that doubts caused, and that showed no change
        self._in_vain = 0

    def doubt(self) -> None:
        """Has the card read again soon."""
        self._doubt.set()

    async def run(self) -> None:
        """Reads again and again until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._wait()):
                    await self._doubt.wait()
                self._in_vain += 1
            except TimeoutError:
                self._in_vain = 0
            else:
                pause = min(self._interval, MOST, self._least * 2.0 ** min(self._in_vain - 1, 10))
                left = self._read_at + pause - self._clock()
                if left > 0:
                    await self._sleep(left)
            self._doubt.clear()
            await self.read()

    async def read(self) -> None:
        """Reads once, and applies a change."""
        try:
            found = await self._read()
            if not found.is_same(self._known):
                await self._apply(found)
                self._in_vain = 0
                logger.warning("the card of the agent %r has changed, and is used", found.card.name)
            self._known = found
            if self._failures:
                logger.warning("the agent's card can be read again")
            self._failures = 0
        except (A2AError, OSError, ValueError, LookupError) as error:
            if not self._failures:
                text = (
                    "the agent's card cannot be read again, the last good one counts: %s; try a2a-bridge card"
                )
                logger.warning(text, error)
            self._failures += 1
        except Exception:
            logger.exception("the agent's card cannot be read again, the last good one counts")
            self._failures += 1
        self._read_at = self._clock()

    def _wait(self) -> float:
        """Seconds until the next reading without doubts."""
        fresh = self._known.fresh_for
        if self._failures or fresh <= 0:
            return self._interval
        return min(self._interval, max(fresh, _FRESHEST))
