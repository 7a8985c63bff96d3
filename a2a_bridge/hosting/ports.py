"""What the engine needs of the outside: one store, and what sends to webhooks. No code of theirs.

Rules:
1. Every method is scoped: what belongs to another scope looks exactly like what does not exist.
2. Stores keep and give copies: changing a message that went in or came out changes nothing inside. Events are the
   exception: they are shared, and nobody changes them.
3. The log of a task is the truth: its events are numbered from 1 without gaps, and the task is what they add up to.
4. Nothing is shown before it is as durable as the store makes anything: not to readers, and not to waiters.
5. One writer at a time: who writes a task holds it. Somebody else may take it over only from the dead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.scope import Scope, scope_of
from a2a_bridge.memory import MemoryAccount
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Delivery, Outbox, OutboxEntry, Registered

__all__ = [
    "Delivery",
    "GapError",
    "Outbox",
    "OutboxEntry",
    "OwnerLostError",
    "PushConfigStore",
    "PushSender",
    "Registered",
    "Remote",
    "Scope",
    "SendRegister",
    "Sent",
    "Store",
    "Stored",
    "Subscription",
    "TaskPage",
    "TaskQuery",
    "TaskWriter",
    "VersionConflictError",
    "scope_of",
]


class Stored(NamedTuple):
    """A task as stored.

    version: to name when opening it. last: the number of the last event that it contains. holder: the live replica
    that works on it, when that is not this one; empty else.
    """

    task: hub.Task
    version: int
    last: int = 0
    holder: str = ""


class VersionConflictError(Exception):
    """The task was changed, taken over or created by somebody else in the meantime."""


class GapError(Exception):
    """Events after the position asked for are no longer kept, or the position lies beyond the last one."""


class OwnerLostError(A2AError):
    """The replica that was asked is dead, or does not hold the task any more. To callers: UNAVAILABLE."""

    def __init__(self) -> None:
        text = "the replica that worked on the task is gone; try again"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)


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
    """Some tasks, the token of the next page (empty at the end), how many match on all pages, and how many of this page
    cannot be read and are missing.
    """

    tasks: list[hub.Task]
    next_page_token: str
    total: int
    left_out: int = 0


#: told when what was waited for is durable (None), or why it never will be: VersionConflictError, or A2AError UNAVAILABLE
Synced = Callable[[Exception | None], None]


class TaskWriter(Protocol):
    """The hold on one task, and the only way to write it. Calls return at once; durability is asked for.

    Once it is lost (the task was taken over, or created by somebody else), everything given to it is dropped and
    `on_lost` of its making has been called.
    """

    @property
    def last(self) -> int:
        """The number of the event given last."""
        ...

    @property
    def pending(self) -> bool:
        """Whether anything given is not durable yet. Always false in stores that keep nothing."""
        ...

    def append(self, event: hub.StreamResponse, task: hub.Task, /) -> int:
        """Adds an event, and gives it its number. The first one creates the task.

        task: the working copy after the event. The writer may look at it again until it is durable, so it must only
        change in the same breath as `append` or `amend` is called.
        """
        ...

    def amend(self, task: hub.Task, /) -> None:
        """Notes a change of the task that is no event, such as a message that joined its history."""
        ...

    def when_synced(self, tell: Synced, /) -> None:
        """Calls `tell` once all that was given so far is durable: now, if it is so already. It hurries the store."""
        ...

    async def synced(self) -> None:
        """Waits for the same. Raises VersionConflictError, A2AError UNAVAILABLE when the store does not work."""
        ...

    async def room(self) -> None:
        """Returns when more may be given: the store keeps up, and so do its readers as far as it needs them to."""
        ...

    def release(self) -> None:
        """Gives up the hold, after all that was given. The task may then be opened anywhere."""
        ...


class Subscription(Protocol):
    """One reader of a task's events, in the order of their numbers."""

    @property
    def position(self) -> int:
        """The number of the event before the first of those that `take` gave last."""
        ...

    async def take(self) -> Sequence[hub.StreamResponse]:
        """The next events, at least one; empty at the end. The events are shared: treat them as immutable.

        Raises GapError, and A2AError when the task's events ended with an error or this reader was too slow.
        """
        ...

    def close(self) -> None:
        """Stops reading. May be called twice."""
        ...


class Sent(NamedTuple):
    """A message that was sent before. digest: of its content. task_id: of the task that is, or will be, the answer.
    answer: a serialized SendMessageResponse where the answer was a direct message. holder: the live replica that
    works on it, when that is not this one; empty else.
    """

    digest: bytes
    task_id: str
    answer: bytes = b""
    holder: str = ""


class SendRegister(Protocol):
    """Remembers messages by id, so that one that is sent twice is worked on once. For a bounded time."""

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        """None when the message is new, and now durably ours; else what it was the first time.

        instead: what an earlier call gave, where that has come to nothing: it is replaced if it is still so.
        """
        ...

    async def answered(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        """Keeps the direct answer to a message, durably."""
        ...

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        """The message was refused, so it may be sent again."""
        ...


class PushConfigStore(Protocol):
    """Keeps push notification configs by task and id (spec 3.1.7 to 3.1.10)."""

    async def put(self, scope: Scope, registered: Registered, /, *, replace: bool = True) -> None:
        """Stores a config under its task_id and id: in place of an earlier one, or only if there is none.

        Raises A2AError RESOURCE_EXHAUSTED when the task has as many as the store allows.
        """
        ...

    async def get(self, scope: Scope, task_id: str, config_id: str, /) -> Registered | None: ...

    async def list(self, scope: Scope, task_id: str, /) -> list[Registered]:
        """All configs of a task, the oldest first."""
        ...

    async def delete(self, scope: Scope, task_id: str, config_id: str, /) -> None:
        """Forgets a config and what waits for it. Forgetting what is not there is no error."""
        ...


class PushSender(Protocol):
    """What can be said of webhooks before anything is sent to them. `a2a_bridge.push` has one."""

    async def check(self, config: hub.TaskPushNotificationConfig, /) -> A2AError | None:
        """Why nothing can be sent to a config: INVALID_PARAMS naming the member at fault; None when it can."""
        ...


class Remote(Protocol):
    """Other replicas on the same store."""

    async def ask(self, holder: str, command: bytes, seconds: float | None, /) -> bytes:
        """Has another replica do something. Raises OwnerLostError when it is dead, A2AError UNAVAILABLE when it does not answer."""
        ...

    def serve(self, handler: Callable[[bytes], Awaitable[bytes]], /) -> None:
        """Answers what other replicas ask."""
        ...


class Store(Protocol):
    """Everything that is kept. See the rules of this module.

    durable: whether it outlives this process. push_configs, outbox, sends: parts of it. remote: other replicas that
    share it; None where there can be none. memory: counts what it holds in memory; above its limit the engine takes no
    new work.
    """

    durable: bool
    push_configs: PushConfigStore
    outbox: Outbox
    sends: SendRegister
    remote: Remote | None
    memory: MemoryAccount

    def refusal(self) -> A2AError | None:
        """Why no new work can be taken: UNAVAILABLE with the seconds to wait; None when it can."""
        ...

    def create(
        self, scope: Scope, task_id: str, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> TaskWriter:
        """A writer for a new task, which exists once its first event is durable.

        push: whether its events go to the outbox.
        """
        ...

    async def open(
        self, scope: Scope, stored: Stored, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> TaskWriter:
        """The writer of a task that nobody alive holds. Returns when the hold is durable.

        Raises VersionConflictError when the task is not at that version any more, or is held.
        """
        ...

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        """The task with all its events, None when this scope has no such task."""
        ...

    async def list(self, scope: Scope, query: TaskQuery, /) -> TaskPage:
        """Tasks by the time of their status, the newest first, ties by id.

        Raises A2AError INVALID_PARAMS naming pageToken for a token that no page of the same query gave.
        """
        ...

    async def task_at(self, scope: Scope, task_id: str, sequence: int, /) -> hub.Task | None:
        """The task as it was after an event, as far as that is still known; else as it is now."""
        ...

    def subscribe(self, task_id: str, after: int, /) -> Subscription:
        """Reads the events after a number, first those that there are. Whether the caller may see the task has been
        looked at; it need not exist yet.
        """
        ...

    def end(self, task_id: str, error: A2AError, /) -> None:
        """Ends this process's subscriptions of a task with an error."""
        ...

    async def orphans(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        """Tasks whose holder is dead, those with the newest status first."""
        ...

    def on_orphans(self, tell: Callable[[], None], /) -> None:
        """Has `tell` called when there may be some: after a start, and whenever a replica has died."""
        ...
