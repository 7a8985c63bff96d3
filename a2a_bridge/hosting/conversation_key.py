"""The key of a conversation, for agents that remember earlier turns."""

import hashlib
import json
from typing import NamedTuple


class ConversationKey(NamedTuple):
    """The owner and the name of a conversation. A caller chooses the context id: alone it would let callers
    read the conversations of each other.
    """

    tenant: str
    #: the name of the authenticated caller; empty without authentication
    principal: str
    context_id: str

    @property
    def digest(self) -> str:
        """64 hexadecimal digits, as the name of the conversation in a store, or of its lock."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()
