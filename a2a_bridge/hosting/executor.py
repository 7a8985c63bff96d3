"""The interface between the engine and the user's agent code: async generators that yield events about a run.

A run is one execution of an executor, with its input and shortcuts for its output. It is not the task, which
belongs to the engine: a run has a snapshot of the task, and yields events about it.

Rules:
1. An executor yields; it never writes to a store, a queue or a socket.
2. A single Message is a direct response. Anything else makes a task, which the engine keeps.
3. The engine takes a copy of a yielded event; later changes to it have no effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from a2a_bridge.core import messages
from a2a_bridge.core.call import CallContext
from a2a_bridge.hosting.conversation_key import ConversationKey
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct

#: the types that `core.messages.parts_of` accepts
Content = Any

_STATES: dict[str, Any] = {
    name.removeprefix("TASK_STATE_").lower(): number for name, number in hub.TaskState.items()
}
_STATES = {**_STATES, **{name.replace("_", "-"): number for name, number in _STATES.items()}}

#: a task of the caller of a request, by its id
FindTask = Callable[
    [hub.SendMessageRequest | hub.CancelTaskRequest, CallContext, str], Awaitable[hub.Task | None]
]

#: the lock of a name
Lock = Callable[[str], AbstractAsyncContextManager[None]]

_NO_MESSAGE = hub.Message()
_NO_CONFIGURATION = hub.SendMessageConfiguration()


class Run:
    """The input of an executor.

    request: the caller's request; for `cancel` the CancelTaskRequest. context: the context of the call.
    task_id, context_id: always set; the task itself exists only once the executor has yielded something.
    task: a copy of the task as of the beginning of the run; None if the run may begin one, and then is_new is
    True, which costs nothing to ask, while `task` copies a long history. cancelled: set
    when a caller cancels the task. The run is also cancelled in the way of asyncio.
    """

    __slots__ = (
        "_cancelling",
        "_load",
        "_task",
        "cancelled",
        "context",
        "context_id",
        "find",
        "is_new",
        "locks",
        "request",
        "task_id",
    )

    def __init__(
        self,
        request: hub.SendMessageRequest | hub.CancelTaskRequest,
        context: CallContext,
        task_id: str,
        context_id: str,
        task: hub.Task | None = None,
    ) -> None:
        self.request = request
        self.context = context
        self.task_id = task_id
        self.context_id = context_id
        self._task = task
        self._load: Callable[[], hub.Task] | None = None
        self.is_new = task is None
        self.cancelled = False
        self._cancelling: asyncio.Event | None = None
        #: finds other tasks; set by the engine
        self.find: FindTask | None = None
        #: locks that the runs of an agent share; set by the engine
        self.locks: Lock | None = None

    # ------------------------------------------------------------------ input

    @property
    def task(self) -> hub.Task | None:
        """The task as it was when the run began, with the message that began it; None for a new task. It is
        copied when it is first read.
        """
        if self._load is not None:
            self._task, self._load = self._load(), None
        return self._task

    @task.setter
    def task(self, task: hub.Task) -> None:
        self._task, self._load, self.is_new = task, None, False

    def continue_task(self, load: Callable[[], hub.Task]) -> None:
        """Lets `task` be what `load` returns, which is called once, when it is first read."""
        self._load, self.is_new = load, False

    @property
    def message(self) -> hub.Message:
        """The caller's message, unchanged; its ids may be empty. An empty message in a cancellation."""
        return self.request.message if isinstance(self.request, hub.SendMessageRequest) else _NO_MESSAGE

    @property
    def parts(self) -> Sequence[hub.Part]:
        """The parts of the message."""
        return self.message.parts

    @property
    def text(self) -> str:
        """The text parts of the message, joined."""
        request = self.request
        if not isinstance(request, hub.SendMessageRequest):
            return ""
        # A slice is a list, with a third of the cost of protobuf's container. Other parts have no text.
        return "".join([part.text for part in request.message.parts[:]])

    @property
    def metadata(self) -> Struct:
        """The request's metadata (not the message's)."""
        return self.request.metadata

    @property
    def configuration(self) -> hub.SendMessageConfiguration:
        """The caller's preferences for the response; empty if it gave none."""
        if isinstance(self.request, hub.SendMessageRequest):
            return self.request.configuration
        return _NO_CONFIGURATION

    @property
    def accepted_output_modes(self) -> Sequence[str]:
        """Media types that the caller accepts; empty if it gave none."""
        return self.configuration.accepted_output_modes

    @property
    def history(self) -> Sequence[hub.Message]:
        """The earlier messages of the task, the oldest first, and the message that began this run."""
        return self.task.history if self.task is not None else (self.message,)

    @property
    def conversation(self) -> ConversationKey:
        """The key of the conversation: tenant, authenticated caller and context id. Callers with the same
        context id have different conversations.
        """
        principal = self.context.principal
        return ConversationKey(
            self.context.tenant, "" if principal is None else principal.name, self.context_id
        )

    async def find_task(self, task_id: str) -> hub.Task | None:
        """Another task of the same caller, such as one of `message.reference_task_ids`; None if there is none
        that the caller may see.
        """
        if self.find is None:
            return None
        return await self.find(self.request, self.context, task_id)

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """The lock of a name among all runs of the agent, also on other replicas: `async with` holds it.

        Entering waits until no other run holds it, without a limit of time but those of the run. Runs of one
        process get it in their order, those of several replicas in no certain order. A replica that dies
        releases its locks.
        """
        return nullcontext() if self.locks is None else self.locks(name)

    async def wait_cancelled(self) -> None:
        """Waits until a caller cancels the task."""
        if self.cancelled:
            return
        if self._cancelling is None:
            self._cancelling = asyncio.Event()
        await self._cancelling.wait()

    def cancel(self) -> None:
        """Sets `cancelled`. The engine calls it; executors may, to stop their own helpers."""
        self.cancelled = True
        if self._cancelling is not None:
            self._cancelling.set()

    # ------------------------------------------------------------------ output

    def reply(self, *content: Content, metadata: Mapping[str, Any] | None = None) -> hub.Message:
        """A message of the agent: a direct response, or the message of a status. content: texts, bytes, JSON
        values and Parts, each a part, and lists with Parts; or one Message, which is returned.
        """
        if len(content) == 1 and isinstance(content[0], hub.Message):
            return content[0]
        # Filling members in place costs half of passing them to constructors, here and in `artifact`.
        made = hub.Message(message_id=new_id(), context_id=self.context_id, role=hub.ROLE_AGENT)
        parts = made.parts
        for one in content:
            if type(one) is str:
                parts.add().text = one
            else:
                parts.extend(messages.parts_of(one))
        if metadata is not None:
            made.metadata.update(metadata)
        return made

    def start(self, *, metadata: Mapping[str, Any] | None = None) -> hub.Task:
        """The task in its first state, SUBMITTED. It need not be yielded: the engine begins a task itself."""
        task = hub.Task()
        task.id = self.task_id
        task.context_id = self.context_id
        task.status.state = hub.TASK_STATE_SUBMITTED
        if metadata is not None:
            task.metadata.update(metadata)
        return task

    def status(
        self,
        state: hub.TaskState | str,
        *content: Content,
        metadata: Mapping[str, Any] | None = None,
    ) -> hub.TaskStatusUpdateEvent:
        """A new status of the task. state: a hub.TaskState, or its name as in "working", "completed",
        "input-required". content: as for `reply`; none for a status without a message.
        """
        event = hub.TaskStatusUpdateEvent()
        event.task_id = self.task_id
        event.context_id = self.context_id
        event.status.state = (_STATES.get(state) or _state(state)) if isinstance(state, str) else state
        if content:
            event.status.message.CopyFrom(self.reply(*content))
        if metadata is not None:
            event.metadata.update(metadata)
        return event

    def artifact(
        self,
        *content: Content,
        artifact_id: str = "",
        name: str = "",
        description: str = "",
        append: bool = False,
        last: bool = True,
        metadata: Mapping[str, Any] | None = None,
        extensions: Iterable[str] = (),
    ) -> hub.TaskArtifactUpdateEvent:
        """An artifact of the task, or a piece of one.

        content: as for `reply`, without Messages. artifact_id: "1", "2"… or any text; empty for a new id.
        name: bytes get the media type of files with such a name. append: True to extend the artifact with
        this id. last: True if no further piece follows. Raises ValueError for append without an id.
        """
        if append and not artifact_id:
            raise ValueError("append=True extends an artifact: give its artifact_id")
        event = hub.TaskArtifactUpdateEvent()
        event.task_id = self.task_id
        event.context_id = self.context_id
        if append:
            event.append = True
        if last:
            event.last_chunk = True
        artifact = event.artifact
        artifact.artifact_id = artifact_id or new_id()
        if name:
            artifact.name = name
        if description:
            artifact.description = description
        parts = artifact.parts
        for one in content:
            if type(one) is str:
                parts.add().text = one
            else:
                parts.extend(messages.parts_of(one, name))
        if extensions:
            artifact.extensions.extend(extensions)
        if metadata is not None:
            artifact.metadata.update(metadata)
        return event


def _state(state: str) -> Any:
    number = _STATES.get(state.lower().removeprefix("task_state_"))
    if number is None:
        raise ValueError(f"{state!r} is not a task state")
    return number


Event = hub.Task | hub.Message | hub.TaskStatusUpdateEvent | hub.TaskArtifactUpdateEvent


class AgentExecutor(Protocol):
    """An agent. Subclass it, or write a class with an `execute` of the same shape.

    `cancel`, `resume` and `reply` are optional: see the protocols below.
    """

    def execute(self, run: Run, /) -> AsyncIterator[Event]:
        """Answers a message: an async generator of events.

        Raise A2AError to reject before anything was yielded, or to fail the task after that. Any other
        exception fails the task, or the call when there is no task, without its text.
        """


@runtime_checkable
class CancellingExecutor(Protocol):
    """An executor that cleans up, or rejects, when a caller cancels a task. Other executors are stopped."""

    def cancel(self, run: Run, /) -> AsyncIterator[Event]:
        """An async generator of events, often of none. It runs beside `execute`, which is cancelled after it.
        Then the engine sets an unfinished task to CANCELED. Raise A2AError TASK_NOT_CANCELABLE to reject.
        """


@runtime_checkable
class ResumingExecutor(Protocol):
    """An executor that can continue a task of a killed or stopped process, if the store outlives it. The
    tasks of other executors fail with a text that gives the reason.
    """

    def resume(self, run: Run, /) -> AsyncIterator[Event]:
        """Continues `run.task`: an async generator of the remaining events.

        run.task: the task with everything that clients have seen; events from the last moments before its
        process died may be missing. run.message: the newest message of the user, which may be unread if the
        task waits for input. run.context: has the tenant and the caller's name, and nothing else of the call.

        It is called for tasks that are working, wait for authentication, or have an unread message.
        """


@runtime_checkable
class DirectExecutor(Protocol):
    """An executor that always answers with a Message, at once: the engine uses no asyncio task for it."""

    async def reply(self, run: Run, /) -> hub.Message:
        """The response. It is cancelled when the caller leaves."""
