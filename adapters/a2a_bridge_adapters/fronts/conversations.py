"""Conversations of a front: their contexts at the agent, and the tasks that wait for their callers.

Rules:
1. The id of a context is made of the front, the caller and a name of the conversation: two callers with the
   same name have two contexts.
2. An agent that gives a context another id is called with that id from then on.
3. The table forgets the conversations that were used longest ago, of the caller with the most of them. Their
   contexts keep their ids.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from uuid import UUID, uuid4, uuid5

from a2a_bridge.bindings.memory import MOST_BYTES, Tables, size_of
from a2a_bridge.bindings.shares import SharedTable
from a2a_bridge_adapters.fronts.turn import Answer, Shown, size_of_shown

#: the namespace of the ids of contexts
_SPACE = UUID("3f0c2a35-7a54-4b1c-9a7e-5d2f6f0a8c11")
#: entries of each table of a front
MOST = 10_000


@dataclass(slots=True)
class Conversation:
    """A conversation with the agent."""

    #: at the agent
    context_id: str
    #: the task that the next message continues; empty if none waits
    waiting: str = ""
    #: the content of that task that the caller has
    shown: Shown = field(default_factory=dict)

    def note(self, answer: Answer) -> None:
        """Takes over what a turn has shown."""
        self.context_id = answer.context_id or self.context_id
        self.waiting = answer.task_id if answer.waits else ""
        self.shown = answer.shown if answer.waits else {}

    @property
    def size(self) -> int:
        """Bytes."""
        return size_of(self.context_id, self.waiting) + size_of_shown(self.shown)


def new_name() -> str:
    """A name that nobody can guess."""
    return uuid4().hex


def context_of(front: str, owner: str, name: str) -> str:
    """The id of the context of a conversation. front: its kind. owner: the name of the caller."""
    words = json.dumps([front, owner, name])
    return str(uuid5(_SPACE, words))


class Conversations:
    """The conversations of a front, by the owner and a name. tables: of the account."""

    def __init__(self, front: str, tables: Tables | None = None, most: int = MOST) -> None:
        self._front = front
        self._known: SharedTable[Conversation] = SharedTable(most, tables, most_bytes=MOST_BYTES)

    def named(self, owner: str, name: str) -> Conversation:
        """The conversation with a name; a new one if it is not known."""
        found = self._known.get((owner, name))
        if found is None:
            found = Conversation(context_of(self._front, owner, name))
            self.keep(owner, name, found)
        return found

    def keep(self, owner: str, name: str, conversation: Conversation) -> None:
        """Counts a conversation as it is now."""
        self._known.put((owner, name), conversation, size_of(owner, name) + conversation.size)
