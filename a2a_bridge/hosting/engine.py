"""The engine: the eleven operations over an executor and a store. Implements A2AService.

Rules:
1. What a caller may not see looks exactly like what is not there.
2. A live task is answered from its working copy, any other from the store; nothing before it is durable.
3. A direct answer costs no task, queue or lock; a caller that goes away cancels it. A task goes on without callers.
4. Whoever changes a task holds it. A task that another live replica holds is that replica's to change.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any

from a2a_bridge.core.call import EVENT_PARAMETER, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error, invalid_params, task_not_found
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.resume import asked_after, event_id, number_of
from a2a_bridge.hosting.clock import Clock, SystemClock
from a2a_bridge.hosting.decorator import Agent
from a2a_bridge.hosting.execution import Execution, Workshop, log
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.hosting.modes import deliverable, overlap
from a2a_bridge.hosting.options import DEFAULT, EngineOptions
from a2a_bridge.hosting.ports import PushSender, Scope, Store, TaskQuery, VersionConflict, scope_of
from a2a_bridge.hosting.push_configs import PushConfigs
from a2a_bridge.hosting.reading import Readers
from a2a_bridge.hosting.refusals import (
    already_ended,
    broken,
    changed_hands,
    closing,
    history_full,
    not_cancelable,
    too_many_tasks,
    too_many_waiting,
)
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.seen import as_seen
from a2a_bridge.hosting.shape import Misbehaviour, direct_answer
from a2a_bridge.hosting.stores.memory import MemoryStore
from a2a_bridge.hosting.ticket import Ticket, Wants
from a2a_bridge.hosting.views import cut_history, history_limit, with_history
from a2a_bridge.hosting.working_copy import Moved, Shown
from a2a_bridge.pb import lf_a2a_v1 as hub

_PAGE = 50
_LARGEST_PAGE = 100
#: how often to look again for a task that changes hands while it is being looked at
_LOOKS = 3


class Engine:
    """An agent at work.

    store: where everything is kept; in memory unless given. push_sender: says what webhooks can be sent to; without
    one, configs are kept and nothing is sent. `start` it before it is given work, and `close` it.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        store: Store | None = None,
        options: EngineOptions = DEFAULT,
        push_sender: PushSender | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._agent = agent
        self._options = options
        self._output_modes = deliverable(agent.card)
        clock = clock or SystemClock()
        # Not `or`: an empty store may well be false.
        self._store: Store = MemoryStore(clock=clock) if store is None else store
        self._shop = Workshop(
            executor=agent.executor,
            store=self._store,
            clock=clock,
            options=options,
            push=push_sender is not None and agent.card.capabilities.push_notifications,
        )
        self._push = PushConfigs(agent.card, self._store.push_configs, self._shown, push_sender)
        self.create_task_push_notification_config = self._push.create_task_push_notification_config
        self.get_task_push_notification_config = self._push.get_task_push_notification_config
        self.list_task_push_notification_configs = self._push.list_task_push_notification_configs
        self.delete_task_push_notification_config = self._push.delete_task_push_notification_config
        self._reply = getattr(agent.executor, "reply", None)
        self._live: dict[str, Execution] = {}
        #: how many of the live ones each scope has
        self._at_work: Counter[Scope] = Counter()
        self._readers = Readers(self._store, self._shown)
        self._closing = False

    @property
    def live(self) -> int:
        """How many tasks something happens to at this moment."""
        return len(self._live)

    async def start(self) -> None:
        """Takes over what nobody alive works on. Without it nothing of an earlier process goes on."""

    # ------------------------------------------------------------------ messages

    async def send_message(
        self, request: hub.SendMessageRequest, context: CallContext, /
    ) -> hub.SendMessageResponse:
        """Spec 3.1.1. Waits for the end or an interruption unless told to return immediately.

        A message to a task that is being worked on waits until that run ends. If the task ends with it, the
        answer is UNSUPPORTED_OPERATION, as for any message to a task that has ended.
        """
        limit = history_limit(request.configuration, "configuration.historyLength")
        await self._accept(request)
        if self._reply is not None and not request.message.task_id:
            return await self._direct(self._reply, request, context)
        wants = Wants.TASK if request.configuration.return_immediately else Wants.OUTCOME
        if request.message.task_id:
            execution = await self._visited(request, context)
            try:
                ticket = await self._joined(execution, request, context, wants)
                execution.submit(ticket)
            finally:
                execution.leave()
        else:
            execution, ticket = await self._begun(request, context, wants)
            execution.submit(ticket)
        answer = await self._answer(execution, ticket)
        if answer is None:
            raise RuntimeError("a unary send was settled like a stream")
        if answer.HasField("task"):
            cut_history(answer.task, limit)
        return answer

    async def send_streaming_message(
        self, request: hub.SendMessageRequest, context: CallContext, /
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Spec 3.1.2. One message, or the task and then its events until it ends or asks for input."""
        self._require_streaming()
        limit = history_limit(request.configuration, "configuration.historyLength")
        await self._accept(request)
        if self._reply is not None and not request.message.task_id:
            direct = await self._direct(self._reply, request, context)
            yield hub.StreamResponse(message=direct.message)
            return
        scope = scope_of(request, context)
        snapshot: Shown | None = None
        if request.message.task_id:
            execution = await self._visited(request, context)
            try:
                ticket = await self._joined(execution, request, context, Wants.STREAM)
                snapshot = Shown(execution.copy.snapshot(), execution.copy.last)
                reading = self._readers.begin(scope, execution.task_id, snapshot.last)
                execution.submit(ticket)
            finally:
                execution.leave()
        else:
            execution, ticket = await self._begun(request, context, Wants.STREAM)
            reading = self._readers.begin(scope, execution.task_id, 0)
            execution.submit(ticket)
        try:
            answer = await self._answer(execution, ticket)
            if answer is not None:
                yield hub.StreamResponse(message=answer.message)
                return
            if snapshot is not None:
                await self._settled(execution)
                cut_history(snapshot.task, limit)
                context.reply[EVENT_PARAMETER] = event_id(snapshot.last)
                yield hub.StreamResponse(task=snapshot.task)
            async for event in reading.events(context, ticket):
                yield event if limit is None else with_history(event, limit)
        finally:
            reading.close()

    async def _direct(
        self, reply: Any, request: hub.SendMessageRequest, context: CallContext
    ) -> hub.SendMessageResponse:
        task_id, context_id = new_id(), request.message.context_id or new_id()
        try:
            message = await reply(Run(as_seen(request), context, task_id, context_id))
            return direct_answer(message, task_id, context_id)
        except A2AError:
            raise
        except Misbehaviour as error:
            raise broken(f"the agent broke the protocol: {error}") from None
        except Exception as error:
            log.exception("the agent failed to answer a message")
            raise internal_error() from error

    async def _accept(self, request: hub.SendMessageRequest) -> None:
        """Checks that hold for every message, whatever it leads to."""
        if self._closing:
            raise closing()
        if request.configuration.HasField("task_push_notification_config"):
            await self._push.accept(request)
        accepted = request.configuration.accepted_output_modes
        if accepted and self._output_modes and not overlap(accepted, self._output_modes):
            offered = ", ".join(sorted(self._output_modes))
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED,
                f"the agent gives none of the accepted output modes; it gives {offered}",
                metadata={"outputModes": offered},
            )

    async def _begun(
        self, request: hub.SendMessageRequest, context: CallContext, wants: Wants
    ) -> tuple[Execution, Ticket]:
        """A new execution, and the message's ticket there."""
        refusal = self._store.refusal()
        if refusal is not None:
            raise refusal
        message = request.message
        scope = scope_of(request, context)
        task_id = new_id()
        config = await self._push.inline(scope, request, context, task_id)
        if self._at_work[scope] >= self._options.tasks > 0:
            raise too_many_tasks(self._options.tasks)
        execution = Execution(self._shop, scope, task_id, message.context_id or new_id(), self._on_idle)
        self._enliven(execution)
        run = Run(as_seen(request), context, task_id, execution.context_id)
        return execution, Ticket(run, message, wants, config)

    async def _visited(self, request: hub.SendMessageRequest, context: CallContext) -> Execution:
        """The execution of an existing task, visited. Raises for one that is foreign, ended or of another context."""
        message = request.message
        execution = await self._enter(scope_of(request, context), message.task_id, already_ended)
        refusal = None
        if message.context_id not in ("", execution.context_id):
            refusal = invalid_params("message.contextId", "is not the context of this task")
        elif len(execution.waiting) >= self._options.queue > 0:
            refusal = too_many_waiting()
        elif execution.task is not None and len(execution.task.history) >= self._options.history > 0:
            refusal = history_full(self._options.history)
        elif execution.producer is None and self._at_work[execution.scope] > self._options.tasks > 0:
            refusal = too_many_tasks(self._options.tasks)
        if refusal is not None:
            execution.leave()
            raise refusal
        return execution

    async def _joined(
        self, execution: Execution, request: hub.SendMessageRequest, context: CallContext, wants: Wants
    ) -> Ticket:
        """Puts a message into the history of an existing task; its ticket."""
        config = await self._push.inline(execution.scope, request, context, execution.task_id)
        if config is not None:
            await self._store.push_configs.put(execution.scope, config)
        await execution.join(request.message)
        run = Run(as_seen(request), context, execution.task_id, execution.context_id)
        return Ticket(run, request.message, wants)

    async def _answer(self, execution: Execution, ticket: Ticket) -> hub.SendMessageResponse | None:
        try:
            return await ticket.answer
        except asyncio.CancelledError:
            execution.abandon(ticket)
            raise

    # ------------------------------------------------------------------ executions

    async def _enter(self, scope: Scope, task_id: str, ended: Callable[[str], A2AError]) -> Execution:
        """The execution of a task, held and visited: the caller has to `leave` it.

        Raises TASK_NOT_FOUND, what `ended` gives for a task that has ended, and UNAVAILABLE.
        """
        if self._closing:
            raise closing()
        refusal = self._store.refusal()
        for _ in range(_LOOKS):
            execution = await self._found(scope, task_id)
            if execution.ended:
                await self._settled(execution)
                raise ended(task_id)
            if refusal is not None:
                raise refusal
            self._enliven(execution)
            execution.visits += 1
            try:
                await execution.hold()
            except VersionConflict:
                self._drop(execution)
            except BaseException:
                self._drop(execution)
                raise
            else:
                return execution
        raise changed_hands()

    async def _found(self, scope: Scope, task_id: str) -> Execution:
        """The execution of a task: the live one, else one over what is stored. Raises TASK_NOT_FOUND."""
        execution = self._live_one(scope, task_id)
        if execution is not None and execution.task is not None:
            return execution
        stored = await self._store.get(scope, task_id)
        # Somebody may have brought it to life in the meantime.
        execution = self._live_one(scope, task_id)
        if execution is None and stored is not None:
            if stored.holder:
                raise Elsewhere(stored.holder)
            task = stored.task
            return Execution(self._shop, scope, task.id, task.context_id, self._on_idle, stored)
        if execution is None or execution.task is None:
            raise task_not_found(task_id)
        return execution

    async def _settled(self, execution: Execution) -> None:
        """Returns when what an execution knows may be shown."""
        try:
            await execution.copy.settled()
        except Moved:
            raise changed_hands() from None

    def _live_one(self, scope: Scope, task_id: str) -> Execution | None:
        execution = self._live.get(task_id)
        return execution if execution is not None and execution.scope == scope else None

    def _drop(self, execution: Execution) -> None:
        """Forgets an execution that did not get its task."""
        if not execution.copy.opening and self._live.get(execution.task_id) is execution:
            self._bury(execution)
        execution.leave()

    def _on_idle(self, execution: Execution) -> None:
        if self._live.get(execution.task_id) is execution:
            self._bury(execution)
            execution.copy.let_go()

    def _enliven(self, execution: Execution) -> None:
        if execution.task_id not in self._live:
            self._at_work[execution.scope] += 1
        self._live[execution.task_id] = execution

    def _bury(self, execution: Execution) -> None:
        del self._live[execution.task_id]
        self._at_work[execution.scope] -= 1
        if not self._at_work[execution.scope]:
            del self._at_work[execution.scope]

    # ------------------------------------------------------------------ tasks

    async def get_task(self, request: hub.GetTaskRequest, context: CallContext, /) -> hub.Task:
        """Spec 3.1.3."""
        limit = history_limit(request, "historyLength")
        task, _ = await self._shown(scope_of(request, context), request.id)
        cut_history(task, limit)
        return task

    async def list_tasks(
        self, request: hub.ListTasksRequest, context: CallContext, /
    ) -> hub.ListTasksResponse:
        """Spec 3.1.4. Pages of 1 to 100 tasks, 50 unless asked otherwise."""
        limit = history_limit(request, "historyLength")
        size = request.page_size if request.HasField("page_size") else _PAGE
        if not 1 <= size <= _LARGEST_PAGE:
            raise invalid_params("pageSize", f"must be from 1 to {_LARGEST_PAGE}")
        if request.status not in hub.TaskState.values():
            raise invalid_params("status", "is not a task state")
        since = request.status_timestamp_after if request.HasField("status_timestamp_after") else None
        query = TaskQuery(
            context_id=request.context_id,
            state=request.status,
            since=None if since is None else since.seconds * 1_000_000_000 + since.nanos,
            page_size=size,
            page_token=request.page_token,
            artifacts=request.include_artifacts,
        )
        page = await self._store.list(scope_of(request, context), query)
        if limit is not None:
            for task in page.tasks:
                cut_history(task, limit)
        return hub.ListTasksResponse(
            tasks=page.tasks, next_page_token=page.next_page_token, page_size=size, total_size=page.total
        )

    async def cancel_task(self, request: hub.CancelTaskRequest, context: CallContext, /) -> hub.Task:
        """Spec 3.1.5. All who cancel at once get the canceled task; whoever comes later, TASK_NOT_CANCELABLE."""
        execution = await self._enter(scope_of(request, context), request.id, not_cancelable)
        try:
            run = Run(as_seen(request), context, execution.task_id, execution.context_id)
            return await execution.cancel(run)
        finally:
            execution.leave()

    async def subscribe_to_task(
        self, request: hub.SubscribeToTaskRequest, context: CallContext, /
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Spec 3.1.6. A snapshot, then every event until the task ends or asks for input.

        A caller that names the last event it had (see `core.resume`) gets what followed instead, also of a task that
        has ended, and a snapshot only where that is lost.
        """
        self._require_streaming()
        if self._closing:
            raise closing()
        asked = asked_after(context)
        scope = scope_of(request, context)
        task, last = await self._shown(scope, request.id)
        if asked:
            reading = self._readers.begin(scope, request.id, number_of(asked), asked)
        elif task.status.state in TERMINAL:
            raise A2AError(
                Reason.UNSUPPORTED_OPERATION,
                "the task has ended; there is nothing to subscribe to",
                metadata={"taskId": request.id},
            )
        else:
            reading = self._readers.begin(scope, request.id, last)
        try:
            if not asked:
                context.reply[EVENT_PARAMETER] = event_id(last)
                yield hub.StreamResponse(task=task)
            async for event in reading.events(context, None):
                yield event
        finally:
            reading.close()

    async def _shown(self, scope: Scope, task_id: str) -> Shown:
        """A copy of a task, and the number of its last event. Raises TASK_NOT_FOUND."""
        live = self._live_one(scope, task_id)
        # While the store does not work, what it has is all that may be shown.
        if live is not None and live.task is not None and not (live.copy.pending and self._store.refusal()):
            try:
                return await live.copy.shown()
            except Moved:
                log.debug("task %s has moved while it was read", task_id)
        stored = await self._store.get(scope, task_id)
        if stored is None:
            raise task_not_found(task_id)
        return Shown(stored.task, stored.last)

    # ------------------------------------------------------------------ the card, capabilities, the end

    async def get_extended_agent_card(
        self, _request: hub.GetExtendedAgentCardRequest, context: CallContext, /
    ) -> hub.AgentCard:
        """Spec 3.1.11."""
        if not self._agent.card.capabilities.extended_agent_card:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "this agent has no extended card")
        card = self._agent.extended_card
        if card is None:
            raise A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED)
        if not isinstance(card, hub.AgentCard):
            made = card(context)
            return await made if inspect.isawaitable(made) else made
        copy = hub.AgentCard()
        copy.CopyFrom(card)
        return copy

    async def close(self, grace: float = 0) -> None:
        """Takes no new work, lets runs finish for `grace` seconds, and stops the rest; tells subscribers."""
        self._closing = True
        producers = [one.producer for one in self._live.values() if one.producer is not None]
        if producers and grace > 0:
            await asyncio.wait(producers, timeout=grace)
        left = list(self._live.values())
        await asyncio.gather(*(execution.stop() for execution in left))
        await self._written(left)
        self._readers.end(closing())

    async def _written(self, executions: list[Execution]) -> None:
        """Returns when the store has everything, or does not work for too long."""
        waiting = [asyncio.ensure_future(one.copy.settled()) for one in executions if one.copy.pending]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._options.patience)
            for one in late:
                one.cancel()
            for error in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(error, Exception) and not isinstance(error, Moved):
                    log.error("the end of a task could not be stored: %s", error)

    def _require_streaming(self) -> None:
        if not self._agent.card.capabilities.streaming:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "this agent does not stream")


class Elsewhere(A2AError):  # noqa: N818  what it says is its name
    """Another live replica works on the task. To callers: UNAVAILABLE."""

    def __init__(self, holder: str) -> None:
        text = "the task is worked on by another replica"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
        self.holder = holder
