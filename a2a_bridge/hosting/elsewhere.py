"""Calls about tasks that other replicas work on: asked of them, and done here when they are gone. Not how they are asked.

Rules:
1. Whoever holds a task changes it. When the holder dies while it is asked, this replica looks again, and may well be
   the one that takes the task over.
2. A message counts as taken when it stands in the task's history once more than before: then it is not sent again,
   and what is answered is what becomes of the task.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

from a2a_bridge.core.call import EVENT_PARAMETER, CallContext
from a2a_bridge.core.resume import event_id, number_of
from a2a_bridge.hosting.executions import Elsewhere
from a2a_bridge.hosting.ports import Gone, scope_of
from a2a_bridge.hosting.reading import Readers
from a2a_bridge.hosting.refusals import changed_hands
from a2a_bridge.hosting.remote import Colleagues, Desk, Streamed
from a2a_bridge.hosting.views import AT_REST, Place, state_of
from a2a_bridge.hosting.working_copy import Shown
from a2a_bridge.pb import lf_a2a_v1 as hub

#: how often to look again for a task that changes hands while somebody is asked
_LOOKS = 3


class _Known(NamedTuple):
    """The place of a message that does not change here."""

    begun_at: int | None


#: of a message whose run is over, or was taken over
BEGUN: Place = _Known(0)
#: of one whose turn is known elsewhere: as far as this replica knows, it has not come
_WAITS: Place = _Known(None)


class Outside:
    """The part of an engine that has others do what is theirs to do. desk: this engine, for what comes back to it."""

    def __init__(self, colleagues: Colleagues, desk: Desk, readers: Readers) -> None:
        self._colleagues = colleagues
        self._desk = desk
        self._readers = readers

    async def send(
        self, other: Elsewhere, request: hub.SendMessageRequest, context: CallContext
    ) -> hub.SendMessageResponse:
        """Has a message worked on where its task is."""
        for _ in range(_LOOKS):
            try:
                return await self._colleagues.send(other.holder, request, context)
            except Gone:
                taken = await self._taken(other, request, context)
            if taken is not None:
                if not request.configuration.return_immediately:
                    taken = await self._readers.outcome(scope_of(request, context), taken)
                return hub.SendMessageResponse(task=taken.task)
            try:
                return await self._desk.send_here(request, context)
            except Elsewhere as again:
                other = again
        raise changed_hands()

    async def stream(
        self, other: Elsewhere, request: hub.SendMessageRequest, context: CallContext
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """The same, and the events from there on, read here."""
        if not request.message.task_id:
            raise other
        shown, place, streamed = await self._streamed(other, request, context)
        reading = self._readers.begin(scope_of(request, context), shown.task.id, shown.last)
        try:
            context.reply[EVENT_PARAMETER] = event_id(shown.last)
            yield hub.StreamResponse(task=shown.task)
            if place is None and shown.task.status.state in AT_REST:
                return
            async for event in reading.events(context, place):
                number = number_of(context.reply.get(EVENT_PARAMETER, "")) or 0
                yield event
                if (
                    streamed is not None
                    and state_of(event) == hub.TASK_STATE_INPUT_REQUIRED
                    and not await self._colleagues.waits(streamed, number)
                ):
                    return
        finally:
            reading.close()

    async def cancel(
        self, other: Elsewhere, request: hub.CancelTaskRequest, context: CallContext
    ) -> hub.Task:
        """Has a task canceled where it is."""
        for _ in range(_LOOKS):
            try:
                return await self._colleagues.cancel(other.holder, request, context)
            except Gone:
                pass
            try:
                return await self._desk.cancel_here(request, context)
            except Elsewhere as again:
                other = again
        raise changed_hands()

    async def _streamed(
        self, other: Elsewhere, request: hub.SendMessageRequest, context: CallContext
    ) -> tuple[Shown, Place | None, Streamed | None]:
        """The task as the message found it; its place in the queue; and what to ask of that, where it is elsewhere."""
        for _ in range(_LOOKS):
            try:
                streamed = await self._colleagues.stream(other.holder, request, context)
            except Gone:
                taken = await self._taken(other, request, context)
            else:
                return streamed.shown, _WAITS, streamed
            if taken is not None:
                return taken, None, None
            try:
                return *await self._desk.stream_here(request, context), None
            except Elsewhere as again:
                other = again
        raise changed_hands()

    async def _taken(
        self, other: Elsewhere, request: hub.SendMessageRequest, context: CallContext
    ) -> Shown | None:
        """The task, if the message has got into it before its holder died."""
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
