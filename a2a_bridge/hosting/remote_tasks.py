"""Calls about tasks that other replicas hold: forwarded to them, or executed here once they are dead.

Rules:
1. The holder of a task's lease changes it. If the holder dies during a call, this replica looks again, and
   may take the task over itself.
2. A forwarded message counts as accepted if the task's history contains it once more than before. Then it is
   not sent again, and the answer is the result of the task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.event import Event, Events
from a2a_bridge.core.resume import event_id, number_of
from a2a_bridge.hosting.ports import OwnerLostError, scope_of
from a2a_bridge.hosting.reading import EventReaders
from a2a_bridge.hosting.refusals import changed_hands
from a2a_bridge.hosting.replica_calls import LocalTasks, ReplicaCalls, Streamed
from a2a_bridge.hosting.run_registry import NotOwnerError
from a2a_bridge.hosting.views import AT_REST, QueuePosition, TaskSnapshot, state_of
from a2a_bridge.pb import lf_a2a_v1 as hub

T = TypeVar("T")
_Streaming = tuple[TaskSnapshot, QueuePosition | None, Streamed | None]

#: lookups of a task whose owner changes during the call
_LOOKS = 3


class _Known(NamedTuple):
    """The fixed queue position of a message."""

    begun_at: int | None


#: of a message whose run is over, or was taken over
BEGUN: QueuePosition = _Known(0)
#: of a message whose turn only another replica knows: as far as known here, it has not come
_WAITS: QueuePosition = _Known(None)


class RemoteTasks:
    """The part of an engine that forwards calls to other replicas.

    local: this engine, for calls that come back to it.
    """

    def __init__(self, replica_calls: ReplicaCalls, local: LocalTasks, readers: EventReaders) -> None:
        self._replica_calls = replica_calls
        self._local = local
        self._readers = readers

    async def send(
        self, other: NotOwnerError, request: hub.SendMessageRequest, context: CallContext
    ) -> hub.SendMessageResponse:
        """Sends a message to the replica that holds its task."""

        async def accepted(holder: NotOwnerError) -> hub.SendMessageResponse | None:
            taken = await self._taken(holder, request, context)
            if taken is None:
                return None
            if not request.configuration.return_immediately:
                taken = await self._readers.outcome(scope_of(request, context), taken)
            return hub.SendMessageResponse(task=taken.task)

        return await _at_owner(
            other,
            lambda holder: self._replica_calls.send(holder, request, context),
            lambda: self._local.send_here(request, context),
            accepted,
        )

    async def stream(
        self, other: NotOwnerError, request: hub.SendMessageRequest, context: CallContext
    ) -> Events:
        """Like `send`, and reads the following events here."""
        if not request.message.task_id:
            raise other
        snapshot, place, streamed = await self._streamed(other, request, context)
        reading = self._readers.begin(scope_of(request, context), snapshot.task.id, snapshot.last)
        try:
            yield Event(hub.StreamResponse(task=snapshot.task), event_id(snapshot.last))
            if place is None and snapshot.task.status.state in AT_REST:
                return
            async for event in reading.events(place):
                yield event
                if (
                    streamed is not None
                    and state_of(event.message) == hub.TASK_STATE_INPUT_REQUIRED
                    and not await self._replica_calls.waits(streamed, number_of(event.id) or 0)
                ):
                    return
        finally:
            reading.close()

    async def cancel(
        self, other: NotOwnerError, request: hub.CancelTaskRequest, context: CallContext
    ) -> hub.Task:
        """Cancels a task at the replica that holds it."""
        return await _at_owner(
            other,
            lambda holder: self._replica_calls.cancel(holder, request, context),
            lambda: self._local.cancel_here(request, context),
        )

    async def _streamed(
        self, other: NotOwnerError, request: hub.SendMessageRequest, context: CallContext
    ) -> _Streaming:
        """The task as the message found it; its queue position; and the key to ask for that, if the task is
        at another replica.
        """

        async def remote(holder: str) -> _Streaming:
            streamed = await self._replica_calls.stream(holder, request, context)
            return streamed.snapshot, _WAITS, streamed

        async def local() -> _Streaming:
            return *await self._local.stream_here(request, context), None

        async def accepted(holder: NotOwnerError) -> _Streaming | None:
            taken = await self._taken(holder, request, context)
            return None if taken is None else (taken, None, None)

        return await _at_owner(other, remote, local, accepted)

    async def _taken(
        self, other: NotOwnerError, request: hub.SendMessageRequest, context: CallContext
    ) -> TaskSnapshot | None:
        """The task, if the message reached it before its holder died."""
        message = request.message
        if other.task is None or not message.task_id:
            return None
        snapshot = await self._readers.snapshot_of(scope_of(request, context), message.task_id)
        before = sum(one.message_id == message.message_id for one in other.task.history)
        return (
            snapshot
            if sum(one.message_id == message.message_id for one in snapshot.task.history) > before
            else None
        )


async def _at_owner(
    other: NotOwnerError,
    remote: Callable[[str], Awaitable[T]],
    local: Callable[[], Awaitable[T]],
    accepted: Callable[[NotOwnerError], Awaitable[T | None]] | None = None,
) -> T:
    """Calls the holder of a task, or this replica once the holder is dead, until one of them owns the task.

    accepted: the answer if the dead holder had accepted the message, else None. Raises UNAVAILABLE.
    """
    for _ in range(_LOOKS):
        try:
            return await remote(other.holder)
        except OwnerLostError:
            answer = None if accepted is None else await accepted(other)
        if answer is not None:
            return answer
        try:
            return await local()
        except NotOwnerError as error:
            other = error
    raise changed_hands()
