"""Group commit: the changes of all tasks, and all other writes, go to the driver in one call at a time.

Rules:
1. A group is collected at once if a caller waits, otherwise `commit_delay` after the first change. During a
   commit the next group collects.
2. Waiting callers are answered after the commit.
3. A group that fails is kept unchanged and retried until it succeeds, with growing pauses. Meanwhile the
   store rejects new work, and callers that have waited for `ack_timeout` get UNAVAILABLE.
4. `now` says what the writer does (transitions: `group_states`).
5. Ids of sent messages are written so, too (RecordedSends). The engine decides about repetitions.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.errors import A2AError, IllegalStateError, internal_error
from a2a_bridge.stores.group_states import TRANSITIONS, Due, Gathering, Idle, Pausing, WriterState, Writing
from a2a_bridge.stores.lease import Group, Pending, TaskLease, finish
from a2a_bridge.stores.lease_states import TAKEN
from a2a_bridge.stores.ports import Scope, Sent, Stored, VersionConflictError, unavailable
from a2a_bridge.stores.records import CONFLICT, Records, SentChange, SentRow
from a2a_bridge.stores.row_format import DamagedError, checksum_of, intact, storable

log = logging.getLogger("a2a_bridge.store")


#: maximum tasks and maximum jobs of a group
_MOST = 512
#: bytes of events and bodies after which a group takes no further task
_MOST_BYTES = 16 << 20
#: seconds after the first failure of a group, the second and so on; the last is for all further ones
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
#: leases with unwritten changes, and bytes of unwritten events, above which new events have to wait
_CROWD, _QUEUE_BYTES = 4096, 32 << 20
#: looks, one a second, after which an unfinished commit counts as failed
_SLOW = 3
#: seconds for the last group when the store is closed
_LAST_GROUP = 10.0


class GroupWriter:
    """Writes all changes of this process.

    commit_delay: seconds that a change may wait for others if no caller waits for it. ack_timeout: seconds.
    me: the present name of this process. on_committed: called with the changes of tasks once they are
    durable, before their waiters are answered. on_lost: called with the ids of tasks whose leases are lost,
    and True if the database has other changes of any of them.
    """

    def __init__(
        self,
        records: Records,
        me: Callable[[], str],
        on_committed: Callable[[Sequence[Pending]], None],
        on_lost: Callable[[Sequence[str], bool], None],
        *,
        commit_delay: float,
        ack_timeout: float,
        memory: MemoryAccount,
    ) -> None:
        self.leases: dict[str, TaskLease] = {}
        #: bytes of the events that no group has collected yet
        self.queued = 0
        self.closed = False
        #: the present state; changed by `to` only
        self.now: WriterState = Idle()
        self.memory = memory
        self.ack_timeout = ack_timeout
        self.commits = 0
        #: seconds of all commits, from the collected group to the response of the database
        self.commit_seconds = 0.0
        #: changed tasks and jobs of all commits
        self.committed = 0
        #: whether the driver stores messages that join
        self.keeps_joined = bool(getattr(records, "keeps_joined", False))
        self._records = records
        self._me = me
        self._delay = commit_delay
        self._on_committed = on_committed
        self._on_lost = on_lost
        #: changes that belong to no task, by the waiter for the result, in the order of their arrival. A
        #: caller that stops waiting removes its change
        self._jobs: dict[asyncio.Future[Any], Any] = {}
        #: leases with changes that no group has collected yet, in the order of their first change
        self._dirty: list[TaskLease] = []
        #: for callers that wait for the next group
        self._turn: asyncio.Future[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the first use."""
        return asyncio.get_running_loop()

    def to(self, state: WriterState) -> None:
        """Raises IllegalStateError for a transition that the table does not have."""
        if type(state) not in TRANSITIONS[type(self.now)]:
            before, after = type(self.now).__name__, type(state).__name__
            raise IllegalStateError("the writer of a store", before, after)
        self.now = state

    @property
    def group(self) -> Group | None:
        """The group that is being written."""
        return self.now.group if isinstance(self.now, Writing | Pausing) else None

    # ------------------------------------------------------------------ for leases

    @property
    def crowded(self) -> bool:
        """True if too many changes wait to be written."""
        return len(self._dirty) > _CROWD or self.queued > _QUEUE_BYTES

    def deadline(self) -> float:
        """The loop time at which a wait that starts now times out."""
        return self._loop.time() + self.ack_timeout

    def note(self, lease: TaskLease) -> None:
        """A lease has changes."""
        self._dirty.append(lease)
        if type(self.now) is Idle:
            self.to(Gathering(self._loop.call_later(self._delay, self._collect)))

    def commit_soon(self) -> None:
        """A caller waits: commits as soon as possible."""
        state = self.now
        if isinstance(state, Writing | Pausing):
            state.next_is_due = True
        elif type(state) is not Due:
            if type(state) is Gathering:
                state.timer.cancel()
            self.to(Due(self._loop.call_soon(self._collect)))

    async def next_group(self) -> None:
        """Waits until a group has been committed, or there was nothing to commit."""
        if self._turn is None:
            self._turn = self._loop.create_future()
        await asyncio.shield(self._turn)

    def forget(self, lease: TaskLease) -> None:
        """A lease is over."""
        if self.leases.get(lease.task_id) is lease:
            del self.leases[lease.task_id]
        lease.part()

    # ------------------------------------------------------------------ for the store

    def lease(
        self,
        scope: Scope,
        task_id: str,
        on_lost: Callable[[], None],
        *,
        push: bool,
        opened: Stored | None = None,
    ) -> TaskLease:
        """A lease on a task, new or in the database. It is lost at once if `leases` has one of the task."""
        lease = TaskLease(self, scope, task_id, on_lost, push=push, opened=opened)
        if task_id in self.leases:
            self._loop.call_soon(lease.lose)
            lease.to(TAKEN)
        else:
            self.leases[task_id] = lease
        return lease

    async def write(self, change: Any, /) -> Any:
        """Writes a change that belongs to no task with the next group, and returns its durable result. Raises
        the exception that is its result, and UNAVAILABLE.
        """
        if self.closed:
            raise unavailable()
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._jobs[answer] = change
        self.commit_soon()
        timer = self._loop.call_later(self.ack_timeout, _give_up, answer)
        try:
            return await answer
        finally:
            timer.cancel()
            self._jobs.pop(answer, None)

    def probe(self, change: Any) -> None:
        """Writes a change without an effect if nothing else is written, so that `rejection` reports an outage
        before the next write.
        """
        if self.closed or self._jobs or self.group is not None:
            return
        answer: asyncio.Future[Any] = self._loop.create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._jobs[answer] = change
        self.commit_soon()

    def rejection(self) -> A2AError | None:
        """UNAVAILABLE while writes fail."""
        state = self.now
        if isinstance(state, Writing | Pausing) and (
            state.failures or (type(state) is Writing and state.looks >= _SLOW)
        ):
            return unavailable()
        return None

    def lose_all(self) -> None:
        """All leases are lost."""
        leases, self.leases = self.leases, {}
        for lease in leases.values():
            lease.lose()
            lease.part()

    async def wait_settled(self) -> None:
        """Waits until all changes are durable."""
        while self.group is not None or self._waits():
            self.commit_soon()
            await self.next_group()

    async def close(self) -> None:
        """Ends after the present group, for a limited time. All changes were given before."""
        self.closed = True
        state = self.now
        if self._watch is not None:
            self._watch.cancel()
        if type(state) is Writing:
            await asyncio.wait({state.task}, timeout=_LAST_GROUP)
            if not state.task.done():
                log.error("the store does not answer; the last changes may be lost")
                state.task.cancel()
        if isinstance(self.now, Gathering | Due | Pausing):
            self.now.timer.cancel()
        for lease in tuple(self.leases.values()):
            lease.expire(math.inf, unavailable())
        for answer in self._jobs:
            _give_up(answer)

    # ------------------------------------------------------------------ groups

    def _waits(self) -> bool:
        """True if the next group has anything to write."""
        return any(lease.batch is not None for lease in self._dirty) or any(
            not answer.done() for answer in self._jobs
        )

    def _collect(self, *, is_due: bool = False) -> None:
        """Begins to write the next group, if there is any. is_due: True if a caller waits for it."""
        state = self.now
        if isinstance(state, Gathering | Due):
            state.timer.cancel()  # unless it is the caller, it would fire while the group is being written
            is_due = is_due or type(state) is Due
        me = self._me()
        dirty = [lease for lease in self._dirty if lease.batch is not None]
        jobs = [job for job in self._jobs.items() if not job[0].done()]
        pending: list[Pending] = []
        weight = 0
        for lease in dirty[:_MOST]:
            pending.append(lease.collect(me))
            weight += pending[-1].weight
            if weight >= _MOST_BYTES:
                break
        self._dirty, self._jobs = dirty[len(pending) :], dict(jobs[_MOST:])
        del jobs[_MOST:]
        if pending or jobs:
            changes = [*(one.change for one in pending), *(change for _, change in jobs)]
            group = Group(pending, [answer for answer, _ in jobs], changes)
            self._send(group, 0, next_is_due=is_due and bool(self._dirty))
            return
        if type(state) is not Idle:
            self.to(Idle())
        self._take_turns()

    def _take_turns(self) -> None:
        """Wakes the callers that wait for a group."""
        if self._turn is not None:
            self._turn.set_result(None)
            self._turn = None

    def _send(self, group: Group, failures: int, *, next_is_due: bool) -> None:
        state = Writing(group, failures, next_is_due, self._loop.time())
        self.to(state)
        if self._watch is None:
            self._watch = self._loop.call_later(1.0, self._look)
        state.task = self._loop.create_task(self._write(state))

    async def _write(self, state: Writing) -> None:
        try:
            if any(one.late is not None for one in state.group.pending):
                state.group = await asyncio.to_thread(_with_bodies, state.group)
            results = await self._records.write(state.group.changes)
        except Exception as error:  # noqa: BLE001  it is logged there
            self._fail(state, error)
        else:
            self._done(state, results)

    def _done(self, state: Writing, results: Sequence[Any]) -> None:
        group = state.group
        self.commits += 1
        self.commit_seconds += self._loop.time() - state.sent
        self.committed += len(group.changes)
        self.to(Idle())
        if state.failures:
            log.warning("the store works again")
        stored = group.pending
        if any(result is not None for result in results[: len(stored)]):
            stored = self._take_stored(stored, results)
        self._on_committed(stored)
        for one in stored:
            if one.lease.settle(one):
                self.forget(one.lease)
        for answer, result in zip(group.answers, results[len(group.pending) :], strict=True):
            if not answer.done():
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
        self._take_turns()
        if state.next_is_due or self._jobs or type(self.now) is Due:
            self._collect(is_due=state.next_is_due)
        elif self._dirty and type(self.now) is Idle:
            self.to(Gathering(self._loop.call_later(self._delay, self._collect)))

    def _take_stored(self, pending: Sequence[Pending], results: Sequence[Any]) -> list[Pending]:
        """Ends the leases whose changes were not stored. Returns the others."""
        stored: list[Pending] = []
        gone: list[str] = []
        conflict = False
        for one, result in zip(pending, results, strict=False):
            if result is None:
                stored.append(one)
                continue
            if result is CONFLICT:
                conflict = True
            else:
                # First: after a loss, waiters get the error that another process owns the task.
                one.lease.expire(math.inf, internal_error())
            one.lease.lose()
            self.forget(one.lease)
            gone.append(one.lease.task_id)
        self._on_lost(gone, conflict)
        return stored

    def _fail(self, state: Writing, error: Exception) -> None:
        pause = _PAUSES[min(state.failures, len(_PAUSES) - 1)]
        if isinstance(error, OSError | A2AError):
            # Once per outage: repeated failures have no news.
            level = logging.DEBUG if state.failures else logging.WARNING
            log.log(level, "the store cannot be written, and tries again in %.2f s: %s", pause, error)
        else:
            log.error("the store cannot be written", exc_info=error)
        timer = self._loop.call_later(pause, self._send_again)
        self.to(Pausing(state.group, state.failures + 1, state.next_is_due, timer))

    def _send_again(self) -> None:
        state = self.now
        if type(state) is Pausing and not self.closed:
            self._send(state.group, state.failures, next_is_due=state.next_is_due)

    def _look(self) -> None:
        """Once a second while there is a group: fails waiters whose time is over."""
        self._watch = None
        state = self.now
        if not isinstance(state, Writing | Pausing):
            return
        if type(state) is Writing:
            state.looks += 1
        self._watch = self._loop.call_later(1.0, self._look)
        if self.rejection() is not None:
            now = self._loop.time()
            for lease in tuple(self.leases.values()):
                lease.expire(now, unavailable())


def _with_bodies(group: Group) -> Group:
    """A group with the bodies of its large tasks."""
    pending = [one.with_body() for one in group.pending]
    changes = [*(one.change for one in pending), *group.changes[len(pending) :]]
    return group._replace(pending=pending, changes=changes)


def _give_up(answer: asyncio.Future[Any]) -> None:
    finish(answer, unavailable())


class RecordedSends:
    """Implements SendRegister. me: returns the present name of this process."""

    def __init__(
        self,
        read: Callable[[Scope, str], Awaitable[SentRow | None]],
        writer: GroupWriter,
        me: Callable[[], str],
    ) -> None:
        self._read = read
        self._writer = writer
        self._me = me

    async def reserve(
        self, scope: Scope, message_id: str, digest: bytes, task_id: str, /, *, instead: Sent | None = None
    ) -> Sent | None:
        known: SentRow | None = None
        while True:
            row = self._row(scope, message_id, Sent(digest, task_id))
            if await self._writer.write(SentChange(scope, message_id, known, row)) is not CONFLICT:
                if row.holder == self._me():
                    return None
                known = row  # this process has got a new name meanwhile
                continue
            known = await self._read(scope, message_id)
            if known is None:
                continue  # it was forgotten meanwhile
            if not intact(known.checksum, send_key(scope, message_id, known), known.answer):
                raise DamagedError(known.task_id)
            sent = Sent(known.digest, known.task_id, known.answer, known.holder)
            if known.holder or instead is None or sent != instead._replace(holder=""):
                return sent

    async def store_response(self, scope: Scope, message_id: str, answer: bytes, /) -> None:
        while (known := await self._read(scope, message_id)) is not None:
            if known.holder or known.answer not in (b"", answer):
                raise VersionConflictError(known.task_id)  # this process was taken for dead
            row = self._row(scope, message_id, Sent(known.digest, known.task_id, answer))
            if await self._writer.write(SentChange(scope, message_id, known, row)) is not CONFLICT:
                return

    async def forget(self, scope: Scope, message_id: str, /) -> None:
        await self._writer.write(SentChange(scope, message_id, None, None))

    def _row(self, scope: Scope, message_id: str, sent: Sent) -> SentRow:
        row = SentRow(sent.digest, sent.task_id, sent.answer, self._me(), None)
        return row._replace(checksum=checksum_of(send_key(scope, message_id, row), row.answer))


def send_key(scope: Scope, message_id: str, row: SentRow) -> tuple[str, ...]:
    """The texts that the checksum of a row covers beside the response."""
    texts = scope.tenant, scope.owner, message_id
    return (*map(storable, texts), row.digest.hex(), storable(row.task_id))
