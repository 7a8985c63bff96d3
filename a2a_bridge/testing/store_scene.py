"""For contracts and tests of stores: opens the store, writes a task, reads events and lists. No tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from a2a_bridge.core.lifecycle import advance, join
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, Sent, Store, Stored, Subscription, TaskPage, TaskQuery, TaskWriter


class OpensStores:
    """Opens the store under test."""

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """An empty store."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with self.opened() as store:
            yield store


#: seconds after which a wait counts as hanging
PATIENCE = 120.0
HERE = Scope("acme", "ann")
ELSEWHERE = [Scope("acme", "bob"), Scope("other", "ann"), Scope(), Scope("", "ann"), Scope("acme", "")]
#: nanoseconds since the epoch; an odd number, so that rounding shows
NOON = 1_700_000_000_123_456_789

#: ids that callers may choose, which are difficult for code that joins them
ODD = ["nul\0", "\x1b0", "\x1b", "o'hare \"; --", "ünï😀", "%s ? :x"]

SUBMITTED = hub.TASK_STATE_SUBMITTED
WORKING = hub.TASK_STATE_WORKING
INPUT = hub.TASK_STATE_INPUT_REQUIRED
COMPLETED = hub.TASK_STATE_COMPLETED
FAILED = hub.TASK_STATE_FAILED


def made(task_id: str, time: int = NOON, context_id: str = "c", state: hub.TaskState = WORKING) -> hub.Task:
    """A task with a status of `time`, in nanoseconds since the epoch."""
    task = hub.Task(id=task_id, context_id=context_id, status=hub.TaskStatus(state=state))
    task.status.timestamp.FromNanoseconds(time)
    return task


class Author:
    """Writes one task as an engine does. task: its working copy. lost: reported losses of the lease."""

    def __init__(self, store: Store, scope: Scope = HERE, *, push: bool = False) -> None:
        self.store = store
        self.scope = scope
        self.task = hub.Task()
        self.lost = 0
        self._push = push
        self.writer: TaskWriter

    def begin(self, task: hub.Task | str, time: int = NOON, **members: Any) -> Author:
        """Creates a task."""
        self.task = (
            made(task, time, **members)
            if isinstance(task, str)
            else hub.Task.FromString(task.SerializeToString())
        )
        self.writer = self.store.create(self.scope, self.task.id, self._lose, push=self._push)
        self.writer.append(hub.StreamResponse(task=self.task), self.task)
        return self

    async def open(self, stored: Stored, *, wait: bool = True) -> Author:
        """Continues a stored task. Raises VersionConflictError."""
        self.task = stored.task
        self.writer = await self.store.open(self.scope, stored, self._lose, push=self._push, wait=wait)
        return self

    async def reopen(self, task_id: str) -> Author:
        """Continues the task that the store has."""
        return await self.open(await found(self.store, task_id, self.scope))

    def status(self, state: hub.TaskState, time: int = 0, text: str = "") -> int:
        """A new status, with the previous time unless given. Returns the number of the event."""
        event = hub.StreamResponse()
        update = event.status_update
        update.task_id, update.context_id = self.task.id, self.task.context_id
        update.status.state = state
        if time:
            update.status.timestamp.FromNanoseconds(time)
        else:
            update.status.timestamp.CopyFrom(self.task.status.timestamp)
        if text:
            update.status.message.message_id = f"s{self.writer.last + 1}"
            update.status.message.parts.add(text=text)
        advance(self.task, update)
        return self.writer.append(event, self.task)

    def chunk(self, text: str, artifact_id: str = "a") -> int:
        """A piece of an artifact. Returns the number of the event."""
        event = hub.StreamResponse()
        update = event.artifact_update
        update.task_id, update.context_id, update.append = self.task.id, self.task.context_id, True
        update.artifact.artifact_id = artifact_id
        update.artifact.parts.add(text=text)
        advance(self.task, update)
        return self.writer.append(event, self.task)

    def amend(self, message_id: str) -> None:
        """A message that joins the history."""
        join(self.task, hub.Message(message_id=message_id, role=hub.ROLE_USER))
        self.writer.amend(self.task, self.task.history[-1])

    async def sync(self) -> Author:
        async with asyncio.timeout(PATIENCE):
            await self.writer.sync()
        return self

    async def release(self) -> Author:
        """Releases the lease."""
        await self.sync()
        self.writer.release()
        return await self.sync()

    def copy(self) -> hub.Task:
        """The present task."""
        return hub.Task.FromString(self.task.SerializeToString())

    def _lose(self) -> None:
        self.lost += 1


async def found(store: Store, task_id: str, scope: Scope = HERE) -> Stored:
    """The task, which has to exist."""
    stored = await store.get(scope, task_id)
    assert stored is not None
    return stored


async def reserve(
    store: Store, scope: Scope, message_id: str, digest: bytes, task_id: str, *, instead: Sent | None = None
) -> Sent | None:
    """Reserves the id of a message; StoreBase asks a driver again while it contradicts itself."""
    async with asyncio.timeout(PATIENCE):
        return await store.sends.reserve(scope, message_id, digest, task_id, instead=instead)


async def pages(store: Store, scope: Scope = HERE, **query: Any) -> list[TaskPage]:
    """All pages of a query, of which no task may be missing."""
    read = [await store.list(scope, TaskQuery(**query))]
    while read[-1].next_page_token:
        assert len(read) < 1000
        read.append(await store.list(scope, TaskQuery(**query, page_token=read[-1].next_page_token)))
    # What a driver of StoreBase finds in another scope fails its checksum.
    assert not any(page.left_out for page in read)
    return read


def ids(read: Sequence[TaskPage]) -> list[str]:
    """The tasks of some pages in order."""
    return [one.id for page in read for one in page.tasks]


def summary(event: hub.StreamResponse) -> Any:
    """An event in short form: the text of a chunk, else a state."""
    match event.WhichOneof("payload"):
        case "artifact_update":
            return event.artifact_update.artifact.parts[0].text
        case "status_update":
            return event.status_update.status.state
    return ("task", event.task.status.state)


async def take(reader: Subscription, count: int) -> list[Any]:
    """The next `count` events in short form."""
    taken: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while len(taken) < count:
            events = await reader.take()
            assert events, f"the events end after {taken}"
            taken += [summary(event) for event in events]
    assert len(taken) == count
    return taken


async def rest(reader: Subscription) -> list[Any]:
    """All events up to the end."""
    taken: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while events := await reader.take():
            taken += [summary(event) for event in events]
    return taken
