"""The signatures of the card: absent, verified, or why they cannot be."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from a2a_bridge.core.errors import A2AError, cause_of
from a2a_bridge.core.extras import MissingExtraError
from a2a_bridge.signing import ReceivedCard, UnverifiedCardError
from a2a_bridge_tools.check.inspection import Finding, Inspection


async def signatures(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether the card is signed, and by whom; verifies it if keys are given."""
    found = inspection.documents.get(inspection.location)
    if found is None or inspection.tree is None:
        return
    if not inspection.tree.get("signatures"):
        if inspection.trust is None:
            yield Finding("card signatures", True, "none")
        else:
            yield Finding("card signatures", False, "none", "sign the card: `serve --card-signing-key FILE`")
        return
    try:
        received = ReceivedCard(found.body)
    except UnverifiedCardError as error:
        yield Finding("card signatures", False, str(error), "sign the card again, with RFC 8785 and RFC 7515")
        return
    except MissingExtraError as error:
        yield Finding("card signatures", True, "not looked at", error.remedy)
        return
    if received.problems and not received.signatures:
        fix = "sign the card again, with RFC 8785 and RFC 7515"
        yield Finding("card signatures", False, "; ".join(received.problems), fix)
        return
    signers = ", ".join(f"{one.kid} ({one.algorithm})" for one in received.signatures)
    if inspection.trust is not None:
        try:
            await inspection.trust(found.body, inspection.location)
        except A2AError as error:
            fix = (
                "sign the card that is served, after everything else about it is set; or name the right keys"
            )
            yield Finding("card signatures", False, cause_of(error), fix)
        else:
            yield Finding("card signatures", True, f"verified: {signers}")
        return
    key_sets = ", ".join(dict.fromkeys(one.jku for one in received.signatures if one.jku))
    advice = f"verify it with the keys of its signer: --card-keys {key_sets or 'FILE|URL'}"
    yield Finding("card signatures", True, f"by {signers}; not verified", advice)
