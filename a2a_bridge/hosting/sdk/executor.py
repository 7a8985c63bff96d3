"""An executor of the SDK at work: its events, from the queue that it was given to the engine.

Rules:
1. Each call of the executor has an asyncio task of its own, which ends before the generator does. It is never
   blocked on the queue when it is cancelled: a closed queue takes no more events.
2. The queue is bounded, so an executor that is faster than its store waits.
3. Nothing of an exception reaches callers, unless it is an error of the SDK that is meant for them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

from a2a_bridge.core.errors import A2AError, Reason, internal_error
from a2a_bridge.core.extras import check_served
from a2a_bridge.core.messages import RUNNING
from a2a_bridge.hosting.crash_log import CrashLog
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.hosting.sdk.types import SdkTypes, installed_types
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting.sdk")

#: events that an executor may be ahead of the engine
_AHEAD = 64

#: the oldest version of a2a-sdk whose executors are served
OLDEST = "0.3"

MASKED = "the agent failed while working on the task"

#: no event so far, and a direct message, beside the states of tasks
_NOTHING, _MESSAGE = -1, -2

_Call = Callable[[Any, Any], Awaitable[None]]


class EventBuffer:
    """The bounded buffer of the queue that an executor gets. A class of queues of the SDK is made with it."""

    def __init__(self, task_id: str) -> None:
        self.events: deque[Any] = deque()
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._task_id = task_id
        self._warned = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        #: queues of the SDK that `tap` has made of this one
        self._children: list[Any] = []

    async def enqueue_event(self, event: Any) -> None:
        """Adds an event, and waits while the buffer is full. Event loops of other threads may call it."""
        if self.closed:
            self._warn()
            return
        self.events.append(event)
        is_own = asyncio.get_running_loop() is self._loop
        if is_own:
            self.wake()
        else:
            self._loop.call_soon_threadsafe(self.wake)
        for child in self._children:
            await child.enqueue_event(event)
        if len(self.events) < _AHEAD:
            return
        if is_own:
            await self._room()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._room(), self._loop))

    async def _room(self) -> None:
        """Waits while the buffer is full."""
        while len(self.events) >= _AHEAD and not self.closed:
            writer = self._loop.create_future()
            self._writers.append(writer)
            await writer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def is_closed(self) -> bool:
        """True if no more events are taken."""
        return self.closed

    async def close(self, immediate: bool = False) -> None:
        """Takes no more events. immediate: True to drop those that are in the buffer."""
        self.closed = True
        if immediate:
            self.events.clear()
        self.release()

    async def changed(self) -> None:
        """Waits for an event, or for `wake`. For one reader."""
        self._reader = self._loop.create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    def wake(self, *_: object) -> None:
        """Ends the wait of the reader."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def release(self) -> None:
        """Ends the wait of all writers."""
        writers, self._writers = self._writers, []
        for writer in writers:
            if not writer.done():
                writer.set_result(None)

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "task %s: an event after the end of the executor's call is dropped, where the SDK's server"
                " may take it: await the work within `execute`",
                self._task_id,
            )


class SdkExecutor:
    """An executor of the SDK as one of ours. mask: True to replace the texts of failures."""

    def __init__(self, executor: Any, types: SdkTypes, *, mask: bool) -> None:
        self.sdk_executor = executor
        self._types = types
        self._mask = mask
        self._crashes = CrashLog(log)
        self._queue: Any = type("Queue", (EventBuffer, types.queue), {})

    def execute(self, run: Run, /) -> AsyncIterator[Event]:
        return self._events(run, self.sdk_executor.execute)

    def cancel(self, run: Run, /) -> AsyncIterator[Event]:
        return self._events(run, self.sdk_executor.cancel, cancels=True)

    async def _events(self, run: Run, call: _Call, *, cancels: bool = False) -> AsyncIterator[Event]:
        types = self._types
        named = run.message.reference_task_ids
        related = [one for task_id in named if (one := await run.find_task(task_id)) is not None]
        context = types.request_context(run, related)
        queue = self._queue(run.task_id)
        events = queue.events
        # Not at once: with many callers, all of their runs would be done in one turn of the loop.
        work = asyncio.create_task(_work(call, context, queue), name=f"a2a sdk {run.task_id}")
        work.add_done_callback(queue.wake)
        state = _NOTHING if run.task is None else run.task.status.state
        stateless = hub.TASK_STATE_WORKING  # the state of a status that names none
        try:
            while True:
                while events:
                    event: Any = types.event(events.popleft(), run)
                    if queue._writers and len(events) * 2 <= _AHEAD:  # noqa: SLF001
                        queue.release()
                    if event is not None and types.message_is_end:
                        event = _before_end(event, state, run)
                    if event is None:
                        continue
                    # Not by isinstance: it asks the metaclass of a class of protobuf, for each event.
                    if type(event) is hub.TaskArtifactUpdateEvent:
                        state = max(state, hub.TASK_STATE_SUBMITTED)
                    elif type(event) is hub.Message:
                        state = _MESSAGE
                    else:
                        status: hub.TaskStatus = event.status
                        state = status.state
                        if type(event) is hub.TaskStatusUpdateEvent:
                            if not state:
                                state = status.state = stateless
                            elif state != hub.TASK_STATE_SUBMITTED:
                                stateless = state
                        if self._mask and state == hub.TASK_STATE_FAILED:
                            _mask_failure(status, run.task_id)
                    activated = types.activated(context)
                    if activated:
                        run.context.reply["a2a-extensions"] = ", ".join(sorted(activated))
                    yield event
                if work.done():
                    break
                await queue.changed()
            if work.cancelled():
                raise RuntimeError("the executor has cancelled itself")
            raised = work.exception()
            if raised is not None:
                raise self._error(raised, run, begun=state >= 0)
            if not cancels:
                _note_end(run, state)
        finally:
            await queue.close()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
            if not work.cancelled():
                work.exception()  # otherwise asyncio reports it as lost

    def _error(self, raised: BaseException, run: Run, *, begun: bool) -> BaseException:
        error = self._types.error(raised)
        if error is None:
            return raised
        fails_task = begun and not isinstance(run.request, hub.CancelTaskRequest)
        if self._mask and (fails_task or error.reason is Reason.INTERNAL_ERROR):
            self._crashes.error(raised, "the executor of task %s failed", run.task_id)
            return A2AError(Reason.INTERNAL_ERROR, MASKED) if fails_task else internal_error()
        if fails_task:
            log.warning(
                "task %s: the executor raised %s after its task began: the task fails with the text, where"
                " the SDK's server gives the caller the error. Raise it before the first event, or enqueue a"
                " failed status",
                run.task_id,
                type(raised).__name__,
            )
        return error


class ResumingSdkExecutor(SdkExecutor):
    """An executor of the SDK that continues its tasks after a restart: `execute` gets the task so far as
    `current_task`, and the newest message of the user again.
    """

    def resume(self, run: Run, /) -> AsyncIterator[Event]:
        """The events of the SDK's `execute` for an interrupted task."""
        return self._events(run, self.sdk_executor.execute)


async def _work(call: _Call, context: Any, queue: Any) -> None:
    try:
        await call(context, queue)
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        # They would end the event loop from an asyncio task, and the generator of the events.
        raise RuntimeError(f"the executor raised {type(error).__name__}") from error


def _mask_failure(status: hub.TaskStatus, task_id: str) -> None:
    """Replaces the text of a failure."""
    if status.HasField("message"):
        text = "".join(part.text for part in status.message.parts)
        log.error("the executor of task %s failed: %s", task_id, text)
        del status.message.parts[:]
        status.message.parts.add().text = MASKED


def _before_end(event: Event, state: Any, run: Run) -> Event | None:
    """An event where the first message is the end of a run: nothing after a message, and a message after a
    task as its status, because a message cannot follow a task in the protocol.
    """
    if state == _MESSAGE:
        log.warning("task %s: an event after a direct message is dropped", run.task_id)
        return None
    if state < 0 or not isinstance(event, hub.Message):
        return event
    event.task_id = run.task_id
    made = hub.TaskStatusUpdateEvent(task_id=run.task_id, context_id=run.context_id)
    made.status.state = hub.TASK_STATE_COMPLETED if state in RUNNING else state
    made.status.message.CopyFrom(event)
    return made


def _note_end(run: Run, state: int) -> None:
    """Logs an end that the SDK's server treats differently."""
    if state == _NOTHING:
        log.warning(
            "task %s: the executor enqueued nothing, and the caller gets an error, where the SDK's server"
            " waits for ever. Enqueue a message or a task",
            run.task_id,
        )
    elif state in RUNNING:
        log.warning(
            "task %s: the executor returned while the task was at work, and the task fails, where the SDK's"
            " server leaves it as it is. Await the work within `execute`, and enqueue a final status",
            run.task_id,
        )


def adopt(executor: Any, *, resume: bool, mask_errors: bool) -> SdkExecutor:
    """An executor of the SDK as one of ours. resume: see `ResumingSdkExecutor`. mask_errors: True to replace
    the texts of failed statuses and of internal errors, which some executors fill with exceptions. Raises
    UnservedVersionError.
    """
    check_served("a2a-sdk", OLDEST)
    kind = ResumingSdkExecutor if resume else SdkExecutor
    return kind(executor, installed_types(), mask=mask_errors)
