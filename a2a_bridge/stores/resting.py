"""The working copies of large tasks without a writer, for the next turn of a conversation. To serialize, read
and parse its history in each turn would make a turn as expensive as the conversation is long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from a2a_bridge.bindings.memory import MemoryAccount, Table, Tables

V = TypeVar("V")

#: bytes from which a working copy is kept; smaller tasks are parsed as fast as they are found
RESTS = 16 << 10
#: bytes of all of them, serialized. Messages in memory have several times the size
_MOST_BYTES = 32 << 20


def resting_tasks(memory: MemoryAccount, on_drop: Callable[[str, V], None] | None = None) -> Table[str, V]:
    """The copies by the ids of their tasks, the least recently used first to go."""
    return Table(_MOST_BYTES // RESTS, Tables.of(memory), most_bytes=_MOST_BYTES, on_drop=on_drop)
