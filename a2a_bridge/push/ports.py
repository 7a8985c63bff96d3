"""The protocols of what delivery needs from a store: registered webhooks and waiting notifications.

The ports of hosting have them too, as parts of its Store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from a2a_bridge.core.scope import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub


class Registered(NamedTuple):
    """A push notification config. version: in which its receiver reads; empty for the newest. aside: what the
    caller said that the config has no place for (see ASIDE_PARAMETER).
    """

    config: hub.TaskPushNotificationConfig
    version: str = ""
    aside: str = ""


class Delivery(NamedTuple):
    """A notification to be delivered: an event, and to whom. number: its own. sequence: of the event in its
    task. attempts: how many have failed. webhook_id: stays the same whenever and wherever it is delivered.
    """

    number: int
    scope: Scope
    task_id: str
    sequence: int
    event: hub.StreamResponse
    registered: Registered
    attempts: int
    webhook_id: str


class OutboxEntry(NamedTuple):
    """A notification that waits or was given up, as operators see it. Times in seconds since the epoch."""

    number: int
    scope: Scope
    task_id: str
    config_id: str
    sequence: int
    url: str
    attempts: int
    dead: bool
    error: str
    created: float


class Outbox(Protocol):
    """Notifications that are due. The store puts events in by itself, in the same commit as the event."""

    def on_mail(self, tell: Callable[[], None], /) -> None:
        """Has `tell` called whenever there may be something new."""
        ...

    async def post(self, scope: Scope, registered: Registered, event: hub.StreamResponse, /) -> None:
        """Puts in an event that is of no task here. Returns when it is durable."""
        ...

    async def due(self, limit: int, room: Callable[[str], int], /) -> list[Delivery]:
        """Notifications whose time has come, at most one per config and the oldest of it. They are this
        process's until it settles them or dies.

        room: how many a target (`https://host:443`) can be given at present. What is for others does not wait
        for it.
        """
        ...

    async def wait(self) -> float | None:
        """Seconds until something that waits for a further attempt is due; None when nothing does."""
        ...

    async def sent(self, deliveries: Sequence[Delivery], /) -> None:
        """They were acknowledged: forgets them."""
        ...

    async def again(self, delivery: Delivery, error: str, seconds: float, /) -> None:
        """It failed and is due again in so many seconds; what follows it for the same config waits."""
        ...

    async def dead(self, delivery: Delivery, error: str, /) -> None:
        """It is given up, kept for operators, and no longer in the way of what follows."""
        ...

    async def entries(
        self, *, dead: bool | None = None, limit: int = 100, after: int = 0
    ) -> list[OutboxEntry]:
        """What is in, by number, for operators: of all scopes."""
        ...

    async def retry(self, numbers: Sequence[int] | None, /) -> int:
        """Makes dead ones (all when None) due at once, with no attempts behind them. How many there were."""
        ...
