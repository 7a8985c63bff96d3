"""Security schemes and requirements in cards.

Rules about schemes of older cards that 1.0 cannot express:
1. A scheme of 0.x of unknown type, or an OAuth 2 scheme without a flow that 1.0 has, is a scheme without
   content in 1.0: `"odd": {}`, `"flows": {}`. Readers in Rust and Go reject the whole card for one.
2. Requirements that name such a scheme stay: without them the card would say that no credentials are needed.
3. Cards of 0.x keep the scheme.
"""

from __future__ import annotations

import logging

from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger(__name__)


def inexpressible(card: hub.AgentCard) -> list[str]:
    """The names of the schemes of a card that have no content in 1.0, in order."""
    return sorted(name for name, scheme in card.security_schemes.items() if _is_empty(scheme))


def expressible(card: hub.AgentCard) -> hub.AgentCard:
    """The card without those schemes: a copy if it has any."""
    names = inexpressible(card)
    if not names:
        return card
    made = hub.AgentCard()
    made.CopyFrom(card)
    for name in names:
        del made.security_schemes[name]
    return made


def without_security(card: hub.AgentCard) -> hub.AgentCard:
    """A copy of a card that asks for no credentials."""
    made = hub.AgentCard()
    made.CopyFrom(card)
    made.security_schemes.clear()
    del made.security_requirements[:]
    for skill in made.skills:
        del skill.security_requirements[:]
    return made


def note_inexpressible(card: hub.AgentCard) -> None:
    """Log the schemes that callers of 1.0 do not get."""
    if names := inexpressible(card):
        log.warning(
            "the card of %r has security schemes that A2A 1.0 cannot express; "
            "callers of 1.0 do not see them: %s",
            card.name,
            ", ".join(names),
        )


def _is_empty(scheme: hub.SecurityScheme) -> bool:
    field = scheme.WhichOneof("scheme")
    if field == "oauth2_security_scheme":
        return scheme.oauth2_security_scheme.flows.WhichOneof("flow") is None
    return field is None
