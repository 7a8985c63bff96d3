"""Conversations: the turns of one chat, and how many are remembered.

Rules:
1. The key of a conversation is `run.conversation`.
2. Two turns of one conversation at once would lose one of them. The second waits for the first, also on
   another replica: `ConversationExecutor` holds the lock of the conversation.
3. States are those of this process. With replicas, a framework that keeps no state of its own elsewhere needs
   all turns of a context on one of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from a2a_bridge.hosting.conversation_key import ConversationKey

#: ConversationKey is for authors of adapters, who find all of it here
__all__ = ["MOST", "ConversationKey", "Conversations", "State"]

#: conversations that are remembered, unless an option says otherwise
MOST = 10_000

State = TypeVar("State")


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
