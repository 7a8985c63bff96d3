"""ListTasks (spec 3.1.4), answered from the tasks that have passed through this process (see `index`).

Rules:
1. A caller sees tasks of its own scope only.
2. Entries are refreshed from the agent, with at most REFRESHED calls of GetTask and one more for each task of
   the page.
"""

from __future__ import annotations

import asyncio
from typing import Any

from a2a_bridge.bounded import fetch_task
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.core.messages import is_terminal
from a2a_bridge.core.paging import PageTokens, TaskPageFiller
from a2a_bridge.core.scope import Scope
from a2a_bridge.core.service import Service
from a2a_bridge.gateway.index import Seen, TaskIndex, visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub

#: tasks that have not ended and are refreshed before filtering and sorting, newest first
REFRESHED = 100
_AT_ONCE = 8
_PAGE = 50
_LARGEST_PAGE = 100
_GONE = (Reason.TASK_NOT_FOUND, Reason.PERMISSION_DENIED, Reason.UNAUTHENTICATED)


class TaskLists:
    """See above. service: the agent, for GetTask. index: the tasks that have been seen."""

    def __init__(self, service: Service, index: TaskIndex) -> None:
        self._service = service
        self._index = index
        self._tokens = PageTokens()

    async def answer(self, call: Call[Any, Any]) -> hub.ListTasksResponse:
        request: hub.ListTasksRequest = call.request
        size = _page_size(request)
        since = request.status_timestamp_after if request.HasField("status_timestamp_after") else None
        earliest = None if since is None else since.seconds * 1_000_000_000 + since.nanos
        scope = visible_to(request, call.context)
        query = repr((*scope, request.context_id, int(request.status), earliest))
        after: tuple[int, str] | None = None
        fresh: dict[str, hub.Task] = {}
        if request.page_token:
            place, _, task_id = self._tokens.read(request.page_token, query).partition(" ")
            after = int(place), task_id
        else:
            running = [one for one in self._known(scope, request) if not is_terminal(one.state)]
            fresh = await self._refreshed(call, scope, running[:REFRESHED])

        def fits(seen: Seen) -> bool:
            return request.status in (0, seen.state) and (earliest is None or seen.time >= earliest)

        matching = [one for one in self._known(scope, request) if fits(one)]
        # Positions are taken now: a refresh below may move a task, which must not be skipped or repeated.
        rest = [(one.place, one) for one in matching if after is None or one.place < after]
        page = rest[:size]
        missing = [one for _, one in page if one.task_id not in fresh]
        fresh |= await self._refreshed(call, scope, missing)
        filler = TaskPageFiller(
            artifacts=request.include_artifacts,
            history_length=request.history_length if request.HasField("history_length") else None,
        )
        token, read = "", 0
        for _, one in page:
            task = fresh.get(one.task_id)
            if task is not None and fits(one) and not filler.add(task):
                break
            read += 1
        if len(rest) > read:
            time, task_id = page[read - 1][0]
            token = self._tokens.issue(f"{time} {task_id}", query)
        tasks = filler.tasks
        return hub.ListTasksResponse(
            tasks=tasks, next_page_token=token, page_size=len(tasks), total_size=len(matching)
        )

    def _known(self, scope: Scope, request: hub.ListTasksRequest) -> list[Seen]:
        wanted = request.context_id
        return [one for one in self._index.of(scope) if wanted in ("", one.context_id)]

    async def _refreshed(self, call: Call[Any, Any], scope: Scope, wanted: list[Seen]) -> dict[str, hub.Task]:
        """The tasks as the agent has them now, without those that no longer exist or are not visible to this
        caller.
        """
        slots = asyncio.Semaphore(_AT_ONCE)

        async def get(seen: Seen) -> hub.Task | None:
            limited = call.request.HasField("history_length")
            members = {"history_length": call.request.history_length} if limited else {}
            async with slots:
                try:
                    task = await fetch_task(self._service, call, seen.task_id, seconds=None, **members)
                except A2AError as error:
                    if error.reason not in _GONE:
                        raise
                    self._index.forget(scope, seen.task_id)
                    return None
            self._index.note_task(scope, task)
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


def _page_size(request: hub.ListTasksRequest) -> int:
    """The requested page size. Raises INVALID_PARAMS for values that the specification does not allow."""
    size = request.page_size if request.HasField("page_size") else _PAGE
    if not 1 <= size <= _LARGEST_PAGE:
        raise invalid_params("pageSize", f"must be from 1 to {_LARGEST_PAGE}")
    if request.status not in hub.TaskState.values():
        raise invalid_params("status", "is not a task state")
    if request.HasField("history_length") and request.history_length < 0:
        raise invalid_params("historyLength", "must not be negative")
    return size
