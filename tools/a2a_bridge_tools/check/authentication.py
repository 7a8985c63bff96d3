"""Whether the agent asks for credentials as its card says."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from a2a_bridge.cli.advertised import ask
from a2a_bridge_tools.check.inspection import REJECTIONS, Finding, Inspection
from a2a_bridge_tools.client.credentials import list_required


async def authentication(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Asks each interface without credentials, and compares the response with the card."""
    card = inspection.card
    asked = [one for one in inspection.dialled if one.works]
    if not asked:
        return
    demanded = list_required(card)
    open_to_all: list[str] = []
    closed: list[str] = []
    for one in asked:
        error = one.error
        if inspection.options.parameters:
            error = await ask(one.candidate, inspection.dial_options(anonymous=True), inspection.limit)
        (closed if error is not None and error.reason in REJECTIONS else open_to_all).append(one.name)
    schemes = ", ".join(demanded)
    if demanded and open_to_all:
        yield Finding(
            "authentication",
            False,
            f"the card asks for {schemes}, and {', '.join(open_to_all)} answers everybody",
            "check the credentials of callers (serve --api-keys FILE, --jwt-issuer URL), or take"
            " securityRequirements (0.x: security) out of the card",
        )
    elif closed and not demanded:
        declared = ", ".join(sorted(card.security_schemes))
        what = (
            f"the card declares {declared} and requires nothing" if declared else "the card declares nothing"
        )
        yield Finding(
            "authentication",
            False,
            f"{', '.join(closed)} asks for credentials, and {what}",
            "declare securitySchemes and securityRequirements (0.x: security) in the card, which tell clients"
            " what to send",
        )
    elif closed:
        yield Finding("authentication", True, f"asks for {schemes}, as the card says")
    else:
        yield Finding("authentication", True, "asks for nothing, as the card says")
