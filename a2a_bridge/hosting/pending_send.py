"""Accepted messages and their senders. A message that is sent twice has one run, and two senders.

Rules:
1. All transitions of a sender are in TRANSITIONS; docs and tests read the same table. Nothing else says who
   waits.
2. A sender gets one response. What happens when it leaves without one is decided by `TaskRun.abandon` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Literal

from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.core.errors import A2AError, IllegalStateError
from a2a_bridge.hosting.executor import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Registered

#: what the sender of a message waits for: the end or an interruption of the task; the task in any state, as
#: soon as it exists; or its existence, for a stream, whose events come from the store. It is no Enum: reading
#: a member of an Enum takes Python 3.11 as long as three calls.
Wants = Literal["outcome", "task", "stream"]


class SenderState(StrEnum):
    """What a sender of a message waits for. The values are for error messages."""

    #: for its response
    WAITING = "waiting"
    #: for the store: the response is certain, and is given when the task is durable
    DECIDED = "decided"
    #: for nothing: it has its response
    ANSWERED = "answered"
    #: for nothing: it left without a response
    LEFT = "left"


#: state -> the states that may follow it
TRANSITIONS: dict[SenderState, frozenset[SenderState]] = {
    SenderState.WAITING: frozenset({SenderState.DECIDED, SenderState.ANSWERED, SenderState.LEFT}),
    # Back when the lease is lost before the task is durable: the response comes from the new owner.
    SenderState.DECIDED: frozenset({SenderState.WAITING, SenderState.ANSWERED, SenderState.LEFT}),
    SenderState.ANSWERED: frozenset(),
    SenderState.LEFT: frozenset(),
}

WAITING, DECIDED, ANSWERED, LEFT = SenderState  # see `phases`
#: states in which nothing is to be done for a sender
SETTLED = frozenset({ANSWERED, LEFT})


class Sender:
    """One caller that has sent a message. limit: messages of the history in its response; None for all."""

    __slots__ = ("_answer", "limit", "now", "waiter", "wants")

    def __init__(self, wants: Wants, limit: int | None = None) -> None:
        self.wants = wants
        self.limit = limit
        #: the present state; changed by `to` and `settle` only
        self.now = WAITING
        self._answer: hub.SendMessageResponse | A2AError | None = None
        #: done when the sender is answered or its caller is cancelled; None before it waits
        self.waiter: asyncio.Future[None] | None = None

    def to(self, state: SenderState) -> None:
        """Raises IllegalStateError for a transition that the table does not have."""
        if state not in TRANSITIONS[self.now]:
            raise IllegalStateError("a sender", self.now, state)
        self.now = state

    def settle(self, answer: hub.SendMessageResponse | A2AError | None) -> None:
        """Answers the sender, unless it has its response or has left."""
        if ANSWERED not in TRANSITIONS[self.now]:
            return
        self.now = ANSWERED
        self._answer = answer
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def answer(self, leave: Callable[[], None]) -> hub.SendMessageResponse | None:
        """Waits for the response, or raises it; None for a stream once the task exists. For one caller.
        leave: called if the caller is cancelled first.
        """
        if self.now not in SETTLED:
            self.waiter = asyncio.Future()
            try:
                await self.waiter
            except asyncio.CancelledError:
                leave()
                raise
        if isinstance(self._answer, A2AError):
            raise self._answer
        return self._answer


class PendingSend:
    """An accepted message: its run, and its senders."""

    # Most sends need none of these: they are set when something happens.
    #: the number of the task's last event when the run began; None while the message is queued
    begun_at: int | None = None
    #: True once the run has ended and the message has no further effect
    finished = False
    #: the direct response of the executor, held back until it is certain to be the only event
    direct_answer: hub.SendMessageResponse | None = None
    #: the response and the first event of a task that begins with a large message: see `begin_with`
    beginning: tuple[hub.SendMessageResponse, hub.StreamResponse] | None = None
    #: True if the run continues work of an earlier process
    resumes = False
    _finish: asyncio.Future[None] | None = None

    def __init__(
        self, run: Run, message: hub.Message, sender: Sender | None, push_config: Registered | None = None
    ) -> None:
        """sender: None for a message that continues work of an earlier process."""
        self.run = run
        #: as received, for the history; the run may show less of it (see `agent_content`)
        self.message = message
        #: to be stored before the task; None where there is none
        self.push_config = push_config
        #: all that sent this message, in their order
        self.senders: tuple[Sender, ...] = ()
        if sender is None:
            self.resumes = True
        else:
            self.senders = (sender,)

    def attach(self, sender: Sender) -> None:
        """A further sender of the same message."""
        self.senders = (*self.senders, sender)

    def begin(self, last: int) -> None:
        """The run begins after the task's event of this number."""
        self.begun_at = last

    async def prepare(self) -> None:
        """Makes the beginning of a task with a large message, in a worker."""
        self.beginning = await run_in_worker(begin_with, self.message)

    def forget_beginning(self) -> None:
        """The task has begun."""
        self.beginning = None

    def say(self, answer: hub.SendMessageResponse) -> None:
        """The executor gave a direct response."""
        self.direct_answer = answer

    def take_back(self) -> None:
        """A direct response was not the only event, or is not certain to be it."""
        self.direct_answer = None

    def settle(self, answer: hub.SendMessageResponse | A2AError | None) -> None:
        """Answers all senders that have no response."""
        for sender in self.senders:
            sender.settle(answer)

    @property
    def awaited(self) -> bool:
        """True if any sender has no response, and has not left."""
        return any(sender.now not in SETTLED for sender in self.senders)

    @property
    def abandoned(self) -> bool:
        """True if the message has senders and all have left, also if a coroutine does not know it yet."""
        for sender in self.senders:
            if sender.now is not LEFT and (sender.waiter is None or not sender.waiter.cancelled()):
                return False
        return bool(self.senders)

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


def begin_with(message: hub.Message) -> tuple[hub.SendMessageResponse, hub.StreamResponse]:
    """A response and an event with a task that has nothing but this message. For a worker."""
    response, change = hub.SendMessageResponse(), hub.StreamResponse()
    # Not CopyFrom, which takes six times as long for large maps: their entries come in the order of a hash
    # table, and collide in the next table.
    data = message.SerializeToString(deterministic=True)
    for task in (response.task, change.task):
        task.history.add().MergeFromString(data)
    return response, change
