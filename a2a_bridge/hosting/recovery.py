"""Takes over the tasks of dead processes. The store knows which processes are dead.

Rules:
1. No task stays at work for ever: the executor resumes it if it can, otherwise it fails with a reason.
2. A task that waits for its user keeps waiting, without a lease.
3. Any caller that acquires a task that was left at work resumes or fails it: it is not left as an orphan
   again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import randrange

from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import INTERRUPTED, RUNNING
from a2a_bridge.hosting.ports import Scope, Store
from a2a_bridge.hosting.run import Run
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting")

#: orphans per query, those of them that one of several replicas takes at a time, and concurrent takeovers
_PORTION, _SHARE = 10_000, 256
_AT_ONCE = 32
#: seconds until the next attempt after a failure
_AGAIN = 5.0


class Recovery:
    """Watches a store for orphans, and takes them over in the background, newest first.

    recover: takes over one task, and returns whether it did. It raises A2AError if the store does not work.
    """

    def __init__(self, store: Store, recover: Callable[[Scope, str], Awaitable[bool]]) -> None:
        self._store = store
        self._recover = recover
        self._woken = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None
        #: orphans of the present round that are not being taken over yet, the newest last
        self._queue: list[tuple[Scope, str]] = []
        self._under_way = 0
        #: set while no known orphan is left
        self._quiet = asyncio.Event()

    @property
    def left(self) -> int:
        """The number of known orphans that have not been taken over."""
        return len(self._queue) + self._under_way

    def start(self) -> None:
        """Takes over existing orphans, and then new ones."""
        if not self._store.durable:
            self._quiet.set()
            return
        self._woken.set()
        self._store.on_orphans(self._wake_up)
        self._watcher = asyncio.create_task(self._watch(), name="a2a recovery")

    async def quiet(self) -> None:
        """Waits until all known orphans were taken over, or cannot be at present."""
        await self._quiet.wait()

    async def close(self) -> None:
        """Stops taking over."""
        self._queue.clear()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait({self._watcher})
        self._quiet.set()

    def _wake_up(self) -> None:
        self._quiet.clear()
        self._woken.set()

    async def _watch(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            went_well = await self._round()
            if not self._woken.is_set():
                self._quiet.set()
            if not went_well:
                await asyncio.sleep(_AGAIN)
                self._wake_up()

    async def _round(self) -> bool:
        """Takes over all tasks without a live holder. Returns False after a failure."""
        try:
            while orphans := list(await self._store.orphans(_PORTION)):
                if self._store.remote is not None:
                    # Other replicas take over, too: each begins elsewhere, and looks again soon.
                    start = randrange(len(orphans))  # noqa: S311  no secret
                    orphans = [*orphans[start:], *orphans[:start]][:_SHARE]
                self._queue = orphans[::-1]
                workers = [self._work() for _ in range(min(_AT_ONCE, len(orphans)))]
                ends = await asyncio.gather(*workers, return_exceptions=True)
                for end in ends:
                    if isinstance(end, BaseException):
                        raise end
                if not any(ends):
                    return True  # other processes were faster, or these cannot be taken over
        except A2AError as error:
            log.warning("orphaned tasks cannot be taken over yet: %s", error)
            return False
        return True

    async def _work(self) -> bool:
        """Takes over one orphan after another. Returns True if it took over any.

        Raises A2AError if the store does not work.
        """
        took = False
        while self._queue:
            scope, task_id = self._queue.pop()
            self._under_way += 1
            try:
                took = await self._one(scope, task_id) or took
            except A2AError:
                self._queue.clear()
                raise
            finally:
                self._under_way -= 1
        return took

    async def _one(self, scope: Scope, task_id: str) -> bool:
        try:
            return await self._recover(scope, task_id)
        except A2AError:
            raise
        except Exception:
            log.exception("orphaned task %s cannot be taken over", task_id)
            return False


def can_continue(task: hub.Task) -> bool:
    """True if an executor can continue the task: it is working, waits for authentication, or has an unread
    message.
    """
    state = task.status.state
    if state in RUNNING or state == hub.TASK_STATE_AUTH_REQUIRED:
        return True
    unread = (
        bool(task.history) and task.history[-1].role == hub.ROLE_USER and not task.status.HasField("message")
    )
    return state in INTERRUPTED and unread


def resumed(scope: Scope, task: hub.Task) -> Run:
    """The run with which an executor continues: its request contains the newest message of the user."""
    request = hub.SendMessageRequest(tenant=scope.tenant)
    for message in reversed(task.history):
        if message.role == hub.ROLE_USER:
            request.message.CopyFrom(message)
            break
    principal = Principal(scope.owner) if scope.owner else None
    return Run(request, CallContext(tenant=scope.tenant, principal=principal), task.id, task.context_id)
