"""Calls about tasks that other replicas hold: forwarded to them, or executed here once they are dead.

Rules:
1. The holder of a task's lease changes it. If the holder dies during a call, this replica looks again, and
   may take the task over itself.
2. A forwarded message counts as accepted if the task's history contains it once more than before. Then it is
   not sent again, and the answer is the result of the task.
"""

from __future__ import annotations

from typing import NamedTuple

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.event import Event, Events
from a2a_bridge.core.resume import event_id, number_of
from a2a_bridge.hosting.ports import OwnerLostError, scope_of
from a2a_bridge.hosting.reading import EventReaders
from a2a_bridge.hosting.refusals import changed_hands
from a2a_bridge.hosting.replica_calls import LocalTasks, ReplicaCalls, Streamed
from a2a_bridge.hosting.run_registry import NotOwnerError
from a2a_bridge.hosting.views import AT_REST, QueuePosition, state_of
from a2a_bridge.hosting.working_copy import Shown
from a2a_bridge.pb import lf_a2a_v1 as hub

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
        for _ in range(_LOOKS):
            try:
                return await self._replica_calls.send(other.holder, request, context)
            except OwnerLostError:
                taken = await self._taken(other, request, context)
            if taken is not None:
                if not request.configuration.return_immediately:
                    taken = await self._readers.outcome(scope_of(request, context), taken)
                return hub.SendMessageResponse(task=taken.task)
            try:
                return await self._local.send_here(request, context)
            except NotOwnerError as again:
                other = again
        raise changed_hands()

    async def stream(
        self, other: NotOwnerError, request: hub.SendMessageRequest, context: CallContext
    ) -> Events:
        """Like `send`, and reads the following events here."""
        if not request.message.task_id:
            raise other
        shown, place, streamed = await self._streamed(other, request, context)
        reading = self._readers.begin(scope_of(request, context), shown.task.id, shown.last)
        try:
            yield Event(hub.StreamResponse(task=shown.task), event_id(shown.last))
            if place is None and shown.task.status.state in AT_REST:
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
        for _ in range(_LOOKS):
            try:
                return await self._replica_calls.cancel(other.holder, request, context)
            except OwnerLostError:
                pass
            try:
                return await self._local.cancel_here(request, context)
            except NotOwnerError as again:
                other = again
        raise changed_hands()

    async def _streamed(
        self, other: NotOwnerError, request: hub.SendMessageRequest, context: CallContext
    ) -> tuple[Shown, QueuePosition | None, Streamed | None]:
        """The task as the message found it; its queue position; and the key to ask for that, if the task is
        at another replica.
        """
        for _ in range(_LOOKS):
            try:
                streamed = await self._replica_calls.stream(other.holder, request, context)
            except OwnerLostError:
                taken = await self._taken(other, request, context)
            else:
                return streamed.shown, _WAITS, streamed
            if taken is not None:
                return taken, None, None
            try:
                return *await self._local.stream_here(request, context), None
            except NotOwnerError as again:
                other = again
        raise changed_hands()

    async def _taken(
        self, other: NotOwnerError, request: hub.SendMessageRequest, context: CallContext
    ) -> Shown | None:
        """The task, if the message reached it before its holder died."""
        message = request.message
        if other.task is None or not message.task_id:
            return None
        shown = await self._readers.shown(scope_of(request, context), message.task_id)
        before = sum(one.message_id == message.message_id for one in other.task.history)
        return (
            shown
            if sum(one.message_id == message.message_id for one in shown.task.history) > before
            else None
        )
