"""The live task runs of one engine: finds, makes and removes them, and limits their number.

Rules:
1. A task has one task run, from the first intended change of the task until it is idle.
2. A task that another live replica holds has none here.

Rules of Pressure:
1. A run that adds to a full memory account waits until its events are written, which frees memory.
2. If that is not enough, the running task that holds the most fails, then the next. Other runs wait.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import monotonic

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.errors import (
    A2AError,
    Blame,
    NotOwnerError,
    Reason,
    changed_hands_error,
    closing_error,
    task_not_found,
)
from a2a_bridge.hosting.executor_driver import EngineContext
from a2a_bridge.hosting.limits import too_many_tasks
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.stores.ports import Scope, Stored, VersionConflictError

log = logging.getLogger("a2a_bridge.hosting")

#: seconds after which the measuring of tasks lets other work run
_TURN = 0.005
#: lookups of a task whose owner changes meanwhile
_LOOKS = 3
_OF_TENANT = " for this tenant"
FULL = "the agent's process holds as much as it may, and this task held the most"


class RunRegistry:
    """All live task runs."""

    def __init__(self, engine: EngineContext) -> None:
        self._engine = engine
        self._live: dict[str, TaskRun] = {}
        self._relieve = Pressure(engine.store.memory, self).relieve
        #: the number of live task runs by principal, over all tenants: callers choose tenants
        self._of_callers: dict[str, int] = {}
        #: and by tenant, over all principals
        self._of_tenants: dict[str, int] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[TaskRun]:
        return iter(list(self._live.values()))

    def close(self) -> list[TaskRun]:
        """Rejects further task runs. Returns the live task runs, for the caller to stop."""
        self._closed = True
        return list(self._live.values())

    def get(self, scope: Scope, task_id: str) -> TaskRun | None:
        """The live run of a task, if there is one within the scope."""
        run = self._live.get(task_id)
        return run if run is not None and run.scope == scope else None

    def begin(self, scope: Scope, task_id: str, context_id: str) -> TaskRun:
        """A run for a new task. Raises UNAVAILABLE, and RESOURCE_EXHAUSTED when the caller or the tenant has
        too many at work, or the process holds too much.
        """
        if self._closed:
            raise closing_error()
        full = self._engine.store.memory.rejection()
        if full is not None:
            raise full
        options = self._engine.options
        if self._of_callers.get(scope.owner, 0) >= options.tasks > 0:
            raise too_many_tasks(options.tasks)
        if scope.tenant and self._of_tenants.get(scope.tenant, 0) >= options.tenant_tasks > 0:
            raise too_many_tasks(options.tenant_tasks, _OF_TENANT)
        run = TaskRun(self._engine, scope, task_id, context_id, self._remove, self._relieve)
        if self._engine.options.idempotent_sends and self._engine.store.remote is not None:
            # So the run is lost if this replica is declared dead: another replica may take its message over.
            run.lease.begin()
        # Not by `_add`: this is on the path of each new task.
        tenant, owner = scope
        self._of_callers[owner] = self._of_callers.get(owner, 0) + 1
        self._of_tenants[tenant] = self._of_tenants.get(tenant, 0) + 1
        self._live[task_id] = run
        return run

    def crowded(self, run: TaskRun) -> A2AError | None:
        """RESOURCE_EXHAUSTED if a run's caller or tenant has more tasks at work than the limit; else None."""
        options = self._engine.options
        if self._of_callers.get(run.scope.owner, 0) > options.tasks > 0:
            return too_many_tasks(options.tasks)
        if run.scope.tenant and self._of_tenants.get(run.scope.tenant, 0) > options.tenant_tasks > 0:
            return too_many_tasks(options.tenant_tasks, _OF_TENANT)
        return None

    async def enter(
        self,
        scope: Scope,
        task_id: str,
        ended: Callable[[TaskRun], A2AError],
        known: Stored | None = None,
    ) -> TaskRun:
        """The run of a task, with the lease; the caller has to `end_visit`. known: the task as just read: an
        orphan, which the caller resumes or fails, so that the lease may come with its failure. Raises
        TASK_NOT_FOUND, the result of `ended` for a task that has ended, NotOwnerError, UNAVAILABLE.
        """
        rejection = self._engine.store.rejection()
        orphaned = known is not None
        for _ in range(_LOOKS):
            run = await self._found(scope, task_id, known)
            known = None
            if run.live.ended:
                await run.wait_settled()
                raise ended(run)
            if rejection is not None:
                raise rejection
            if self._closed:
                raise closing_error()
            self._add(run)
            try:
                await run.visit(orphaned=orphaned)
            except VersionConflictError:
                self._drop(run)
            except BaseException:
                self._drop(run)
                raise
            else:
                return run
        raise changed_hands_error()

    async def require_owner(self, scope: Scope, task_id: str) -> None:
        """Raises NotOwnerError when another live replica works on the task."""
        if self.get(scope, task_id) is None:
            stored = await self._engine.store.get(scope, task_id)
            if stored is not None and stored.holder and self.get(scope, task_id) is None:
                raise NotOwnerError(stored.holder, stored.task)

    async def _found(self, scope: Scope, task_id: str, known: Stored | None) -> TaskRun:
        """The live run of a task, or a new run for a stored task. Raises TASK_NOT_FOUND, NotOwnerError."""
        run = self.get(scope, task_id)
        if run is not None and run.live.task is not None and not run.lease.lost:
            return run
        stored = known or await self._engine.store.working_copy(scope, task_id)
        # It may have become live in the meantime.
        run = self.get(scope, task_id)
        if stored is not None and (run is None or run.lease.lost):
            if stored.holder:
                raise NotOwnerError(stored.holder, stored.task)
            context_id = stored.task.context_id
            return TaskRun(self._engine, scope, task_id, context_id, self._remove, self._relieve, stored)
        if run is None or run.live.task is None or run.lease.lost:
            raise task_not_found(task_id)
        return run

    def _drop(self, run: TaskRun) -> None:
        """Forgets a run that did not get the lease on its task."""
        if not run.lease.opening:
            self._remove(run)
        run.end_visit()

    def _add(self, run: TaskRun) -> None:
        if run.task_id not in self._live:
            tenant, owner = run.scope
            for numbers, name in ((self._of_callers, owner), (self._of_tenants, tenant)):
                numbers[name] = numbers.get(name, 0) + 1
        self._live[run.task_id] = run

    def _remove(self, run: TaskRun) -> bool:
        """Forgets a run. False if it is not registered."""
        if self._live.get(run.task_id) is not run:
            return False
        del self._live[run.task_id]
        tenant, owner = run.scope
        for numbers, name in ((self._of_callers, owner), (self._of_tenants, tenant)):
            left = numbers[name] - 1
            if left:
                numbers[name] = left
            else:
                del numbers[name]
        return True


class Pressure:
    """Ends runs whose output does not fit into the memory of the process. live: the engine's task runs."""

    def __init__(self, memory: MemoryAccount, live: Iterable[TaskRun]) -> None:
        self.memory = memory
        self._live = live
        self._ending: asyncio.Task[None] | None = None

    async def relieve(self, run: TaskRun) -> None:
        """Returns when a run may continue; may end it."""
        try:
            await run.wait_settled()
        except A2AError:
            return  # the store does not work, or the task is lost: the run finds out by itself
        while self.memory.exceeded:
            if self._ending is None:
                if not any(one.running for one in self._live):
                    return
                self._ending = asyncio.create_task(self._end_largest(), name="a2a memory pressure")
                self._ending.add_done_callback(self._on_end)
            await asyncio.wait({self._ending})

    async def _end_largest(self) -> None:
        largest: TaskRun | None = None
        most = -1
        began = monotonic()
        for run in list(self._live):
            # To measure a task is to serialize it: hundreds of large tasks would block the loop for seconds.
            if run.running and (size := run.size) > most:
                largest, most = run, size
            if monotonic() - began > _TURN:
                await asyncio.sleep(0)
                began = monotonic()
        if largest is None or not largest.running:
            return
        log.warning("task %s, of %d bytes: %s", largest.task_id, most, FULL)
        with suppress(A2AError):
            await largest.break_off(A2AError(Reason.RESOURCE_EXHAUSTED, FULL, blame=Blame.SELF))

    def _on_end(self, done: asyncio.Task[None]) -> None:
        self._ending = None
        if not done.cancelled() and done.exception() is not None:
            log.error("a run could not be ended", exc_info=done.exception())
