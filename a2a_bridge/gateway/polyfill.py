"""Makes an agent of an older version answer like 1.0: missing operations are emulated here, or rejected.

Agents whose dialect lacks nothing are not wrapped. Rules:
1. ListTasks is answered from the tasks that have passed through this process (see `tasks.TaskLists`).
2. History is cut here as the caller requested, because 0.x agents read `historyLength: 0` in several ways.
3. Every other missing operation is UNSUPPORTED_OPERATION with an explanation, before the agent is called.
4. Streams of a 0.x agent get the shape of 1.0 (`begun_by_a_task`).
5. Two faults of single agents are corrected here, too: an address that takes only messages to stream
   (`StreamOnly`), and streaming that is declared and rejected (`Unstreamed`).
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, cast

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import ScopeOf
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.lifecycle import ArtifactIndex, IllegalTransitionError, fold
from a2a_bridge.core.messages import INTERRUPTED, RUNNING, is_terminal, shortened
from a2a_bridge.core.operations import Operation, Req, Res
from a2a_bridge.core.resume import event_id, number_of, resume_id
from a2a_bridge.core.service import Event, Events, HandedOver, Service, no_events, open_stream, reject_stream
from a2a_bridge.dialects import JSONRPC, BindingKind, Form, older_versions
from a2a_bridge.dialects.annotation import CLOSING, SNAPSHOT, Finality, finality, synthesise, synthetic_kind
from a2a_bridge.gateway.tasks import TaskLists, Tasks, scopes_by, visible_to
from a2a_bridge.gateway.upstream import Dial, dial
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger("a2a_bridge.gateway.streams")
#: warnings about single agents
_agents_log = logging.getLogger("a2a_bridge.gateway.unstreamed")

#: operations that a version defines and many of its agents lack, on some bindings at least
_OFTEN_MISSING = ops.PUSH | {ops.GET_EXTENDED_AGENT_CARD}


def add_polyfill(tasks: Callable[[], Tasks] | None = None, *, lists: bool = True, dial: Dial = dial) -> Dial:
    """How to dial the interfaces of an agent so that all answer like 1.0; see `dial_failover`. tasks: returns
    the table of an interface; by default, all have the same table. lists: False makes ListTasks
    UNSUPPORTED_OPERATION.
    """
    shared = Tasks()

    @asynccontextmanager
    async def dial_polyfilled(candidate: Candidate, options: DialOptions) -> AsyncIterator[Service]:
        async with dial(candidate, options) as service:
            scoped = scopes_by(options.forward)
            whole = StreamOnly(service) if is_stream_only(candidate.interface) else service
            own = shared if tasks is None else tasks()
            yield polyfill(whole, candidate, own if lists else None, scoped)

    return dial_polyfilled


def polyfill(
    service: Service, candidate: Candidate, tasks: Tasks | None, scoped: ScopeOf = visible_to
) -> Service:
    """The client side of an interface with the operations that its version lacks, if it lacks any. tasks: the
    tasks of lists; None without lists. scoped: the scope of a call.
    """
    dialect = candidate.dialect
    form: Form[Any, Any] | None = dialect.form(BindingKind(candidate.interface.protocol_binding))
    lacking: list[Any] = [one for one in ops.ALL if form is None or form.row(one) is None]
    if not lacking and not dialect.final_events:
        return service
    if dialect.final_events:
        # 0.3 describes ListTasks on one binding, in prose; its agents do not implement it.
        lacking.append(ops.LIST_TASKS)
    return _Polyfill(service, candidate, frozenset(lacking), tasks, scoped)


class _Polyfill:
    def __init__(
        self,
        service: Service,
        candidate: Candidate,
        lacking: frozenset[Operation[Any, Any]],
        tasks: Tasks | None,
        scoped: ScopeOf,
    ) -> None:
        dialect = candidate.dialect
        self._service = service
        self._version = dialect.version
        self._is_final = finality(dialect, candidate.interface.protocol_binding)
        self._older = older_versions() | {dialect.version}
        self._lacking = lacking
        self._tasks = tasks if ops.LIST_TASKS in lacking else None
        self._scoped = scoped
        self._lists = TaskLists(service, self._tasks, scoped) if self._tasks is not None else None

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.operation in self._lacking:
            if call.operation is ops.LIST_TASKS and self._lists is not None:
                return cast("Res", await self._lists.answer(call))
            raise self._lacks(call.operation)
        try:
            response = await self._service.unary(call)
        except A2AError as error:
            if call.operation in _OFTEN_MISSING and error.reason is Reason.METHOD_NOT_FOUND:
                raise self._lacks(call.operation) from error
            raise
        return cast("Res", self._shown(call, response))

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation in self._lacking:
            return reject_stream(self._lacks(call.operation))
        return self._stream(call)

    async def _stream(self, call: Call[Any, Any]) -> Events:
        scope = self._scoped(call.request, call.context) if self._tasks is not None else None
        limit = self._history_limit(call)
        older = call.context.origin.version in self._older
        if older and call.operation is not ops.SUBSCRIBE_TO_TASK:
            source = self._service.stream(call)
        else:
            source = begun_by_a_task(self._service, call, self._is_final, rejects_ended=not older)
        async with aclosing(source) as events:
            async for event in events:
                if self._tasks is not None and scope is not None:
                    self._tasks.note_event(scope, event.message)
                yield _with_history(event, limit)

    def _shown(self, call: Call[Any, Any], response: Any) -> Any:
        """Remembers the task of a response. Returns the response with a history of the requested length."""
        is_sent = isinstance(response, hub.SendMessageResponse)
        if is_sent and response.HasField("task"):
            task = response.task
        elif isinstance(response, hub.Task):
            task = response
        else:
            return response
        if self._tasks is not None:
            self._tasks.note_task(self._scoped(call.request, call.context), task)
        shown = shortened(task, self._history_limit(call))
        if shown is task:
            return response
        return hub.SendMessageResponse(task=shown) if is_sent else shown

    def _history_limit(self, call: Call[Any, Any]) -> int | None:
        """The requested number of messages; None for all, and for callers of 0.x, who get the agent's
        history. Where their request for a task has a 0, it does mean no history.
        """
        request = call.request
        source = request.configuration if isinstance(request, hub.SendMessageRequest) else request
        if not isinstance(source, (hub.SendMessageConfiguration, hub.GetTaskRequest)):
            return None
        if not source.HasField("history_length"):
            return None
        none = isinstance(source, hub.GetTaskRequest) and not source.history_length
        return None if call.context.origin.version in self._older and not none else source.history_length

    def _lacks(self, operation: Operation[Any, Any]) -> A2AError:
        return _unsupported(operation, f"the agent speaks A2A {self._version} and does not offer")


def _with_history(event: Event, limit: int | None) -> Event:
    """An event, whose task has the newest `limit` messages."""
    if not event.message.HasField("task"):
        return event
    task = event.message.task
    shown = shortened(task, limit)
    return event if shown is task else Event(hub.StreamResponse(task=shown), event.id, event.gap)


_UPDATES = ("status_update", "artifact_update")
#: states in which artifacts may follow
_OPEN = RUNNING | INTERRUPTED


async def begun_by_a_task(
    service: Service, call: Call[Any, Any], is_final: Finality, *, rejects_ended: bool
) -> Events:
    """The stream of a call in the form of 1.0, from a `service` that answers like 0.x: the task comes first,
    and `final` is the end. rejects_ended: see rule 4.

    Subscriptions of 0.x callers get the task first, too, because the events before would be lost otherwise.

    Rules:
    1. If the first event is an update, a generated snapshot with a mark (`dialects.annotation`) comes before
       it: the task as GetTask returns it, without the content of later events; or, without a response, the
       content of the update. Which content is later cannot be seen in a task, so after a message to a task
       the artifacts are those from before the message. This costs one GetTask.
    2. A stream ends after a final event, in any state. A closing event that a bridge generated is dropped.
    3. Nothing else changes: several tasks or messages in a row pass unchanged.
    4. A subscription to a task that has ended is UNSUPPORTED_OPERATION for callers of 1.0 (spec 3.1.6). This
       costs one GetTask. Callers of 0.x get the agent's own answer.
    5. A stream that the agent resumes after an event gets no snapshot.
    """
    subscribes = call.operation is ops.SUBSCRIBE_TO_TASK
    resumes = subscribes and bool(resume_id(call.context))
    if subscribes and not resumes and rejects_ended:
        await _check_running(service, call)
    begun = False
    earlier = await _before_the_send(service, call)
    async with aclosing(service.stream(call)) as events:
        async for event in events:
            message = event.message
            which = message.WhichOneof("payload")
            if which is None:  # an event that is not known here
                yield event
                continue
            if which == "status_update" and synthetic_kind(message.status_update) == CLOSING:
                return
            # An agent with ids has resumed after the requested event.
            if not begun and which in _UPDATES and not (resumes and event.id):
                task = await task_before(service, call, message, SNAPSHOT, earlier)
                yield Event(hub.StreamResponse(task=task), _before(event.id))
            begun = True
            yield event
            if which == "status_update" and is_final(message.status_update):
                return
    if resumes and not begun and rejects_ended:
        # An agent that cannot resume ends the stream of a finished task, although events may be missing.
        await _check_running(service, call)


def _before(id_: str) -> str:
    """The id of a snapshot that contains all events before this event; empty if that is unknown."""
    if not id_:
        return ""
    epoch, _, _ = id_.rpartition("-")
    number = number_of(id_, epoch)
    return event_id(number - 1, epoch) if number else ""


async def _check_running(service: Service, call: Call[Any, Any]) -> None:
    """Raises UNSUPPORTED_OPERATION for a finished task, TASK_NOT_FOUND for an unknown task."""
    try:
        task = await _get(service, call, call.request.id)
    except A2AError as error:
        if error.reason is Reason.TASK_NOT_FOUND:
            raise
        logger.debug("the state of task %s is unknown: %s", call.request.id, error)
        return
    if is_terminal(task.status.state):
        text = "the task has ended; there is nothing to subscribe to"
        raise A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": call.request.id})


async def _before_the_send(service: Service, call: Call[Any, Any]) -> hub.Task | None:
    """The task before a message to it; None if the call sends none, or if the agent does not tell."""
    task_id = call.request.message.task_id if isinstance(call.request, hub.SendMessageRequest) else ""
    if not task_id:
        return None
    try:
        return await _get(service, call, task_id)
    except A2AError as error:
        logger.debug("task %s before a message to it is unknown: %s", task_id, error)
        return None


async def task_before(
    service: Service,
    call: Call[Any, Any],
    first: hub.StreamResponse,
    mark: str,
    earlier: hub.Task | None = None,
) -> hub.Task:
    """The task before a stream that begins with an update, by GetTask if possible. mark: see `synthesise`.
    earlier: the task before the call, if it sent a message to it.
    """
    update: Any = getattr(first, first.WhichOneof("payload") or "")
    try:
        task = await _get(service, call, update.task_id)
    except A2AError as error:
        logger.debug("the snapshot of task %s is made of its first event: %s", update.task_id, error)
        task = hub.Task(id=update.task_id, context_id=update.context_id)
    else:
        _remove_announced(task, call, update, earlier)
        task.ClearField("generation")  # it counts the events that are still to come
    if isinstance(update, hub.TaskStatusUpdateEvent):
        # The agent's current status may be ahead of its events.
        task.status.CopyFrom(update.status)
    elif task.status.state not in (RUNNING if earlier is not None else _OPEN):
        task.status.Clear()
        task.status.state = hub.TASK_STATE_WORKING
    synthesise(task, mark)
    return task


def _remove_announced(task: hub.Task, call: Call[Any, Any], update: Any, earlier: hub.Task | None) -> None:
    """Removes the content of later events from a task; a reader that adds them up would have it twice."""
    if isinstance(call.request, hub.SendMessageRequest):
        sent = call.request.message
        for place, message in enumerate(task.history):
            if sent.message_id and message.message_id == sent.message_id:
                del task.history[place + 1 :]
                break
        if earlier is not None or not sent.task_id:
            del task.artifacts[:]  # of a new task, all are still to come
            task.artifacts.extend(() if earlier is None else earlier.artifacts)
            return
    if not isinstance(update, hub.TaskArtifactUpdateEvent):
        return
    for place, artifact in enumerate(task.artifacts):
        if artifact.artifact_id != update.artifact.artifact_id:
            continue
        count = len(update.artifact.parts)
        if not update.append:
            del task.artifacts[place]
        elif count and list(artifact.parts[-count:]) == list(update.artifact.parts):
            del artifact.parts[-count:]
        return


async def _get(service: Service, call: Call[Any, Any], task_id: str) -> hub.Task:
    """The task by GetTask, for its caller to change."""
    members: dict[str, int] = {}
    configuration = getattr(call.request, "configuration", None)
    if configuration is not None and configuration.HasField("history_length"):
        members["history_length"] = configuration.history_length
    made = hub.Task()
    made.CopyFrom(await fetch_task(service, call, task_id, **members))
    return made


_PATH = "/message:stream"
_STREAMS_ONLY = "the card names the address of the agent's streams only, so it does not offer"


def is_stream_only(interface: hub.AgentInterface) -> bool:
    """Whether the address of an interface takes only messages to stream."""
    address = interface.url.partition("?")[0].rstrip("/")
    return interface.protocol_binding == JSONRPC.name and address.endswith(_PATH)


class StreamOnly:
    """A Service that answers SendMessage from a stream, for an address that takes only messages to stream.

    Some agents name `…/message:stream` in their card (agno 3.1, os/interfaces/a2a/router.py). Rules:
    1. The response is the sum of the whole stream: the task, or its messages as one message. Messages beside
       a task are in its history; the last one is its status message, if the task has no other content.
    2. SendMessage waits for the end, also with `return_immediately`: the agent works only as long as its
       stream is read.
    3. Every other operation is UNSUPPORTED_OPERATION, before the agent is called.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.operation is not ops.SEND_MESSAGE:
            raise _unsupported(call.operation, _STREAMS_ONLY)
        streaming: Call[Any, Any] = Call(ops.SEND_STREAMING_MESSAGE, call.request, call.context)
        task: hub.Task | None = None
        index = ArtifactIndex()
        messages: list[hub.Message] = []
        async with aclosing(self._service.stream(streaming)) as events:
            async for event in events:
                which = event.message.WhichOneof("payload")
                if which == "message":
                    messages.append(event.message.message)
                    continue
                if task is None:
                    update = getattr(event.message, which or "task")
                    task = hub.Task(id=getattr(update, "task_id", ""), context_id=update.context_id)
                try:
                    task = fold(task, event.message, index)
                except IllegalTransitionError as error:
                    raise A2AError(Reason.INVALID_AGENT_RESPONSE, str(error), blame=Blame.PEER) from error
        return cast("Res", _response_of(task, messages))

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is not ops.SEND_STREAMING_MESSAGE:
            return reject_stream(_unsupported(call.operation, _STREAMS_ONLY))
        return self._service.stream(call)


def _response_of(task: hub.Task | None, messages: Sequence[hub.Message]) -> hub.SendMessageResponse:
    """The sum of a stream. Raises A2AError INVALID_AGENT_RESPONSE for an empty stream."""
    if task is None:
        if not messages:
            raise A2AError(
                Reason.INVALID_AGENT_RESPONSE, "the stream ended without a response", blame=Blame.PEER
            )
        whole = hub.Message()
        for message in messages:
            whole.MergeFrom(message)  # the parts of all
        return hub.SendMessageResponse(message=whole)
    known = {message.message_id for message in task.history}
    task.history.extend(message for message in messages if message.message_id not in known)
    if messages and not task.artifacts and not task.status.HasField("message"):
        task.status.message.CopyFrom(messages[-1])
    return hub.SendMessageResponse(task=task)


def _unsupported(operation: Operation[Any, Any], why: str) -> A2AError:
    text, metadata = f"{why} {operation.name}", {"operation": operation.name}
    return A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata=metadata, blame=Blame.PEER)


class Unstreamed:
    """A Service that answers streams with SendMessage, for an agent that declares streaming and rejects it.

    Rules:
    1. Only a rejection of streaming before the first event counts: METHOD_NOT_FOUND, or UNSUPPORTED_OPERATION
       with a text about streams. Other rejections may be about the message, which agents must not get twice.
    2. The stream has one event: the message or the task that SendMessage returns.
    3. After the first such answer a warning is logged, and streams are not requested from this agent again.

    google-adk 1.19 does so (its a2a-sdk 0.3.26 asks another card than the card that clients see).
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.unary = service.unary  # without a frame of its own
        self._streams = True

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is not ops.SEND_STREAMING_MESSAGE:
            return self._service.stream(call)
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        if not self._streams:
            return await self._sent(call), no_events()
        try:
            return await open_stream(self._service.stream(call))
        except A2AError as error:
            if not _rejects_streams(error):
                raise
            rejection = error.message
        answer = await self._sent(call)
        # Not earlier: an agent that rejects the message itself says nothing about streams.
        if self._streams:
            text = (
                "the agent declares streaming and rejects it (%s); its streams are answered from SendMessage"
            )
            _agents_log.warning(text, rejection)
        self._streams = False
        return answer, no_events()

    async def _sent(self, call: Call[Any, Any]) -> Event:
        request = call.request
        if request.configuration.return_immediately:
            # History length has no meaning for a stream, which shows the end of the task.
            request = hub.SendMessageRequest()
            request.CopyFrom(call.request)
            request.configuration.return_immediately = False
        answer = await self._service.unary(Call(ops.SEND_MESSAGE, request, call.context))
        if answer.HasField("message"):
            return Event(hub.StreamResponse(message=answer.message))
        return Event(hub.StreamResponse(task=answer.task))


def _rejects_streams(error: A2AError) -> bool:
    if error.reason is Reason.UNSUPPORTED_OPERATION:
        return "stream" in error.message.lower()
    return error.reason is Reason.METHOD_NOT_FOUND
