"""The interface of a bus between the replicas of one agent. No implementation.

Rules:
1. A bus loses messages, but never delivers a wrong one. Nothing depends on a message for more than time: the
   database has the truth.
2. A bus never says that a replica is dead. Only the database does.
3. All methods are for the loop of the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol


class Hint(Enum):
    """A kind of change in the database."""

    MAIL = b"m"
    ORPHANS = b"o"
    JOINED = b"j"


class NobodyError(Exception):
    """No replica of that name listens on the bus at present."""


class BusDownError(Exception):
    """The bus cannot be used at present."""


class Bus(Protocol):
    """Messages between replicas. `start` it before any other use."""

    @property
    def most(self) -> int:
        """The bytes of the largest message."""
        ...

    @property
    def pushes(self) -> bool:
        """Whether messages about topics are delivered. If not, their readers have to poll."""
        ...

    @property
    def live(self) -> bool:
        """False while the bus is known not to work."""
        ...

    async def start(
        self,
        me: str,
        answer: Callable[[bytes], Awaitable[bytes]],
        on_hint: Callable[[Hint], None],
        on_gap: Callable[[], None],
        /,
    ) -> None:
        """Listens as replica `me` from its return on, or once the bus can be reached.

        answer: answers the request of another replica within seconds; raises nothing. on_hint: called with
        the hints of other replicas. on_gap: called when messages may have been lost, because the connection
        was made again, or because this replica was too slow.
        """
        ...

    def rename(self, me: str, /) -> None:
        """Renames this replica. Requests to the old name find nobody."""
        ...

    async def request(self, replica: str, data: bytes, seconds: float, /) -> bytes:
        """The response of a replica.

        Raises NobodyError, BusDownError, and TimeoutError after `seconds`. In the last two cases the request
        may have arrived.
        """
        ...

    def publish(self, topic: str, data: bytes, /) -> None:
        """Sends a message to all readers of a topic, if the bus works."""
        ...

    def subscribe(self, topic: str, handler: Callable[[bytes], None], /) -> Callable[[], None]:
        """Reads a topic until the returned function is called."""
        ...

    def hint(self, hint: Hint, /) -> None:
        """Gives a hint to all other replicas. Equal hints within a short time are one message."""
        ...

    async def close(self) -> None:
        """Stops listening. May be called twice."""
        ...
