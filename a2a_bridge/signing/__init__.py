"""Signatures of agent cards: made, and verified on the JSON as it was received. No network, no files.

`canonical.py` has the texts that are signed, `verify.py` and `sign.py` the two sides, `keys.py` the keys.
"""

from a2a_bridge.signing.keys import ALGORITHMS, merge_key_sets
from a2a_bridge.signing.sign import CardSigner
from a2a_bridge.signing.verify import ReceivedCard, Signature, UnverifiedCardError, VerifiedCard

__all__ = [
    "ALGORITHMS",
    "CardSigner",
    "ReceivedCard",
    "Signature",
    "UnverifiedCardError",
    "VerifiedCard",
    "merge_key_sets",
]
