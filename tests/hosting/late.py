"""A store whose commits a test controls, so that an answer before its commit is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.memory import MemoryWriter
from a2a_bridge.stores.ports import Scope, Stored, Synced, VersionConflictError
from tests.patience import PATIENCE


def out_of_order() -> A2AError:
    return A2AError(Reason.UNAVAILABLE, "the store does not work", blame=Blame.SELF, retry_after=1.0)


class LateStore(MemoryStore):
    """Delays all changes until `commit`, or until it is open. It outlives engines: `die` makes orphans."""

    durable = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.writers: list[LateWriter] = []
        self.open_door = False
        self.error: A2AError | None = None
        self.tellers: list[Callable[[], None]] = []
        self._orphans: dict[str, Scope] = {}

    def create(
        self, scope: Scope, task_id: str, on_lost: Callable[[], None], /, *, push: bool = False
    ) -> Any:
        return self._late(scope, super().create(scope, task_id, on_lost, push=push), task_id, on_lost)

    async def open(
        self,
        scope: Scope,
        stored: Stored,
        on_lost: Callable[[], None],
        /,
        *,
        push: bool = False,
        wait: bool = True,
    ) -> Any:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        writer = await super().open(scope, stored, on_lost, push=push, wait=wait)
        self._orphans.pop(stored.task.id, None)
        late = self._late(scope, writer, stored.task.id, on_lost)
        late.last = stored.last
        return late

    async def get(self, scope: Scope, task_id: str, /) -> Stored | None:
        await asyncio.sleep(0)
        return await super().get(scope, task_id)

    def rejection(self) -> A2AError | None:
        return self.error

    async def orphans(self, limit: int, /) -> Sequence[tuple[Scope, str]]:
        newest = reversed(self._orphans.items())
        return [(scope, task_id) for task_id, scope in newest][:limit]

    def on_orphans(self, tell: Callable[[], None], /) -> None:
        self.tellers.append(tell)

    @property
    def pending(self) -> bool:
        return any(writer.pending for writer in self.writers)

    async def given(self) -> None:
        """Returns when there is a change to commit."""
        async with asyncio.timeout(PATIENCE):
            while not self.pending:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0)

    def commit(self) -> None:
        """Commits the pending changes."""
        for writer in list(self.writers):
            writer.commit()

    def fail(self) -> None:
        """Reports a failure to all that wait."""
        self.error = out_of_order()
        for writer in list(self.writers):
            writer.tell(self.error)

    def die(self) -> None:
        """The process of all leases dies; changes that were not committed are lost."""
        for writer in self.writers:
            writer.dead = True
            writer.given.clear()
        self.writers.clear()
        for entry in self._entries.values():
            if entry.held:
                entry.rest()
                self._orphans[entry.task_id] = entry.scope
        for tell in self.tellers:
            tell()

    def _late(
        self, scope: Scope, writer: MemoryWriter, task_id: str, on_lost: Callable[[], None]
    ) -> LateWriter:
        late = LateWriter(self, writer, task_id, on_lost)
        self.writers.append(late)
        return late


class LateWriter:
    """Implements TaskWriter."""

    def __init__(
        self, store: LateStore, writer: MemoryWriter, task_id: str, on_lost: Callable[[], None]
    ) -> None:
        self._store, self._writer = store, writer
        self._task_id, self._on_lost = task_id, on_lost
        self._waiting: list[Synced] = []
        self.given: list[tuple[hub.StreamResponse | hub.Message | None, hub.Task]] = []
        self.last = 0
        self.lost = self.dead = False

    @property
    def pending(self) -> bool:
        return bool(self.given) and not self.lost

    @property
    def stored(self) -> int:
        return self._writer.stored

    def append(self, event: hub.StreamResponse, task: hub.Task, /) -> int:
        self.last += 1
        self._give(event, task)
        return self.last

    def amend(self, task: hub.Task, joined: hub.Message | None = None, /) -> None:
        self._give(joined, task)

    def _give(self, change: hub.StreamResponse | hub.Message | None, task: hub.Task) -> None:
        if not self.lost and not self.dead:
            self.given.append((change, hub.Task.FromString(task.SerializeToString())))
            if self._store.open_door:
                self.commit()

    def when_synced(self, tell: Synced, /) -> None:
        if self.lost:
            tell(VersionConflictError(self._task_id))
        elif not self.given:
            tell(None)
        else:
            self._waiting.append(tell)

    async def sync(self) -> None:
        future = asyncio.get_running_loop().create_future()

        def tell(error: Exception | None) -> None:
            if not future.done():
                future.set_exception(error) if error is not None else future.set_result(None)

        self.when_synced(tell)
        await future

    @property
    def crowded(self) -> bool:
        return self._writer.crowded

    async def room(self) -> None:
        await self._writer.room()

    def release(self) -> None:
        self.commit()
        if not self.dead:
            self._writer.release()

    def commit(self) -> None:
        for change, task in self.given:
            if isinstance(change, hub.StreamResponse):
                self._writer.append(change, task)
            else:
                self._writer.amend(task, change)
        self.given.clear()
        self.tell(None)

    def tell(self, error: Exception | None) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one(error)

    def lose(self) -> None:
        """Another process takes the task over."""
        self.lost = True
        self.given.clear()
        self._writer.release()
        self._on_lost()
        self.tell(VersionConflictError(self._task_id))
