"""Remembers at which endpoint of an agent a task is, for agents whose endpoints do not share their tasks.

Rules:
1. The endpoint that answered with a task has it, and the context of it. At most `most` of each are kept, in
   LRU order. Each tenant has ids of its own.
2. It holds ids only, and endpoints that exist no more are forgotten with their connections.
"""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, ref

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.tables import Table, Tables, size_of
from a2a_bridge.core.call import Call
from a2a_bridge.core.messages import context_id_of, read_task_id, task_id_of
from a2a_bridge.gateway.upstream import Upstream
from a2a_bridge.pb import lf_a2a_v1 as hub

#: tasks, and contexts, whose endpoints are remembered
MOST = 20_000


class Affinity:
    """See above. memory: the account of what is remembered."""

    def __init__(self, most: int = MOST, memory: MemoryAccount | None = None) -> None:
        tables = Tables.of(memory)
        self._tasks: Table[tuple[str, str], ReferenceType[Upstream]] = Table(most, tables)
        self._contexts: Table[tuple[str, str], ReferenceType[Upstream]] = Table(most, tables)

    def home(self, call: Call[Any, Any]) -> tuple[Upstream | None, bool]:
        """The endpoint to ask, None if any may be; and whether it has the task of the call."""
        request = call.request
        task_id = read_task_id(request)
        context_id = request.message.context_id if isinstance(request, hub.SendMessageRequest) else ""
        found = self._tasks.get((request.tenant, task_id)) if task_id else None
        if found is not None:
            return found(), True
        found = self._contexts.get((request.tenant, context_id)) if context_id else None
        return (None, False) if found is None else (found(), False)

    def learn(self, call: Call[Any, Any], answer: Any, upstream: Upstream) -> None:
        """Notes the task and the context of a response, or of the first event of a stream."""
        task_id, context_id = task_id_of(answer), context_id_of(answer)
        tenant, place = call.request.tenant, ref(upstream)
        if task_id:
            self._tasks.put((tenant, task_id), place, size_of(tenant, task_id))
        if context_id:
            self._contexts.put((tenant, context_id), place, size_of(tenant, context_id))
