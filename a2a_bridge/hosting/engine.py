"""The engine: the eleven operations over an executor, a store and a bus. Implements A2AService.

Rules:
1. What a caller may not see looks exactly like what is not there.
2. A live task is answered from its working copy, any other from the store.
3. A direct answer costs no task, queue or lock; a caller that goes away cancels it. A task goes on without callers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params, task_not_found
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.hosting.buses.memory import MemoryEventBus
from a2a_bridge.hosting.clock import Clock, SystemClock
from a2a_bridge.hosting.decorator import Agent
from a2a_bridge.hosting.execution import (
    Execution,
    Ticket,
    Wants,
    Workshop,
    already_ended,
    closing,
    not_cancelable,
)
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.hosting.ports import (
    EventBus,
    PushConfigStore,
    PushSender,
    Scope,
    Stored,
    TaskQuery,
    TaskStore,
)
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.shape import Misbehaviour, direct_answer
from a2a_bridge.hosting.stores.memory import MemoryPushConfigStore, MemoryTaskStore
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty

_PAGE = 50
_LARGEST_PAGE = 100


class _Reader(NamedTuple):
    """A subscription under way: the bus's side, and the event at which this caller began to count."""

    subscription: Any
    ticket: Ticket | None = None


class Engine:
    """An agent at work.

    tasks, bus, push_configs: where things are kept; in memory unless given. push_sender: delivers events to
    webhooks; without one, configs are kept and nothing is sent. patience: seconds a cancelled run may take.
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
    ) -> None:
        self._agent = agent
        clock = clock or SystemClock()
        self._shop = Workshop(
            executor=agent.executor,
            tasks=tasks or MemoryTaskStore(),
            bus=bus or MemoryEventBus(clock=clock),
            push_configs=push_configs or MemoryPushConfigStore(),
            push_sender=push_sender,
            clock=clock,
            patience=patience,
        )
        self._reply = getattr(agent.executor, "reply", None)
        self._live: dict[str, Execution] = {}
        self._readers: Counter[str] = Counter()
        self._closing = False

    # ------------------------------------------------------------------ messages

    async def send_message(
        self, request: hub.SendMessageRequest, context: CallContext, /
    ) -> hub.SendMessageResponse:
        """Spec 3.1.1. Waits for the end or an interruption unless told to return immediately."""
        limit = _history_limit(request.configuration, "configuration.historyLength")
        if self._reply is not None and not request.message.task_id:
            self._accept(request)
            return await self._direct(self._reply, request, context)
        wants = Wants.TASK if request.configuration.return_immediately else Wants.OUTCOME
        execution, ticket = await self._submit(request, context, wants)
        answer = await self._answer(execution, ticket)
        if answer is None:
            raise RuntimeError("a unary send was settled like a stream")
        if answer.HasField("task"):
            _cut_history(answer.task, limit)
        return answer

    async def send_streaming_message(
        self, request: hub.SendMessageRequest, context: CallContext, /
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Spec 3.1.2. One message, or the task and then its events until it ends or asks for input."""
        self._require_streaming()
        limit = _history_limit(request.configuration, "configuration.historyLength")
        if self._reply is not None and not request.message.task_id:
            self._accept(request)
            direct = await self._direct(self._reply, request, context)
            yield hub.StreamResponse(message=direct.message)
            return
        execution, ticket = await self._prepare(request, context, Wants.STREAM)
        known = execution.task is not None
        subscription = self._listen(execution.task_id)
        try:
            await self._start(execution, ticket, request)
            answer = await self._answer(execution, ticket)
            if answer is not None:
                yield hub.StreamResponse(message=answer.message)
                return
            if known:
                subscription.skip()
                snapshot = execution.snapshot()
                _cut_history(snapshot, limit)
                yield hub.StreamResponse(task=snapshot)
                if snapshot.status.state in TERMINAL:
                    return
            async for event in _until_rest(subscription, ticket):
                yield event if limit is None else _with_history(event, limit)
        finally:
            self._unlisten(execution.task_id, subscription)

    async def _direct(
        self, reply: Any, request: hub.SendMessageRequest, context: CallContext
    ) -> hub.SendMessageResponse:
        task_id, context_id = new_id(), request.message.context_id or new_id()
        message = await reply(Run(request, context, task_id, context_id))
        try:
            return direct_answer(message, task_id, context_id)
        except Misbehaviour as error:
            text = f"the agent broke the protocol: {error}"
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.SELF) from None

    def _accept(self, request: hub.SendMessageRequest) -> None:
        """Checks that hold for every message, whatever it leads to."""
        if self._closing:
            raise closing()
        if request.configuration.HasField("task_push_notification_config"):
            self._require_push()
            if not request.configuration.task_push_notification_config.url:
                raise invalid_params("configuration.taskPushNotificationConfig.url", "is required")

    async def _submit(
        self, request: hub.SendMessageRequest, context: CallContext, wants: Wants
    ) -> tuple[Execution, Ticket]:
        execution, ticket = await self._prepare(request, context, wants)
        await self._start(execution, ticket, request)
        return execution, ticket

    async def _prepare(
        self, request: hub.SendMessageRequest, context: CallContext, wants: Wants
    ) -> tuple[Execution, Ticket]:
        """The execution a message belongs to, a new one for a new task, and the message's ticket there."""
        self._accept(request)
        message = request.message
        scope = _scope(request, context)
        if message.task_id:
            execution = await self._execution(scope, message)
        else:
            execution = Execution(self._shop, scope, new_id(), message.context_id or new_id(), self._on_idle)
        run = Run(request, context, execution.task_id, execution.context_id)
        return execution, Ticket(run, wants, self._inline_config(request, execution.task_id))

    async def _execution(self, scope: Scope, message: hub.Message) -> Execution:
        """The execution of an existing task. Raises for a task that is foreign, ended or of another context."""
        execution = self._live_one(scope, message.task_id)
        if execution is None or execution.task is None:
            stored = await self._shop.tasks.get(scope, message.task_id)
            # Somebody may have brought it to life in the meantime.
            execution = self._live_one(scope, message.task_id)
            if execution is None:
                if stored is None:
                    raise task_not_found(message.task_id)
                execution = self._revived(scope, stored)
        if message.context_id not in ("", execution.context_id):
            raise invalid_params("message.contextId", "is not the context of this task")
        if execution.ended:
            raise already_ended(execution.task)
        return execution

    def _revived(self, scope: Scope, stored: Stored) -> Execution:
        task = stored.task
        return Execution(self._shop, scope, task.id, task.context_id, self._on_idle, stored)

    async def _start(self, execution: Execution, ticket: Ticket, request: hub.SendMessageRequest) -> None:
        self._live[execution.task_id] = execution
        try:
            if execution.task is not None:
                await execution.join(request.message)
                if ticket.push_config is not None:
                    await self._shop.push_configs.put(execution.scope, ticket.push_config)
        except BaseException:
            self._on_idle(execution)
            raise
        execution.submit(ticket)

    async def _answer(self, execution: Execution, ticket: Ticket) -> hub.SendMessageResponse | None:
        try:
            return await ticket.answer
        except asyncio.CancelledError:
            execution.abandon(ticket)
            raise

    def _inline_config(
        self, request: hub.SendMessageRequest, task_id: str
    ) -> hub.TaskPushNotificationConfig | None:
        if not request.configuration.HasField("task_push_notification_config"):
            return None
        config = hub.TaskPushNotificationConfig()
        config.CopyFrom(request.configuration.task_push_notification_config)
        config.task_id = task_id
        config.id = config.id or new_id()
        return config

    # ------------------------------------------------------------------ tasks

    async def get_task(self, request: hub.GetTaskRequest, context: CallContext, /) -> hub.Task:
        """Spec 3.1.3."""
        limit = _history_limit(request, "historyLength")
        task = await self._task(_scope(request, context), request.id)
        _cut_history(task, limit)
        return task

    async def list_tasks(
        self, request: hub.ListTasksRequest, context: CallContext, /
    ) -> hub.ListTasksResponse:
        """Spec 3.1.4. Pages of 1 to 100 tasks, 50 unless asked otherwise."""
        limit = _history_limit(request, "historyLength")
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
        page = await self._shop.tasks.list(_scope(request, context), query)
        for task in page.tasks:
            live = self._live.get(task.id)
            if query.artifacts and live is not None and live.task is not None:
                # The store learns of artifacts with the next status; whoever looks now sees them all.
                del task.artifacts[:]
                task.artifacts.extend(live.task.artifacts)
            _cut_history(task, limit)
        return hub.ListTasksResponse(
            tasks=page.tasks, next_page_token=page.next_page_token, page_size=size, total_size=page.total
        )

    async def cancel_task(self, request: hub.CancelTaskRequest, context: CallContext, /) -> hub.Task:
        """Spec 3.1.5. All who cancel at once get the canceled task; whoever comes later, TASK_NOT_CANCELABLE."""
        scope = _scope(request, context)
        execution = self._live_one(scope, request.id)
        if execution is None or execution.task is None:
            stored = await self._shop.tasks.get(scope, request.id)
            execution = self._live_one(scope, request.id)
            if execution is None:
                if stored is None:
                    raise task_not_found(request.id)
                execution = self._revived(scope, stored)
        if execution.task is None:
            raise task_not_found(request.id)
        if execution.ended:
            raise not_cancelable(execution.task)
        self._live[execution.task_id] = execution
        return await execution.cancel(Run(request, context, execution.task_id, execution.context_id))

    async def subscribe_to_task(
        self, request: hub.SubscribeToTaskRequest, context: CallContext, /
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Spec 3.1.6. A snapshot, then every event until the task ends or asks for input."""
        self._require_streaming()
        if self._closing:
            raise closing()
        subscription = self._listen(request.id)
        try:
            task = await self._task(_scope(request, context), request.id)
            if task.status.state in TERMINAL:
                raise A2AError(
                    Reason.UNSUPPORTED_OPERATION,
                    "the task has ended; there is nothing to subscribe to",
                    metadata={"taskId": request.id},
                )
            # Reading the store may have taken a while: what the snapshot shows must not come again.
            live = self._live.get(request.id)
            if live is not None and live.task is not None:
                subscription.skip()
                task = live.snapshot()
            yield hub.StreamResponse(task=task)
            async for event in _until_rest(subscription, None):
                yield event
        finally:
            self._unlisten(request.id, subscription)

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

    # ------------------------------------------------------------------ push notification configs

    async def create_task_push_notification_config(
        self, request: hub.TaskPushNotificationConfig, context: CallContext, /
    ) -> hub.TaskPushNotificationConfig:
        """Spec 3.1.7. A config without an id is given one."""
        self._require_push()
        if not request.task_id:
            raise invalid_params("taskId", "is required")
        scope = _scope(request, context)
        await self._task(scope, request.task_id)
        config = hub.TaskPushNotificationConfig()
        config.CopyFrom(request)
        config.id = config.id or new_id()
        await self._shop.push_configs.put(scope, config)
        return config

    async def get_task_push_notification_config(
        self, request: hub.GetTaskPushNotificationConfigRequest, context: CallContext, /
    ) -> hub.TaskPushNotificationConfig:
        """Spec 3.1.8. A missing config is TASK_NOT_FOUND."""
        self._require_push()
        scope = _scope(request, context)
        await self._task(scope, request.task_id)
        config = await self._shop.push_configs.get(scope, request.task_id, request.id)
        if config is None:
            error = task_not_found(request.task_id)
            error.metadata["configId"] = request.id
            raise error
        return config

    async def list_task_push_notification_configs(
        self, request: hub.ListTaskPushNotificationConfigsRequest, context: CallContext, /
    ) -> hub.ListTaskPushNotificationConfigsResponse:
        """Spec 3.1.9. A page size of 0 means all; tokens are the id of the last config given."""
        self._require_push()
        if request.page_size < 0:
            raise invalid_params("pageSize", "must not be negative")
        scope = _scope(request, context)
        await self._task(scope, request.task_id)
        configs = await self._shop.push_configs.list(scope, request.task_id)
        if request.page_token:
            places = [place for place, one in enumerate(configs) if one.id == request.page_token]
            if not places:
                raise invalid_params("pageToken", "is not a token that this query has given")
            configs = configs[places[0] + 1 :]
        page = configs[: request.page_size or None]
        token = page[-1].id if len(page) < len(configs) else ""
        return hub.ListTaskPushNotificationConfigsResponse(configs=page, next_page_token=token)

    async def delete_task_push_notification_config(
        self, request: hub.DeleteTaskPushNotificationConfigRequest, context: CallContext, /
    ) -> Empty:
        """Spec 3.1.10. Deleting what is not there succeeds."""
        self._require_push()
        scope = _scope(request, context)
        await self._task(scope, request.task_id)
        await self._shop.push_configs.delete(scope, request.task_id, request.id)
        return Empty()

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
        return card if isinstance(card, hub.AgentCard) else card(context)

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

    def _require_push(self) -> None:
        if not self._agent.card.capabilities.push_notifications:
            raise A2AError(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED)

    def _listen(self, task_id: str) -> Any:
        self._readers[task_id] += 1
        return self._shop.bus.subscribe(task_id)

    def _unlisten(self, task_id: str, subscription: Any) -> None:
        subscription.close()
        self._readers[task_id] -= 1
        if not self._readers[task_id]:
            del self._readers[task_id]


async def _until_rest(subscription: Any, ticket: Ticket | None) -> AsyncGenerator[hub.StreamResponse, None]:
    """Events up to the one that ends the task, or that asks for input after this caller's run had begun."""
    while events := await subscription.take():
        number = subscription.position
        for event in events:
            number += 1
            yield event
            state = _state_of(event)
            if state in TERMINAL:
                return
            if state == hub.TASK_STATE_INPUT_REQUIRED and (
                ticket is None or (ticket.begun_at is not None and number > ticket.begun_at)
            ):
                return


def _state_of(event: hub.StreamResponse) -> hub.TaskState:
    which = event.WhichOneof("payload")
    if which == "status_update":
        return event.status_update.status.state
    return event.task.status.state if which == "task" else hub.TASK_STATE_UNSPECIFIED


def _scope(request: Any, context: CallContext) -> Scope:
    principal = context.principal
    return Scope(context.tenant or request.tenant, "" if principal is None else principal.name)


def _history_limit(source: Any, path: str) -> int | None:
    """How many messages of the history to give; None for all. Raises INVALID_PARAMS for a negative number."""
    if not source.HasField("history_length"):
        return None
    limit: int = source.history_length
    if limit < 0:
        raise invalid_params(path, "must not be negative")
    return limit


def _cut_history(task: hub.Task, limit: int | None) -> None:
    """Leaves the newest `limit` messages (spec 3.2.4)."""
    if limit is not None and len(task.history) > limit:
        del task.history[: len(task.history) - limit]


def _with_history(event: hub.StreamResponse, limit: int) -> hub.StreamResponse:
    """The event with less history: a copy, if it has any, because subscribers share events."""
    if not event.HasField("task"):
        return event
    copy = hub.StreamResponse()
    copy.CopyFrom(event)
    _cut_history(copy.task, limit)
    return copy
