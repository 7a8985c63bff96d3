"""A live task: its working copy, and the senders who wait for it. It does not start or stop runs.

Rules:
1. A change goes to the working copy, and from there to the writer at once; nothing waits for a write.
2. A response about the task is given once that is durable: a crash never undoes what a client has seen.
3. The lease says whether the task may be changed (`lease`). Once it is lost, the working copy is invalid, and
   only `settle_elsewhere` and `give_up` answer senders.
4. An executor that breaks the protocol fails its own task, with a clear text.
5. An update may come first; readers get a task before it all the same (spec 3.1.2).
"""

import logging
from collections.abc import Callable
from typing import Any

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, internal_error
from a2a_bridge.core.lifecycle import (
    ArtifactIndex,
    IllegalTransitionError,
    add_artifact,
    advance,
    advance_to,
    join,
)
from a2a_bridge.core.messages import AT_REST, INTERRUPTED, RUNNING, TERMINAL, copy_shown
from a2a_bridge.hosting.agent_content import ExecutorError, direct_answer, own_artifact, own_status, own_task
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.hosting.lease import Held, OwnershipLostError, RunLease, refused
from a2a_bridge.hosting.limits import MOST_ARTIFACTS, already_ended, too_many_artifacts
from a2a_bridge.hosting.pending_send import DECIDED, WAITING, PendingSend, Sender
from a2a_bridge.hosting.reading import TaskSnapshot
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Clock, Stored, VersionConflictError

log = logging.getLogger("a2a_bridge.hosting")

#: the events that change a task
_UPDATES = frozenset({hub.Task, hub.TaskStatusUpdateEvent, hub.TaskArtifactUpdateEvent})


class LiveTask:
    """One live task. lease: of its run. stored: the task, if it exists already."""

    #: the working copy; None until the first event
    task: hub.Task | None = None
    #: the state of the task; UNSPECIFIED until the first event
    state: hub.TaskState = hub.TASK_STATE_UNSPECIFIED
    #: the number of the last event that left the task waiting for input; 0 if there was none in this process
    asked_at = 0
    #: the response whose task is the working copy, for a task that begins here
    _response: hub.SendMessageResponse | None = None
    _sends: tuple[PendingSend, ...] = ()
    #: of the artifacts; None until the first
    _index: ArtifactIndex | None = None

    def __init__(
        self, lease: RunLease, task_id: str, context_id: str, clock: Clock, stored: Stored | None = None
    ) -> None:
        self.task_id = task_id
        self.context_id = context_id
        self._lease = lease
        self._clock = clock
        if stored is not None:
            self.task = stored.task
            self.state = stored.task.status.state

    # ------------------------------------------------------------------ questions

    @property
    def ended(self) -> bool:
        """True if the task is in a terminal state."""
        return self.state in TERMINAL

    @property
    def awaited(self) -> bool:
        """True if any sender has no response, and has not left."""
        return any(send.awaited for send in self._sends)

    def snapshot(self, limit: int | None = None) -> TaskSnapshot:
        """A copy of the task. It may contain changes that are not durable yet. limit: the newest messages of
        its history; None for all.
        """
        copy = hub.Task()
        if self.task is not None:
            copy_shown(copy, self.task, limit)
        return TaskSnapshot(copy, self._lease.last)

    def task_now(self) -> Callable[[], hub.Task]:
        """A function that returns a copy of the task as it is now. Its history, to which messages are only
        added, is copied when the function is called, which many agents never do.
        """
        task = self.task or hub.Task()
        made = hub.Task()
        copy_shown(made, task, 0)
        history: Any = task.history
        count = len(history)

        def load() -> hub.Task:
            if len(made.history) < count:
                made.history.extend(history[:count])
            return made

        return load

    async def durable_snapshot(self) -> TaskSnapshot:
        """A durable copy for callers. Raises the errors of `RunLease.wait_settled`."""
        found = self.snapshot()
        await self._lease.wait_settled()
        return found

    def has_message(self, message_id: str) -> bool:
        """True if the history has a message of the user with this id."""
        history = () if self.task is None else self.task.history
        return any(one.message_id == message_id and one.role == hub.ROLE_USER for one in history)

    # ------------------------------------------------------------------ events

    def apply(self, event: Event, send: PendingSend | None) -> None:
        """Applies a copy of an event: executors may keep their events and change them later.

        send: the message whose run yielded it; None for events of the engine and of the executor's `cancel`.
        Raises ExecutorError, IllegalTransitionError, OwnershipLostError, A2AError RESOURCE_EXHAUSTED.
        """
        if send is not None and send.direct_answer is not None:
            raise ExecutorError("nothing may follow a direct message")
        if type(event) is hub.Message:
            if self.task is not None or send is None:
                raise ExecutorError("a message cannot follow a task; send it with a status instead")
            send.say(direct_answer(event, self.task_id, self.context_id))
            return
        if type(event) not in _UPDATES:
            raise ExecutorError(f"{type(event).__name__} is not an event")
        if self.task is None:
            if type(event) is hub.Task:
                self._begin(event, send)
                return
            self._begin(None, send)
        task, lease = self.task, self._lease.now
        if task is None or type(lease) is not Held:
            raise refused(lease)
        writer = lease.writer
        change = hub.StreamResponse()
        if type(event) is hub.TaskArtifactUpdateEvent:
            artifact = change.artifact_update
            artifact.CopyFrom(event)
            own_artifact(artifact, self.task_id, self.context_id)
            if self.state in TERMINAL:
                advance(task, artifact)  # which raises the error
            index = self._index
            if index is None:
                index = self._index = ArtifactIndex()
            if (
                len(task.artifacts) >= MOST_ARTIFACTS
                and index.find(task, artifact.artifact.artifact_id) is None
            ):
                raise too_many_artifacts()
            add_artifact(task, artifact, index)
            writer.append(change, self._go_on_with(index.renewed(task)) if index.left < 0 else task)
            return
        if type(event) is hub.TaskStatusUpdateEvent:
            status = change.status_update
            status.CopyFrom(event)
            own_status(status, self.task_id, self.context_id, self._clock)
            self.state = advance(task, status)
        elif type(event) is hub.Task:
            snapshot = change.task
            snapshot.CopyFrom(event)
            own_task(snapshot, self.task_id, self.context_id, self._clock)
            if len(snapshot.artifacts) > MOST_ARTIFACTS:
                raise too_many_artifacts()
            index = self._index = self._index or ArtifactIndex()
            self.state = advance_to(task, snapshot, index)
            snapshot.CopyFrom(task)
            if index.left < 0:
                task = self._go_on_with(index.renewed(task))
        writer.append(change, task)
        if self.state in AT_REST:
            self._on_rest()

    def _go_on_with(self, copy: hub.Task) -> hub.Task:
        """Takes a copy of the task as the working copy, because it takes less memory or has other readers."""
        self.task = copy
        self._response = None  # it would keep the old one
        return copy

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

    def _begin(self, first: hub.Task | None, send: PendingSend | None) -> None:
        """Creates the task. first: the executor's snapshot; None for a task in the state SUBMITTED."""
        if send is None:
            raise RuntimeError("a task is created by a run")
        # The response of a task that ends is not copied from it: a copy of a large message takes long.
        response = hub.SendMessageResponse()
        task, message = response.task, send.message
        if first is not None:
            if len(first.artifacts) > MOST_ARTIFACTS:
                raise too_many_artifacts()
            task.CopyFrom(first)
        state = own_task(task, self.task_id, self.context_id, self._clock)
        change = hub.StreamResponse()
        history = task.history
        prepared = send.beginning
        if prepared is not None and not history:
            send.forget_beginning()
            response, change = prepared
            for begun in (response.task, change.task):
                begun.MergeFrom(task)
                own = begun.history[0]
                own.task_id, own.context_id = self.task_id, self.context_id
            task = response.task
        else:
            for own in history[:]:
                if own.message_id == message.message_id:
                    if own == send.run.message:
                        own.CopyFrom(message)  # it may hold more than the agent was shown
                    break
            else:
                own = history.add()
                own.CopyFrom(message)
            own.task_id, own.context_id = self.task_id, self.context_id
            change.task.CopyFrom(task)
        writer = self._lease.begin()
        self._response = response
        self.task = task
        self.state = state
        writer.append(change, task)
        for sender in send.senders:
            if sender.wants != "outcome":
                self.settle(sender)
        if self.state in AT_REST:
            self._on_rest()

    def _on_rest(self) -> None:
        """The task has ended or waits for its caller: answers the senders that waited for that."""
        if self.state == hub.TASK_STATE_INPUT_REQUIRED:
            self.asked_at = self._lease.last
        for send in self._sends:
            for sender in send.senders:
                if send.begun_at is not None:
                    self.settle(sender)
                elif self.state in TERMINAL:
                    self.deliver(sender, already_ended(self.task_id))

    # ------------------------------------------------------------------ further messages

    async def join(self, message: hub.Message) -> None:
        """Adds a further message to the history, and returns when it is durable; otherwise it is removed
        again. Raises VersionConflictError, A2AError UNAVAILABLE.
        """
        task, lease = self.task, self._lease.now
        if task is None or type(lease) is not Held:
            raise VersionConflictError(self.task_id)
        answered = task.status.message.message_id
        join(task, message)
        own = task.history[-1]
        lease.writer.amend(task, own)
        if self._lease.lost:
            raise VersionConflictError(self.task_id)
        if not lease.writer.pending:
            return
        try:
            await lease.writer.sync()
        except BaseException:
            self._take_out(own.message_id, answered)
            raise

    def _take_out(self, message_id: str, answered: str) -> None:
        """Undoes `join`, independent of later changes."""
        task, lease = self.task, self._lease.now
        if task is None or type(lease) is not Held or self.ended:
            return
        history = task.history
        place = next((n for n in reversed(range(len(history))) if history[n].message_id == message_id), None)
        if place is None:
            return
        # In a copy: nothing else removes a message, and runs may read the history as it was (`task_now`).
        copy = hub.Task()
        copy.CopyFrom(task)
        task = self._go_on_with(copy)
        history = task.history
        del history[place]
        if (
            answered
            and place
            and history[place - 1].message_id == answered
            and not task.status.HasField("message")
        ):
            task.status.message.CopyFrom(history[place - 1])
            del history[place - 1]
        lease.writer.amend(task)

    # ------------------------------------------------------------------ answers

    def add(self, send: PendingSend) -> None:
        """A message was accepted. Forgets messages that are answered."""
        self._sends = (*[one for one in self._sends if one.awaited], send) if self._sends else (send,)
        if self.task is not None:
            for sender in send.senders:
                if sender.wants != "outcome":
                    self.settle(sender)

    def attached(self, send: PendingSend, sender: Sender) -> None:
        """A message whose run is not over has got a further sender."""
        if send not in self._sends:
            self._sends = (*self._sends, send)
        if self.task is None:
            return
        begun = send.begun_at is not None and self._lease.last > send.begun_at
        if sender.wants != "outcome" or self.ended or (self.state in INTERRUPTED and begun):
            self.settle(sender)

    def settle(self, sender: Sender) -> None:
        """Answers with the task as it is now, if no response is certain. For a task that has ended, that is
        the working copy itself, which cannot change any more.
        """
        if sender.now is not WAITING:
            return
        if sender.wants == "stream":
            sender.settle(None)  # the events are read from the store, so all of them are durable
            return
        answer = self._response
        if answer is None or self.state not in TERMINAL:
            answer = hub.SendMessageResponse()
            if self.task is not None:
                copy_shown(answer.task, self.task, sender.limit)
        lease = self._lease.now
        if type(lease) is Held and not lease.writer.pending:
            sender.settle(answer)  # at once in stores that are not durable
        else:
            self.deliver(sender, answer)

    def deliver(self, sender: Sender, answer: hub.SendMessageResponse | A2AError) -> None:
        """Gives a response that depends on the task, as soon as the task is durable, if no response is
        certain. After a loss the response comes from the new owner, see `TaskRun._lost`.
        """
        if sender.now is not WAITING or self._lease.lost:
            return
        if not self._lease.pending:
            sender.settle(answer)
            return

        def callback(error: Exception | None) -> None:
            if not isinstance(error, OwnershipLostError):
                sender.settle(answer if error is None else as_answer(error))
            elif sender.now is DECIDED:
                sender.to(WAITING)

        sender.to(DECIDED)
        self._lease.when_settled(callback)

    def settle_elsewhere(self, task: hub.Task, *, final: bool) -> None:
        """Answers with the task as its new owner has stored it. final: True if the task has come to rest, so
        that senders who wait for an outcome get it, too.
        """
        for send in self._sends:
            for sender in send.senders:
                if final and sender.wants != "stream":
                    sender.settle(hub.SendMessageResponse(task=task))
                elif sender.wants != "outcome":
                    sender.settle(hub.SendMessageResponse(task=task) if sender.wants == "task" else None)

    def give_up(self, error: A2AError, *, only_queued: bool = False) -> None:
        """Fails the senders whose answer is not certain. only_queued: senders whose run has not begun."""
        for send in self._sends:
            if not only_queued or send.begun_at is None or self.task is None:
                for sender in send.senders:
                    if sender.now is WAITING:
                        sender.settle(error)


def as_answer(error: Exception) -> A2AError:
    """The error for callers for an error of the store."""
    return error if isinstance(error, A2AError) else internal_error()
