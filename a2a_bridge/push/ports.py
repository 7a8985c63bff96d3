"""The protocols of the store that delivery needs: registered webhooks and pending notifications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from a2a_bridge.core.callers import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub


class Registered(NamedTuple):
    """A registered push notification config."""

    config: hub.TaskPushNotificationConfig
    #: the protocol version that its receiver reads; empty for the newest
    version: str = ""
    #: content of the registration that the config has no members for (see SIDE_CHANNEL)
    side_channel: str = ""


class PushConfigStore(Protocol):
    """Keeps push notification configs by task and id (spec 3.1.7 to 3.1.10)."""

    async def put(self, scope: Scope, registered: Registered, /, *, replace: bool = True) -> None:
        """Stores a config under its task_id and id. replace: False to keep an existing config. Raises
        RESOURCE_EXHAUSTED when the task has as many configs as the store allows.
        """
        ...

    async def get(self, scope: Scope, task_id: str, config_id: str, /) -> Registered | None: ...

    async def list(self, scope: Scope, task_id: str, /) -> list[Registered]:
        """All configs of a task, the oldest first."""
        ...

    async def delete(self, scope: Scope, task_id: str, config_id: str, /) -> None:
        """Deletes a config and its waiting notifications. Does nothing if it does not exist."""
        ...


class Delivery(NamedTuple):
    """One notification to deliver."""

    #: identifies the notification in the outbox
    number: int
    scope: Scope
    task_id: str
    #: the number of the event in its task
    sequence: int
    event: hub.StreamResponse
    registered: Registered
    #: failed attempts so far
    attempts: int
    #: the `webhook-id` header, the same for all attempts
    webhook_id: str


class OutboxEntry(NamedTuple):
    """A pending notification or a dead letter, as operators see it."""

    number: int
    scope: Scope
    task_id: str
    config_id: str
    #: the number of the event in its task
    sequence: int
    url: str
    #: failed attempts so far
    attempts: int
    #: True for a dead letter
    dead: bool
    #: the error of the last attempt; empty before the first
    error: str
    #: seconds since the epoch
    created: float


class Backlog(NamedTuple):
    """How much an outbox holds."""

    #: notifications that wait for their delivery
    pending: int
    #: seconds since the oldest of them was added; None without any
    age: float | None
    #: dead letters
    dead: int


class Outbox(Protocol):
    """Due notifications. The store adds events by itself, in the same commit as the event. An outbox that can
    be measured has `async def backlog(self) -> Backlog`: how much it holds, for all replicas.
    """

    def on_new(self, callback: Callable[[], None], /) -> None:
        """Registers a callback for new notifications."""
        ...

    async def post(self, scope: Scope, registered: Registered, event: hub.StreamResponse, /) -> None:
        """Adds an event of a task that is not in this store. Returns when it is durable."""
        ...

    async def due(self, limit: int, capacity_of: Callable[[str], int], /) -> list[Delivery]:
        """Due notifications, at most one per config, the oldest. They belong to this process until it settles
        them or dies. capacity_of: the capacity of a target (`https://host:443`) at present. Notifications for
        other targets do not wait for it.
        """
        ...

    async def wait(self) -> float | None:
        """Seconds until the next retry is due; None if no notification waits for one."""
        ...

    async def sent(self, deliveries: Sequence[Delivery], /) -> None:
        """Deletes acknowledged notifications."""
        ...

    async def again(self, delivery: Delivery, error: str, seconds: float, /) -> None:
        """Schedules a retry after a failure. Later notifications of the same config wait for it."""
        ...

    async def dead(self, delivery: Delivery, error: str, /) -> None:
        """Makes a notification a dead letter, for which later ones of the config no longer wait."""
        ...

    async def entries(
        self, *, dead: bool | None = None, limit: int = 100, after: int = 0
    ) -> list[OutboxEntry]:
        """The notifications of all scopes by number, for operators."""
        ...

    async def retry(self, numbers: Sequence[int] | None, /) -> int:
        """Makes dead letters (all if None) due at once, with their attempts reset. Returns their number."""
        ...
