"""The tasks that have passed through a gateway: one table, which all services of the gateway read and write.

Rules:
1. An entry is about a task, or a context, in one scope. It holds ids, a state and a time, and no content.
2. All entries share one LRU order and one number of bytes, which count in the memory account of the gateway.
   Every service goes on without an entry.
3. A caller sees the entries of its own scope only. Without authentication the scope is a digest of the
   credentials that the caller sends: a caller with other credentials sees none of these entries. Every
   forwarded parameter may be a credential.
4. Facts that are the same for all callers are in a scope that no caller has, or in the scope of the tenant.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType

from a2a_bridge.bindings.binding import IMPERSONAL
from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.bindings.memory import MemoryAccount, Table, Tables, size_of
from a2a_bridge.core.call import Call, CallContext, entries_of
from a2a_bridge.core.callers import Scope, ScopeOf, scope_of
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import is_terminal, payload_of
from a2a_bridge.core.paging import PageTokens, TaskPageFiller, TaskQuery, query_of
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub

#: entries of a gateway
MOST = 200_000
#: bytes of these entries
MOST_BYTES = 128 << 20
#: tasks of one scope that ListTasks is answered from
MOST_LISTED = 10_000

#: the kinds of entries
TASK, CONTEXT = "task", "context"

_AUTHORIZATION = "authorization"
#: parameters that are others with each request, and so identify no caller
_OF_REQUESTS = frozenset({"x-correlation-id", "x-request-id"})


@dataclass(slots=True, eq=False)
class Known:
    """The known facts of a task, or of a context."""

    scope: Scope
    kind: str
    id: str
    #: of a task: its context, as the agent names it; of a context: another name of it
    context_id: str = ""
    state: hub.TaskState = hub.TASK_STATE_UNSPECIFIED
    #: time of the status, or of the observation, of a listed task; nanoseconds since the epoch
    time: int = 0
    #: the connection to the endpoint that has it
    endpoint: ReferenceType[Any] | None = None
    #: the caller that began it
    owner: Scope | None = None
    #: the names that callers of an older version gave to a task, the name used last at the end. The values
    #: are facts that only this version needs, with their bytes
    names: dict[str, tuple[Any, int]] | None = None

    @property
    def place(self) -> tuple[int, str]:
        """Its position in a list: by time, ties by id."""
        return self.time, self.id


class Tasks:
    """The table of one agent. memory: its account. most, most_bytes: the limits of all entries. most_listed:
    the tasks of one scope in a list; 0: there are no lists. now: nanoseconds since the epoch.
    """

    def __init__(
        self,
        memory: MemoryAccount | None = None,
        *,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
        most_listed: int = MOST_LISTED,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.most = most
        self.most_listed = most_listed
        self._most_bytes = most_bytes
        self._now = now
        self._memory = memory
        self._table: Table[tuple[Scope, str, str], Known] = Table(
            most, Tables.of(memory), most_bytes=most_bytes, on_drop=self._on_drop
        )
        self._listed: dict[Scope, dict[str, Known]] = {}
        self._named: dict[tuple[Scope, str], Known] = {}

    def __len__(self) -> int:
        return len(self._table)

    def count_in(self, memory: MemoryAccount) -> None:
        """Counts the entries in another account from now on."""
        self._memory = memory
        self._table.move_to(Tables.of(memory))

    def separate(self) -> Tasks:
        """An empty table with the same limits, for an endpoint that does not share its tasks with others."""
        return Tasks(
            self._memory,
            most=self.most,
            most_bytes=self._most_bytes,
            most_listed=self.most_listed,
            now=self._now,
        )

    def get(self, scope: Scope, id_: str, kind: str = TASK) -> Known | None:
        """The entry of a task or a context, which is used now; None without an entry."""
        return self._table.get((scope, kind, id_))

    def make(self, scope: Scope, id_: str, kind: str = TASK) -> Known:
        """The entry of a task or a context, which may be new. `keep` has to follow a change."""
        return self._table.get((scope, kind, id_)) or Known(scope, kind, id_)

    def keep(self, known: Known) -> None:
        """Stores an entry with its current facts."""
        size = size_of(known.scope, known.id, known.context_id)
        if known.names is not None:
            size += sum(size for _, size in known.names.values())
        self._table.put((known.scope, known.kind, known.id), known, size)

    def _on_drop(self, key: tuple[Scope, str, str], known: Known) -> None:
        self._unlist(known)
        for name in known.names or ():
            del self._named[key[0], name]

    # ------------------------------------------------------------------ contexts and lists

    def keep_context(self, scope: Scope, task_id: str, context_id: str) -> None:
        """Remembers the context of a task."""
        known = self.get(scope, task_id)
        if known is None or known.context_id != context_id:
            known = known or Known(scope, TASK, task_id)
            known.context_id = context_id
            self.keep(known)

    def context_of(self, scope: Scope, task_id: str) -> str:
        """The context of a task; empty if it is not known."""
        known = self.get(scope, task_id)
        return "" if known is None else known.context_id

    def note(
        self, scope: Scope, task_id: str, context_id: str, status: hub.TaskStatus | None = None
    ) -> Known:
        """Remembers a task for lists, with its status if that is known."""
        known = self.make(scope, task_id)
        listed = self._listed.get(scope)
        is_new = listed is None or task_id not in listed
        if listed is None or is_new:
            known.state, known.time = hub.TASK_STATE_UNSPECIFIED, self._now()
            self._list(known)
        else:
            del listed[task_id]
            listed[task_id] = known  # at the end
        if is_new or (context_id and known.context_id != context_id):
            known.context_id = context_id or known.context_id
            self.keep(known)
        if status is not None:
            stamp = status.timestamp
            changed = known.state != status.state
            known.state = status.state
            if status.HasField("timestamp"):
                known.time = stamp.seconds * 1_000_000_000 + stamp.nanos
            elif changed:
                known.time = self._now()
        return known

    def note_task(self, scope: Scope, task: hub.Task) -> Known:
        """Remembers a task for lists."""
        return self.note(scope, task.id, task.context_id, task.status)

    def note_event(self, scope: Scope, event: hub.StreamResponse | hub.SendMessageResponse) -> None:
        """Remembers the task of a response or an event for lists, if it has one."""
        found = payload_of(event)
        if isinstance(found, hub.Task):
            self.note_task(scope, found)
        elif found is not None and not isinstance(found, hub.Message):
            self.note(scope, found.task_id, found.context_id, getattr(found, "status", None))

    def unlist(self, scope: Scope, task_id: str) -> None:
        """Takes a task out of the lists: its caller does not get it any more."""
        known = self._listed.get(scope, {}).get(task_id)
        if known is not None:
            self._unlist(known)

    def list_of(self, scope: Scope) -> list[Known]:
        """The listed tasks of a scope, newest first."""
        return sorted(self._listed.get(scope, {}).values(), key=lambda known: known.place, reverse=True)

    def _list(self, known: Known) -> None:
        """Adds a task to the list of its scope, in place of the task seen least recently."""
        listed = self._listed.setdefault(known.scope, {})
        listed[known.id] = known
        if len(listed) > self.most_listed:
            self._unlist(next(iter(listed.values())))

    def _unlist(self, known: Known) -> None:
        listed = self._listed.get(known.scope, {})
        if listed.get(known.id) is known:
            del listed[known.id]
            if not listed:
                del self._listed[known.scope]

    # ------------------------------------------------------------------ names of older versions

    def find_named(self, scope: Scope, name: str) -> Any:
        """The facts of the task that callers of a scope gave a name to; None if the name is not known."""
        known = self._named.get((scope, name))
        if known is None or known.names is None:
            return None
        self._table.get((scope, TASK, known.id))  # it is used now
        return known.names[name][0]

    def name_of(self, scope: Scope, task_id: str) -> str:
        """The last used name of a task; its id if its callers gave it none."""
        known = self.get(scope, task_id)
        return task_id if known is None or not known.names else next(reversed(known.names))

    def keep_name(self, scope: Scope, task_id: str, name: str, facts: Any, size: int) -> None:
        """Remembers a name of a task. size: bytes of the name and the facts."""
        known = self.make(scope, task_id)
        before = self._named.get((scope, name))
        if before is not None and before is not known and before.names is not None:
            del before.names[name]
            self.keep(before)
        known.names = known.names or {}
        known.names.pop(name, None)
        known.names[name] = facts, size
        self._named[scope, name] = known
        self.keep(known)


def scopes_by(forward: Iterable[str]) -> ScopeOf:
    """The function for the scope of a call to a gateway that forwards credentials without knowing their
    owner. forward: names of the parameters that the agent gets; `authorization` counts in any case.
    """
    names = tuple(sorted({_AUTHORIZATION, *forward} - IMPERSONAL - _OF_REQUESTS))

    def scope(request: Any, context: CallContext) -> Scope:
        found = scope_of(request, context)
        if found.owner:
            return found
        credentials = _credentials(names, context.parameters)
        if not credentials:
            return found
        digest = hashlib.blake2b(credentials.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        return Scope(found.tenant, f"credentials {digest}")

    return scope


def _credentials(names: Iterable[str], parameters: Mapping[str, str]) -> str:
    """The parameters of a call that may identify its caller; empty without any."""
    given = given_entries((name for name in names if parameters.get(name)), parameters)
    if [name for name, _ in given] == [_AUTHORIZATION]:
        return given[0][1]
    # With their names: the same text in another header is another caller.
    return repr(given) if given else ""


def given_entries(names: Iterable[str], parameters: Mapping[str, str]) -> list[tuple[str, str]]:
    """The single entries of the named parameters: an agent may read only the first of several entries."""
    return [
        (name, entry)
        for name in names
        if (value := parameters.get(name)) is not None
        for entry in entries_of(value)
    ]


#: the scope of a call, for a gateway that forwards no other parameters
visible_to = scopes_by(())


#: tasks that have not ended and are refreshed before filtering and sorting, newest first
REFRESHED = 100
_AT_ONCE = 8
_GONE = (Reason.TASK_NOT_FOUND, Reason.PERMISSION_DENIED, Reason.UNAUTHENTICATED)


class TaskLists:
    """ListTasks (spec 3.1.4), answered from the table. Entries are refreshed from the agent (`service`), with
    at most REFRESHED calls of GetTask, and one more for each task of the page. scoped: the scope of a call.
    """

    def __init__(self, service: Service, tasks: Tasks, scoped: ScopeOf = visible_to) -> None:
        self._service = service
        self._scoped = scoped
        self._tasks = tasks
        self._tokens = PageTokens()

    async def answer(self, call: Call[Any, Any]) -> hub.ListTasksResponse:
        request: hub.ListTasksRequest = call.request
        query = query_of(request)
        scope = self._scoped(request, call.context)
        after = self._tokens.after(scope, query)
        fresh: dict[str, hub.Task] = {}
        if after is None:
            running = [one for one in self._list_known(scope, query) if not is_terminal(one.state)]
            fresh = await self._refresh(call, scope, running[:REFRESHED])

        def fits(seen: Known) -> bool:
            return query.state in (0, seen.state) and (query.since is None or seen.time >= query.since)

        matching = [one for one in self._list_known(scope, query) if fits(one)]
        # Positions are taken now: a refresh below may move a task, which must not be skipped or repeated.
        rest = [(one.place, one) for one in matching if after is None or one.place < after]
        page = rest[: query.page_size]
        missing = [one for _, one in page if one.id not in fresh]
        fresh |= await self._refresh(call, scope, missing)
        filler = TaskPageFiller(artifacts=query.artifacts, history_length=query.history_length)
        token, read = "", 0
        for _, one in page:
            task = fresh.get(one.id)
            if task is not None and fits(one):
                own = hub.Task()
                own.CopyFrom(task)
                if not filler.add(own):
                    break
            read += 1
        if len(rest) > read:
            token = self._tokens.next_token(scope, query, page[read - 1][0])
        tasks = filler.tasks
        return hub.ListTasksResponse(
            tasks=tasks, next_page_token=token, page_size=len(tasks), total_size=len(matching)
        )

    def _list_known(self, scope: Scope, query: TaskQuery) -> list[Known]:
        return [one for one in self._tasks.list_of(scope) if query.context_id in ("", one.context_id)]

    async def _refresh(self, call: Call[Any, Any], scope: Scope, wanted: list[Known]) -> dict[str, hub.Task]:
        """The tasks as the agent has them now, without those that are gone or not visible to this caller."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def get(seen: Known) -> hub.Task | None:
            limited = call.request.HasField("history_length")
            members = {"history_length": call.request.history_length} if limited else {}
            async with slots:
                try:
                    task = await fetch_task(self._service, call, seen.id, seconds=None, **members)
                except A2AError as error:
                    if error.reason not in _GONE:
                        raise
                    self._tasks.unlist(scope, seen.id)
                    return None
            self._tasks.note_task(scope, task)
            return task

        try:
            async with asyncio.TaskGroup() as group:
                reads = [group.create_task(get(one)) for one in wanted]
        except* A2AError as errors:
            failed: BaseException = errors
            while isinstance(failed, BaseExceptionGroup):
                failed = failed.exceptions[0]
            raise failed from None
        return {task.id: task for one in reads if (task := one.result()) is not None}
