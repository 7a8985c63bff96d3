"""The card of an agent behind a gateway: the agent's content with the gateway's addresses, unsigned.

Rules:
1. The interfaces are exactly the gateway's, in its order. Everything else stays: skills, capabilities,
   security.
2. Signatures are removed: they cover the interfaces, so a card with other interfaces cannot keep them (spec
   8.4).
3. The extended card is rewritten in the same way, because otherwise it would lead callers around the gateway.
   It is offered only if the agent's version has it.
4. Where the gateway has credentials of its own for the agent, callers need none: cards do not ask for any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from a2a_bridge.cards.extended import change_extended_card
from a2a_bridge.cards.schemes import expressible
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.masking import without_query_values
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD
from a2a_bridge.core.resume import offer_resume
from a2a_bridge.core.service import Middleware
from a2a_bridge.dialects import V1_0, BindingKind, Dialect, Form
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)

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
    """The card without the claim of an extended card if the agent's version cannot return one on this
    binding.
    """
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
        logger.warning(
            "the card of %r is signed; the gateway's card has other addresses and carries no signature",
            card.name,
        )


def rewrite_extended_card(
    interfaces: Interfaces, *, only_missing: bool = False, resumes: bool = False
) -> Middleware:
    """Middleware that puts the gateway's interfaces into GetExtendedAgentCard (spec 3.1.11).

    only_missing: leave a card that lists its own interfaces unchanged; for agents that are hosted here.
    resumes: offer to resume streams, as the gateway's public card does.
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

    Streaming is declared, because clients do not use it otherwise; the agent itself rejects it if necessary.
    Push notifications are not declared: a client that waits for lost notifications is worse off than one that
    polls.
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
