"""Signatures of agent cards: made, and verified on the JSON as it was received. No network, no files."""

from a2a_bridge.signing.keys import ALGORITHMS, merge_key_sets
from a2a_bridge.signing.signatures import (
    CardSigner,
    ReceivedCard,
    Signature,
    UnverifiedCardError,
    VerifiedCard,
)

__all__ = [
    "ALGORITHMS",
    "CardSigner",
    "ReceivedCard",
    "Signature",
    "UnverifiedCardError",
    "VerifiedCard",
    "merge_key_sets",
]
