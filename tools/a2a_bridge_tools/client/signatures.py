"""Signatures of a card, for `card get`: verified, unverifiable or absent.

A card without a signature is no failure. One whose signature cannot be checked is never shown as verified.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from a2a_bridge.bindings.binding import CheckCard
from a2a_bridge.codec import loads
from a2a_bridge.core.errors import A2AError


@dataclass(slots=True)
class SignatureCheck:
    """Checks a card when it is read, and remembers the outcome.

    trust: the check with the keys of the user; None without keys. required: whether a card without a valid
    signature is an error.
    """

    trust: CheckCard | None
    required: bool
    outcome: str = "absent"
    #: why it is unverifiable
    reason: str = ""
    #: the document as it was read
    document: bytes = field(default=b"", repr=False)

    async def check(self, raw: bytes, location: str) -> bytes:
        """For `DialOptions.check_card`. Raises the errors of the trust if a signature is required."""
        self.document = raw
        tree = loads(raw)
        signed = isinstance(tree, dict) and bool(tree.get("signatures"))
        if not signed and not self.required:
            self.outcome = "absent"
            return raw
        self.outcome = "unverifiable"
        if self.trust is None:
            self.reason = "no key is known; --card-keys names some"
            return raw
        try:
            read = await self.trust(raw, location)
        except A2AError as error:
            if self.required:
                raise
            self.reason = error.message
            return raw
        self.outcome = "verified"
        return read
