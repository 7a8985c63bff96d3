"""Accepted messages and their responses. A message that is sent twice has one run, and two PendingSends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from a2a_bridge.core.errors import A2AError
from a2a_bridge.hosting.executor import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Registered

#: what the sender of a message waits for: the end or an interruption of the task; the task in any state, as
#: soon as it exists; or its existence, for a stream, whose events come from the store. It is no Enum: reading
#: a member of an Enum takes Python 3.11 as long as three calls.
Wants = Literal["outcome", "task", "stream"]


class PendingSend:
    """An accepted message and the response for one sender."""

    # Most sends need none of these: they are set when something happens.
    #: the number of the task's last event when the run began; None while the message is queued
    begun_at: int | None = None
    #: True if the response is certain and waits for the store
    decided = False
    #: True once the sender is answered or has left
    done = False
    #: all sends of this message, itself included; None while it is the only one
    waiters: list[PendingSend] | None = None
    #: True once the run has ended and the message has no further effect
    finished = False
    #: the direct response of the executor, held back until it is certain to be the only event
    direct_answer: hub.SendMessageResponse | None = None
    #: messages of the history in the response; None for all
    limit: int | None = None
    #: the response and the first event of a task that begins with a large message: see `live_task.begin_with`
    beginning: tuple[hub.SendMessageResponse, hub.StreamResponse] | None = None
    _left = False
    _answer: hub.SendMessageResponse | A2AError | None = None
    _waiter: asyncio.Future[None] | None = None
    _finish: asyncio.Future[None] | None = None

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
        #: as received, for the history; the run may show less of it (see `agent_content`)
        self.message = message
        self.wants = wants
        #: to be stored before the task; None where there is none
        self.push_config = push_config
        #: True if the run continues work of an earlier process
        self.resumes = resumes

    def all(self) -> Sequence[PendingSend]:
        """All sends of this message, itself included."""
        return self.waiters or (self,)

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

    async def answer(self) -> hub.SendMessageResponse | None:
        """Waits for the response, or raises it; None for a stream once the task exists. For one caller."""
        if not self.done:
            self._waiter = asyncio.Future()
            await self._waiter
        return self.result()

    def result(self) -> hub.SendMessageResponse | None:
        """The response, once `done`; see `answer`."""
        if isinstance(self._answer, A2AError):
            raise self._answer
        return self._answer

    def settle(self, answer: hub.SendMessageResponse | A2AError | None) -> None:
        """Answers the sender, if it still waits."""
        if self.done:
            return
        self.done = True
        self._answer = answer
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def drop(self) -> None:
        """The sender has left."""
        if not self.done:
            self.done = self._left = True

    @property
    def left(self) -> bool:
        """True if the sender has left without a response, also if its coroutine does not know that yet."""
        return self._left or (self._waiter is not None and self._waiter.cancelled())
