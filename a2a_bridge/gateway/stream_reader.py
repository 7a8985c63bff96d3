"""The reading of an agent's stream of one task into a replay log, and again after breaks."""

import asyncio
import logging
import random
from collections.abc import Callable

from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import IN_PROCESS, LAST_EVENT_PARAMETER, Call, CallContext, ResponseParameters
from a2a_bridge.core.errors import A2AError, Blame, IllegalStateError, Reason, internal_error
from a2a_bridge.core.messages import RUNNING
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import mark_gap
from a2a_bridge.core.service import Event, Events, Service, innermost
from a2a_bridge.dialects.annotation import FINAL_STATES, Finality
from a2a_bridge.gateway.replay_log import AGENT, LostEventsError, ReplayLog, unmark
from a2a_bridge.gateway.stream_states import ENDED, FAILED, GIVEN_UP, OPEN, OPENING, READINGS, Reading
from a2a_bridge.gateway.upstream import SILENCE
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)

#: seconds in which an agent without ids has to answer a new subscription with an event
_QUIET = 5.0
#: seconds for an agent to end the streams of a task itself, after it reported the task's end
_MOMENT = 2.0
#: errors with which an agent may answer a subscription although it has the task
_REJECTIONS = (
    Reason.UNSUPPORTED_OPERATION,
    Reason.TASK_NOT_FOUND,
    Reason.METHOD_NOT_FOUND,
    Reason.INVALID_PARAMS,
)


def given_up_error() -> A2AError:
    """The error for the readers of a stream that the gateway no longer needs."""
    return A2AError(Reason.UNAVAILABLE, "the stream was given up", blame=Blame.SELF)


def ended_early_error() -> A2AError:
    """The error for a stream of 0.x that the agent closed while its task was working."""
    text = "the agent's stream ended before its task, without a final event; subscribe again, or get the task"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.PEER, retry_after=0.0)


def must_go_on(is_final: Finality, last: hub.StreamResponse, state: hub.TaskState) -> bool:
    """True if a stream of 0.x must not end after this event, in this state of its task."""
    working = state in RUNNING or state == hub.TASK_STATE_UNSPECIFIED
    return working and not (last.HasField("status_update") and is_final(last.status_update))


class StreamReader:
    """One run of reading the agent's stream of a task into a replay log. It subscribes again after breaks.

    Rules:
    1. One asyncio task reads each stream, because the stream has to outlive the caller that began it, and a
       caller that leaves must not cancel a read of the agent. All callers read the log.
    2. A stream that the agent ended is over, and so is a stream that broke after the task had come to rest.
       Any other break is followed by a subscription: after the last event if the agent resumes; else its
       snapshot replaces the lost events, and is marked as a gap.
    3. Readers get an error only if all attempts failed, the agent rejects, or it skips ids.
    4. Only UNAVAILABLE, and DEADLINE_EXCEEDED because of the first caller's deadline, count as a break. So
       does a stream of 0.x that ends while the task works and no event was final.
    5. The agent may reject the subscription although it has the task (some forget the streams of a task).
       Then GetTask decides, and readers get the break, not the rejection.

    It begins at once. context: of the caller that began or revived the stream, with the forwarded parameters
    only. tenant: of the request that began it. source: the stream, of which an event may be read;
    None to subscribe anew. on_end: called when the reading has ended in any way. is_final: which status event
    ends a stream of the agent's version; None for versions without such events.
    """

    def __init__(
        self,
        service: Service,
        options: ReplayOptions,
        is_final: Finality | None,
        log: ReplayLog,
        context: CallContext,
        tenant: str,
        on_end: Callable[[], None],
        source: Events | None = None,
    ) -> None:
        #: changed by `_to` only
        self.state = OPENING
        self._service = service
        self._options = options
        self._is_final = is_final
        self._log = log
        self._context = context
        self._tenant = tenant
        self._on_end = on_end
        #: ends the stream of a task that is over
        self._end_timer: asyncio.TimerHandle | None = None
        self._attempts = 0
        #: the reason for the last new subscription; None for the first stream
        self._break: A2AError | None = None
        log.reopen()
        source = None if source is None else innermost(source)
        self.task = asyncio.create_task(self._run(source), name=f"a2a gateway stream {log.task_id}")

    def give_up(self) -> None:
        """Stops reading, if that has not ended. The asyncio task closes the agent's stream."""
        self._stop(GIVEN_UP, given_up_error())

    def end_with(self, task: hub.Task) -> None:
        """Ends the stream with the status of its finished task, unless the agent ends it in a moment."""
        # Ids of the agent identify its own events only; agents with ids end their streams.
        if READINGS[self.state] and self._log.ids is not AGENT and self._end_timer is None:
            later = asyncio.get_running_loop().call_later
            self._end_timer = later(_MOMENT, self._end_with, task)

    def _end_with(self, task: hub.Task) -> None:
        if self._log.task_ended:
            return
        update = hub.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
        self._log.add(Event(hub.StreamResponse(status_update=update)))
        self._stop(ENDED)

    def _stop(self, state: Reading, error: A2AError | None = None) -> None:
        """Ends the reading before its source ends; also from within its own asyncio task."""
        before = self.state
        self._end(state, error)
        # A task that is cancelled before its first step would not close the stream. So it takes it.
        if before is OPEN:
            self.task.cancel()

    def _to(self, state: Reading) -> None:
        if state not in READINGS[self.state]:
            raise IllegalStateError("the reading of a stream", self.state, state)
        self.state = state

    def _end(self, state: Reading, error: A2AError | None = None) -> None:
        """Readers of the log end, or get the error, after the last event. Only the first end counts."""
        # A reading is given up while it adds an event, if the event evicts the stream. The end of the source,
        # or the timer of `end_with`, then ends it again before the cancellation of the task takes effect.
        if not READINGS[self.state]:
            return
        self._to(state)
        if self._end_timer is not None:
            self._end_timer.cancel()
        if error is not None:
            self._log.break_off(error)
        self._log.end()
        self._on_end()

    async def has_moved(self) -> bool:
        """True if the task has left the state in which its stream ended; False if the agent does not tell."""
        log = self._log
        before = log.snapshot()
        try:
            now = (await self._get_task()).status
        except A2AError as failure:
            logger.debug("whether task %s has gone on is not known: %s", log.task_id, failure)
            return False
        if before is None:
            return now.state != log.state
        return (now.state, now.timestamp) != (before.status.state, before.status.timestamp)

    async def _run(self, source: Events | None) -> None:
        if self.state is not OPENING:
            if source is not None:
                await source.aclose()
            return
        self._to(OPEN)
        try:
            if source is None:
                source = await self._open_continuation()
            while source is not None:
                failure = await self._read(source)
                source = await self._open_continuation() if await self._broke(failure) else None
        except A2AError as failure:
            self._end(FAILED, failure)
        except Exception:
            logger.exception("the stream of task %s failed", self._log.task_id)
            self._end(FAILED, internal_error())
        else:
            self._end(ENDED)

    async def _read(self, source: Events) -> A2AError | None:
        """Reads a stream to its end, and closes it. Returns the error that ended it."""
        log = self._log
        try:
            await log.room()
            async for event in source:
                log.add(event)
                self._attempts = 0
                if log.crowded:
                    await log.room()
        except A2AError as failure:
            return failure
        finally:
            await source.aclose()
        return None

    # ------------------------------------------------------------------ after a break

    async def _broke(self, failure: A2AError | None) -> bool:
        """True if the end of the source is a break. Raises the failure if it is the agent's response."""
        log = self._log
        if failure is None:
            if self._has_ended_early():
                self._break = ended_early_error()
                return not await self._has_settled(self._break)
            resting = log.state in FINAL_STATES or not log.regular
            if self._break is not None and not resting and log.ids is not AGENT:
                await self._settle(self._break)
            return False
        if log.task_ended or (log.state in FINAL_STATES and not await self.has_moved()):
            logger.debug("a stream broke after the task had come to rest: %s", failure)
            return False
        if isinstance(failure, LostEventsError) or not log.regular or not self._is_break(failure):
            raise failure
        logger.debug("the stream of task %s broke: %s", log.task_id, failure)
        self._break = failure
        return True

    def _is_break(self, error: A2AError) -> bool:
        if error.reason is Reason.DEADLINE_EXCEEDED:
            return self._context.deadline is not None and error.metadata.get("phase") != SILENCE
        return error.reason is Reason.UNAVAILABLE

    def _has_ended_early(self) -> bool:
        """True if the agent closed its first stream without a final event, although its version has them."""
        log = self._log
        if self._is_final is None or self._break is not None or not log.regular:
            return False
        last = log.events[-1].message if log.events else hub.StreamResponse()
        return must_go_on(self._is_final, last, log.state)

    async def _open_continuation(self) -> Events | None:
        """A stream that continues after the log; None if the task is over. Raises the first error."""
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
                logger.debug("task %s cannot be subscribed to: %s", self._log.task_id, failure)
                self._break = self._break or failure
        raise self._break or LostEventsError()

    async def _subscribe(self) -> Events | None:
        log = self._log
        after = log.agent_id
        parameters = dict(self._context.parameters)
        if after:
            parameters[LAST_EVENT_PARAMETER] = after
        # Without a version, so that streams of older agents get the newest form: a task comes first.
        context = self._context.replace(
            parameters=parameters, deadline=None, origin=IN_PROCESS, reply=ResponseParameters()
        )
        request = hub.SubscribeToTaskRequest(id=log.task_id, tenant=self._tenant)
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
            if failure.reason not in _REJECTIONS:
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
        if log.task_ended:
            await source.aclose()
            return None
        return innermost(source)

    async def _join(self, first: Event, *, resumed: bool) -> None:
        """Adds the first event of a new stream: the next event, or a snapshot in place of lost events."""
        log = self._log
        is_task = first.message.HasField("task") and first.message.task.id == log.task_id
        if not (resumed and not first.gap and (log.ids is AGENT or not is_task)):
            if log.ids is AGENT:
                log.mark_irregular()
                raise LostEventsError
            self._add_gap(first.message.task if is_task else await self._get_task())
            if is_task:
                return
        log.add(first)
        self._attempts = 0

    def _add_gap(self, now: hub.Task) -> None:
        log = self._log
        snapshot = hub.StreamResponse(task=now)
        unmark(snapshot.task)
        if log.events and log.events[-1].gap and log.snapshot() == snapshot.task:
            return  # the same gap: no event arrived since
        id_ = log.id(log.last + 1)
        mark_gap(snapshot.task, log.id(log.last), id_)
        # Without an id of its own, unless the ids are the agent's: the agent cannot resume after it.
        log.add(Event(snapshot, id_ if log.ids is AGENT else "", gap=True))

    async def _has_settled(self, rejected: A2AError) -> bool:
        """True if the task has come to rest; then readers get it. Asks the agent once."""
        try:
            await self._settle(rejected)
        except A2AError as failure:
            if failure is not rejected:
                logger.debug("how task %s ended is not known: %s", self._log.task_id, failure)
            return False
        return True

    async def _settle(self, rejected: A2AError) -> None:
        """Passes a task at rest to readers. Raises `rejected` if it is not at rest, and errors of GetTask."""
        task = await self._get_task()
        if task.status.state not in FINAL_STATES:
            raise rejected
        self._add_gap(task)

    async def _get_task(self) -> hub.Task:
        """Raises the agent's error, and UNAVAILABLE after a timeout."""
        context = self._context.replace(deadline=None, origin=IN_PROCESS)
        begun = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(tenant=self._tenant), context)
        return await fetch_task(self._service, begun, self._log.task_id)
