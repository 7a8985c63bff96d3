"""Remembers at which endpoint of an agent a task is, for agents whose endpoints do not share their tasks.

Rules:
1. The endpoint that answered with a task has it, and the context of it. At most `most` of each are kept, in
   LRU order.
2. It holds ids only, and endpoints that exist no more are forgotten with their connections.
"""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, ref

from cachetools import LRUCache

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.gateway.upstream import Upstream
from a2a_bridge.pb import lf_a2a_v1 as hub

#: tasks, and contexts, whose endpoints are remembered
MOST = 20_000

_SENDS = (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE)
_BY_ID = (ops.GET_TASK, ops.CANCEL_TASK, ops.SUBSCRIBE_TO_TASK)
_BY_TASK_ID = (ops.CREATE_PUSH_CONFIG, ops.GET_PUSH_CONFIG, ops.LIST_PUSH_CONFIGS, ops.DELETE_PUSH_CONFIG)


class Affinity:
    """See above."""

    def __init__(self, most: int = MOST) -> None:
        self._tasks: LRUCache[str, ReferenceType[Upstream]] = LRUCache(most)
        self._contexts: LRUCache[str, ReferenceType[Upstream]] = LRUCache(most)

    def home(self, call: Call[Any, Any]) -> tuple[Upstream | None, bool]:
        """The endpoint to ask, None if any may be; and whether it has the task of the call."""
        task_id, context_id = _ids_of(call)
        found = self._tasks.get(task_id) if task_id else None
        if found is not None:
            return found(), True
        found = self._contexts.get(context_id) if context_id else None
        return (None, False) if found is None else (found(), False)

    def learn(self, answer: Any, upstream: Upstream) -> None:
        """Notes the task and the context of an answer, or of the first event of a stream."""
        task_id, context_id = _ids_in(answer)
        place = ref(upstream)
        if task_id:
            self._tasks[task_id] = place
        if context_id:
            self._contexts[context_id] = place


def _ids_of(call: Call[Any, Any]) -> tuple[str, str]:
    """The ids of task and context in a request; empty without."""
    operation, request = call.operation, call.request
    if operation in _SENDS:
        return request.message.task_id, request.message.context_id
    if operation in _BY_ID:
        return request.id, ""
    return (request.task_id if operation in _BY_TASK_ID else ""), ""


def _ids_in(answer: Any) -> tuple[str, str]:
    """The ids of task and context in an answer; empty without."""
    if isinstance(answer, hub.Task):
        return answer.id, answer.context_id
    if not isinstance(answer, hub.SendMessageResponse | hub.StreamResponse):
        return "", ""
    which = answer.WhichOneof("payload")
    if which is None:
        return "", ""
    content: Any = getattr(answer, which)
    return (content.id if which == "task" else content.task_id), content.context_id
