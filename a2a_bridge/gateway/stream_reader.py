"""Reads the agent's stream of one task into a replay buffer, and subscribes again when the stream breaks.

Rules:
1. The stream of an agent that resumes after its ids is read by the caller that needs the next event, without
   an asyncio task. If that caller leaves during a read, the next caller resumes after the last event. Streams
   of other agents are read by an asyncio task, because they have to outlive the caller that began them.
2. A stream that the agent ended is over, and so is one that broke after the task had come to rest. Any other
   break is followed by a subscription: after the last event if the agent resumes; else its snapshot replaces
   the lost events, and is marked as a gap.
3. Readers get an error only if all attempts failed, the agent refuses, or it skips ids.
4. Only UNAVAILABLE, and DEADLINE_EXCEEDED because of the first caller's deadline, count as a break. So does a
   stream of 0.x that ends while the task works and no event was final.
5. The agent may refuse the subscription although it has the task (some forget the streams of a task). Then
   GetTask decides, and readers get the break, not the refusal.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import IN_PROCESS, LAST_EVENT_PARAMETER, Call, CallContext, ResponseParameters
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error
from a2a_bridge.core.event import Event, Events, innermost
from a2a_bridge.core.messages import RUNNING, TERMINAL
from a2a_bridge.core.resume import mark_gap
from a2a_bridge.core.service import Service
from a2a_bridge.dialects.annotation import Finality
from a2a_bridge.gateway.replay_buffer import BufferReader, ReplayBuffer, ReplayOptions, unmark
from a2a_bridge.gateway.silence import SILENCE
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)

#: seconds to wait for GetTask
_GET_TIMEOUT = 10.0
#: seconds in which an agent without ids has to answer a new subscription with an event
_QUIET = 5.0
#: states after which a stream has come to rest
_RESTING = TERMINAL | {hub.TASK_STATE_INPUT_REQUIRED}
#: errors with which an agent may answer a subscription although it has the task
_REFUSALS = (
    Reason.UNSUPPORTED_OPERATION,
    Reason.TASK_NOT_FOUND,
    Reason.METHOD_NOT_FOUND,
    Reason.INVALID_PARAMS,
)


class LostEventsError(A2AError):
    """Events are missing. A reader that subscribes again gets a gap."""

    def __init__(self) -> None:
        text = "events of the task were lost on the way; subscribe again"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.PEER, retry_after=0.0)


def ended_early() -> A2AError:
    """The error for a stream of 0.x that the agent closed while its task was working."""
    text = "the agent's stream ended before its task, without a final event; subscribe again, or get the task"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.PEER, retry_after=0.0)


def interrupted() -> A2AError:
    """The reason for reading a stream again after its reading caller left during a read."""
    return A2AError(Reason.UNAVAILABLE, "the stream was interrupted", blame=Blame.SELF)


class StreamReader:
    """The agent's side of one replay buffer.

    context: the context of the caller that began or last revived the stream, with the forwarded parameters
    only.
    resumes: whether the agent resumes after its ids; else its ids are ignored. direct: whether the buffer has
    the agent's ids; then callers read. last_id: the agent's id of the newest event, empty without one.
    is_final: which status event ends a stream of the agent's version; None for versions without such events.
    on_growth: called when the buffer has grown.
    """

    def __init__(
        self,
        service: Service,
        buffer: ReplayBuffer,
        context: CallContext,
        tenant: str,
        options: ReplayOptions,
        *,
        resumes: bool,
        direct: bool,
        last_id: str,
        is_final: Finality | None,
        on_growth: Callable[[], None],
    ) -> None:
        self.context = context
        #: True if callers read, each when it needs the next event
        self.direct = direct
        #: the agent's id of the newest event; empty without one
        self.last_id = last_id
        #: the agent's stream; None if a new one is needed
        self.source: Events | None = None
        #: the reader of the caller that awaits the next event of `source`
        self.reading: BufferReader | None = None
        self._service = service
        self._buffer = buffer
        self._tenant = tenant
        self._options = options
        self._resumes = resumes
        self._is_final = is_final
        self._on_growth = on_growth
        self._attempts = 0
        #: the reason for the last new subscription; None for the first stream
        self._break: A2AError | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False

    def start(self, source: Events | None = None) -> None:
        """Starts to read a stream, whose first event the caller may have read. None: subscribes anew."""
        self._buffer.live = True
        self._attempts = 0
        self._break = None
        self._begun = False
        self.source = None if source is None else innermost(source)
        if not self.direct:
            name = f"a2a gateway stream {self._buffer.task_id}"
            self._task = asyncio.create_task(self._run(self.source), name=name)

    def cancel(self) -> asyncio.Task[None] | None:
        """Stops reading. Returns the asyncio task that closes the agent's stream, if there is one."""
        task, self._task = self._task, None
        if task is None or task.done():
            return None
        if self._buffer.live:
            self._buffer.stop(A2AError(Reason.UNAVAILABLE, "the stream was given up", blame=Blame.SELF))
        if self._begun:
            task.cancel()
        # A task that was cancelled before its first step would not close the stream; `_run` sees that it is
        # not current.
        return task

    async def aclose(self) -> None:
        """Closes the agent's stream, if callers read it."""
        self._buffer.live = False
        source, self.source = self.source, None
        if source is not None:
            await source.aclose()

    def take(self, event: Event) -> Event:
        """Adds an event of the agent to the buffer, and returns it with its id. Raises LostEventsError."""
        buffer = self._buffer
        id_ = f"{buffer.prefix}{buffer.base + len(buffer.events) + 1}"
        if self.direct:
            if event.id != id_:
                raise self._lost()
        else:
            if self._resumes and event.id:
                self.last_id = event.id
            event = Event(event.message, id_, event.gap)
        self._attempts = 0
        if buffer.append(event):
            self._on_growth()
        return event

    async def recover(self, failure: A2AError | None, *, again: bool = False) -> None:
        """Replaces `source`, which has ended (failure is None) or failed, or stops the buffer.

        again: subscribe in any case.
        """
        source, self.source = self.source, None
        try:
            if source is not None:
                await source.aclose()
            if again or await self._broke(failure):
                self.source = await self._subscribed()
            if self.source is None:
                self._buffer.stop()
        except A2AError as error:
            self._buffer.stop(error)
        except Exception:
            logger.exception("the stream of task %s failed", self._buffer.task_id)
            self._buffer.stop(internal_error())

    async def moved(self) -> bool:
        """True if the task has left the state in which the agent's stream ended. False if the agent does not
        tell.
        """
        buffer = self._buffer
        before = buffer.snapshot()
        try:
            now = (await self._get_task()).status
        except A2AError as failure:
            logger.debug("whether task %s has gone on is not known: %s", buffer.task_id, failure)
            return False
        if before is None:
            return now.state != buffer.state
        return (now.state, now.timestamp) != (before.status.state, before.status.timestamp)

    # ------------------------------------------------------------------ reading in an asyncio task

    async def _run(self, source: Events | None) -> None:
        if self._task is not asyncio.current_task():
            if source is not None:
                await source.aclose()
            return
        buffer = self._buffer
        self._begun = True
        try:
            if source is None:
                await self.recover(None, again=True)
                source = self.source
            while source is not None:
                failure: A2AError | None = None
                if buffer.full:
                    await buffer.room()
                try:
                    async for event in source:
                        self.take(event)
                        if buffer.crowded and buffer.full:
                            await buffer.room()
                except A2AError as error:
                    failure = error
                except Exception:
                    logger.exception("the stream of task %s failed", buffer.task_id)
                    buffer.stop(internal_error())
                    return
                await self.recover(failure)
                source = self.source
        finally:
            if source is not None:
                await source.aclose()

    # ------------------------------------------------------------------ after a break

    async def _broke(self, failure: A2AError | None) -> bool:
        """True if the end of the source is a break. Raises the failure if it is the agent's answer."""
        buffer = self._buffer
        if failure is None:
            if self._ended_early():
                self._break = ended_early()
                return not await self._settled(self._break)
            resting = buffer.state in _RESTING or not buffer.regular
            if self._break is not None and not resting and not self.direct:
                await self._settle(self._break)
            return False
        if buffer.ended or (buffer.state in _RESTING and not await self.moved()):
            logger.debug("a stream broke after the task had come to rest: %s", failure)
            return False
        if isinstance(failure, LostEventsError) or not buffer.regular or not self._is_break(failure):
            raise failure
        logger.debug("the stream of task %s broke: %s", buffer.task_id, failure)
        self._break = failure
        return True

    def _is_break(self, error: A2AError) -> bool:
        if error.reason is Reason.DEADLINE_EXCEEDED:
            return self.context.deadline is not None and error.metadata.get("phase") != SILENCE
        return error.reason is Reason.UNAVAILABLE

    def _ended_early(self) -> bool:
        """True if the agent closed its first stream before a final event, in a version that marks final
        events.
        """
        buffer = self._buffer
        working = buffer.state in RUNNING or buffer.state == hub.TASK_STATE_UNSPECIFIED
        if self._is_final is None or self._break is not None or not buffer.regular or not working:
            return False
        last = buffer.events[-1].message if buffer.events else None
        return last is None or not last.HasField("status_update") or not self._is_final(last.status_update)

    async def _subscribed(self) -> Events | None:
        """A stream that continues after the buffer; None if the task is over. Raises the first error."""
        options = self._options
        while self._attempts < options.attempts:
            if self._attempts:
                pause = min(options.pause * 2 ** (self._attempts - 1), options.longest_pause)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  no secret
            self._attempts += 1
            try:
                return await self._subscribe()
            except A2AError as failure:
                if failure.reason is not Reason.UNAVAILABLE or isinstance(failure, LostEventsError):
                    raise
                logger.debug("task %s cannot be subscribed to: %s", self._buffer.task_id, failure)
                self._break = self._break or failure
        raise self._break or LostEventsError()

    async def _subscribe(self) -> Events | None:
        buffer = self._buffer
        after = buffer.last_id() if self.direct else self.last_id
        parameters = dict(self.context.parameters)
        if after:
            parameters[LAST_EVENT_PARAMETER] = after
        # Without a version, so that streams of older agents get the newest form: a task comes first.
        context = self.context.replace(
            parameters=parameters, deadline=None, origin=IN_PROCESS, reply=ResponseParameters()
        )
        request = hub.SubscribeToTaskRequest(id=buffer.task_id, tenant=self._tenant)
        source = self._service.stream(Call(ops.SUBSCRIBE_TO_TASK, request, context))
        attempts = self._attempts
        try:
            # Some agents lose their subscribers when they fail, and never send another event.
            async with asyncio.timeout(None if after else _QUIET):
                first = await anext(source)
            await self._join(first, resumed=bool(after))
        except (TimeoutError, StopAsyncIteration) as ended:
            await source.aclose()
            # After an id, the end of a stream is the end of the task. Otherwise the task's state decides.
            if not after or isinstance(ended, TimeoutError):
                await self._settle(LostEventsError())
            return None
        except A2AError as failure:
            await source.aclose()
            if failure.reason not in _REFUSALS:
                raise
            unsupported = failure.reason is Reason.UNSUPPORTED_OPERATION
            await self._settle(failure if unsupported else self._break or LostEventsError())
            return None
        except BaseException:
            await source.aclose()
            raise
        if not after:
            # The first event of each subscription is no progress.
            self._attempts = attempts
        if buffer.ended:
            await source.aclose()
            return None
        return innermost(source)

    async def _join(self, first: Event, *, resumed: bool) -> None:
        """Adds the first event of a new stream: the next event, or a snapshot that replaces the lost ones."""
        is_task = first.message.HasField("task") and first.message.task.id == self._buffer.task_id
        if resumed and not first.gap and (self.direct or not is_task):
            self.take(first)
            return
        if self.direct:
            raise self._lost()
        if is_task:
            self._add_gap(first.message.task)
            return
        self._add_gap(await self._get_task())
        self.take(first)

    def _add_gap(self, now: hub.Task) -> None:
        buffer = self._buffer
        snapshot = hub.StreamResponse(task=now)
        unmark(snapshot.task)
        if buffer.events and buffer.events[-1].gap and buffer.snapshot() == snapshot.task:
            return  # the same gap: no event arrived since
        id_ = buffer.next_id()
        mark_gap(snapshot.task, buffer.last_id(), id_)
        if buffer.append(Event(snapshot, id_, gap=True)):
            self._on_growth()

    async def _settled(self, refused: A2AError) -> bool:
        """True if the task has come to rest; then readers get it. Asks the agent once."""
        try:
            await self._settle(refused)
        except A2AError as failure:
            if failure is not refused:
                logger.debug("how task %s ended is not known: %s", self._buffer.task_id, failure)
            return False
        return True

    async def _settle(self, refused: A2AError) -> None:
        """Passes the task to readers, if it has come to rest. Raises `refused` if not, and the errors of
        GetTask.
        """
        task = await self._get_task()
        if task.status.state not in _RESTING:
            raise refused
        self._add_gap(task)

    async def _get_task(self) -> hub.Task:
        """Raises the agent's error, and UNAVAILABLE after a timeout."""
        request = hub.GetTaskRequest(id=self._buffer.task_id, tenant=self._tenant)
        context = self.context.replace(deadline=None, origin=IN_PROCESS, reply=ResponseParameters())
        try:
            async with asyncio.timeout(_GET_TIMEOUT):
                return await self._service.unary(Call(ops.GET_TASK, request, context))
        except TimeoutError:
            raise A2AError(Reason.UNAVAILABLE, "the agent does not answer", blame=Blame.PEER) from None

    def _lost(self) -> LostEventsError:
        self._buffer.regular = False
        return LostEventsError()
