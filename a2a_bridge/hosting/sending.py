"""Accepts messages: checks them, finds or creates their task run, and queues them. Answers come from the run.

Rules:
1. A message to an existing task is accepted once it is durable in the task's history.
2. A task that a dead process left at work is resumed, or fails, before it takes another message.
3. The lengths of names that callers choose are limited here for all stores: databases index them.
4. A message counts against the limits of its task as soon as it is admitted, before it is stored and queued.
5. Media types that an agent accepts, and media types that a caller accepts, have to fit (spec 3.2.2).

Rules of idempotent sends, off by default: a repeated message has one run, and all senders get its response.
1. A message is a repetition if the same caller sends the same id with the same content, over any binding or
   version. The same id with other content is rejected.
2. An id is reserved durably before the executor sees the message. If the process dies before anything was
   stored, the next sender of the message takes over the reservation.
3. A message in the history of its task is a repetition, too. Its id may be gone: a process that was declared
   dead can still work on the message, while another process took over its ids and deleted them.
4. Within one process, further senders of a message wait with the first sender. If its run is being stopped,
   because all earlier senders have left, the message gets a new run after that.
"""

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import (
    A2AError,
    Blame,
    NotOwnerError,
    Reason,
    Violation,
    changed_hands_error,
    closing_error,
    invalid_params,
)
from a2a_bridge.core.paging import history_limit
from a2a_bridge.hosting.agent_content import for_agent
from a2a_bridge.hosting.executor import Run
from a2a_bridge.hosting.executor_driver import EngineContext
from a2a_bridge.hosting.hosted_agent import Agent
from a2a_bridge.hosting.identifiers import new_id, two_ids
from a2a_bridge.hosting.limits import already_ended
from a2a_bridge.hosting.pending_send import PendingSend, Sender, Wants
from a2a_bridge.hosting.push_configs import PushConfigs
from a2a_bridge.hosting.reading import EventReader, TaskSnapshot
from a2a_bridge.hosting.run_registry import RunRegistry
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, Sent, Stored, VersionConflictError, scope_of

#: maximum length of the ids in a message, in characters
LONGEST_ID = 512
LONGEST_TENANT = 256
#: names of at most so many characters together need no `check_names`
SHORT = LONGEST_TENANT


class RepeatedError(Exception):
    """Control flow: the task has a message with this id."""


@dataclass(slots=True, eq=False)
class Accepted:
    """A message that is being worked on."""

    task_run: TaskRun
    send: PendingSend
    sender: Sender
    #: the task as the message found it, not to be shown before it is durable; None if the message begins one
    snapshot: TaskSnapshot | None = None
    #: the following events, for a stream; the receiver closes it
    reading: EventReader | None = None

    def leave(self) -> None:
        """The sender leaves without its response."""
        self.task_run.abandon(self.send, self.sender)

    def begun_before(self, number: int, /) -> bool:
        """True if the run of the message had begun before this event. A new owner of the task resumes with
        the newest message, and its events follow the events that were stored here. They may be read before
        this process knows that it has lost the task.
        """
        begun, stored = self.send.begun_at, self.task_run.lease.durable
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
        """Checks the configuration of a request. Returns the number of history messages; None for all."""
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
        """Starts the work on a message. task_id: of the new task, if it begins one. Raises the task's errors:
        TASK_NOT_FOUND, UNSUPPORTED_OPERATION, RESOURCE_EXHAUSTED, NotOwnerError, RepeatedError…
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
        sender = Sender(wants)
        send = PendingSend(run, message, sender, config)
        reading = self._readers.begin(scope, task_id, 0) if wants == "stream" else None
        task_run.submit(send)
        return Accepted(task_run, send, sender, None, reading)

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
            configuration = request.configuration
            limited = configuration.HasField("history_length")
            sender = Sender(wants, configuration.history_length if limited else None)
            send = PendingSend(run, message, sender)
            snapshot, reading = None, None
            if wants == "stream":
                snapshot = task_run.live.snapshot(sender.limit)
                reading = self._readers.begin(scope, task_run.task_id, snapshot.last)
            task_run.submit(send)
            return Accepted(task_run, send, sender, snapshot, reading)
        finally:
            task_run.end_visit()

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
            raise A2AError(Reason.RESOURCE_EXHAUSTED, "too many messages wait for this task", retry_after=1.0)
        if task_run.messages >= options.history > 0:
            text = f"the task has {options.history} messages or more and takes no further ones"
            # Without a retry time: waiting does not help.
            raise A2AError(Reason.RESOURCE_EXHAUSTED, f"{text}; begin a new one in its context")
        if task_run.producer is None and (crowded := self._runs.crowded(task_run)) is not None:
            raise crowded
        full = self._engine.store.memory.rejection()
        if full is not None:
            raise full

    async def recover(self, scope: Scope, task_id: str, known: Stored | None = None) -> bool:
        """Takes over a task that a dead process left. Returns whether it did. known: the task as it was just
        read. Raises UNAVAILABLE if the outcome is unknown.
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
            task_run.end_visit()
        # The caller that takes a task over does not wait for its resumed run.
        if known is not None and task_run.producer is None:
            await task_run.flush()
        return not task_run.lease.lost


def _wrong_context(task_run: TaskRun, message: hub.Message) -> A2AError | None:
    """The error for a message that names another context than its task's."""
    if message.context_id in ("", task_run.context_id):
        return None
    return invalid_params("message.contextId", "is not the context of this task")


def deliverable(card: hub.AgentCard) -> frozenset[str]:
    """Media types that the card declares for responses, of all skills: a message does not name a skill."""
    modes = set(card.default_output_modes)
    for skill in card.skills:
        modes.update(skill.output_modes)
    return frozenset(modes)


def check_parts(message: hub.Message, accepted: frozenset[str]) -> None:
    """Raises CONTENT_TYPE_NOT_SUPPORTED for a part that names a media type that is not accepted."""
    for at, part in enumerate(message.parts):
        if part.media_type and not overlap(accepted, (part.media_type,)):
            field = f"message.parts[{at}].mediaType"
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED,
                f"{field}: the agent accepts {', '.join(sorted(accepted))}",
                violations=[Violation(field, "is not accepted by the agent")],
            )


def overlap(accepted: Iterable[str], offered: Iterable[str]) -> bool:
    """True if any offered type is accepted, or a value cannot be judged (old peers say "text")."""
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


log = logging.getLogger("a2a_bridge.hosting")

_Key = tuple[Scope, str]


class AlreadySentError(Exception):
    """Control flow: the message was sent before and led to a direct response or a task."""

    def __init__(self, result: hub.SendMessageResponse | TaskSnapshot) -> None:
        super().__init__()
        self.result = result


class _First:
    """A message that this process works on. accepted: its run, or the error that rejected it."""

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.accepted: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        #: done when its result is stored or its id is deleted; fails if a direct response cannot be stored
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Idempotency:
    """Gives repeated messages the result of the first message."""

    def __init__(self, engine: EngineContext, sending: Sending) -> None:
        self._store = engine.store
        self._sending = sending
        self._readers = engine.readers
        self._patience = engine.options.patience
        self._firsts: dict[_Key, _First] = {}
        self._storing: set[asyncio.Task[None]] = set()

    async def work_on(self, request: hub.SendMessageRequest, context: CallContext, wants: Wants) -> Accepted:
        """Starts the work on a message, or joins the work on an earlier copy. Raises AlreadySentError if that
        work is over or at another replica, INVALID_PARAMS for an id that was used with other content.
        """
        key = (scope_of(request, context), request.message.message_id)
        digest = await run_in_worker(digest_of, request) if context.large else digest_of(request)
        while True:
            first = self._firsts.get(key)
            if first is None:
                return await self._first(key, digest, request, context, wants)
            if first.digest != digest:
                raise used_before_error()
            accepted = await asyncio.shield(first.accepted)
            if not accepted.send.finished and not accepted.task_run.aborted:
                return self._join(accepted, wants)
            # The work is over or ending. Its result will be in the store in a moment.
            await self._finish(first, accepted)

    async def _finish(self, first: _First, accepted: Accepted) -> None:
        """Waits until a message's result is stored. Raises UNAVAILABLE if the run ignores a cancellation."""
        await asyncio.wait({first.decided}, timeout=None if accepted.send.finished else self._patience)
        if not accepted.send.finished:
            raise try_again()

    async def wait_stored(
        self, answer: hub.SendMessageResponse | None, request: hub.SendMessageRequest, context: CallContext
    ) -> None:
        """Waits until the response to a message is stored, if it is direct. Raises A2AError UNAVAILABLE."""
        if answer is None or not answer.HasField("message"):
            return
        first = self._firsts.get((scope_of(request, context), request.message.message_id))
        if first is not None:
            await asyncio.shield(first.decided)

    def _join(self, accepted: Accepted, wants: Wants) -> Accepted:
        task_run = accepted.task_run
        snapshot, reading = None, None
        if wants == "stream":
            if task_run.live.task is not None:
                snapshot = task_run.live.snapshot()
            after = 0 if snapshot is None else snapshot.last
            reading = self._readers.begin(task_run.scope, task_run.task_id, after)
        sender = Sender(wants)
        task_run.attach(accepted.send, sender)
        return Accepted(task_run, accepted.send, sender, snapshot, reading)

    async def _first(
        self,
        key: _Key,
        digest: bytes,
        request: hub.SendMessageRequest,
        context: CallContext,
        wants: Wants,
    ) -> Accepted:
        rejection = self._store.rejection()
        if rejection is not None:
            raise rejection
        first = self._firsts[key] = _First(digest)
        try:
            task_id = await self._reserve(key, digest, request)
        except BaseException as error:
            self._on_failure(key, first, error)
            raise
        try:
            accepted = await self._accept(key, digest, request, context, wants, task_id)
        except AlreadySentError as error:
            self._on_failure(key, first, error)
            raise
        except BaseException as error:
            try:
                await self._forget(key)
            finally:  # it may be cancelled again meanwhile
                self._on_failure(key, first, error)
            raise
        first.accepted.set_result(accepted)
        storing = asyncio.create_task(self._store_outcome(key, first, accepted), name="a2a repeat")
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        return accepted

    async def _accept(
        self,
        key: _Key,
        digest: bytes,
        request: hub.SendMessageRequest,
        context: CallContext,
        wants: Wants,
        task_id: str,
    ) -> Accepted:
        try:
            return await self._sending.work_on(request, context, wants, task_id)
        except RepeatedError:
            ended = None
        except A2AError as error:
            if error.reason is not Reason.UNSUPPORTED_OPERATION:
                raise
            ended = error  # perhaps by this message
        snapshot = await self._find_snapshot(key, task_id)
        if snapshot is None:
            raise ended or try_again()
        if not _is_among(snapshot.task.history, request, digest):
            raise used_before_error()
        raise AlreadySentError(snapshot)

    def _on_failure(self, key: _Key, first: _First, error: BaseException) -> None:
        del self._firsts[key]
        if isinstance(error, asyncio.CancelledError):
            # Other senders that wait with it were not cancelled.
            error = try_again()
        if isinstance(error, Exception):
            first.accepted.set_exception(error)
            first.accepted.exception()  # retrieved here, because there may be no waiter
        first.decided.set_result(None)

    async def _store_outcome(self, key: _Key, first: _First, accepted: Accepted) -> None:
        """Waits for the end of the work, and stores a result that the store does not have yet."""
        send = accepted.send
        failure: A2AError | None = closing_error()  # if this is cancelled: see `close`
        try:
            await send.wait_finished()
            if send.direct_answer is not None and accepted.task_run.live.task is None:
                await self._store.sends.store_response(*key, send.direct_answer.SerializeToString())
            elif accepted.task_run.live.task is None:
                await self._forget(key)
            failure = None
        except VersionConflictError:
            failure = changed_hands_error()
        except A2AError as error:
            log.warning("the answer to a message could not be stored for repetitions: %s", error)
            failure = error
        finally:
            del self._firsts[key]
            if failure is None:
                first.decided.set_result(None)
            else:
                first.decided.set_exception(failure)
                first.decided.exception()  # retrieved here, because there may be no waiter

    async def _forget(self, key: _Key) -> None:
        try:
            await self._store.sends.forget(*key)
        except A2AError as error:
            log.warning("the id of a rejected message could not be deleted: %s", error)

    async def _reserve(self, key: _Key, digest: bytes, request: hub.SendMessageRequest) -> str:
        """The id of a message's task, known or new. Raises AlreadySentError, INVALID_PARAMS, UNAVAILABLE."""
        instead: Sent | None = None
        task_id = request.message.task_id or new_id()
        while True:
            known = await self._store.sends.reserve(*key, digest, task_id, instead=instead)
            if known is None:
                return task_id
            if known.digest != digest:
                raise used_before_error()
            if known.answer:
                raise AlreadySentError(hub.SendMessageResponse.FromString(known.answer))
            snapshot = await self._find_snapshot(key, known.task_id)
            if snapshot is not None:
                raise AlreadySentError(snapshot)
            if known.holder:
                raise NotOwnerError(known.holder)
            instead = known

    async def _find_snapshot(self, key: _Key, task_id: str) -> TaskSnapshot | None:
        """The task with the message in its history."""
        scope, message_id = key
        try:
            snapshot = await self._readers.snapshot_of(scope, task_id)
        except A2AError as error:
            if error.reason is Reason.TASK_NOT_FOUND:
                return None
            raise
        return snapshot if any(one.message_id == message_id for one in snapshot.task.history) else None

    async def close(self) -> None:
        """Waits until all results are stored. Events of runs that ignore their cancellation are dropped."""
        if self._storing:
            _, left = await asyncio.wait(set(self._storing), timeout=self._patience)
            for one in left:
                one.cancel()
            if left:
                await asyncio.wait(left)


def digest_of(request: hub.SendMessageRequest) -> bytes:
    """The digest of a message's content, without the content that dialects add for other versions."""
    seen = for_agent(request)
    message = seen.message if isinstance(seen, hub.SendMessageRequest) else request.message
    return hashlib.sha256(message.SerializeToString(deterministic=True)).digest()


def _is_among(history: Iterable[hub.Message], request: hub.SendMessageRequest, digest: bytes) -> bool:
    """True if the message of a request is in the history, where each has its context."""
    message = request.message
    for own in history:
        if own.message_id == message.message_id:
            known = hub.SendMessageRequest(message=own)
            known.message.context_id = message.context_id
            if digest_of(known) == digest:
                return True
    return False


def try_again() -> A2AError:
    """The response if the first sender of the message has left it."""
    return A2AError(Reason.UNAVAILABLE, "try again", blame=Blame.SELF, retry_after=0.0)


def used_before_error() -> A2AError:
    """The response to an id that was used with other content before."""
    return invalid_params("message.messageId", "was used for another message before")
