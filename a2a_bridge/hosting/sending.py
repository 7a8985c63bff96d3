"""Accepts messages: checks them, finds or creates their task run, and queues them. Answers come from the run.

Rules:
1. A message to an existing task is accepted once it is durable in the task's history.
2. A task that a dead process left at work is resumed, or fails, before it takes another message.
3. The lengths of names that callers choose are limited here for all stores: databases index them.
4. A message counts against the limits of its task as soon as it is admitted, before it is stored and queued.
5. Media types that an agent accepts, and media types that a caller accepts, have to fit (spec 3.2.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, NotOwnerError, Reason, Violation, invalid_params
from a2a_bridge.core.paging import history_limit
from a2a_bridge.hosting.agent_content import for_agent
from a2a_bridge.hosting.decorator import Agent
from a2a_bridge.hosting.executor import Run
from a2a_bridge.hosting.executor_driver import EngineContext
from a2a_bridge.hosting.identifiers import two_ids
from a2a_bridge.hosting.limits import already_ended, history_full, too_many_waiting
from a2a_bridge.hosting.pending_send import PendingSend, Wants
from a2a_bridge.hosting.push_configs import PushConfigs
from a2a_bridge.hosting.reading import EventReader, TaskSnapshot
from a2a_bridge.hosting.run_registry import RunRegistry
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, Stored, scope_of

#: maximum length of the ids in a message, in characters
LONGEST_ID = 512
LONGEST_TENANT = 256
#: names of at most so many characters together need no `check_names`
SHORT = LONGEST_TENANT


class RepeatedError(Exception):
    """Control flow: the task has a message with this id."""


class Accepted(NamedTuple):
    """A message that is being worked on."""

    task_run: TaskRun
    send: PendingSend
    #: the task as the message found it, not to be shown before it is durable; None if the message begins one
    snapshot: TaskSnapshot | None = None
    #: the following events, for a stream; the receiver closes it
    reading: EventReader | None = None

    def begun_before(self, number: int, /) -> bool:
        """True if the run of the message had begun before the event of this number.

        A new owner of the task resumes with the newest message, and its events follow the events that were
        stored here. They may be read before this process knows that it has lost the task.
        """
        begun, stored = self.send.begun_at, self.task_run.live.stored
        if number > stored:
            begun = stored if begun is None else min(begun, stored)
        return begun is not None and number > begun

    @property
    def has_question(self) -> bool:
        """True if the snapshot contains the question with which the message's run ends its streams."""
        begun, snapshot = self.send.begun_at, self.snapshot
        if begun is None or snapshot is None or snapshot.task.status.state != hub.TASK_STATE_INPUT_REQUIRED:
            return False
        return begun < self.task_run.live.asked_at <= snapshot.last


def check_names(request: hub.SendMessageRequest, context: CallContext) -> None:
    """Raises INVALID_PARAMS with the name that is too long to be stored."""
    message, tenant = request.message, context.tenant or request.tenant
    for name, text, most in (
        ("message.messageId", message.message_id, LONGEST_ID),
        ("message.contextId", message.context_id, LONGEST_ID),
        ("tenant", tenant, LONGEST_TENANT),
    ):
        if len(text) > most:
            raise invalid_params(name, f"is longer than {most} characters")


class Sending:
    """The part of an engine that accepts messages."""

    def __init__(
        self,
        agent: Agent,
        engine: EngineContext,
        runs: RunRegistry,
        push: PushConfigs,
    ) -> None:
        self._output_modes = deliverable(agent.card)
        self._engine = engine
        self._runs = runs
        self._readers = engine.readers
        self._push = push

    async def check(self, request: hub.SendMessageRequest) -> int | None:
        """Checks the configuration of a request that has one. Returns the number of history messages to
        return; None for all.
        """
        configuration = request.configuration
        limit: int | None = None
        if configuration.HasField("history_length"):
            limit = history_limit(configuration, "configuration.historyLength")
        if configuration.HasField("task_push_notification_config"):
            await self._push.accept(request)
        accepted = configuration.accepted_output_modes
        if accepted and self._output_modes and not overlap(accepted, self._output_modes):
            offered = ", ".join(sorted(self._output_modes))
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED,
                f"the agent gives none of the accepted output modes; it gives {offered}",
                metadata={"outputModes": offered},
            )
        return limit

    async def work_on(
        self, request: hub.SendMessageRequest, context: CallContext, wants: Wants, task_id: str = ""
    ) -> Accepted:
        """Starts the work on a message. task_id: of the new task, if it begins one.

        Raises the errors of the task: TASK_NOT_FOUND, UNSUPPORTED_OPERATION, RESOURCE_EXHAUSTED,
        NotOwnerError, RepeatedError…
        """
        message = request.message
        if message.task_id:
            return await self._go_on(request, context, wants)
        rejection = self._engine.store.rejection()
        if rejection is not None:
            raise rejection
        scope = scope_of(request, context)
        made, context_id = two_ids()
        task_id = task_id or made
        shown = await run_in_worker(for_agent, request) if context.large else for_agent(request)
        config = None
        if request.HasField("configuration"):
            config = await self._push.inline(scope, request, context, task_id, new=True)
        task_run = self._runs.begin(scope, task_id, message.context_id or context_id)
        run = Run(shown, context, task_id, task_run.context_id)
        send = PendingSend(run, message, wants, config)
        reading = self._readers.begin(scope, task_id, 0) if wants is Wants.STREAM else None
        task_run.submit(send)
        return Accepted(task_run, send, None, reading)

    async def _go_on(self, request: hub.SendMessageRequest, context: CallContext, wants: Wants) -> Accepted:
        message = request.message
        shown = await run_in_worker(for_agent, request) if context.large else for_agent(request)
        scope = scope_of(request, context)
        task_run = await self._runs.enter(
            scope, message.task_id, lambda one: _wrong_context(one, message) or already_ended(one.task_id)
        )
        try:
            await self._admit(task_run, message)

            async def prepare() -> None:
                config = await self._push.inline(scope, request, context, task_run.task_id)
                if config is not None:
                    await self._engine.store.push_configs.put(scope, config)

            await task_run.join(message, prepare)
            run = Run(shown, context, task_run.task_id, task_run.context_id)
            send = PendingSend(run, message, wants)
            snapshot, reading = None, None
            if wants is Wants.STREAM:
                snapshot = task_run.live.snapshot()
                reading = self._readers.begin(scope, task_run.task_id, snapshot.last)
            task_run.submit(send)
            return Accepted(task_run, send, snapshot, reading)
        finally:
            task_run.leave()

    async def _admit(self, task_run: TaskRun, message: hub.Message) -> None:
        """Raises the reason why a further message is rejected, RepeatedError if messages count once."""
        options = self._engine.options
        wrong = _wrong_context(task_run, message)
        if wrong is not None:
            raise wrong
        await task_run.ready()
        if options.idempotent_sends and task_run.live.has_message(message.message_id):
            raise RepeatedError
        if task_run.backlog >= options.queue > 0:
            raise too_many_waiting()
        if task_run.messages >= options.history > 0:
            raise history_full(options.history)
        if task_run.producer is None and (crowded := self._runs.crowded(task_run)) is not None:
            raise crowded
        full = self._engine.store.memory.rejection()
        if full is not None:
            raise full

    async def recover(self, scope: Scope, task_id: str, known: Stored | None = None) -> bool:
        """Takes over a task that a dead process left. Returns whether it did.

        known: the task as it was just read. Raises UNAVAILABLE if the outcome is unknown.
        """
        try:
            task_run = await self._runs.enter(scope, task_id, lambda one: already_ended(one.task_id), known)
        except NotOwnerError:
            return False
        except A2AError as error:
            if error.reason is Reason.UNAVAILABLE:
                raise
            return False
        try:
            task_run.resume_or_fail()
        finally:
            task_run.leave()
        # The caller that takes a task over does not wait for its resumed run.
        if known is not None and task_run.producer is None:
            await task_run.flush()
        return not task_run.live.lost


def _wrong_context(task_run: TaskRun, message: hub.Message) -> A2AError | None:
    """The error for a message that names another context than its task's."""
    if message.context_id in ("", task_run.context_id):
        return None
    return invalid_params("message.contextId", "is not the context of this task")


def deliverable(card: hub.AgentCard) -> frozenset[str]:
    """Media types that the card declares for responses, of all skills together: a message does not name its
    skill.
    """
    modes = set(card.default_output_modes)
    for skill in card.skills:
        modes.update(skill.output_modes)
    return frozenset(modes)


def check_parts(message: hub.Message, accepted: frozenset[str]) -> None:
    """Raises CONTENT_TYPE_NOT_SUPPORTED for a part that names a media type which is not accepted. Parts
    without one are not judged.
    """
    for at, part in enumerate(message.parts):
        if part.media_type and not overlap(accepted, (part.media_type,)):
            field = f"message.parts[{at}].mediaType"
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED,
                f"{field}: the agent accepts {', '.join(sorted(accepted))}",
                violations=[Violation(field, "is not accepted by the agent")],
            )


def overlap(accepted: Iterable[str], offered: Iterable[str]) -> bool:
    """True if any offered type is accepted.

    A value that is no media type, on either side (old peers say "text"), cannot be judged: no rejection.
    """
    wanted, available = (_media_ranges(modes) for modes in (accepted, offered))
    if wanted is None or available is None:
        return True
    return any(
        main in ("*", other) and minor in ("*", detail)
        for main, minor in wanted
        for other, detail in available
    )


def _media_ranges(modes: Iterable[str]) -> list[tuple[str, str]] | None:
    ranges = []
    for mode in modes:
        main, slash, minor = mode.partition(";")[0].strip().lower().partition("/")
        if not slash or not main or not minor:
            return None
        ranges.append((main, minor))
    return ranges
