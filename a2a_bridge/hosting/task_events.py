"""Applies the events of an executor to its task. It does not know how runs start or stop.

Rules:
1. The engine never waits for a write: an event goes to the working copy, and from there to the store.
2. An executor that breaks the protocol fails its own task, with a clear text.
3. An update may come first; readers get a task before it all the same (spec 3.1.2).
"""

from __future__ import annotations

import logging

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.lifecycle import IllegalTransitionError
from a2a_bridge.core.messages import RUNNING
from a2a_bridge.hosting.clock import Clock
from a2a_bridge.hosting.event_checks import ExecutorError, direct_answer, own_artifact, own_status, own_task
from a2a_bridge.hosting.executor import Event
from a2a_bridge.hosting.pending_send import Answers, PendingSend, Wants
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.views import AT_REST
from a2a_bridge.hosting.working_copy import OwnershipLostError, WorkingCopy
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting")


class TaskEvents:
    """The way of events into one task."""

    __slots__ = ("_answers", "_clock", "_context_id", "_copy", "_task_id", "asked_at")

    def __init__(self, context_id: str, copy: WorkingCopy, answers: Answers, clock: Clock) -> None:
        self._task_id = copy.task_id
        self._context_id = context_id
        self._copy = copy
        self._answers = answers
        self._clock = clock
        #: the number of the last event that left the task waiting for input; 0 if there was none in this
        #: process
        self.asked_at = 0

    def apply(self, event: Event, send: PendingSend | None) -> None:
        """Applies an event.

        send: the message whose run yielded it; None for events of the engine and of the executor's `cancel`.
        Raises ExecutorError, IllegalTransitionError, OwnershipLostError, A2AError RESOURCE_EXHAUSTED.
        """
        if send is not None and send.said is not None:
            raise ExecutorError("nothing may follow a direct message")
        copy = self._copy
        match event:
            case hub.TaskArtifactUpdateEvent():
                if copy.task is None:
                    self._begin(send)
                response = hub.StreamResponse(artifact_update=event)
                artifact = response.artifact_update
                own_artifact(artifact, self._task_id, self._context_id)
                copy.extend(response, artifact)
            case hub.TaskStatusUpdateEvent():
                if copy.task is None:
                    self._begin(send)
                response = hub.StreamResponse(status_update=event)
                status = response.status_update
                own_status(status, self._task_id, self._context_id, self._clock)
                copy.advance(response, status)
                if (state := status.status.state) in AT_REST:
                    self._rested(state)
            case hub.Task():
                task = hub.Task()
                task.CopyFrom(event)
                own_task(task, self._task_id, self._context_id, self._clock)
                if copy.task is None:
                    self._create(task, send)
                else:
                    copy.advance_to(task)
                    if (state := task.status.state) in AT_REST:
                        self._rested(state)
            case hub.Message():
                if copy.task is not None or send is None:
                    raise ExecutorError("a message cannot follow a task; send it with a status instead")
                send.said = direct_answer(event, self._task_id, self._context_id)
            case _:
                raise ExecutorError(f"{type(event).__name__} is not an event")

    def set_state(self, state: hub.TaskState) -> None:
        """Applies a status without a message. Raises what `apply` raises."""
        status = hub.TaskStatusUpdateEvent()
        status.status.state = state
        self.apply(status, None)

    def fail(self, text: str) -> None:
        """Ends the task as FAILED, unless it has ended."""
        run = Run(hub.SendMessageRequest(), CallContext(), self._task_id, self._context_id)
        try:
            self.apply(run.status(hub.TASK_STATE_FAILED, text), None)
        except (IllegalTransitionError, OwnershipLostError):
            log.debug("task %s ended before it could fail", self._task_id)

    def fail_unfinished(self, text: str) -> None:
        """Ends a task that exists and is at work as FAILED."""
        if self._copy.task is not None and self._copy.task.status.state in RUNNING:
            self.fail(text)

    def _rested(self, state: hub.TaskState) -> None:
        """The task has ended or waits for its caller."""
        if state == hub.TASK_STATE_INPUT_REQUIRED:
            self.asked_at = self._copy.last
        self._answers.settle_at_rest(state)

    def _begin(self, send: PendingSend | None) -> None:
        task = hub.Task(id=self._task_id, context_id=self._context_id)
        task.status.state = hub.TASK_STATE_SUBMITTED
        own_task(task, self._task_id, self._context_id, self._clock)
        self._create(task, send)

    def _create(self, task: hub.Task, send: PendingSend | None) -> None:
        if send is None:
            raise RuntimeError("a task is created by a run")
        message = send.message
        for own in task.history:
            if own.message_id == message.message_id:
                if own == send.run.message:
                    own.CopyFrom(message)  # it may hold more than the agent was shown
                break
        else:
            own = task.history.add()
            own.CopyFrom(message)
        own.task_id, own.context_id = self._task_id, self._context_id
        self._copy.begin(task)
        for one in send.all():
            if one.wants is not Wants.OUTCOME:
                self._answers.settle(one)
        if (state := task.status.state) in AT_REST:
            self._rested(state)
