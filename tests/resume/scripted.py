"""A service whose task is a list of events that a test appends to; it can only resume. No test."""

import asyncio
import itertools
from contextlib import aclosing
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.lifecycle import advance
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.resume import event_id, mark_gap, number_of, resume_id
from a2a_bridge.core.service import Event, Events
from a2a_bridge.pb import lf_a2a_v1 as hub

TASK, CONTEXT = "task-1", "context-1"


def begun() -> hub.StreamResponse:
    """The first event: the task."""
    status = hub.TaskStatus(state=hub.TASK_STATE_SUBMITTED)
    return hub.StreamResponse(task=hub.Task(id=TASK, context_id=CONTEXT, status=status))


def chunk(text: str) -> hub.StreamResponse:
    """A piece of the one artifact."""
    artifact = hub.Artifact(artifact_id="a", parts=[hub.Part(text=text)])
    update = hub.TaskArtifactUpdateEvent(task_id=TASK, context_id=CONTEXT, artifact=artifact, append=True)
    return hub.StreamResponse(artifact_update=update)


def became(state: hub.TaskState) -> hub.StreamResponse:
    update = hub.TaskStatusUpdateEvent(task_id=TASK, context_id=CONTEXT, status=hub.TaskStatus(state=state))
    return hub.StreamResponse(status_update=update)


def whole(chunks: int) -> list[hub.StreamResponse]:
    """All events of a task that sends so many chunks and completes."""
    middle = [chunk(f"part {number}. ") for number in range(chunks)]
    working, done = became(hub.TASK_STATE_WORKING), became(hub.TASK_STATE_COMPLETED)
    return [begun(), working, *middle, done]


class Log:
    """Implements Service for one task.

    epoch: the beginning of its ids. kept: events before this index are no longer kept. numbered: whether it
    gives ids and resumes. behind: the number of events that a new subscriber gets again although its snapshot
    contains them, as from some agents.
    """

    def __init__(
        self,
        *events: hub.StreamResponse,
        epoch: str = "",
        kept: int = 0,
        numbered: bool = True,
        behind: int = 0,
    ) -> None:
        self.events = list(events)
        self.epoch, self.kept, self.numbered, self.behind = epoch, kept, numbered, behind
        self.calls: list[Call[Any, Any]] = []
        self._changed = asyncio.Event()

    def add(self, *events: hub.StreamResponse) -> None:
        self.events.extend(events)
        self._changed.set()
        self._changed = asyncio.Event()

    def id(self, number: int) -> str:
        """The id of the event of a number, counted from 1."""
        return event_id(number, self.epoch)

    @property
    def ended(self) -> bool:
        return self.task().status.state in TERMINAL

    def task(self) -> hub.Task:
        task = hub.Task()
        task.CopyFrom(self.events[0].task)
        for event in self.events[1:]:
            which: Any = event.WhichOneof("payload")
            if which == "task":
                task.CopyFrom(event.task)
            else:
                advance(task, getattr(event, which))
        return task

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.calls.append(call)
        if call.operation is ops.GET_TASK:
            return self.task()
        raise A2AError(Reason.UNSUPPORTED_OPERATION)

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.calls.append(call)
        number = 0
        if call.operation is ops.SUBSCRIBE_TO_TASK:
            asked = resume_id(call.context) if self.numbered else ""
            known = number_of(asked, self.epoch) if asked else None
            gap = bool(asked) and (known is None or not self.kept <= known <= len(self.events))
            if not asked and self.ended:
                raise A2AError(Reason.UNSUPPORTED_OPERATION, "the task has ended")
            number = len(self.events) if known is None or gap else known
            if not asked or gap:
                task = self.task()
                if gap:
                    mark_gap(task, asked, self.id(number))
                yield self._event(hub.StreamResponse(task=task), number, gap)
                number -= self.behind
        while True:
            while number < len(self.events):
                number += 1
                yield self._event(self.events[number - 1], number)
            if self.ended:
                return
            await self._changed.wait()

    def _event(self, message: hub.StreamResponse, number: int, gap: bool = False) -> Event:
        return Event(message, self.id(number) if self.numbered else "", gap)


class Anew(Log):
    """It numbers the events of each connection from 0 on, as some SDKs do, and cannot resume after them."""

    def __init__(self, *events: hub.StreamResponse) -> None:
        super().__init__(*events, numbered=False)

    async def stream(self, call: Call[Any, Any], /) -> Events:
        ids = itertools.count()
        async with aclosing(super().stream(call)) as events:
            async for event in events:
                yield Event(event.message, str(next(ids)))
