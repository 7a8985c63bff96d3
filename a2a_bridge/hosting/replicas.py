"""An engine among other replicas and after dead processes: calls about tasks of other replicas are forwarded
to them, and the tasks of dead processes are taken over. The store knows which processes are dead.

Rules of forwarding. This is the only place for it, and it knows no operation but sending:
1. The holder of a task's lease changes it. The engine raises NotOwnerError for a task of another replica,
   which then gets the call. If it dies meanwhile, this replica looks again, and may take the task over
   itself. A replica that stops rejects calls, and holds its tasks until it has left. This replica waits.
2. If the holder is gone, a forwarded message counts as accepted if the task's history contains it once more
   than before. Then it is not sent again, and the response is the result of the task. The holder may commit
   until the task is taken over, even if it was declared dead: so this replica takes the task over before it
   looks. A holder that lives may remove a message again whose commit took too long: its error is final.
3. A forwarded stream is read here, from the log.

Rules of taking over:
1. No task stays at work for ever: the executor resumes it if it can, otherwise it fails with a reason.
2. A task that waits for its user keeps waiting, without a lease.
3. A caller that acquires a task left at work resumes or fails it: it does not become an orphan again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import randrange
from typing import Any, TypeVar

from a2a_bridge.core.call import Call, CallContext, Principal
from a2a_bridge.core.errors import A2AError, NotOwnerError, OwnerLostError, changed_hands_error
from a2a_bridge.core.messages import INTERRUPTED, RUNNING, TERMINAL, state_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.resume import number_of
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.hosting.executor import Run
from a2a_bridge.hosting.reading import EventReaders, TaskSnapshot
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Replica, Scope, Store, Stored, scope_of

T = TypeVar("T")

#: seconds in which a call looks for the owner of a task again
_PATIENCE = 10.0
#: seconds between two looks that find the same owner: the first pause, doubled each time, and the longest
_SOON, _LATE = 0.05, 1.0


class ForwardingService:
    """Implements Service. local: the engine. replica: another replica by its name. readers: of the engine.
    recover: takes over a task of a dead replica; raises A2AError UNAVAILABLE.
    """

    def __init__(
        self,
        local: Service,
        replica: Callable[[str], Replica],
        readers: EventReaders,
        recover: Callable[[Scope, str], Awaitable[object]],
    ) -> None:
        self._local = local
        self._replica = replica
        self._readers = readers
        self._recover = recover

    async def unary(self, call: Call[Req, Res], /) -> Res:
        try:
            return await self._local.unary(call)
        except NotOwnerError as error:
            other = error

        async def remote(holder: str) -> Any:
            return await self._replica(holder).unary(call)

        async def local() -> Any:
            return await self._local.unary(call)

        async def accepted(holder: NotOwnerError) -> Any:
            taken = await self._taken(holder, call)
            if taken is None:
                return None
            request: Any = call.request
            if not request.configuration.return_immediately:
                taken = await self._readers.outcome(scope_of(call.request, call.context), taken)
            return hub.SendMessageResponse(task=taken.task)

        answer: Res = await _at_owner(other, remote, local, accepted)
        return answer

    def stream(self, call: Call[Any, Any], /) -> Events:
        return HandedOver(lambda: self._open(call))

    async def _open(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        try:
            return await open_stream(self._local.stream(call))
        except NotOwnerError as error:
            other = error
        if other.task is None:
            raise other

        async def remote(holder: str) -> tuple[Event, Events] | None:
            replica = self._replica(holder)
            first, call_id = await replica.begin(call)
            return await open_stream(self._followed(call, other, first, replica, call_id))

        async def local() -> tuple[Event, Events] | None:
            return await open_stream(self._local.stream(call))

        async def accepted(holder: NotOwnerError) -> tuple[Event, Events] | None:
            taken = await self._taken(holder, call)
            if taken is None:
                return None
            scope = scope_of(call.request, call.context)
            # Its run is over, or was taken over.
            return await open_stream(self._readers.from_snapshot(scope, taken, lambda _: True))

        return await _at_owner(other, remote, local, accepted)

    async def _followed(
        self, call: Call[Any, Any], other: NotOwnerError, first: Event, replica: Replica, call_id: bytes
    ) -> Events:
        """A stream that began at another replica."""
        task = first.message.task if first.message.HasField("task") else other.task
        last = number_of(first.id)
        if task is None or last is None:
            yield first
            return
        reading = self._readers.begin(scope_of(call.request, call.context), task.id, last)
        try:
            yield first
            # Only the other replica knows when the run began: as far as known here, its turn has not come.
            async for event in reading.events(lambda _: False):
                yield event
                asks = state_of(event.message) == hub.TASK_STATE_INPUT_REQUIRED
                if asks and not await replica.continues_after(call_id, number_of(event.id) or 0):
                    return
        finally:
            reading.close()
            replica.leave(call_id)

    async def _taken(self, other: NotOwnerError, call: Call[Any, Any]) -> TaskSnapshot | None:
        """The task, if the message of a call is in its history."""
        request = call.request
        if other.task is None or not isinstance(request, hub.SendMessageRequest):
            return None
        message_id, scope = request.message.message_id, scope_of(request, call.context)
        await self._recover(scope, other.task.id)
        snapshot = await self._readers.snapshot_of(scope, other.task.id)
        before, now = (
            sum(one.message_id == message_id for one in task.history) for task in (other.task, snapshot.task)
        )
        return snapshot if now > before else None


async def _at_owner(
    other: NotOwnerError,
    remote: Callable[[str], Awaitable[T]],
    local: Callable[[], Awaitable[T]],
    accepted: Callable[[NotOwnerError], Awaitable[T | None]],
) -> T:
    """Calls the holder of a task, or this replica once the holder is dead, until one of them owns the task.

    accepted: the response if the holder had accepted the message, else None. Raises UNAVAILABLE.
    """
    loop = asyncio.get_running_loop()
    until, pause = loop.time() + _PATIENCE, _SOON
    while True:
        try:
            return await remote(other.holder)
        except OwnerLostError:
            answer = await accepted(other)
        if answer is not None:
            return answer
        try:
            return await local()
        except NotOwnerError as error:
            stays, other = error.holder == other.holder, error
        if loop.time() >= until:
            raise changed_hands_error()
        if stays:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATE)


log = logging.getLogger("a2a_bridge.hosting")

#: orphans per query, orphans that are read together, and those written together while other calls wait
_PORTION, _READ, _WRITTEN = 2_000, 64, 4
#: the time for other calls after each step: a multiple of the time of the step, at most so many seconds
_SHARE, _REST = 1.3, 0.05
#: seconds that the other replicas have for their orphans, before this replica helps them
_OTHERS = 0.5
#: seconds until the next attempt after a failure
_AGAIN = 5.0


class Recovery:
    """Watches a store for orphans, and takes them over in the background, newest first. recover: takes over a
    task just read, and returns whether it did; raises A2AError if the store does not work.
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
    """True if an executor can continue: the task runs, waits for authentication, or has an unread message."""
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
