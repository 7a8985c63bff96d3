"""ListTasks (spec 3.1.4), answered from the tasks that have passed through this process (see `tasks`).

Rules:
1. A caller sees tasks of its own scope only.
2. Entries are refreshed from the agent, with at most REFRESHED calls of GetTask and one more for each task of
   the page.
"""

from __future__ import annotations

import asyncio
from typing import Any

from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import Scope, ScopeOf
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import is_terminal
from a2a_bridge.core.paging import PageTokens, TaskPageFiller, TaskQuery, query_of
from a2a_bridge.core.service import Service
from a2a_bridge.gateway.tasks import Known, Tasks, visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub

#: tasks that have not ended and are refreshed before filtering and sorting, newest first
REFRESHED = 100
_AT_ONCE = 8
_GONE = (Reason.TASK_NOT_FOUND, Reason.PERMISSION_DENIED, Reason.UNAUTHENTICATED)


class TaskLists:
    """See above. service: the agent, for GetTask. tasks: those that have been seen. scoped: the scope of a
    call.
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
            if task is not None and fits(one) and not filler.add(task):
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
        """The tasks as the agent has them now, without those that no longer exist or are not visible to this
        caller.
        """
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
