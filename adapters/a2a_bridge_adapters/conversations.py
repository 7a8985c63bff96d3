"""Conversations: the turns of one chat, their keys, and how many are remembered.

Rules:
1. A caller chooses the context id. Therefore a conversation is keyed by tenant, principal and context id:
   callers with the same context id share nothing.
2. Two turns of one conversation at once would lose one of them. The second waits for the first, also on
   another replica: `ConversationExecutor` holds the lock of the conversation.
3. States are those of this process. With replicas, a framework that keeps no state of its own elsewhere needs
   all turns of a context on one of them.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from a2a_bridge.hosting.executor import Run

#: conversations that are remembered, unless an option says otherwise
MOST = 10_000

State = TypeVar("State")


class ConversationKey(NamedTuple):
    """The owner and the name of a conversation."""

    tenant: str
    #: the name of the authenticated caller; empty without authentication
    principal: str
    context_id: str

    @property
    def digest(self) -> str:
        """64 hexadecimal digits, as the name of the conversation in a store of a framework."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()


def key_of(run: Run) -> ConversationKey:
    """The key of the conversation of a run."""
    principal = run.context.principal
    return ConversationKey(run.context.tenant, "" if principal is None else principal.name, run.context_id)


class Conversations(Generic[State]):
    """The conversations of one agent, and the state that each of them has between two turns.

    most: the number of states that are kept; those that were not used for the longest time are forgotten
    first. A conversation with a turn is never forgotten. on_forget: called with each key that is forgotten.
    """

    def __init__(self, most: int = MOST, on_forget: Callable[[ConversationKey], None] | None = None) -> None:
        if most < 1:
            raise ValueError(f"conversations: {most} is too few; at least 1 has to be kept")
        self._most = most
        self._on_forget = on_forget
        self._states: OrderedDict[ConversationKey, State] = OrderedDict()
        #: per conversation: its turns that run or wait
        self._turns: dict[ConversationKey, int] = {}

    def __len__(self) -> int:
        return len(self._states)

    @contextmanager
    def turn(self, key: ConversationKey) -> Iterator[None]:
        """Remembers the conversation while one of its turns runs or waits."""
        self._turns[key] = self._turns.get(key, 0) + 1
        try:
            yield
        finally:
            self._turns[key] -= 1
            if not self._turns[key]:
                del self._turns[key]
                self._forget()

    def get(self, key: ConversationKey) -> State | None:
        """The state of a conversation; None if it is new or forgotten."""
        return self._states.get(key)

    def keep(self, key: ConversationKey, state: State) -> None:
        """Keeps the state of a conversation that has a turn."""
        self._states[key] = state
        self._states.move_to_end(key)

    def _forget(self) -> None:
        """Forgets the oldest states above the limit, as far as they have no turn."""
        excess = len(self._states) - self._most
        if excess <= 0:
            return
        idle = (key for key in self._states if key not in self._turns)
        for key in [key for key, _ in zip(idle, range(excess), strict=False)]:
            del self._states[key]
            if self._on_forget is not None:
                self._on_forget(key)
