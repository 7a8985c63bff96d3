"""A message that was accepted, and what its sender waits for. It knows nothing of the run that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum

from a2a_bridge.core.errors import A2AError
from a2a_bridge.hosting.ports import Registered
from a2a_bridge.hosting.run import Run
from a2a_bridge.pb import lf_a2a_v1 as hub


class Wants(Enum):
    """What the sender of a message waits for."""

    OUTCOME = "the end or an interruption of the task"
    TASK = "the task as it is as soon as it exists"
    STREAM = "its existence; the events come from the store"


class PendingSend:
    """A message that was accepted, and the answer its sender waits for.

    message: as it came, for the history; the run may show less of it (see `seen`).
    answer: None for Wants.STREAM when the task exists, else the response.
    begun_at: the number of the task's last event when its run began; None while it waits its turn.
    decided: the answer is certain, and waits for the store.
    resumes: its run goes on with what an earlier process has begun.
    waiters: all tickets of this message, itself among them, once there are others. ended: its run is over, and nothing
    more comes of the message. over: done then; None where nobody waits for it.
    """

    __slots__ = (
        "answer",
        "begun_at",
        "decided",
        "ended",
        "message",
        "over",
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
        self.message = message
        self.wants = wants
        self.push_config = push_config
        self.resumes = resumes
        self.answer: asyncio.Future[hub.SendMessageResponse | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.begun_at: int | None = None
        self.decided = False
        self.waiters: list[PendingSend] | None = None
        self.ended = False
        self.over: asyncio.Future[None] | None = None
        #: the direct answer the executor has given, held until it is certain to be the only event
        self.said: hub.SendMessageResponse | None = None

    def all(self) -> Sequence[PendingSend]:
        """It and its waiters."""
        return (self,) if self.waiters is None else self.waiters

    def end(self) -> None:
        """Notes that nothing more comes of the message."""
        self.ended = True
        if self.over is not None and not self.over.done():
            self.over.set_result(None)

    def settle(self, answer: hub.SendMessageResponse | A2AError | None) -> None:
        """Answers the sender, if it still waits."""
        if self.answer.done():
            return
        if isinstance(answer, A2AError):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)
