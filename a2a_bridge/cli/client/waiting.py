"""Waits for a task: by its stream, and by looking again when there is no stream or it breaks.

Rules (SPEC.md 7):
1. A wait ends with a terminal state, and at once with one that asks the caller for something. An unspecified
   state is neither.
2. Looks at a task have growing pauses, up to `--poll-interval`. A time-out is the caller's.
3. A message is sent once. When its stream breaks before its task is known, the error is the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from a2a_bridge.cli.client import text
from a2a_bridge.cli.client.reaching import Session
from a2a_bridge.cli.output import print_message
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.lifecycle import IllegalTransitionError, fold
from a2a_bridge.core.messages import INTERRUPTED, TERMINAL
from a2a_bridge.following import Following
from a2a_bridge.pb import lf_a2a_v1 as hub

#: states in which nothing happens without the caller
RESTING = TERMINAL | INTERRUPTED
_FIRST = 0.1
#: seconds that a stream has to end after its last event
_END = 1.0
_FOLLOWING = Following(attempts=3)


async def poll(
    session: Session, task: hub.Task, interval: float, request: hub.GetTaskRequest | None = None
) -> AsyncGenerator[hub.Task, None]:
    """Looks at a task until it rests; yields it whenever it has changed. request: of each look. Raises
    A2AError.
    """
    request = request or hub.GetTaskRequest(id=task.id)
    pause = min(_FIRST, interval)
    session.task = task
    while session.task.status.state not in RESTING:
        await asyncio.sleep(pause)
        pause = min(pause * 2, interval)
        found = await session.peer.get_task(request, session.context)
        if found != session.task:
            session.task = found
            yield found


async def send_and_wait(
    session: Session, request: hub.SendMessageRequest, interval: float, *, streamed: bool = False
) -> AsyncGenerator[hub.StreamResponse, None]:
    """Sends a message and yields events until its task rests. streamed: whether somebody looks at the events;
    else the agent streams if it can, and the last event is the whole task.
    """
    if session.card.capabilities.streaming:
        events = session.peer.events(request, _FOLLOWING, session.context)
        try:
            asked = bool(request.message.task_id)
            complete = _complete(session, events, interval, whole=not streamed, asked=asked)
            async with aclosing(complete):
                async for event in complete:
                    yield event
        except A2AError as error:
            # The agent has rejected the operation, and not seen the message.
            if session.task is not None or error.reason not in _NO_STREAMS:
                raise
        else:
            return
    if streamed:
        print_message("note: the agent does not stream; its task is looked at instead", "yellow")
    # With its id known at once, nothing is lost by an interruption.
    request.configuration.return_immediately = True
    answer = await session.peer.send_message(request, session.context)
    if answer.WhichOneof("payload") == "message":
        yield hub.StreamResponse(message=answer.message)
        return
    remember(session, answer.task)
    yield hub.StreamResponse(task=answer.task)
    async with aclosing(poll(session, answer.task, interval)) as looks:
        async for task in looks:
            yield hub.StreamResponse(task=task)


async def subscribe_and_wait(
    session: Session, task_id: str, interval: float, *, streamed: bool
) -> AsyncGenerator[hub.StreamResponse, None]:
    """The events of a task until it rests. streamed: as for `send_and_wait`."""
    if not session.card.capabilities.streaming:
        print_message("note: the agent does not stream; the task is looked at instead", "yellow")
        task = await session.peer.get_task(hub.GetTaskRequest(id=task_id), session.context)
        remember(session, task)
        yield hub.StreamResponse(task=task)
        async with aclosing(poll(session, task, interval)) as looks:
            async for looked in looks:
                yield hub.StreamResponse(task=looked)
        return
    events = session.peer.events(hub.SubscribeToTaskRequest(id=task_id), _FOLLOWING, session.context)
    async with aclosing(_complete(session, events, interval, whole=not streamed)) as complete:
        async for event in complete:
            yield event


async def _complete(
    session: Session,
    events: AsyncGenerator[object, None],
    interval: float,
    *,
    whole: bool,
    asked: bool = False,
) -> AsyncGenerator[hub.StreamResponse, None]:
    """The events of a stream, and what follows if it breaks or ends early. whole: ends with the task. asked:
    the task may still ask in the first event, for what was just sent.
    """
    task: hub.Task | None = None
    broken: A2AError | None = None
    try:
        async with aclosing(events):
            async for event in events:
                message: hub.StreamResponse = event.message  # type: ignore[attr-defined]
                if message.WhichOneof("payload") == "message":
                    yield message
                    return
                task = _fold(task, message)
                remember(session, task)
                yield message
                asks_still, asked = asked and message.HasField("task"), False
                if task.status.state in (TERMINAL if asks_still else RESTING):
                    await _read_end(events, task)
                    break
    except A2AError as error:
        if task is None or error.blame is not Blame.PEER or error.reason not in _BROKEN:
            raise
        broken = error
    if task is None:
        text_ = "the stream ended without an event"
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, text_, blame=Blame.PEER)
    if task.status.state not in RESTING:
        why = f" ({broken.message})" if broken is not None else ""
        print_message(f"note: the stream broke{why}; the task is looked at instead", "yellow")
        async with aclosing(poll(session, task, interval)) as looks:
            async for looked in looks:
                task = looked
                yield hub.StreamResponse(task=task)
    elif whole:
        yield hub.StreamResponse(task=task)


async def _read_end(events: AsyncGenerator[object, None], task: hub.Task) -> None:
    """Reads the end of a stream whose task has ended: some agents leave it open. That of a task which asks
    for something may stay open for long.
    """
    if task.status.state in TERMINAL:
        with suppress(TimeoutError):
            async with asyncio.timeout(_END):
                async for _ in events:
                    pass


#: answers of agents that do not stream
_NO_STREAMS = frozenset({Reason.UNSUPPORTED_OPERATION, Reason.METHOD_NOT_FOUND})
#: reasons of streams that ended although the task goes on
_BROKEN = frozenset({Reason.UNAVAILABLE, Reason.RESOURCE_EXHAUSTED, Reason.INTERNAL_ERROR, Reason.CANCELLED})


def _fold(task: hub.Task | None, event: hub.StreamResponse) -> hub.Task:
    """The task with one more event."""
    if task is None:
        task = hub.Task()
    try:
        fold(task, event)
    except IllegalTransitionError:
        # The agent breaks the rules of states; what it says last counts.
        if event.WhichOneof("payload") == "status_update":
            task.status.CopyFrom(event.status_update.status)
    update = getattr(event, event.WhichOneof("payload") or "task")
    if not task.id:
        task.id, task.context_id = update.task_id, update.context_id
    return task


def remember(session: Session, task: hub.Task) -> None:
    """Remembers a task, and says its id as soon as there is one, so that an interruption does not lose it."""
    if session.task is None or session.task.id != task.id:
        words = f"task {task.id}, context {task.context_id}"
        print_message(f"{words}: {text.state_name(task.status.state)}", "dim")
    session.task = task
