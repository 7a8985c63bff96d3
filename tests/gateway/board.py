"""An agent with tasks for the model of a gateway's streams: a test lets it speak, break its streams, and wait."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.resume import resume_id
from a2a_bridge.core.service import Event
from a2a_bridge.gateway.replay_log import MAPPED, OURS, Ids
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.sharing_scene import broken, folded

ASKS = hub.TASK_STATE_INPUT_REQUIRED


class Board:
    """Implements Service: an agent with tasks. Its streams break on request, and end with a question.

    ids: AGENT if all events have ids, MAPPED if those that begin a stream have none, OURS if each stream numbers
    its own events.
    """

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        self.tasks: dict[str, list[hub.StreamResponse]] = {}
        #: canceled tasks, whose streams the agent does not end
        self.canceled: set[str] = set()
        #: streams that are open, by task
        self.open: dict[str, int] = {}
        #: how often the streams of a task were broken
        self.breaks: dict[str, int] = {}
        #: by task, the number of the event after which its streams end without a suspension, and the error
        self.cuts: dict[str, tuple[int, A2AError | None]] = {}
        #: how many streams have broken
        self.broken = 0
        #: clear while subscriptions and questions wait
        self.door = asyncio.Event()
        self.door.set()
        self.waiting = 0
        #: subscriptions fail
        self.refuses = False
        #: all streams: one that its reader forgets would be closed by the garbage collector
        self._streams: list[AsyncGenerator[Event, None]] = []
        self._changed = asyncio.Event()

    def add(self, task_id: str, event: hub.StreamResponse) -> None:
        self.tasks[task_id].append(event)
        self._wake()

    def become(self, task_id: str, state: hub.TaskState) -> None:
        status = hub.TaskStatus(state=state)
        update = hub.TaskStatusUpdateEvent(task_id=task_id, context_id="c", status=status)
        self.add(task_id, hub.StreamResponse(status_update=update))

    def break_off(self, task_id: str) -> None:
        self.breaks[task_id] = self.breaks.get(task_id, 0) + 1
        self._wake()

    def cut_off(self, task_id: str, event: hub.StreamResponse, error: A2AError | None) -> None:
        """Adds the last event of the streams of a task that are open. The task goes on."""
        self.cuts[task_id] = len(self.tasks[task_id]) + 1, error
        self.add(task_id, event)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def task(self, task_id: str) -> hub.Task:
        task = folded(one for one in self.tasks[task_id] if not is_stray(one, task_id))
        if task_id in self.canceled:
            task.status.state = hub.TASK_STATE_CANCELED
        return task

    def state(self, task_id: str) -> hub.TaskState:
        if task_id in self.canceled:
            return hub.TASK_STATE_CANCELED
        told = [one for one in self.tasks[task_id] if one.HasField("status_update")]
        return told[-1].status_update.status.state if told else hub.TASK_STATE_WORKING

    def ended(self, task_id: str) -> bool:
        return self.state(task_id) in TERMINAL

    async def _pass(self) -> None:
        self.waiting += 1
        try:
            await self.door.wait()
        finally:
            self.waiting -= 1

    async def unary(self, call: Call[Any, Any], /) -> Any:
        if call.operation is ops.CANCEL_TASK:
            self.canceled.add(call.request.id)
        else:
            assert call.operation is ops.GET_TASK
            await self._pass()
        return self.task(call.request.id)

    def stream(self, call: Call[Any, Any], /) -> AsyncGenerator[Event, None]:
        made = self._stream(call)
        self._streams.append(made)
        return made

    async def _stream(self, call: Call[Any, Any]) -> AsyncGenerator[Event, None]:
        has_id = self.ids is not MAPPED
        snapshot = over = False
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            if task_id := call.request.message.task_id:
                self.become(task_id, hub.TASK_STATE_WORKING)
                number = len(self.tasks[task_id]) - 1
            else:
                task_id, number = f"t{len(self.tasks)}", 0
                task = hub.Task(id=task_id, context_id="c")
                task.status.state = hub.TASK_STATE_WORKING
                self.tasks[task_id] = [hub.StreamResponse(task=task)]
        else:
            await self._pass()
            if self.refuses:
                raise A2AError(Reason.INTERNAL_ERROR)
            task_id, after = call.request.id, resume_id(call.context)
            assert not after or (self.ids is not OURS and after.isdigit()), (
                "it is not asked for ids of others"
            )
            if not after and self.ended(task_id):
                raise A2AError(Reason.UNSUPPORTED_OPERATION)
            snapshot = not after
            number = len(self.tasks[task_id]) if snapshot else int(after)
            has_id = has_id or not snapshot
            over = self.ended(task_id)
        breaks = self.breaks.get(task_id, 0)
        #: the number of an event of the task with the id 0
        zero = number if self.ids is OURS else 0
        events = self.tasks[task_id]
        self.open[task_id] = self.open.get(task_id, 0) + 1
        turns = 3  # a stream is not closed at once
        try:
            if snapshot:
                yield Event(hub.StreamResponse(task=self.task(task_id)), str(number - zero) if has_id else "")
                has_id = True
            while True:
                while number < len(events):
                    number += 1
                    yield Event(events[number - 1], str(number - zero) if has_id else "")
                    has_id = True
                    last, error = self.cuts.get(task_id, (0, None))
                    if number == last:
                        turns = 0
                        if error is not None:
                            raise error
                        return
                    if number == len(events) and events[-1].status_update.status.state == ASKS:
                        return
                if over or self.tasks[task_id][-1].status_update.status.state in TERMINAL:
                    return
                await self._changed.wait()
                if self.breaks.get(task_id, 0) > breaks:
                    self.broken += 1
                    raise broken()
        finally:
            for _ in range(turns):
                await asyncio.sleep(0)
            self.open[task_id] -= 1


def is_stray(event: hub.StreamResponse, task_id: str) -> bool:
    """Whether an event in the streams of a task is of another one."""
    return event.HasField("artifact_update") and event.artifact_update.task_id != task_id
