"""The card of an agent behind a gateway: the agent's content with the gateway's addresses, unsigned. The
agent's card is read again while the gateway runs (`CardRefresh`).

Rules:
1. The interfaces are exactly the gateway's, in its order. Skills, capabilities, security and the rest stay.
2. Signatures are removed: they cover the interfaces, so other interfaces make them invalid (spec 8.4).
3. The extended card is rewritten in the same way, because otherwise it would lead callers around the gateway.
   It is offered only if the agent's version has it.
4. Where the gateway has credentials of its own for the agent, callers need none: cards do not ask for any.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.bindings.probing import AGENTS
from a2a_bridge.cards.read import change_extended_card
from a2a_bridge.cards.resolve import Resolver
from a2a_bridge.cards.select import Candidate, expressible, select
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.masking import without_query_values
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD
from a2a_bridge.core.resume import offer_resume
from a2a_bridge.core.service import Middleware
from a2a_bridge.dialects import V1_0, BindingKind, Dialect, Form
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger("a2a_bridge.gateway")
_cards_log = logging.getLogger(__name__)

#: the interfaces a caller should use, which may depend on how it reached us
Interfaces = Callable[[CallContext], Iterable[hub.AgentInterface]]


def rewrite(card: hub.AgentCard, interfaces: Iterable[hub.AgentInterface] = ()) -> hub.AgentCard:
    """A copy of `card` with other interfaces and without signatures; `card` stays as it is."""
    made = hub.AgentCard()
    made.CopyFrom(card)
    del made.supported_interfaces[:]
    made.supported_interfaces.extend(interfaces)
    del made.signatures[:]
    return made


def without_lacking(card: hub.AgentCard, dialect: Dialect, binding: str) -> hub.AgentCard:
    """The card, without the claim of an extended card if the agent's version has none on this binding."""
    form: Form[Any, Any] | None = dialect.form(BindingKind(binding))
    has = form is not None and form.row(GET_EXTENDED_AGENT_CARD) is not None
    if has or not card.capabilities.extended_agent_card:
        return card
    made = hub.AgentCard()
    made.CopyFrom(card)
    made.capabilities.ClearField("extended_agent_card")
    return made


def note_signatures(card: hub.AgentCard) -> None:
    """Logs once that a card had signatures, which callers of the gateway will not see."""
    if card.signatures:
        _cards_log.warning(
            "the card of %r is signed; the gateway's card has other addresses and carries no signature",
            card.name,
        )


def rewrite_extended_card(
    interfaces: Interfaces, *, only_missing: bool = False, resumes: bool = False
) -> Middleware:
    """Middleware that puts the gateway's interfaces into GetExtendedAgentCard (spec 3.1.11). only_missing:
    leave a card that lists its own interfaces unchanged; for agents that are hosted here. resumes: offer to
    resume streams, as the gateway's public card does.
    """

    def change(card: hub.AgentCard, context: CallContext) -> hub.AgentCard:
        if only_missing and card.supported_interfaces:
            return card
        made = rewrite(card, interfaces(context))
        if resumes:
            made = offer_resume(made)
        return expressible(made) if context.origin.version == V1_0.version else made

    return change_extended_card(change)


def synthesise_card(interface: hub.AgentInterface) -> hub.AgentCard:
    """The smallest card for an agent without one (spec 4.4.1 REQUIRED members, honest texts).

    It declares streaming, because clients do not use it otherwise; the agent itself rejects it if necessary.
    It does not declare push notifications: a client that waits for lost notifications is worse off than a
    client that polls.
    """
    place = without_query_values(interface.url)
    return hub.AgentCard(
        name=place,
        description=f"An agent at {place} that showed no card",
        version="0",
        supported_interfaces=[interface],
        capabilities=hub.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            hub.AgentSkill(id="chat", name="chat", description="Takes messages", tags=["unknown"]),
        ],
    )


#: seconds between two readings that doubts cause, at first and after many without a change
LEAST = 5.0
MOST = 60.0
#: seconds for which a card is kept, also with a shorter Cache-Control
_FRESHEST = 10.0
#: the share of a pause that is random: agents that were read together are not read together again
_SPREAD = 0.25


@dataclass(frozen=True, slots=True)
class CardReading:
    """A card of an agent, and the interfaces of it that the gateway dials."""

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
    """Reads the card of an agent again and again.

    Rules:
    1. The card is read again when it is no longer fresh by its Cache-Control, at the latest after `interval`;
       and when calls fail as if the agent had another card by now: at most once in `LEAST` seconds, and less
       often, up to once in `MOST` seconds, while that shows no change.
    2. The time until a reading without such a sign is up to a quarter shorter, at random.
    3. A card that cannot be read or used changes nothing. A log line tells the first failure of a series, the
       end of the series, and each change.

    known: the reading at the start. apply: uses another reading; raises A2AError or ValueError if it cannot
    be used. interval, least: seconds. sleep: waits for that long. chance: from 0 to 1.
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
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._read = read
        self._known = known
        self._apply = apply
        self._interval = interval
        self._least = least
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
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
        fresh, longest = self._known.fresh_for, self._interval
        if not self._failures and fresh > 0:
            longest = min(longest, max(fresh, _FRESHEST))
        return longest * (1 - _SPREAD * self._chance())


class CardReader:
    """A `ReadCard` for the card at a URL, with the interfaces that a gateway dials. resolver: keeps the ETag
    of the card. options: the options of the gateway, with the URL that the operator named. binding, version:
    only interfaces of these, unless empty.
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
        async with AGENTS.at(self._url):
            return await self._read()

    async def _read(self) -> CardReading:
        found = await self._resolver.locate(self._url, exact=self._options.exact, revalidate=True)
        offered = select(found.card, known=names(), binding=self._binding, version=self._version)
        settled = await Destinations(self._options).check_and_connect(offered)
        candidates = [one.candidate for one in settled if not one.rejection]
        if not candidates:
            text = f"no interface of the card may be used: {'; '.join(one.rejection for one in settled)}"
            raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
        return CardReading(found.card, candidates, found.fresh_for)
