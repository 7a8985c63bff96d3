"""Makes an agent of an older version answer like 1.0: missing operations are emulated here, or rejected.

Agents whose dialect lacks nothing are not wrapped. Rules:
1. ListTasks is answered from the tasks that have passed through this process (see `task_lists`).
2. History is cut here as the caller requested, because 0.x agents read `historyLength: 0` in several ways.
3. Every other missing operation is UNSUPPORTED_OPERATION with an explanation, before the agent is called.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import ScopeOf
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.messages import cut_history
from a2a_bridge.core.operations import Operation, Req, Res
from a2a_bridge.core.service import Events, Service, reject_stream
from a2a_bridge.dialects import BindingKind, Form, older_versions
from a2a_bridge.dialects.annotation import finality
from a2a_bridge.gateway.stream_only import StreamOnly, is_stream_only
from a2a_bridge.gateway.streams import begun_by_a_task
from a2a_bridge.gateway.task_lists import TaskLists
from a2a_bridge.gateway.tasks import Tasks, scopes_by, visible_to
from a2a_bridge.gateway.upstream import Dial, dial
from a2a_bridge.pb import lf_a2a_v1 as hub

#: operations that a version defines and many of its agents lack, on some bindings at least
_OFTEN_MISSING = (
    ops.CREATE_PUSH_CONFIG,
    ops.GET_PUSH_CONFIG,
    ops.LIST_PUSH_CONFIGS,
    ops.DELETE_PUSH_CONFIG,
    ops.GET_EXTENDED_AGENT_CARD,
)


def add_polyfill(tasks: Callable[[], Tasks] | None = None, *, lists: bool = True, dial: Dial = dial) -> Dial:
    """How to dial the interfaces of one agent so that all of them answer like 1.0; see `dial_failover`.

    tasks: returns the table of an interface; by default all have the same. lists: False makes ListTasks
    UNSUPPORTED_OPERATION.
    """
    shared = Tasks()

    @asynccontextmanager
    async def dial_polyfilled(candidate: Candidate, options: DialOptions) -> AsyncIterator[Service]:
        async with dial(candidate, options) as service:
            scoped = scopes_by(options.forward)
            whole = StreamOnly(service) if is_stream_only(candidate.interface) else service
            own = shared if tasks is None else tasks()
            yield polyfill(whole, candidate, own if lists else None, scoped)

    return dial_polyfilled


def polyfill(
    service: Service, candidate: Candidate, tasks: Tasks | None, scoped: ScopeOf = visible_to
) -> Service:
    """The client side of an interface with the operations its version lacks; unchanged if it lacks none.

    tasks: the tasks of lists; None without lists. scoped: the scope of a call.
    """
    dialect = candidate.dialect
    form: Form[Any, Any] | None = dialect.form(BindingKind(candidate.interface.protocol_binding))
    lacking: list[Any] = [one for one in ops.ALL if form is None or form.row(one) is None]
    if not lacking and not dialect.final_events:
        return service
    if dialect.final_events:
        # 0.3 describes ListTasks on one binding, in prose; its agents do not implement it.
        lacking.append(ops.LIST_TASKS)
    return _Polyfill(service, candidate, frozenset(lacking), tasks, scoped)


class _Polyfill:
    def __init__(
        self,
        service: Service,
        candidate: Candidate,
        lacking: frozenset[Operation[Any, Any]],
        tasks: Tasks | None,
        scoped: ScopeOf,
    ) -> None:
        dialect = candidate.dialect
        self._service = service
        self._version = dialect.version
        self._is_final = finality(dialect, candidate.interface.protocol_binding)
        self._older = older_versions() | {dialect.version}
        self._lacking = lacking
        self._tasks = tasks if ops.LIST_TASKS in lacking else None
        self._scoped = scoped
        self._lists = TaskLists(service, self._tasks, scoped) if self._tasks is not None else None

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.operation in self._lacking:
            if call.operation is ops.LIST_TASKS and self._lists is not None:
                return cast("Res", await self._lists.answer(call))
            raise self._lacks(call.operation)
        try:
            response = await self._service.unary(call)
        except A2AError as error:
            if call.operation in _OFTEN_MISSING and error.reason is Reason.METHOD_NOT_FOUND:
                raise self._lacks(call.operation) from error
            raise
        self._note_response(call, response)
        return response

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation in self._lacking:
            return reject_stream(self._lacks(call.operation))
        return self._stream(call)

    async def _stream(self, call: Call[Any, Any]) -> Events:
        scope = self._scoped(call.request, call.context) if self._tasks is not None else None
        limit = self._history_limit(call)
        older = call.context.origin.version in self._older
        if older and call.operation is not ops.SUBSCRIBE_TO_TASK:
            source = self._service.stream(call)
        else:
            source = begun_by_a_task(self._service, call, self._is_final, rejects_ended=not older)
        async with aclosing(source) as events:
            async for event in events:
                if self._tasks is not None and scope is not None:
                    self._tasks.note_event(scope, event.message)
                if event.message.HasField("task"):
                    cut_history(event.message.task, limit)
                yield event

    def _note_response(self, call: Call[Any, Any], response: Any) -> None:
        """Remembers the task of a response, and cuts its history to the requested length."""
        if isinstance(response, hub.SendMessageResponse):
            if not response.HasField("task"):
                return
            task = response.task
        elif isinstance(response, hub.Task):
            task = response
        else:
            return
        if self._tasks is not None:
            self._tasks.note_task(self._scoped(call.request, call.context), task)
        cut_history(task, self._history_limit(call))

    def _history_limit(self, call: Call[Any, Any]) -> int | None:
        """The requested number of messages; None for all, and for callers of 0.x, who get the agent's
        history. Where their request for a task has a 0, it does mean no history.
        """
        request = call.request
        source = request.configuration if isinstance(request, hub.SendMessageRequest) else request
        if not isinstance(source, (hub.SendMessageConfiguration, hub.GetTaskRequest)):
            return None
        if not source.HasField("history_length"):
            return None
        none = isinstance(source, hub.GetTaskRequest) and not source.history_length
        return None if call.context.origin.version in self._older and not none else source.history_length

    def _lacks(self, operation: Operation[Any, Any]) -> A2AError:
        return A2AError(
            Reason.UNSUPPORTED_OPERATION,
            f"the agent speaks A2A {self._version} and does not offer {operation.name}",
            metadata={"operation": operation.name},
            blame=Blame.PEER,
        )
