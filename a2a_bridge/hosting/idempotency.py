"""Idempotent sends: a repeated message has one run, and every sender gets its response. Off by default.

Rules:
1. A message is a repetition if the same caller sends the same id with the same content, over any binding or
   version. The same id with other content is rejected.
2. An id is reserved durably before the executor sees the message. If the process dies before anything was
   stored, the next sender of the message takes over the reservation.
3. A message that is in the history of its task is a repetition, too: its id may have been taken over from a
   process that was declared dead and works on it under a new name, and be deleted.
4. Within one process, further senders of a message wait with the first sender. If its run is being stopped,
   because all earlier senders have left, the message gets a new run after that.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable

from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import (
    A2AError,
    Blame,
    NotOwnerError,
    Reason,
    changed_hands_error,
    closing_error,
    invalid_params,
)
from a2a_bridge.hosting.agent_content import for_agent
from a2a_bridge.hosting.executor_driver import EngineContext
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.hosting.pending_send import Wants
from a2a_bridge.hosting.reading import TaskSnapshot
from a2a_bridge.hosting.sending import Accepted, RepeatedError, Sending
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope, Sent, VersionConflictError, scope_of

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
        self.stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()


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
        """Starts the work on a message, or joins the work on an earlier copy of it.

        Raises AlreadySentError if that work is over or at another replica, INVALID_PARAMS for an id that was
        used with other content.
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
        """Waits until the result of a message is stored.

        Raises UNAVAILABLE if its run ignores its cancellation.
        """
        await asyncio.wait({first.stored}, timeout=None if accepted.send.finished else self._patience)
        if not accepted.send.finished:
            raise try_again()

    async def wait_stored(self, request: hub.SendMessageRequest, context: CallContext) -> None:
        """Waits until the direct response to a message is stored. Raises A2AError UNAVAILABLE."""
        first = self._firsts.get((scope_of(request, context), request.message.message_id))
        if first is not None:
            await asyncio.shield(first.stored)

    def _join(self, accepted: Accepted, wants: Wants) -> Accepted:
        task_run = accepted.task_run
        snapshot, reading = None, None
        if wants is Wants.STREAM:
            if task_run.live.task is not None:
                snapshot = task_run.live.snapshot()
            after = 0 if snapshot is None else snapshot.last
            reading = self._readers.begin(task_run.scope, task_run.task_id, after)
        return Accepted(task_run, task_run.attach(accepted.send, wants), snapshot, reading)

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
        first.stored.set_result(None)

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
                first.stored.set_result(None)
            else:
                first.stored.set_exception(failure)
                first.stored.exception()  # retrieved here, because there may be no waiter

    async def _forget(self, key: _Key) -> None:
        try:
            await self._store.sends.forget(*key)
        except A2AError as error:
            log.warning("the id of a rejected message could not be deleted: %s", error)

    async def _reserve(self, key: _Key, digest: bytes, request: hub.SendMessageRequest) -> str:
        """The id of the task that the message belongs to or creates.

        Raises AlreadySentError, INVALID_PARAMS, UNAVAILABLE.
        """
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
        """Waits until the results of all messages are stored, except for runs that ignore their cancellation
        for too long: their events are dropped.
        """
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
