"""`send` and `chat`: from the flags to messages; and the wait for a task after a message.

Rules of a wait (SPEC.md 7): a task is followed by its stream, and looked at again when there is no stream or
the stream breaks.
1. A terminal state ends a wait, as does a state that asks the caller for something; an unspecified state does
   not.
2. Looks at a task have growing pauses: up to `--poll-interval`, and up to `_LONGEST` for a task that does not
   change. A time-out is the caller's.
3. A message is sent once. When its stream breaks before its task is known, the error is the result.
4. A break and its cause are shown at once. From then on, and for an agent that does not stream, the wait ends
   when nothing has changed for `--silence-timeout`: some agents leave a task as it was when they failed.
5. Agents of 0.x answer with several messages in one stream. Each message is an event, and the end of the
   stream is the end of the answer.

`chat` needs a terminal on both sides; anywhere else it ends at once and names `send`. The context of the
first response goes with every further message, and the task only while it asks for something.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

import typer

from a2a_bridge.app.peer import request_of
from a2a_bridge.bindings.following import Following
from a2a_bridge.cli.environment import Environment
from a2a_bridge.cli.output import be_quiet, fail, print_message
from a2a_bridge.cli.values import Exit, as_usage_error, usage_error
from a2a_bridge.codec import DecodeError, decoder
from a2a_bridge.core.errors import A2AError, Blame, Kind, Reason
from a2a_bridge.core.lifecycle import ArtifactIndex, IllegalTransitionError, fold
from a2a_bridge.core.messages import AT_REST, INTERRUPTED, TERMINAL
from a2a_bridge.core.service import Event, Events
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.flags import ContinueFlags, SendFlags, WaitFlags
from a2a_bridge_tools.client.parts import json_object, parts_of
from a2a_bridge_tools.client.reaching import Session, SilentTaskError, run
from a2a_bridge_tools.client.results import check, show_answer, show_end, show_events, show_waiting

_decode_struct = decoder(Struct)


def send_message(context: typer.Context, text: str | None, flags: SendFlags) -> None:
    """Sends the message of the flags and prints the result. Raises typer.Exit and typer.BadParameter."""
    order = Environment.of(context).order
    if flags.return_immediately and flags.wait and {"wait", "return_immediately"} <= set(order):
        raise usage_error("--async", "is the opposite of --wait")
    if flags.check and flags.return_immediately:
        raise usage_error("--check", "needs the end of the task, and --async leaves before; leave one out")
    if flags.quiet and flags.verbose:
        raise usage_error("--quiet", "is the opposite of --verbose")
    request = request_with(parts_of(text, flags, order), flags)
    wait = flags.wait and "return_immediately" not in order
    be_quiet(flags.quiet)
    try:
        run(
            context,
            flags,
            partial(_sent, request=request, flags=flags, now=flags.return_immediately and not wait),
        )
    finally:
        be_quiet(False)


def request_with(parts: list[hub.Part], flags: ContinueFlags) -> hub.SendMessageRequest:
    """A request with the ids and the metadata of the flags. Raises typer.BadParameter."""
    request = request_of(parts, task=flags.task_id, context_id=flags.context_id)
    if flags.metadata:
        with as_usage_error("--metadata", DecodeError):
            request.metadata.CopyFrom(_decode_struct(json_object(flags.metadata, "--metadata")))
    return request


async def _sent(session: Session, *, request: hub.SendMessageRequest, flags: SendFlags, now: bool) -> None:
    if now:
        request.configuration.return_immediately = True
        async with show_waiting(session, request):
            answer = await session.peer.send_message(request, session.context)
        if answer.HasField("task"):
            remember(session, answer.task)
            show_answer(session, hub.StreamResponse(task=answer.task), flags)
        else:
            show_answer(session, hub.StreamResponse(message=answer.message), flags)
        return
    events = send_and_wait(session, request, flags, streamed=flags.stream)
    async with show_waiting(session, request):
        last = await show_events(session, events, flags, live=flags.stream)
    if last is not None and not flags.stream:
        show_end(session, last, flags)
    if flags.check and session.task is not None:
        check(session.task)


def talk(context: typer.Context, flags: ContinueFlags) -> None:
    """Talks until the end of the input. Raises typer.Exit."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise fail(Exit.USAGE, "chat needs a terminal", "a2a-bridge send, with --context-id and --task-id")
    run(context, flags, partial(_talk, flags=flags))


async def _talk(session: Session, *, flags: ContinueFlags) -> None:
    context_id, task_id = flags.context_id, flags.task_id
    while True:
        print_message(f"to {session.card.name or 'the agent'}" + (" (it asks)" if task_id else ""), "dim")
        line = await asyncio.to_thread(sys.stdin.readline)
        text = line.strip()
        if not line or text == "/quit":
            return
        if not text:
            continue
        request = request_with([hub.Part(text=text)], flags)
        request.message.context_id, request.message.task_id = context_id, task_id
        session.task = None
        events = send_and_wait(session, request, flags, streamed=True)
        try:
            last = await show_events(session, events, flags, live=True)
        except A2AError as error:
            # A conversation outlives a message that is rejected.
            print_message(f"error: {error.message}", "red")
            continue
        if last is not None and last.HasField("message"):
            context_id = last.message.context_id or context_id
            task_id = last.message.task_id
        elif (task := _task(session)) is not None:
            context_id = task.context_id or context_id
            task_id = task.id if task.status.state in INTERRUPTED else ""


def _task(session: Session) -> hub.Task | None:
    return session.task


_FIRST = 0.1
#: seconds between two looks at a task that does not change
_LONGEST = 30.0
#: the part of the time without a change that is waited for the next look
_SHARE = 0.1
#: seconds that a stream has to end after its last event
_END = 1.0
#: seconds that an agent has for a further message, if there is no task
_FURTHER = 30.0


@dataclass(slots=True)
class Silence:
    """How long nothing has changed. limit: seconds, after which a wait ends; 0: none."""

    limit: float
    #: why the stream broke, if it did
    cause: A2AError | None = None
    #: whether the limit counts: an unbroken stream shows by itself that its agent is there
    counts: bool = False
    _since: float = field(init=False)
    _clock: asyncio.Timeout | None = None

    def __post_init__(self) -> None:
        self.changed()

    def changed(self) -> None:
        """Notes an event or another task."""
        self._since = monotonic()

    @property
    def seconds(self) -> float:
        """The time without a change."""
        return monotonic() - self._since

    def broke(self, error: A2AError | None) -> None:
        """Says at once that the stream broke, and is resumed. error: why, if it did not just end."""
        self.say_broken(error, "it is resumed")
        self.cause, self.counts = error or self.cause, True
        if self._clock is not None:
            self._clock.reschedule(self._until())

    def say_broken(self, error: A2AError | None, instead: str) -> None:
        """Says that the stream broke, what happens instead, and how long that is waited for."""
        why = f" ({error.message})" if error is not None else ""
        ends = f" for at most {self.limit:g} s without a change (--silence-timeout)" if self.limit else ""
        text_ = f"note: the stream broke{why}; {instead}{ends}. Ctrl+C leaves, and the task goes on"
        print_message(text_, "yellow")

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Raises SilentTaskError when the limit is over while the block runs."""
        try:
            async with asyncio.timeout_at(self._until()) as self._clock:
                yield
        except TimeoutError:
            if self._clock is None or not self._clock.expired():
                raise
            raise SilentTaskError(self.limit, self.cause) from None
        finally:
            self._clock = None

    def _until(self) -> float | None:
        if not (self.limit and self.counts):
            return None
        return asyncio.get_running_loop().time() + max(self.limit - self.seconds, 0.0)


async def poll(
    session: Session,
    task: hub.Task,
    flags: WaitFlags,
    request: hub.GetTaskRequest | None = None,
    silence: Silence | None = None,
) -> AsyncGenerator[hub.Task, None]:
    """Yields a task whenever it changes, until it rests. silence: of the stream before. Raises A2AError."""
    request = request or hub.GetTaskRequest(id=task.id)
    silence = silence or Silence(flags.silence_timeout)
    silence.counts = True
    pause = min(_FIRST, flags.poll_interval)
    session.task = task
    while session.task.status.state not in AT_REST:
        async with silence.watched():
            await asyncio.sleep(pause)
            found = await session.peer.get_task(request, session.context)
        pause = min(pause * 2, max(flags.poll_interval, min(silence.seconds * _SHARE, _LONGEST)))
        if found != session.task:
            session.task = found
            silence.changed()
            pause = min(pause, flags.poll_interval)
            yield found


async def send_and_wait(
    session: Session, request: hub.SendMessageRequest, flags: WaitFlags, *, streamed: bool = False
) -> AsyncGenerator[hub.StreamResponse, None]:
    """Sends a message and yields events until its task rests. streamed: whether somebody looks at the events;
    else the agent streams if it can, and the last event is the whole task.
    """
    if session.card.capabilities.streaming:
        try:
            asked = bool(request.message.task_id)
            complete = _complete(session, request, flags, whole=not streamed, asked=asked)
            async with aclosing(complete):
                async for event in complete:
                    yield event
        except A2AError as error:
            # The agent has rejected the operation, and not seen the message.
            if session.task is not None or error.reason.kind is not Kind.LACKING:
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
    async with aclosing(poll(session, answer.task, flags)) as looks:
        async for task in looks:
            yield hub.StreamResponse(task=task)


async def subscribe_and_wait(
    session: Session, task_id: str, flags: WaitFlags, *, streamed: bool
) -> AsyncGenerator[hub.StreamResponse, None]:
    """The events of a task until it rests. streamed: as for `send_and_wait`."""
    if not session.card.capabilities.streaming:
        print_message("note: the agent does not stream; the task is looked at instead", "yellow")
        task = await session.peer.get_task(hub.GetTaskRequest(id=task_id), session.context)
        remember(session, task)
        yield hub.StreamResponse(task=task)
        async with aclosing(poll(session, task, flags)) as looks:
            async for looked in looks:
                yield hub.StreamResponse(task=looked)
        return
    request = hub.SubscribeToTaskRequest(id=task_id)
    async with aclosing(_complete(session, request, flags, whole=not streamed)) as complete:
        async for event in complete:
            yield event


async def _complete(
    session: Session,
    request: hub.SendMessageRequest | hub.SubscribeToTaskRequest,
    flags: WaitFlags,
    *,
    whole: bool,
    asked: bool = False,
) -> AsyncGenerator[hub.StreamResponse, None]:
    """The events of a stream, and what follows if it breaks or ends early. whole: ends with the task. asked:
    the task may still ask in the first event, for what was just sent.
    """
    task: hub.Task | None = None
    index = ArtifactIndex()
    spoken = False
    broken: A2AError | None = None
    silence = Silence(flags.silence_timeout)
    following = Following(attempts=3, on_break=silence.broke)
    try:
        async with aclosing(session.peer.events(request, following, session.context)) as events:
            while event := await _next(events, silence, _FURTHER if spoken and task is None else None):
                silence.changed()
                message = event.message
                if message.HasField("message"):
                    spoken = True
                    yield message
                    continue
                task = _fold(task, message, index)
                remember(session, task)
                yield message
                asks_still, asked = asked and message.HasField("task"), False
                if task.status.state in (TERMINAL if asks_still else AT_REST):
                    async for late in _read_end(events, task):
                        yield late
                    break
    except A2AError as error:
        if task is None or error.blame is not Blame.PEER or error.reason not in _BROKEN:
            raise
        broken = error
    if task is None:
        if spoken:
            return
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, "the stream ended without an event", blame=Blame.PEER)
    if task.status.state not in AT_REST:
        silence.say_broken(broken, "the task is looked at instead")
        silence.cause = broken or silence.cause
        async with aclosing(poll(session, task, flags, silence=silence)) as looks:
            async for looked in looks:
                task = looked
                yield hub.StreamResponse(task=task)
    elif whole:
        yield hub.StreamResponse(task=task)


async def _next(events: Events, silence: Silence, seconds: float | None) -> Event | None:
    """The next event; None at the end. seconds: that the stream has for it; then it counts as ended."""
    try:
        async with silence.watched(), asyncio.timeout(seconds):
            return await anext(events, None)
    except TimeoutError:
        print_message("note: the agent leaves its stream open; it is not read any further", "yellow")
        return None


async def _read_end(events: Events, task: hub.Task) -> AsyncGenerator[hub.StreamResponse, None]:
    """Reads the end of a stream whose task has ended, and yields its messages: some agents leave the stream
    open. The stream of a task that asks for something may stay open for long.
    """
    end = asyncio.get_running_loop().time() + _END
    with suppress(TimeoutError):
        while task.status.state in TERMINAL:
            async with asyncio.timeout_at(end):
                event = await anext(events, None)
            if event is None:
                return
            if event.message.HasField("message"):
                yield event.message


#: reasons of streams that ended although the task goes on
_BROKEN = frozenset({Reason.UNAVAILABLE, Reason.RESOURCE_EXHAUSTED, Reason.INTERNAL_ERROR, Reason.CANCELLED})


def _fold(task: hub.Task | None, event: hub.StreamResponse, index: ArtifactIndex) -> hub.Task:
    """The task with one more event."""
    if task is None:
        task = hub.Task()
    try:
        task = fold(task, event, index)
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
