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
from a2a_bridge.core.messages import INTERRUPTED, RUNNING, TERMINAL
from a2a_bridge.hosting.executor import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, Store, Stored

log = logging.getLogger("a2a_bridge.hosting")

#: orphans per query, orphans that are read together, and orphans that are written together, for which other
#: calls wait
_PORTION, _READ, _WRITTEN = 2_000, 64, 4
#: the time for other calls after each step: a multiple of the time of the step, at most so many seconds
_SHARE, _REST = 1.3, 0.05
#: seconds that the other replicas have for their orphans, before this replica helps them
_OTHERS = 0.5
#: seconds until the next attempt after a failure
_AGAIN = 5.0


class Recovery:
    """Watches a store for orphans, and takes them over in the background, newest first.

    recover: takes over a task that was just read, and returns whether it did. It raises A2AError if the store
    does not work.
    """

    def __init__(self, store: Store, recover: Callable[[Scope, str, Stored], Awaitable[bool]]) -> None:
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
        """Takes over existing orphans, and then new orphans."""
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
        #: orphans that cannot be taken over, or that other processes were faster to take over
        left: set[str] = set()
        try:
            helps = False
            while orphans := await self._orphans(left):
                mine = self._mine(orphans)
                if not mine and not helps:
                    # Orphans for other replicas, which are probably at work on them.
                    await asyncio.sleep(_OTHERS)
                    helps = True
                    continue
                start = randrange(len(orphans))  # noqa: S311  no secret
                self._queue = (mine or orphans[start : start + _READ])[::-1]
                while self._queue:
                    left |= await self._take([self._queue.pop() for _ in self._queue[:_READ]])
        except A2AError as error:
            log.warning("orphaned tasks cannot be taken over yet: %s", error)
            return False
        except Exception:
            log.exception("orphaned tasks cannot be taken over yet")
            return False
        finally:
            self._queue, self._under_way = [], 0
        return True

    async def _take(self, tasks: list[tuple[Scope, str]]) -> set[str]:
        """Takes over some tasks. Returns the tasks that it could not, or need not take over."""
        loop = asyncio.get_running_loop()
        self._under_way = len(tasks)
        left: set[str] = set()
        found = list(zip(tasks, await self._store.get_many(tasks), strict=True))
        for start in range(0, len(found), _WRITTEN):
            some, began = found[start : start + _WRITTEN], loop.time()
            ends = await asyncio.gather(*(self._one(*one) for one in some), return_exceptions=True)
            for (_, task_id), end in zip(tasks[start:], ends, strict=False):
                if isinstance(end, BaseException):
                    raise end
                if not end:
                    left.add(task_id)
            self._under_way -= len(some)
            await asyncio.sleep(min(_SHARE * (loop.time() - began), _REST))
        return left

    async def _one(self, task: tuple[Scope, str], known: Stored | None) -> bool:
        if known is None or known.holder or known.task.status.state in TERMINAL:
            return False
        try:
            return await self._recover(*task, known)
        except A2AError:
            raise
        except Exception:
            log.exception("orphaned task %s cannot be taken over", known.task.id)
            return False

    async def _orphans(self, without: set[str]) -> list[tuple[Scope, str]]:
        """The next orphans, other than these."""
        found = await self._store.orphans(_PORTION + len(without))
        return [one for one in found if one[1] not in without]

    def _mine(self, orphans: list[tuple[Scope, str]]) -> list[tuple[Scope, str]]:
        """The orphans that this replica takes over before the others do."""
        remote = self._store.remote
        return orphans if remote is None else [one for one in orphans if remote.takes(one[1])]


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


def resume_run(scope: Scope, task: hub.Task) -> Run:
    """The run with which an executor continues: its request contains the newest message of the user."""
    request = hub.SendMessageRequest(tenant=scope.tenant)
    for message in reversed(task.history):
        if message.role == hub.ROLE_USER:
            request.message.CopyFrom(message)
            break
    principal = Principal(scope.owner) if scope.owner else None
    return Run(request, CallContext(tenant=scope.tenant, principal=principal), task.id, task.context_id)
