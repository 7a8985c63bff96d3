"""Feeds a log from the agent, and takes the stream up again when it breaks. It knows no readers.

Rules:
1. A stream that the agent ended is over, and so is one that broke after the task had come to rest. One that broke
   before is taken up by subscribing: after the last event if the agent gives ids, else by the difference between the
   task as known and as it is now.
2. Readers learn of a break only if it cannot be mended: all attempts failed, the agent refuses or keeps silent, or
   events are lost whose number nobody knows.
3. What an agent says is its word: only UNAVAILABLE (which a broken connection is, too), and a deadline that was the
   first caller's, count as a break. So does a stream of 0.x that ends while the task works and no event was final.
4. The gateway's own subscription may be refused although the task is there (agents forget the streams of a task that
   they still have). Then GetTask decides, and readers get the break, not the refusal.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import aclosing

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import (
    IN_PROCESS,
    LAST_EVENT_PARAMETER,
    Call,
    CallContext,
)
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error
from a2a_bridge.core.event import Event, Events
from a2a_bridge.core.messages import RUNNING, TERMINAL
from a2a_bridge.core.resume import counted_on
from a2a_bridge.core.service import Service
from a2a_bridge.dialects.marks import SNAPSHOT, Finality, synthesised
from a2a_bridge.gateway.differences import missed
from a2a_bridge.gateway.overlap import Overlap
from a2a_bridge.gateway.replay import Log, ReplayOptions
from a2a_bridge.gateway.silence import SILENCE
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)

#: seconds to learn what became of a task that can no longer be subscribed to
_LOOK = 10.0
#: seconds in which an agent without ids has to say something to whoever has subscribed again
_QUIET = 5.0
#: seconds after which an agent has saved what it has shown; some show first
_SAVING = 0.2
#: states after which a stream has come to rest
_RESTING = TERMINAL | {hub.TASK_STATE_INPUT_REQUIRED}
#: what an agent answers to a subscription although it has the task
_REFUSALS = (
    Reason.UNSUPPORTED_OPERATION,
    Reason.TASK_NOT_FOUND,
    Reason.METHOD_NOT_FOUND,
    Reason.INVALID_PARAMS,
)


class _Lost(A2AError):  # noqa: N818  the domain's word is the better name
    """Events are missing, and nobody knows how many."""

    def __init__(self) -> None:
        text = "events of the task were lost on the way; subscribe again"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.PEER, retry_after=0.0)


def ended_early() -> A2AError:
    """What readers are told of a stream of 0.x that the agent closed while its task works."""
    text = "the agent's stream ended before its task did, without a final event; subscribe again, or get the task"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.PEER, retry_after=0.0)


class Feed:
    """The agent's side of one log.

    context: to call the agent with, as the caller that began or last revived the stream; its parameters are those
    that travel on. resumes: whether the agent can go on after its ids; else they are passed over. theirs: whether the
    numbers of the log are the agent's. is_final: which status event ends a stream of the agent's version; None for
    versions that do not say so. on_growth: told when the log has grown.
    """

    def __init__(
        self,
        service: Service,
        log: Log,
        context: CallContext,
        tenant: str,
        options: ReplayOptions,
        *,
        resumes: bool,
        theirs: bool,
        heard: str,
        is_final: Finality | None,
        on_growth: Callable[[], None],
    ) -> None:
        self.context = context
        #: the agent's own id of the event that came last; empty when it gives none
        self.heard = heard
        self._service = service
        self._log = log
        self._tenant = tenant
        self._options = options
        self._resumes = resumes
        self._theirs = theirs
        self._is_final = is_final
        self._on_growth = on_growth
        self._fruitless = 0
        #: what a snapshot has told, while events that follow it may tell it again
        self._overlap: Overlap | None = None
        self._begun = False
        self._task: asyncio.Task[None] | None = None

    def start(self, source: Events | None = None) -> None:
        """Begins to read a stream, whose first event the caller may have taken; None: subscribes anew."""
        self._log.live = True
        self._fruitless = 0
        self._begun = False
        self._task = asyncio.create_task(self._run(source), name=f"a2a gateway stream {self._log.task_id}")

    def cancel(self) -> asyncio.Task[None] | None:
        """Hangs up. The task that is doing it, if it was not done already. It may be started again at once."""
        task, self._task = self._task, None
        if task is None or task.done():
            return None
        if self._log.live:
            self._log.stop(A2AError(Reason.UNAVAILABLE, "the stream was given up", blame=Blame.SELF))
        if self._begun:
            task.cancel()
        # Else it finds out when it begins: cancelled before that, it would not even close the stream.
        return task

    async def moved(self) -> bool:
        """Whether the task has left the state in which the agent's stream ended. False if the agent does not tell."""
        log = self._log
        before = log.snapshot()
        try:
            now = (await self._task_now()).status
        except A2AError as failure:
            logger.debug("whether task %s has gone on is not known: %s", log.task_id, failure)
            return False
        if before is None:
            return now.state != log.state
        return (now.state, now.timestamp) != (before.status.state, before.status.timestamp)

    # ------------------------------------------------------------------ reading

    async def _run(self, source: Events | None) -> None:
        this = asyncio.current_task()
        if self._task is not this:
            if source is not None:
                await source.aclose()
            return
        self._begun = True
        outcome: A2AError | None = None
        try:
            await self._feed(source)
        except A2AError as failure:
            outcome = failure
        except Exception:
            logger.exception("the stream of task %s failed", self._log.task_id)
            outcome = internal_error()
        if self._task is this:
            self._log.stop(outcome)

    async def _feed(self, source: Events | None) -> None:
        """Reads streams until the last one has come to its end. Raises what it ended with."""
        log = self._log
        error: A2AError | None = None
        while True:
            if source is None:
                source = await self._taken_up(error)
            if source is None:
                return
            if log.full:
                await log.room()
            try:
                await self._read(source)
            except A2AError as failure:
                if log.state in TERMINAL or (log.state in _RESTING and not await self.moved()):
                    logger.debug("a stream broke after it had come to rest: %s", failure)
                    return
                if not self._broke(failure):
                    raise
                logger.debug("the stream of task %s broke: %s", log.task_id, failure)
                error, source = failure, None
            else:
                if error is None and self._ended_early():
                    logger.debug("the stream of task %s ended before its task did", log.task_id)
                    error, source = ended_early(), None
                    if await self._settled(error):
                        return
                    continue
                if error is not None:
                    regular = log.regular
                    await self._settle()
                    if log.state in RUNNING and regular:
                        # It ended in mid-work and says no more: what is known of it is the break.
                        raise error
                return

    def _ended_early(self) -> bool:
        """Whether a stream that has just ended was closed in mid-work, in a version that says which event is final."""
        log = self._log
        working = log.state in RUNNING or log.state == hub.TASK_STATE_UNSPECIFIED
        if self._is_final is None or not log.regular or not working:
            return False
        last = log.events[-1] if log.events else None
        return last is None or not last.HasField("status_update") or not self._is_final(last.status_update)

    async def _read(self, source: Events) -> None:
        log = self._log
        async with aclosing(source) as events:
            async for event in events:
                self._fruitless = 0
                if await self._take(event.message, self._id(event)) and log.full:
                    await log.room()

    async def _take(self, event: hub.StreamResponse, id_: str) -> bool:
        """Adds an event, unless a snapshot has told it. Whether it is time to look for room. Raises _Lost."""
        if self._overlap is not None and await self._is_told(event, self._overlap):
            return False
        return self._append(event, id_)

    async def _is_told(self, event: hub.StreamResponse, overlap: Overlap) -> bool:
        if overlap.may_tell(event):
            now = None
            if event.HasField("artifact_update"):
                now = await self._task_after(event.artifact_update, overlap)
            if overlap.tells(event, now):
                return True
        self._overlap = None
        return False

    async def _task_after(self, piece: hub.TaskArtifactUpdateEvent, overlap: Overlap) -> hub.Task | None:
        """The task as it is once it holds a piece that has come; None when the agent does not tell."""
        try:
            now = await self._task_now()
            if overlap.as_it_was(piece, now):
                await asyncio.sleep(_SAVING)
                now = await self._task_now()
        except A2AError as failure:
            logger.debug("whether a piece of task %s is new is not known: %s", self._log.task_id, failure)
            return None
        return now

    def _append(self, event: hub.StreamResponse, id_: str) -> bool:
        """Adds an event of the agent's. Whether it is time to look for room. Raises _Lost when its id does not follow."""
        log = self._log
        if self._theirs and id_ != log.id(log.last + 1):
            raise self._lost()
        if id_:
            self.heard = id_
        if not log.append(event):
            return False
        self._on_growth()
        return True

    def _id(self, event: Event) -> str:
        """The agent's id of an event; empty when it gives none of use."""
        return event.id if self._resumes else ""

    def _broke(self, error: A2AError) -> bool:
        if isinstance(error, _Lost) or not self._log.regular:
            return False
        if error.reason is Reason.DEADLINE_EXCEEDED:
            return self.context.deadline is not None and error.metadata.get("phase") != SILENCE
        return error.reason is Reason.UNAVAILABLE

    def _lost(self) -> _Lost:
        self._log.regular = False
        return _Lost()

    # ------------------------------------------------------------------ taking it up again

    async def _taken_up(self, error: A2AError | None) -> Events | None:
        """A stream that goes on where the log ends; None when nothing is to come. Raises the first error."""
        options = self._options
        while self._fruitless < options.attempts:
            if self._fruitless:
                pause = min(options.pause * 2 ** (self._fruitless - 1), options.longest_pause)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  nobody gains by guessing it
            self._fruitless += 1
            try:
                return await self._subscribed(error)
            except A2AError as failure:
                if failure.reason is not Reason.UNAVAILABLE or isinstance(failure, _Lost):
                    raise
                logger.debug("the stream of task %s is not to be had: %s", self._log.task_id, failure)
                error = error or failure
        raise error or _Lost()

    async def _subscribed(self, error: A2AError | None) -> Events | None:
        """A new subscription, fitted to the log. error: the break because of which it is made."""
        parameters = dict(self.context.parameters)
        if self.heard:
            parameters[LAST_EVENT_PARAMETER] = self.heard
        # In nobody's version, so that streams of older agents are shaped for the newest: begun by the task.
        context = self.context.replace(parameters=parameters, deadline=None, origin=IN_PROCESS, reply={})
        request = hub.SubscribeToTaskRequest(id=self._log.task_id, tenant=self._tenant)
        source = self._service.stream(Call(ops.SUBSCRIBE_TO_TASK, request, context))
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(None if self.heard else _QUIET):
                second = await self._fit(source)
            if loop.time() - began > self._options.longest_pause:
                self._fruitless = 0  # else it may be what is told to each new subscriber, and no progress
            if second is not None:
                await self._take(second.message, self._id(second))
        except TimeoutError:
            # Some agents forget those who listened when they fail, and never say another word.
            await source.aclose()
            await self._look(_Lost())
            return None
        except StopAsyncIteration:
            # What was asked for by its id and is nothing has been told; anything else has to be looked at.
            if not self.heard:
                await self._look(_Lost())
            return None
        except A2AError as failure:
            await source.aclose()
            if failure.reason not in _REFUSALS:
                raise
            unsupported = failure.reason is Reason.UNSUPPORTED_OPERATION
            await self._look(failure if unsupported else error or _Lost())
            return None
        except BaseException:
            await source.aclose()
            raise
        if self._log.ended:
            await source.aclose()
            return None
        return source

    async def _fit(self, source: Events) -> Event | None:
        """Fits the beginning of a new stream to the log; an event that is still to be taken. Raises _Lost."""
        event = await anext(source)
        first, id_ = event.message, self._id(event)
        if self.heard and id_ and not event.gap:
            following = counted_on(self.heard)
            next(following, "")
            if next(following, "") == id_:
                self._append(first, id_)
                self._fruitless = 0
                return None
        if not first.HasField("task") or first.task.id != self._log.task_id:
            self._append(first, id_)
        elif synthesised(first.task) != SNAPSHOT:
            self._catch_up(first.task, id_)
        else:
            # Made because of the event that follows: where that is a status, it has been written into the task.
            second = await anext(source)
            self._catch_up(first.task, id_, status=not second.message.HasField("status_update"))
            return second
        return None

    async def _settle(self) -> None:
        """Tells how a task ended whose stream was taken up and ended without that, as some agents' do."""
        if not self._theirs and self._log.state not in _RESTING and self._log.regular:
            await self._settled(_Lost())

    async def _settled(self, refused: A2AError) -> bool:
        """Whether the task of a stream that ended early has come to rest; then it is told how. Asks the agent once."""
        try:
            await self._look(refused)
        except A2AError as failure:
            if failure is not refused:
                logger.debug("how task %s ended is not known: %s", self._log.task_id, failure)
            return False
        return True

    async def _look(self, refused: A2AError) -> None:
        """Closes the log by what became of the task. Raises what the agent said if that is not the end of it."""
        task = await self._task_now()
        if task.status.state not in _RESTING:
            raise refused
        self._catch_up(task, "")

    async def _task_now(self) -> hub.Task:
        """Raises what the agent says, and UNAVAILABLE when that takes too long."""
        request = hub.GetTaskRequest(id=self._log.task_id, tenant=self._tenant)
        context = self.context.replace(deadline=None, origin=IN_PROCESS, reply={})
        try:
            async with asyncio.timeout(_LOOK):
                return await self._service.unary(Call(ops.GET_TASK, request, context))
        except TimeoutError:
            raise A2AError(Reason.UNAVAILABLE, "the agent does not answer", blame=Blame.PEER) from None

    def _catch_up(self, now: hub.Task, id_: str, *, status: bool = True) -> None:
        """Adds what was missed, as a snapshot tells it. Raises _Lost when it cannot be told."""
        log = self._log
        before = log.snapshot()
        if before is None:
            raise self._lost()
        events = missed(before, now, history=log.history, status=status)
        if self._theirs and (log.id(log.last + len(events)) != (id_ or log.id(log.last))):
            raise self._lost()
        if id_:
            self.heard = id_
        for event in events:
            self._fruitless = 0
            if log.append(event):
                self._on_growth()
        self._overlap = Overlap(events, now) if events and not self._theirs else None


__all__ = ["Events", "Feed"]
