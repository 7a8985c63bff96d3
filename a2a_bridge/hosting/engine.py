"""The engine: the eleven operations over an executor and a store. `Operation.method` has their names.

Rules:
1. A task that a caller may not see looks exactly like a task that does not exist.
2. A live task is answered from its working copy, any other from the store: only once that is durable.
3. A direct response needs no task, queue or lock, and is cancelled when its caller leaves. A task continues
   without callers.
4. Only the holder of a task's lease changes it: calls about a task of another live replica raise
   NotOwnerError. `service` forwards them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable
from typing import Any

from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.codec.unknown import expect_members
from a2a_bridge.core.agent_api import service_of
from a2a_bridge.core.call import CallContext, left_out
from a2a_bridge.core.errors import A2AError, Reason, closing_error, internal_error, task_not_found
from a2a_bridge.core.kinds import require
from a2a_bridge.core.messages import TERMINAL, cut_history, shortened
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.core.paging import history_limit, query_of
from a2a_bridge.core.resume import number_of, offer_resume, resume_id
from a2a_bridge.core.service import Event, Events, HandedOver, Service, no_events, open_stream
from a2a_bridge.hosting.agent_content import ExecutorError, direct_answer, for_agent, task_for_agent
from a2a_bridge.hosting.executor import Run
from a2a_bridge.hosting.executor_driver import EngineContext
from a2a_bridge.hosting.hosted_agent import Agent
from a2a_bridge.hosting.identifiers import two_ids
from a2a_bridge.hosting.lease import OwnershipLostError
from a2a_bridge.hosting.limits import TOO_LONG, RunLocks, broken_protocol_error, not_cancelable, too_late
from a2a_bridge.hosting.pending_send import Wants
from a2a_bridge.hosting.push_configs import PushConfigs
from a2a_bridge.hosting.reading import EventReaders, TaskSnapshot, histories_cut
from a2a_bridge.hosting.replicas import ForwardingService, Recovery, can_continue
from a2a_bridge.hosting.run_registry import RunRegistry
from a2a_bridge.hosting.sending import (
    SHORT,
    Accepted,
    AlreadySentError,
    Idempotency,
    Sending,
    check_names,
    check_parts,
)
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.webhook import WebhookResolver
from a2a_bridge.stores.memory import MemoryStore
from a2a_bridge.stores.ports import Clock, Scope, Store, scope_of

log = logging.getLogger("a2a_bridge.hosting")

_DEFAULT = EngineOptions()


class Engine:
    """A running agent.

    store: keeps tasks, events and configs; in memory unless given. push_sender: checks webhooks; without one,
    configs are stored and nothing is sent. `start` it before its first call, and `close` it before its store.
    Raises TypeError for a store that lacks members of `Store`.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        store: Store | None = None,
        options: EngineOptions = _DEFAULT,
        push_sender: WebhookResolver | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._agent = agent
        self._options = options
        clock = clock or Clock()
        # Not `or`: an empty store may be false.
        self._store: Store = MemoryStore(clock=clock) if store is None else store
        require(self._store, Store)
        if not isinstance(self._store, MemoryStore):
            expect_members()
        self._readers = EventReaders(self._store, self._snapshot)
        self._context = EngineContext(
            executor=agent.executor,
            store=self._store,
            readers=self._readers,
            clock=clock,
            options=options,
            push=push_sender is not None and agent.card.capabilities.push_notifications,
            reply=getattr(agent.executor, "reply", None) if options.idempotent_sends else None,
            find=self._find,
            locks=RunLocks(self._store.remote).hold,
        )
        self._push = PushConfigs(agent.card, self._store.push_configs, self._snapshot, push_sender)
        self.create_task_push_notification_config = self._push.create_task_push_notification_config
        self.get_task_push_notification_config = self._push.get_task_push_notification_config
        self.list_task_push_notification_configs = self._push.list_task_push_notification_configs
        self.delete_task_push_notification_config = self._push.delete_task_push_notification_config
        self._runs = RunRegistry(self._context)
        self._sending = Sending(agent, self._context, self._runs, self._push)
        self._idempotency = None
        self._input_modes = agent.input_modes
        self._reply = None
        if options.idempotent_sends:
            self._idempotency = Idempotency(self._context, self._sending)
        else:
            self._reply = getattr(agent.executor, "reply", None)
        self._recovery = Recovery(self._store, self._sending.recover)
        #: this engine alone
        self._here = service_of(self)
        #: the operations, also on tasks of other replicas
        self.service: Service = self._here
        if self._store.remote is not None:
            self.service = ForwardingService(
                self._here, self._store.remote.replica, self._readers, self._sending.recover
            )
        self._closing = False

    @property
    def live(self) -> int:
        return len(self._runs)

    @property
    def runs(self) -> Iterable[TaskRun]:
        return iter(self._runs)

    async def start(self) -> None:
        """Starts to take over the tasks of dead processes, which do not continue otherwise. Returns at once:
        a call about a task that has not been taken over yet takes it over, or is answered from the store.
        """
        if self._store.remote is not None:
            self._store.remote.serve(self._here)
        self._recovery.start()

    @property
    def left(self) -> int:
        """The number of known tasks of earlier processes that have not been taken over yet."""
        return self._recovery.left

    async def wait_recovered(self) -> None:
        """Waits until the tasks of earlier processes were taken over, as far as the store works."""
        await self._recovery.quiet()

    # ------------------------------------------------------------------ messages

    async def send_message(
        self, request: hub.SendMessageRequest, context: CallContext, /
    ) -> hub.SendMessageResponse:
        """Spec 3.1.1. Waits for the end or an interruption unless the request says `return_immediately`. A
        message to a working task waits until the present run ends. If the task ends with it, the response is
        UNSUPPORTED_OPERATION, as for any message to an ended task.
        """
        limit: int | None = None
        wants: Wants = "outcome"
        if request.HasField("configuration"):
            limit = await self._sending.check(request)
            if request.configuration.return_immediately:
                wants = "task"
        if self._closing:
            raise closing_error()
        message = request.message
        if len(message.message_id) + len(message.context_id) + len(context.tenant or request.tenant) > SHORT:
            check_names(request, context)
        if self._input_modes:
            check_parts(message, self._input_modes)
        if self._reply is not None and not message.task_id:
            return await self._direct(self._reply, request, context)
        answer: hub.SendMessageResponse | None
        try:
            # Two code paths, because one await less is measurable in a direct reply.
            if self._idempotency is None:
                accepted = await self._sending.work_on(request, context, wants)
            else:
                accepted = await self._work_on(request, context, wants)
        except AlreadySentError as known:
            answer = await self._repeat_response(known, scope_of(request, context), wants)
        else:
            answer = await accepted.sender.answer(accepted.leave)
            if self._idempotency is not None:
                await self._idempotency.wait_stored(answer, request, context)
        if answer is None:
            raise RuntimeError("a unary send was settled like a stream")
        if limit is not None and answer.HasField("task"):
            shown = shortened(answer.task, limit)
            if shown is not answer.task:  # in a copy: others may have the same response
                answer = hub.SendMessageResponse(task=shown)
        context.reply.large = context.large and answer.HasField("task")
        return answer

    def send_streaming_message(self, request: hub.SendMessageRequest, context: CallContext, /) -> Events:
        """Spec 3.1.2. One message, or the task and then its events until it ends or asks for input."""
        return HandedOver(lambda: self._open_stream(request, context))

    async def _open_stream(
        self, request: hub.SendMessageRequest, context: CallContext
    ) -> tuple[Event, Events] | None:
        """Accepts the message of a stream. The reader of the task gives all events but the first."""
        self._require_streaming()
        limit = await self._sending.check(request) if request.HasField("configuration") else None
        if self._closing:
            raise closing_error()
        message = request.message
        if len(message.message_id) + len(message.context_id) + len(context.tenant or request.tenant) > SHORT:
            check_names(request, context)
        if self._input_modes:
            check_parts(message, self._input_modes)
        if self._reply is not None and not message.task_id:
            direct = await self._direct(self._reply, request, context)
            return Event(hub.StreamResponse(message=direct.message)), no_events()
        try:
            accepted = await self._work_on(request, context, "stream")
        except AlreadySentError as known:
            if isinstance(known.result, hub.SendMessageResponse):
                return Event(hub.StreamResponse(message=known.result.message)), no_events()
            events = self._readers.from_snapshot(scope_of(request, context), known.result, None)
        else:
            reading, snapshot, asked = accepted.reading, accepted.snapshot, False
            if reading is None:
                raise RuntimeError("a stream was accepted like a unary send")
            try:
                answer = await accepted.sender.answer(accepted.leave)
                if self._idempotency is not None:
                    await self._idempotency.wait_stored(answer, request, context)
                if snapshot is not None:
                    await accepted.task_run.wait_settled()
                    asked = accepted.has_question
            except BaseException:
                reading.close()
                raise
            if answer is not None:
                reading.close()
                return Event(hub.StreamResponse(message=answer.message)), no_events()
            events = reading.events(accepted.begun_before, snapshot, alone=asked)
        return await open_stream(events if limit is None else histories_cut(events, limit))

    async def _direct(
        self, reply: Any, request: hub.SendMessageRequest, context: CallContext
    ) -> hub.SendMessageResponse:
        task_id, context_id = two_ids()
        context_id = request.message.context_id or context_id
        shown = await run_in_worker(for_agent, request) if context.large else for_agent(request)
        run = Run(shown, context, task_id, context_id)
        run.find, run.locks = self._find, self._context.locks
        seconds = self._options.run_timeout or self._options.silence_timeout
        limit: asyncio.Timeout | None = None
        try:
            if seconds:
                async with asyncio.timeout(seconds) as limit:
                    message = await reply(run)
            else:
                message = await reply(run)
            return direct_answer(message, task_id, context_id)
        except A2AError:
            raise
        except ExecutorError as error:
            raise broken_protocol_error(f"the agent broke the protocol: {error}") from None
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # also `sys.exit` and KeyboardInterrupt, which must not end the server
            if limit is not None and limit.expired():
                raise too_late(TOO_LONG.format(seconds)) from None
            self._context.crashes.error(error, "the agent failed to answer a message")
            raise internal_error() from error

    async def _work_on(self, request: hub.SendMessageRequest, context: CallContext, wants: Wants) -> Accepted:
        if self._idempotency is None or not request.message.message_id:
            return await self._sending.work_on(request, context, wants)
        if request.message.task_id and self._store.remote is not None:
            # The replica that works on the task also registers the message.
            await self._runs.require_owner(scope_of(request, context), request.message.task_id)
        return await self._idempotency.work_on(request, context, wants)

    async def _repeat_response(
        self, known: AlreadySentError, scope: Scope, wants: Wants
    ) -> hub.SendMessageResponse:
        if isinstance(known.result, hub.SendMessageResponse):
            return known.result
        task = known.result.task
        if wants == "outcome":
            task = (await self._readers.outcome(scope, known.result)).task
        return hub.SendMessageResponse(task=task)

    # ------------------------------------------------------------------ tasks

    async def get_task(self, request: hub.GetTaskRequest, context: CallContext, /) -> hub.Task:
        """Spec 3.1.3."""
        limit = history_limit(request, "historyLength")
        task, _ = await self._snapshot(scope_of(request, context), request.id)
        cut_history(task, limit)
        return task

    async def list_tasks(
        self, request: hub.ListTasksRequest, context: CallContext, /
    ) -> hub.ListTasksResponse:
        """Spec 3.1.4. Pages of 1 to 100 tasks, 50 by default."""
        page = await self._store.list(scope_of(request, context), query_of(request))
        left_out(context.reply, page.left_out)
        return hub.ListTasksResponse(
            tasks=page.tasks,
            next_page_token=page.next_page_token,
            page_size=len(page.tasks),
            total_size=page.total,
        )

    async def cancel_task(self, request: hub.CancelTaskRequest, context: CallContext, /) -> hub.Task:
        """Spec 3.1.5. Concurrent callers all get the canceled task; later callers get TASK_NOT_CANCELABLE.
        Runs that may finish while the engine closes can be canceled.
        """
        task_run = await self._runs.enter(
            scope_of(request, context), request.id, lambda one: not_cancelable(one.task_id)
        )
        try:
            run = Run(for_agent(request), context, task_run.task_id, task_run.context_id)
            return await task_run.cancel(run)
        finally:
            task_run.end_visit()

    def subscribe_to_task(self, request: hub.SubscribeToTaskRequest, context: CallContext, /) -> Events:
        """Spec 3.1.6. A snapshot, then every event until the task ends or asks for input. A caller that names
        the last event it received (see `core.resume`) gets the following events instead, also of an ended
        task, and a snapshot only if they are lost.
        """
        return HandedOver(lambda: self._open_subscription(request, context))

    async def _open_subscription(
        self, request: hub.SubscribeToTaskRequest, context: CallContext
    ) -> tuple[Event, Events] | None:
        self._require_streaming()
        if self._closing:
            raise closing_error()
        last_event_id = resume_id(context)
        scope = scope_of(request, context)
        snapshot = await self._snapshot(scope, request.id)
        if last_event_id:
            reading = self._readers.begin(scope, request.id, number_of(last_event_id), last_event_id)
            return await open_stream(reading.events(None))
        if snapshot.task.status.state in TERMINAL:
            raise A2AError(
                Reason.UNSUPPORTED_OPERATION,
                "the task has ended; there is nothing to subscribe to",
                metadata={"taskId": request.id},
            )
        reading = self._readers.begin(scope, request.id, snapshot.last)
        return await open_stream(reading.events(None, snapshot))

    async def _snapshot(self, scope: Scope, task_id: str) -> TaskSnapshot:
        """A copy of a task, and the number of its last event. Raises TASK_NOT_FOUND."""
        run = self._runs.get(scope, task_id)
        # While the store does not work, only its content may be shown. Without the lease, it may be
        # another's.
        if (
            run is not None
            and run.live.task is not None
            and run.lease.held
            and not (run.lease.pending and self._store.rejection())
        ):
            try:
                return await run.live.durable_snapshot()
            except OwnershipLostError:
                log.debug("task %s has moved while it was read", task_id)
        stored = await self._store.get(scope, task_id)
        if stored is None:
            raise task_not_found(task_id)
        return TaskSnapshot(stored.task, stored.last)

    async def _find(
        self, request: hub.SendMessageRequest | hub.CancelTaskRequest, context: CallContext, task_id: str
    ) -> hub.Task | None:
        """A task for an executor, as `Run.find_task` gives it."""
        try:
            snapshot = await self._snapshot(scope_of(request, context), task_id)
        except A2AError as error:
            if error.reason is Reason.TASK_NOT_FOUND:
                return None
            raise
        return task_for_agent(snapshot.task)

    # ------------------------------------------------------------------ card and closing

    async def get_extended_agent_card(
        self, _request: hub.GetExtendedAgentCardRequest, context: CallContext, /
    ) -> hub.AgentCard:
        """Spec 3.1.11. As the public card, it offers to resume streams."""
        if not self._agent.card.capabilities.extended_agent_card:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "this agent has no extended card")
        card = self._agent.extended_card
        if card is None:
            raise A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED)
        if not isinstance(card, hub.AgentCard):
            try:
                made = card(context)
                return offer_resume(await made if inspect.isawaitable(made) else made)
            except (SystemExit, KeyboardInterrupt) as error:
                raise RuntimeError(
                    f"the function of the extended card raised {type(error).__name__}"
                ) from error
        copy = hub.AgentCard()
        copy.CopyFrom(card)
        return offer_resume(copy)

    async def close(self, grace: float = 0) -> None:
        """Rejects new work, lets runs finish for `grace` seconds, stops the rest, and informs subscribers.

        Runs that another process can resume are not waited for, unless a caller waits for them.
        """
        self._closing = True
        if self._store.remote is not None:
            await self._store.remote.stop()
        await self._recovery.close()
        waited = (one for one in self._runs if not self._continues_elsewhere(one))
        producers = [one.producer for one in waited if one.producer is not None]
        if producers and grace > 0:
            await asyncio.wait(producers, timeout=grace)
        left = self._runs.close()
        await asyncio.gather(*(run.stop() for run in left))
        if self._idempotency is not None:
            await self._idempotency.close()
        await self._wait_written(left)
        self._readers.end(closing_error())

    def _continues_elsewhere(self, run: TaskRun) -> bool:
        task = run.live.task
        return (
            self._store.remote is not None
            and self._context.resumes
            and task is not None
            and can_continue(task)
            and not run.live.awaited
            and not self._readers.read(run.task_id)
        )

    async def _wait_written(self, runs: list[TaskRun]) -> None:
        """Waits until the store has everything, or has not worked for too long."""
        waiting = [asyncio.ensure_future(one.flush()) for one in runs if one.lease.pending]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._options.patience)
            for one in late:
                one.cancel()
            for error in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(error, Exception):
                    log.error("the end of a task could not be stored: %s", error)
            for run in runs:
                run.give_up_flush()

    def _require_streaming(self) -> None:
        if not self._agent.card.capabilities.streaming:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "this agent does not stream")
