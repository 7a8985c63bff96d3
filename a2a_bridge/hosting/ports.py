"""What the engine needs of the outside: a task store, an event bus, push configs, a push sender. No code of theirs.

Rules:
1. Every method of a store is scoped: what belongs to another scope looks exactly like what does not exist.
2. Stores keep and give copies: changing a message that went in or came out changes nothing inside.
3. A store method returns when the change is as durable as that store makes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.scope import Scope, scope_of
from a2a_bridge.pb import lf_a2a_v1 as hub

__all__ = [
    "EventBus",
    "PushConfigStore",
    "PushSender",
    "Scope",
    "Stored",
    "Subscription",
    "TaskPage",
    "TaskQuery",
    "TaskStore",
    "VersionConflict",
    "scope_of",
]


class Stored(NamedTuple):
    """A task as stored, and the version to name when updating it."""

    task: hub.Task
    version: int


class VersionConflict(Exception):  # noqa: N818  the domain's word is the better name
    """The task was changed, removed or created by somebody else in the meantime."""


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """Which tasks to list (spec 3.1.4).

    context_id: only those of this context; empty for all. state: only those in it; UNSPECIFIED for all.
    since: only those whose status is of this time or later, nanoseconds since the epoch; None for all.
    page_size: most tasks to give. page_token: what the page before gave, empty for the first.
    artifacts: whether the tasks carry theirs.
    """

    context_id: str = ""
    state: hub.TaskState = hub.TASK_STATE_UNSPECIFIED
    since: int | None = None
    page_size: int = 50
    page_token: str = ""
    artifacts: bool = False


class TaskPage(NamedTuple):
    """Some tasks, the token of the next page (empty at the end), and how many match on all pages."""

    tasks: list[hub.Task]
    next_page_token: str
    total: int


class TaskStore(Protocol):
    """Keeps tasks, with optimistic concurrency."""

    async def create(self, scope: Scope, task: hub.Task, /) -> int:
        """Stores a new task and returns its version.

        Raises VersionConflict when the id is taken, A2AError RESOURCE_EXHAUSTED when there is no room.
        """
        ...

    async def update(self, scope: Scope, task: hub.Task, expected: int, /) -> int:
        """Replaces a task and returns its new version. Raises VersionConflict unless it is at `expected`."""
        ...

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        """The task, None when this scope has no such task."""
        ...

    async def list(self, scope: Scope, query: TaskQuery, /) -> TaskPage:
        """Tasks by the time of their status, the newest first, ties by id.

        Raises A2AError INVALID_PARAMS naming pageToken for a token that no page of the same query gave.
        """
        ...


class PushConfigStore(Protocol):
    """Keeps push notification configs by task and id (spec 3.1.7 to 3.1.10)."""

    async def put(self, scope: Scope, config: hub.TaskPushNotificationConfig, /) -> None:
        """Stores a config under its task_id and id, in place of an earlier one.

        Raises A2AError RESOURCE_EXHAUSTED when the task has as many as the store allows.
        """
        ...

    async def get(
        self, scope: Scope, task_id: str, config_id: str, /
    ) -> hub.TaskPushNotificationConfig | None: ...

    async def list(self, scope: Scope, task_id: str, /) -> list[hub.TaskPushNotificationConfig]:
        """All configs of a task, the oldest first."""
        ...

    async def delete(self, scope: Scope, task_id: str, config_id: str, /) -> None:
        """Forgets a config. Forgetting what is not there is no error."""
        ...


class PushSender(Protocol):
    """Sends events of tasks to webhooks. `a2a_bridge.push.WebhookSender` is one."""

    def check(self, config: hub.TaskPushNotificationConfig, /) -> A2AError | None:
        """Why nothing can be sent to a config: INVALID_PARAMS naming the member at fault; None when it can."""
        ...

    async def deliver(
        self,
        scope: Scope,
        event: hub.StreamResponse,
        configs: Sequence[hub.TaskPushNotificationConfig],
        task: hub.Task,
        /,
    ) -> None:
        """Takes charge of an event. It must return soon: the agent waits. Treat the event as immutable.

        task: the task after the event. It goes on changing; whoever needs it copies it before awaiting anything.
        """
        ...


class Subscription(Protocol):
    """One reader of a task's events, in the order in which they were published."""

    @property
    def position(self) -> int:
        """The sequence number of the event before the first of those that `take` gave last."""
        ...

    async def take(self) -> Sequence[hub.StreamResponse]:
        """The next events, at least one; empty at the end. The events are shared: treat them as immutable.

        Raises A2AError when the task's events ended with an error, or when this reader was too slow.
        """
        ...

    def skip(self) -> bool:
        """Passes over all that is published already; whether there was anything."""
        ...

    def close(self) -> None:
        """Stops reading. May be called twice."""
        ...


class EventBus(Protocol):
    """Carries the events of live tasks to whoever listens. It keeps nothing for those who do not."""

    def heard(self, task_id: str, /) -> bool:
        """Whether anybody may be listening, so that an event is worth publishing."""
        ...

    async def publish(self, task_id: str, event: hub.StreamResponse, /) -> None:
        """Appends an event to the task's log. Waits for nobody: call `drained` before producing the next."""
        ...

    async def drained(self, task_id: str, /) -> None:
        """Returns when the log has room. A reader that keeps it full for too long is dropped with an error."""
        ...

    def subscribe(self, task_id: str, /) -> Subscription:
        """Reads what is published from now on; that is, from the return of this call."""
        ...

    def position(self, task_id: str, /) -> int:
        """The sequence number of the last event; counts from 1 since somebody began to listen."""
        ...

    def end(self, task_id: str, error: A2AError | None = None, /) -> None:
        """Ends all subscriptions of a task after the events published so far, with an error if one is given."""
        ...
