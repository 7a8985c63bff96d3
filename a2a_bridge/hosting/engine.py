"""The engine: the eleven operations over an executor, a store and a bus. Implements A2AService.

Rules:
1. What a caller may not see looks exactly like what is not there.
2. A live task is answered from its working copy, any other from the store.
3. A direct answer costs no task, queue or lock; a caller that goes away cancels it. A task goes on without callers.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import (
    A2AError,
    Blame,
    Reason,
    internal_error,
    invalid_params,
    task_not_found,
)
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.hosting.buses.memory import MemoryEventBus
from a2a_bridge.hosting.clock import Clock, SystemClock
from a2a_bridge.hosting.decorator import Agent
from a2a_bridge.hosting.execution import (
    Execution,
    Workshop,
    already_ended,
    closing,
    log,
    not_cancelable,
)
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.hosting.modes import deliverable, overlap
from a2a_bridge.hosting.ports import (
    EventBus,
    PushConfigStore,
    PushSender,
    Scope,
    Subscription,
    TaskQuery,
    TaskStore,
    scope_of,
)
from a2a_bridge.hosting.push_configs import PushConfigs
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.seen import as_seen
from a2a_bridge.hosting.shape import Misbehaviour, direct_answer
from a2a_bridge.hosting.stores.memory import MemoryPushConfigStore, MemoryTaskStore
from a2a_bridge.hosting.ticket import Ticket, Wants
from a2a_bridge.hosting.views import cut_history, history_limit, until_rest, with_history
from a2a_bridge.pb import lf_a2a_v1 as hub

_PAGE = 50
_LARGEST_PAGE = 100
_INLINE = "configuration.taskPushNotificationConfig"


class Engine:
    """An agent at work.

    tasks, bus, push_configs: where things are kept; in memory unless given. push_sender: delivers events to
    webhooks; without one, configs are kept and nothing is sent. patience: seconds a cancelled run may take.
    queue: how many messages may wait for a task's run to end; more are RESOURCE_EXHAUSTED.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        tasks: TaskStore | None = None,
        bus: EventBus | None = None,
        push_configs: PushConfigStore | None = None,
        push_sender: PushSender | None = None,
        clock: Clock | None = None,
        patience: float = 5.0,
        queue: int = 16,
    ) -> None:
        self._agent = agent
        self._queue = queue
        self._output_modes = deliverable(agent.card)
        clock = clock or SystemClock()
        self._shop = Workshop(
            executor=agent.executor,
            # Not `or`: an empty store may well be false.
            tasks=MemoryTaskStore() if tasks is None else tasks,
            bus=MemoryEventBus(clock=clock) if bus is None else bus,
            push_configs=MemoryPushConfigStore() if push_configs is None else push_configs,
            push_sender=push_sender,
            clock=clock,
            patience=patience,
        )
        self._push = PushConfigs(agent.card, self._shop.push_configs, self._task, push_sender)
        self.create_task_push_notification_config = self._push.create_task_push_notification_config
        self.get_task_push_notification_config = self._push.get_task_push_notification_config
        self.list_task_push_notification_configs = self._push.list_task_push_notification_configs
        self.delete_task_push_notification_config = self._push.delete_task_push_notification_config
        self._reply = getattr(agent.executor, "reply", None)
        self._live: dict[str, Execution] = {}
        self._readers: Counter[str] = Counter()
        self._closing = False

    @property
    def live(self) -> int:
        """How many tasks something happens to at this moment."""
        return len(self._live)

    # ------------------------------------------------------------------ messages

    async def send_message(
        self, request: hub.SendMessageRequest, context: CallContext, /
    ) -> hub.SendMessageResponse:
        """Spec 3.1.1. Waits for the end or an interruption unless told to return immediately.

        A message to a task that is being worked on waits until that run ends. If the task ends with it, the
        answer is UNSUPPORTED_OPERATION, as for any message to a task that has ended.
        """
        limit = history_limit(request.configuration, "configuration.historyLength")
        if self._reply is not None and not request.message.task_id:
            self._accept(request)
            return await self._direct(self._reply, request, context)
        wants = Wants.TASK if request.configuration.return_immediately else Wants.OUTCOME
        execution, ticket = await self._prepare(request, context, wants)
        await self._join(execution, ticket)
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
        if self._reply is not None and not request.message.task_id:
            self._accept(request)
            direct = await self._direct(self._reply, request, context)
            yield hub.StreamResponse(message=direct.message)
            return
        execution, ticket = await self._prepare(request, context, Wants.STREAM)
        subscription = self._listen(execution.task_id)
        try:
            await self._join(execution, ticket)
            snapshot = None
            if execution.task is not None:
                subscription.skip()
                snapshot = execution.snapshot()
                cut_history(snapshot, limit)
            execution.submit(ticket)
            answer = await self._answer(execution, ticket)
            if answer is not None:
                yield hub.StreamResponse(message=answer.message)
                return
            if snapshot is not None:
                yield hub.StreamResponse(task=snapshot)
            async for event in until_rest(subscription, ticket):
                yield event if limit is None else with_history(event, limit)
        finally:
            self._unlisten(execution.task_id, subscription)

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
            text = f"the agent broke the protocol: {error}"
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.SELF) from None
        except Exception as error:
            log.exception("the agent failed to answer a message")
            raise internal_error() from error

    def _accept(self, request: hub.SendMessageRequest) -> None:
        """Checks that hold for every message, whatever it leads to."""
        if self._closing:
            raise closing()
        if request.configuration.HasField("task_push_notification_config"):
            self._push.require()
            inline = request.configuration.task_push_notification_config
            if not inline.url:
                raise invalid_params(f"{_INLINE}.url", "is required")
            self._push.check(inline, _INLINE)
        accepted = request.configuration.accepted_output_modes
        if accepted and self._output_modes and not overlap(accepted, self._output_modes):
            offered = ", ".join(sorted(self._output_modes))
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED,
                f"the agent gives none of the accepted output modes; it gives {offered}",
                metadata={"outputModes": offered},
            )

    async def _prepare(
        self, request: hub.SendMessageRequest, context: CallContext, wants: Wants
    ) -> tuple[Execution, Ticket]:
        """The execution a message belongs to, a new one for a new task, and the message's ticket there."""
        self._accept(request)
        message = request.message
        scope = scope_of(request, context)
        if message.task_id:
            execution = await self._execution(scope, message)
        else:
            execution = Execution(self._shop, scope, new_id(), message.context_id or new_id(), self._on_idle)
        run = Run(as_seen(request), context, execution.task_id, execution.context_id)
        config = await self._inline_config(scope, request, execution.task_id)
        return execution, Ticket(run, message, wants, config)

    async def _execution(self, scope: Scope, message: hub.Message) -> Execution:
        """The execution of an existing task. Raises for a task that is foreign, ended or of another context."""
        execution = await self._found(scope, message.task_id)
        if message.context_id not in ("", execution.context_id):
            raise invalid_params("message.contextId", "is not the context of this task")
        if execution.ended:
            raise already_ended(execution.task)
        if len(execution.waiting) >= self._queue:
            raise A2AError(Reason.RESOURCE_EXHAUSTED, "too many messages wait for this task", retry_after=1.0)
        return execution

    async def _found(self, scope: Scope, task_id: str) -> Execution:
        """The execution of a task: the live one, else one over what is stored. Raises TASK_NOT_FOUND."""
        execution = self._live_one(scope, task_id)
        if execution is not None and execution.task is not None:
            return execution
        stored = await self._shop.tasks.get(scope, task_id)
        # Somebody may have brought it to life in the meantime.
        execution = self._live_one(scope, task_id)
        if execution is None and stored is not None:
            task = stored.task
            return Execution(self._shop, scope, task.id, task.context_id, self._on_idle, stored)
        if execution is None or execution.task is None:
            raise task_not_found(task_id)
        return execution

    async def _join(self, execution: Execution, ticket: Ticket) -> None:
        """Makes an execution known, and puts the message into the history of a task that exists."""
        self._live[execution.task_id] = execution
        if execution.task is None:
            return
        try:
            if ticket.push_config is not None:
                await self._shop.push_configs.put(execution.scope, ticket.push_config)
            await execution.join(ticket.message)
        except BaseException:
            self._on_idle(execution)
            raise

    async def _answer(self, execution: Execution, ticket: Ticket) -> hub.SendMessageResponse | None:
        try:
            return await ticket.answer
        except asyncio.CancelledError:
            execution.abandon(ticket)
            raise

    async def _inline_config(
        self, scope: Scope, request: hub.SendMessageRequest, task_id: str
    ) -> hub.TaskPushNotificationConfig | None:
        if not request.configuration.HasField("task_push_notification_config"):
            return None
        return await self._push.named(scope, request.configuration.task_push_notification_config, task_id)

    # ------------------------------------------------------------------ tasks

    async def get_task(self, request: hub.GetTaskRequest, context: CallContext, /) -> hub.Task:
        """Spec 3.1.3."""
        limit = history_limit(request, "historyLength")
        task = await self._task(scope_of(request, context), request.id)
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
        page = await self._shop.tasks.list(scope_of(request, context), query)
        for task in page.tasks:
            live = self._live.get(task.id)
            if query.artifacts and live is not None and live.task is not None:
                # The store learns of artifacts with the next status; whoever looks now sees them all.
                del task.artifacts[:]
                task.artifacts.extend(live.task.artifacts)
            cut_history(task, limit)
        return hub.ListTasksResponse(
            tasks=page.tasks, next_page_token=page.next_page_token, page_size=size, total_size=page.total
        )

    async def cancel_task(self, request: hub.CancelTaskRequest, context: CallContext, /) -> hub.Task:
        """Spec 3.1.5. All who cancel at once get the canceled task; whoever comes later, TASK_NOT_CANCELABLE."""
        execution = await self._found(scope_of(request, context), request.id)
        if execution.task is not None and execution.ended:
            raise not_cancelable(execution.task)
        self._live[execution.task_id] = execution
        run = Run(as_seen(request), context, execution.task_id, execution.context_id)
        return await execution.cancel(run)

    async def subscribe_to_task(
        self, request: hub.SubscribeToTaskRequest, context: CallContext, /
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Spec 3.1.6. A snapshot, then every event until the task ends or asks for input."""
        self._require_streaming()
        if self._closing:
            raise closing()
        subscription = self._listen(request.id)
        try:
            task = await self._seen_by(subscription, scope_of(request, context), request.id)
            if task.status.state in TERMINAL:
                raise A2AError(
                    Reason.UNSUPPORTED_OPERATION,
                    "the task has ended; there is nothing to subscribe to",
                    metadata={"taskId": request.id},
                )
            yield hub.StreamResponse(task=task)
            async for event in until_rest(subscription, None):
                yield event
        finally:
            self._unlisten(request.id, subscription)

    async def _seen_by(self, subscription: Subscription, scope: Scope, task_id: str) -> hub.Task:
        """The task as it is at the place in its events where the subscription stands."""
        while True:
            subscription.skip()
            task = await self._task(scope, task_id)
            live = self._live_one(scope, task_id)
            if live is not None and live.task is not None:
                subscription.skip()
                return live.snapshot()
            # Reading the store may take a while; what happens then is in the events and perhaps in the task.
            if not subscription.skip():
                return task

    async def _task(self, scope: Scope, task_id: str) -> hub.Task:
        """A copy of a task. Raises TASK_NOT_FOUND."""
        live = self._live_one(scope, task_id)
        if live is not None and live.task is not None:
            return live.snapshot()
        stored = await self._shop.tasks.get(scope, task_id)
        if stored is None:
            raise task_not_found(task_id)
        return stored.task

    def _live_one(self, scope: Scope, task_id: str) -> Execution | None:
        execution = self._live.get(task_id)
        return execution if execution is not None and execution.scope == scope else None

    def _on_idle(self, execution: Execution) -> None:
        if self._live.get(execution.task_id) is execution and execution.idle:
            del self._live[execution.task_id]

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
        await asyncio.gather(*(execution.stop() for execution in list(self._live.values())))
        for task_id in list(self._readers):
            self._shop.bus.end(task_id, closing())

    def _require_streaming(self) -> None:
        if not self._agent.card.capabilities.streaming:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "this agent does not stream")

    def _listen(self, task_id: str) -> Subscription:
        self._readers[task_id] += 1
        return self._shop.bus.subscribe(task_id)

    def _unlisten(self, task_id: str, subscription: Subscription) -> None:
        subscription.close()
        self._readers[task_id] -= 1
        if not self._readers[task_id]:
            del self._readers[task_id]
