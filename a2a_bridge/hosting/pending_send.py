"""Accepted messages and the answers that their senders wait for.

Rules:
1. An answer that says anything about the task is given once that is durable.
2. A message that is sent twice (see `idempotency`) has one run and one PendingSend per sender.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum

from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import INTERRUPTED, TERMINAL
from a2a_bridge.hosting.ports import Registered
from a2a_bridge.hosting.refusals import already_ended
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.working_copy import OwnershipLostError, WorkingCopy, as_answer
from a2a_bridge.pb import lf_a2a_v1 as hub


class Wants(Enum):
    """What the sender of a message waits for."""

    OUTCOME = "the end or an interruption of the task"
    TASK = "the task in any state, as soon as it exists"
    STREAM = "the existence of the task; the events come from the store"


class PendingSend:
    """An accepted message and the answer for one sender."""

    __slots__ = (
        "_finish",
        "answer",
        "begun_at",
        "decided",
        "finished",
        "message",
        "push_config",
        "resumes",
        "run",
        "said",
        "waiters",
        "wants",
    )

    def __init__(
        self,
        run: Run,
        message: hub.Message,
        wants: Wants,
        push_config: Registered | None = None,
        *,
        resumes: bool = False,
    ) -> None:
        self.run = run
        #: as it came, for the history; the run may show less of it (see `agent_view`)
        self.message = message
        self.wants = wants
        #: to be stored before the task; None where there is none
        self.push_config = push_config
        #: True if the run continues work of an earlier process
        self.resumes = resumes
        #: the response; None for Wants.STREAM once the task exists
        self.answer: asyncio.Future[hub.SendMessageResponse | None] = (
            asyncio.get_running_loop().create_future()
        )
        #: the number of the task's last event when the run began; None while the message is queued
        self.begun_at: int | None = None
        #: True if the answer is certain and waits for the store
        self.decided = False
        #: all sends of this message, itself included; None while it is the only one
        self.waiters: list[PendingSend] | None = None
        #: True once the run is over and nothing more comes of the message
        self.finished = False
        #: the direct answer of the executor, held back until it is certain to be the only event
        self.said: hub.SendMessageResponse | None = None
        self._finish: asyncio.Future[None] | None = None

    def all(self) -> Sequence[PendingSend]:
        """All sends of this message, itself included."""
        return (self,) if self.waiters is None else self.waiters

    def attach(self, wants: Wants) -> PendingSend:
        """A further sender of the same message."""
        send = PendingSend(self.run, self.message, wants)
        send.begun_at = self.begun_at
        if self.waiters is None:
            self.waiters = [self]
        self.waiters.append(send)
        send.waiters = self.waiters
        return send

    def begin(self, last: int) -> None:
        """The run begins after the task's event of this number."""
        self.begun_at = last
        if self.waiters is not None:
            for send in self.waiters:
                send.begun_at = last

    def finish(self) -> None:
        """The run is over. May be called twice."""
        self.finished = True
        if self._finish is not None and not self._finish.done():
            self._finish.set_result(None)

    async def wait_finished(self) -> None:
        """Returns when the run is over. For one caller at a time."""
        if not self.finished:
            self._finish = asyncio.get_running_loop().create_future()
            await self._finish

    def settle(self, answer: hub.SendMessageResponse | A2AError | None) -> None:
        """Answers the sender, if it still waits."""
        if self.answer.done():
            return
        if isinstance(answer, A2AError):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)

    def drop(self) -> None:
        """The sender has left."""
        if not self.answer.cancel() and not self.answer.cancelled():
            self.answer.exception()  # asyncio logs exceptions that were never retrieved


class Answers:
    """The senders of one task that wait for an answer."""

    __slots__ = ("_copy", "_sends")

    def __init__(self, copy: WorkingCopy) -> None:
        self._copy = copy
        self._sends: list[PendingSend] = []

    @property
    def awaited(self) -> bool:
        """True if any sender still waits."""
        return any(not send.answer.done() for send in self._sends)

    def add(self, send: PendingSend) -> None:
        """A message was accepted. Forgets those that are answered."""
        if self._sends:
            self._sends = [one for one in self._sends if not one.answer.done()]
        self._sends.append(send)

    def add_to(self, send: PendingSend) -> None:
        """A further sender of a message whose run is not over was accepted."""
        self._sends.append(send)
        task = self._copy.task
        if task is None:
            return
        state = task.status.state
        begun = send.begun_at is not None and self._copy.last > send.begun_at
        if send.wants is not Wants.OUTCOME or state in TERMINAL or (state in INTERRUPTED and begun):
            self.settle(send)

    def settle(self, send: PendingSend) -> None:
        """Answers with the task as it is now, if the sender still waits."""
        if send.decided or send.answer.done():
            return
        if send.wants is Wants.STREAM:
            send.settle(None)  # the events are read from the store, so all of them are durable
        else:
            self.deliver(send, hub.SendMessageResponse(task=self._copy.task))

    def deliver(self, send: PendingSend, answer: hub.SendMessageResponse | A2AError) -> None:
        """Gives an answer that depends on the task, as soon as the task is durable."""
        if not self._copy.pending:
            send.settle(answer)  # at once in stores that are not durable
            return

        def tell(error: Exception | None) -> None:
            # After a loss the answer comes from the new owner, see TaskRun.
            if not isinstance(error, OwnershipLostError):
                send.settle(answer if error is None else as_answer(error))

        send.decided = True
        self._copy.when_settled(tell)

    def settle_at_rest(self, state: hub.TaskState) -> None:
        """Answers the senders that waited for this state, in which the task has ended or waits."""
        for send in self._sends:
            if send.decided or send.answer.done():
                continue
            if send.begun_at is not None:
                self.settle(send)
            elif state in TERMINAL:
                self.deliver(send, already_ended(self._copy.task_id))

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
            if send.decided and not self._copy.lost:
                continue  # the store brings its answer
            if not only_queued or send.begun_at is None or self._copy.task is None:
                send.settle(error)
