"""A live task: takes the events of its executor, and answers the senders who wait for them. It does not know
how runs start or stop.

Rules:
1. The engine never waits for a write: an event goes to the working copy, and from there to the store.
2. An answer that says anything about the task is given once that is durable.
3. An executor that breaks the protocol fails its own task, with a clear text.
4. An update may come first; readers get a task before it all the same (spec 3.1.2).
"""

from __future__ import annotations

import logging

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.lifecycle import IllegalTransitionError
from a2a_bridge.core.messages import INTERRUPTED, RUNNING, TERMINAL
from a2a_bridge.hosting.event_checks import ExecutorError, direct_answer, own_task
from a2a_bridge.hosting.executor import Event
from a2a_bridge.hosting.pending_send import PendingSend, Wants
from a2a_bridge.hosting.refusals import already_ended
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.views import AT_REST
from a2a_bridge.hosting.working_copy import OwnershipLostError, WorkingCopy, as_answer
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting")


class LiveTask(WorkingCopy):
    """A working copy that takes the events of an executor and answers senders."""

    #: the number of the last event that left the task waiting for input; 0 if there was none in this process
    asked_at = 0
    _sends: tuple[PendingSend, ...] = ()

    # ------------------------------------------------------------------ events

    def apply(self, event: Event, send: PendingSend | None) -> None:
        """Applies an event.

        send: the message whose run yielded it; None for events of the engine and of the executor's `cancel`.
        Raises ExecutorError, IllegalTransitionError, OwnershipLostError, A2AError RESOURCE_EXHAUSTED.
        """
        if send is not None and send.said is not None:
            raise ExecutorError("nothing may follow a direct message")
        if type(event) is hub.TaskArtifactUpdateEvent:
            if self.task is None:
                self._begin(send)
            self.extend(event)
        elif type(event) is hub.TaskStatusUpdateEvent:
            if self.task is None:
                self._begin(send)
            self.advance(event)
            if self.state in AT_REST:
                self._rested()
        elif type(event) is hub.Task:
            if self.task is None:
                task = hub.Task()
                task.CopyFrom(event)
                self._create(task, send)
            else:
                self.advance_to(event)
                if self.state in AT_REST:
                    self._rested()
        elif type(event) is hub.Message:
            if self.task is not None or send is None:
                raise ExecutorError("a message cannot follow a task; send it with a status instead")
            send.said = direct_answer(event, self.task_id, self.context_id)
        else:
            raise ExecutorError(f"{type(event).__name__} is not an event")

    def set_state(self, state: hub.TaskState) -> None:
        """Applies a status without a message. Raises what `apply` raises."""
        status = hub.TaskStatusUpdateEvent()
        status.status.state = state
        self.apply(status, None)

    def fail(self, text: str) -> None:
        """Ends the task as FAILED, unless it has ended."""
        run = Run(hub.SendMessageRequest(), CallContext(), self.task_id, self.context_id)
        try:
            self.apply(run.status(hub.TASK_STATE_FAILED, text), None)
        except (IllegalTransitionError, OwnershipLostError):
            log.debug("task %s ended before it could fail", self.task_id)

    def fail_unfinished(self, text: str) -> None:
        """Ends a task that exists and is at work as FAILED."""
        if self.state in RUNNING:
            self.fail(text)

    def _begin(self, send: PendingSend | None) -> None:
        task = hub.Task(id=self.task_id, context_id=self.context_id)
        task.status.state = hub.TASK_STATE_SUBMITTED
        self._create(task, send)

    def _create(self, task: hub.Task, send: PendingSend | None) -> None:
        if send is None:
            raise RuntimeError("a task is created by a run")
        own_task(task, self.task_id, self.context_id, self._clock)
        message = send.message
        for own in task.history:
            if own.message_id == message.message_id:
                if own == send.run.message:
                    own.CopyFrom(message)  # it may hold more than the agent was shown
                break
        else:
            own = task.history.add()
            own.CopyFrom(message)
        own.task_id, own.context_id = self.task_id, self.context_id
        self.begin(task)
        for one in send.waiters or (send,):
            if one.wants is not Wants.OUTCOME:
                self.settle(one)
        if self.state in AT_REST:
            self._rested()

    def _rested(self) -> None:
        """The task has ended or waits for its caller: answers the senders that waited for that."""
        if self.state == hub.TASK_STATE_INPUT_REQUIRED:
            self.asked_at = self.last
        for send in self._sends:
            if send.decided or send.done:
                continue
            if send.begun_at is not None:
                self.settle(send)
            elif self.state in TERMINAL:
                self.deliver(send, already_ended(self.task_id))

    # ------------------------------------------------------------------ answers

    @property
    def awaited(self) -> bool:
        """True if any sender still waits."""
        return any(not send.done for send in self._sends)

    def add(self, send: PendingSend) -> None:
        """A message was accepted. Forgets those that are answered."""
        self._sends = (*[one for one in self._sends if not one.done], send) if self._sends else (send,)
        if send.wants is not Wants.OUTCOME and self.task is not None:
            self.settle(send)

    def add_to(self, send: PendingSend) -> None:
        """A further sender of a message whose run is not over was accepted."""
        self._sends = (*self._sends, send)
        if self.task is None:
            return
        begun = send.begun_at is not None and self.last > send.begun_at
        if send.wants is not Wants.OUTCOME or self.ended or (self.state in INTERRUPTED and begun):
            self.settle(send)

    def settle(self, send: PendingSend) -> None:
        """Answers with the task as it is now, if the sender still waits."""
        if send.decided or send.done:
            return
        if send.wants is Wants.STREAM:
            send.settle(None)  # the events are read from the store, so all of them are durable
            return
        answer = hub.SendMessageResponse()
        if self.task is not None:
            answer.task.CopyFrom(self.task)
        writer = self.writer
        if writer is None or not writer.pending:
            send.settle(answer)  # at once in stores that are not durable
        else:
            self.deliver(send, answer)

    def deliver(self, send: PendingSend, answer: hub.SendMessageResponse | A2AError) -> None:
        """Gives an answer that depends on the task, as soon as the task is durable."""
        if not self.pending:
            send.settle(answer)
            return

        def tell(error: Exception | None) -> None:
            # After a loss the answer comes from the new owner, see TaskRun.
            if not isinstance(error, OwnershipLostError):
                send.settle(answer if error is None else as_answer(error))

        send.decided = True
        self.when_settled(tell)

    def settle_elsewhere(self, task: hub.Task, *, final: bool) -> None:
        """Answers with the task as its new owner has stored it.

        final: True if the task has come to rest, so that senders who wait for an outcome get it, too.
        """
        for send in self._sends:
            if final and send.wants is not Wants.STREAM:
                send.settle(hub.SendMessageResponse(task=task))
            elif send.wants is not Wants.OUTCOME:
                send.settle(hub.SendMessageResponse(task=task) if send.wants is Wants.TASK else None)

    def give_up(self, error: A2AError, *, only_queued: bool = False) -> None:
        """Fails the senders whose answer is not certain. only_queued: those whose run has not begun."""
        for send in self._sends:
            if send.decided and not self.lost:
                continue  # the store brings its answer
            if not only_queued or send.begun_at is None or self.task is None:
                send.settle(error)
