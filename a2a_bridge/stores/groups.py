"""Group commit: the changes of all tasks, and all other writes, go to the driver in one call at a time.

Rules:
1. A group is collected at once if a caller waits, otherwise `commit_delay` after the first change. During a
   commit the next group collects.
2. Waiting callers are answered after the commit.
3. A group that fails is kept unchanged and retried until it succeeds, with growing pauses. Meanwhile the
   store rejects new work, and callers that have waited for `ack_timeout` get UNAVAILABLE.
4. Ids of sent messages are written so, too (RecordedSends). The engine decides about repetitions.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core.errors import A2AError, internal_error
from a2a_bridge.stores.lease import CommitQueue, Group, Pending, TaskLease, finish
from a2a_bridge.stores.lease_states import TAKEN
from a2a_bridge.stores.ports import Scope, Sent, Stored, VersionConflictError, unavailable
from a2a_bridge.stores.records import CONFLICT, Records, SentChange, SentRow
from a2a_bridge.stores.row_format import DamagedError, checksum_of, intact, storable

log = logging.getLogger("a2a_bridge.store")


#: maximum tasks and maximum jobs of a group
_MOST = 512
#: bytes of events and bodies after which a group takes no further task
_MOST_BYTES = 16 << 20
#: seconds between attempts: the first pause, doubled each time, and the longest
_SOON, _LATE = 0.05, 1.0
#: looks, one a second, after which an unfinished commit counts as failed
_SLOW = 3
#: seconds for the last group when the store is closed
_LAST_GROUP = 10.0


class GroupWriter(CommitQueue):
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
        super().__init__(commit_delay, ack_timeout, memory)
        self.commits = 0
        #: seconds of all commits, from the collected group to the response of the database
        self.commit_seconds = 0.0
        #: changed tasks and jobs of all commits
        self.committed = 0
        self.keeps_joined = bool(getattr(records, "keeps_joined", False))
        self._records = records
        self._me = me
        self._on_committed = on_committed
        self._on_lost = on_lost
        #: changes that belong to no task, by the waiter for the result, in the order of their arrival. A
        #: caller that stops waiting removes its change
        self._jobs: dict[asyncio.Future[Any], Any] = {}
        self._writing: asyncio.Task[None] | None = None
        self._sent = 0.0
        #: looks since the group was sent; not seconds, because a busy loop learns late of its end
        self._looks = 0
        self._failing = False
        self._wait = _SOON
        self._watch: asyncio.TimerHandle | None = None

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
        if self.closed or self._failing or self._jobs or self._group is not None:
            return
        answer: asyncio.Future[Any] = self._loop.create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._jobs[answer] = change
        self.commit_soon()

    def rejection(self) -> A2AError | None:
        """UNAVAILABLE while writes fail."""
        if self._failing or (self._group is not None and self._looks >= _SLOW):
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
        while self._group is not None or self._waits():
            self.commit_soon()
            await self.next_group()

    async def close(self) -> None:
        """Ends after the present group, for a limited time. All changes were given before."""
        self.closed = True
        for handle in (self._timer, self._watch):
            if handle is not None:
                handle.cancel()
        if self._writing is not None and not self._writing.done():
            await asyncio.wait({self._writing}, timeout=_LAST_GROUP)
            if not self._writing.done():
                log.error("the store does not answer; the last changes may be lost")
                self._writing.cancel()
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

    def _collect(self) -> None:
        if self._group is not None:
            return
        if self._timer is not None:
            # The timer may be the caller; if not, it would fire while the group is being written.
            self._timer.cancel()
            self._timer = None
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
        self._urgent = self._urgent and bool(self._dirty)
        del jobs[_MOST:]
        if pending or jobs:
            changes = [*(one.change for one in pending), *(change for _, change in jobs)]
            self._send(Group(pending, [answer for answer, _ in jobs], changes))
        else:
            self._take_turns()

    def _take_turns(self) -> None:
        """Wakes the callers that wait for a group."""
        if self._turn is not None:
            self._turn.set_result(None)
            self._turn = None

    def _send(self, group: Group) -> None:
        # This call may come from the timer itself, for a repeated group. A stale timer delays the next group.
        self._timer = None
        self._group = group
        self._sent = self._loop.time()
        self._looks = 0
        if self._watch is None:
            self._watch = self._loop.call_later(1.0, self._look)
        self._writing = self._loop.create_task(self._write(group))

    async def _write(self, group: Group) -> None:
        try:
            if any(one.late is not None for one in group.pending):
                group = await asyncio.to_thread(_with_bodies, group)
            results = await self._records.write(group.changes)
        except Exception as error:  # noqa: BLE001  it is logged there
            self._fail(group, error)
        else:
            self._done(group, results)

    def _done(self, group: Group, results: Sequence[Any]) -> None:
        self.commits += 1
        self.commit_seconds += self._loop.time() - self._sent
        self.committed += len(group.changes)
        self._group = None
        if self._failing:
            self._failing = False
            self._wait = _SOON
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
        if self._urgent or self._jobs:
            self._collect()
        elif self._dirty and self._timer is None:
            self._timer = self._loop.call_later(self._delay, self._collect)

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

    def _fail(self, group: Group, error: Exception) -> None:
        if isinstance(error, OSError | A2AError):
            # Once per outage: repeated failures have no news.
            level = logging.DEBUG if self._failing else logging.WARNING
            log.log(level, "the store cannot be written, and tries again in %.2f s: %s", self._wait, error)
        else:
            log.error("the store cannot be written", exc_info=error)
        self._failing = True
        if self.closed:
            return
        self._timer = self._loop.call_later(self._wait, self._send, group)
        self._wait = min(self._wait * 2, _LATE)

    def _look(self) -> None:
        """Once a second while there is a group: fails waiters whose time is over."""
        self._watch = None
        if self._group is None:
            return
        self._looks += 1
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
