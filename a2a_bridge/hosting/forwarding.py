"""The service of an engine among other replicas: calls about tasks of other replicas are forwarded to them,
or executed here once they are dead. This is the only place that forwards; it knows no single operation but
the sending of a message.

Rules:
1. The holder of a task's lease changes it. The engine raises NotOwnerError for a task of another replica;
   then that replica gets the call. If it dies meanwhile, this replica looks again, and may take the task
   over itself. A replica that stops rejects calls, and holds its tasks until it has left: this replica waits
   for that.
2. If the holder is gone, a forwarded message counts as accepted if the task's history contains it once more
   than before. Then it is not sent again, and the response is the result of the task. The holder may commit
   until the task is taken over, even if it was declared dead: so this replica takes the task over before it
   looks. A holder that lives may remove a message again whose commit took too long: its error is final.
3. A forwarded stream is read here, from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import NotOwnerError, OwnerLostError, changed_hands_error
from a2a_bridge.core.messages import state_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.resume import number_of
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.hosting.reading import EventReaders, TaskSnapshot
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Replica, Scope, scope_of

T = TypeVar("T")

#: seconds in which a call looks for the owner of a task again
_PATIENCE = 10.0
#: seconds between two looks that find the same owner: the first pause, doubled each time, and the longest
_SOON, _LATE = 0.05, 1.0


class ForwardingService:
    """Implements Service.

    local: the engine; replica: another replica by its name; readers: of the engine; recover: takes over a
    task of a dead replica, raises A2AError UNAVAILABLE.
    """

    def __init__(
        self,
        local: Service,
        replica: Callable[[str], Replica],
        readers: EventReaders,
        recover: Callable[[Scope, str], Awaitable[object]],
    ) -> None:
        self._local = local
        self._replica = replica
        self._readers = readers
        self._recover = recover

    async def unary(self, call: Call[Req, Res], /) -> Res:
        try:
            return await self._local.unary(call)
        except NotOwnerError as error:
            other = error

        async def remote(holder: str) -> Any:
            return await self._replica(holder).unary(call)

        async def local() -> Any:
            return await self._local.unary(call)

        async def accepted(holder: NotOwnerError) -> Any:
            taken = await self._taken(holder, call)
            if taken is None:
                return None
            request: Any = call.request
            if not request.configuration.return_immediately:
                taken = await self._readers.outcome(scope_of(call.request, call.context), taken)
            return hub.SendMessageResponse(task=taken.task)

        answer: Res = await _at_owner(other, remote, local, accepted)
        return answer

    def stream(self, call: Call[Any, Any], /) -> Events:
        return HandedOver(lambda: self._open(call))

    async def _open(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        try:
            return await open_stream(self._local.stream(call))
        except NotOwnerError as error:
            other = error
        if other.task is None:
            raise other

        async def remote(holder: str) -> tuple[Event, Events] | None:
            replica = self._replica(holder)
            first, call_id = await replica.begin(call)
            return await open_stream(self._followed(call, other, first, replica, call_id))

        async def local() -> tuple[Event, Events] | None:
            return await open_stream(self._local.stream(call))

        async def accepted(holder: NotOwnerError) -> tuple[Event, Events] | None:
            taken = await self._taken(holder, call)
            if taken is None:
                return None
            scope = scope_of(call.request, call.context)
            # Its run is over, or was taken over.
            return await open_stream(self._readers.from_snapshot(scope, taken, lambda _: True))

        return await _at_owner(other, remote, local, accepted)

    async def _followed(
        self, call: Call[Any, Any], other: NotOwnerError, first: Event, replica: Replica, call_id: bytes
    ) -> Events:
        """A stream that began at another replica."""
        task = first.message.task if first.message.HasField("task") else other.task
        last = number_of(first.id)
        if task is None or last is None:
            yield first
            return
        reading = self._readers.begin(scope_of(call.request, call.context), task.id, last)
        try:
            yield first
            # Only the other replica knows when the run began: as far as known here, its turn has not come.
            async for event in reading.events(lambda _: False):
                yield event
                asks = state_of(event.message) == hub.TASK_STATE_INPUT_REQUIRED
                if asks and not await replica.continues_after(call_id, number_of(event.id) or 0):
                    return
        finally:
            reading.close()
            replica.leave(call_id)

    async def _taken(self, other: NotOwnerError, call: Call[Any, Any]) -> TaskSnapshot | None:
        """The task, if the message of a call is in its history."""
        request = call.request
        if other.task is None or not isinstance(request, hub.SendMessageRequest):
            return None
        message_id, scope = request.message.message_id, scope_of(request, call.context)
        await self._recover(scope, other.task.id)
        snapshot = await self._readers.snapshot_of(scope, other.task.id)
        before, now = (
            sum(one.message_id == message_id for one in task.history) for task in (other.task, snapshot.task)
        )
        return snapshot if now > before else None


async def _at_owner(
    other: NotOwnerError,
    remote: Callable[[str], Awaitable[T]],
    local: Callable[[], Awaitable[T]],
    accepted: Callable[[NotOwnerError], Awaitable[T | None]],
) -> T:
    """Calls the holder of a task, or this replica once the holder is dead, until one of them owns the task.

    accepted: the response if the holder had accepted the message, else None. Raises UNAVAILABLE.
    """
    loop = asyncio.get_running_loop()
    until, pause = loop.time() + _PATIENCE, _SOON
    while True:
        try:
            return await remote(other.holder)
        except OwnerLostError:
            answer = await accepted(other)
        if answer is not None:
            return answer
        try:
            return await local()
        except NotOwnerError as error:
            stays, other = error.holder == other.holder, error
        if loop.time() >= until:
            raise changed_hands_error()
        if stays:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATE)
