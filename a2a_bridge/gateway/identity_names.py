"""The names that callers of 0.1 gave to tasks, sessions and artifacts, and answers and events with these
names, indices and kinds of event. It makes no calls.

Rules:
1. A name belongs to a scope (tenant and principal): the same name in another scope is another name.
2. Names are kept in the table of `tasks.py`, each at the entry of its task, with the indices of the artifacts
   of the task. Nothing survives the process.
3. A table belongs to one event loop; between two awaits it does not change.
4. The input is never changed: events of a stream have several readers.
5. Streams of 0.1 have updates only: a task becomes its status and its artifacts, and a message becomes a
   completed status with a mark.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import getsizeof
from typing import TypeVar

from google.protobuf.message import Message

from a2a_bridge.bindings.memory import size_of
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.messages import context_id_of, payload_of, rename, task_id_of
from a2a_bridge.dialects.annotation import FINAL_STATES
from a2a_bridge.dialects.v0_1.messages import INDEX, MARK, MESSAGE, index_of
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.pb import lf_a2a_v1 as hub

M = TypeVar("M", bound=Message)
S = TypeVar("S", hub.Task, hub.TaskStatusUpdateEvent)

#: artifacts of one task that are remembered
MOST_ARTIFACTS = 10_000
#: bytes of one index beside the id of its artifact
_INDEX = 100
#: the kind of the entries of sessions
_SESSION = "session"


@dataclass(slots=True, eq=False)
class Name:
    """A task under its caller's name."""

    #: the caller's id of the task
    given: str
    #: the agent's id of the task
    task_id: str
    #: the caller's id of the session; empty if it gave none
    session: str = ""
    #: the agent's context id
    context_id: str = ""
    #: number of the caller's messages that were answered
    turns: int = 0
    #: artifact ids to indices
    indices: dict[str, int] = field(default_factory=dict)
    #: bytes of the indices
    size: int = 0
    #: the indices in use
    _used: set[int] = field(default_factory=set)

    def index(self, artifact_id: str) -> int:
        """The index of an artifact: the index in its id, else the first index that is free when the artifact
        is first seen. Raises INVALID_AGENT_RESPONSE for a task with too many artifacts.
        """
        known = self.indices.get(artifact_id)
        if known is not None:
            return known
        if len(self.indices) >= MOST_ARTIFACTS:
            text = f"a task has more than {MOST_ARTIFACTS} artifacts, which is too much for a caller of 0.1"
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        index = index_of(artifact_id)
        if index is None:
            index = len(self.indices)
            while index in self._used:
                index += 1
        self._used.add(index)
        self.indices[artifact_id] = index
        self.size += _INDEX + getsizeof(artifact_id)
        return index


@dataclass(frozen=True, slots=True)
class Expected:
    """A name that was sent to an agent that has not answered yet, with values that identify its task."""

    given: str
    session: str
    message_id: str


class IdentityTable:
    """Names of tasks and sessions by scope. Converts answers and events, and adds new artifacts to names."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._expected: dict[tuple[Scope, str], Expected] = {}

    @property
    def most(self) -> int:
        """The number of entries that are remembered."""
        return self._tasks.most

    def find(self, scope: Scope, given: str) -> Name | None:
        """The task that a caller calls `given`; None if it is unknown or evicted."""
        name: Name | None = self._tasks.find_named(scope, given)
        return name

    def name_of(self, scope: Scope, task_id: str) -> str:
        """The name of a task for callers of a scope; its own id if they have no other."""
        return self._tasks.name_of(scope, task_id)

    def expect(self, scope: Scope, expected: Expected) -> None:
        """Notes that a message was sent. `settle` has to follow."""
        self._expected[scope, expected.given] = expected

    def settle(self, scope: Scope, given: str) -> None:
        """Notes that the agent has answered, or will not answer."""
        self._expected.pop((scope, given), None)

    def guess(self, scope: Scope, task: hub.Task) -> Name | None:
        """The name of a task that appears before the response to its first message. The task is identified by
        that message in its history, else by its session, if only one message was sent in the session.
        """
        sent = [one for (where, _), one in self._expected.items() if where == scope]
        ids = {message.message_id for message in task.history}
        found = [one for one in sent if one.message_id in ids]
        if not task.history:
            found = [
                one for one in sent if one.session and self.context(scope, one.session) == task.context_id
            ]
        known = self._tasks.get(scope, task.id)
        if len(found) != 1 or (known is not None and known.names):
            return None
        name = Name(found[0].given, task.id, found[0].session, task.context_id)
        self.keep(scope, name)
        return name

    def keep(self, scope: Scope, name: Name) -> None:
        """Stores a name with its current artifacts, or marks it as used."""
        size = name.size + size_of(scope, name.given, name.session, name.task_id, name.context_id)
        self._tasks.keep_name(scope, name.task_id, name.given, name, size)

    def context(self, scope: Scope, session: str) -> str:
        """The agent's context id of a session; the session's name if the agent accepted it."""
        known = self._tasks.get(scope, session, _SESSION)
        return session if known is None else known.context_id

    def keep_session(self, scope: Scope, session: str, context_id: str) -> None:
        """Stores the context id by which the agent calls a session."""
        if session in ("", context_id) or not context_id:
            return
        known = self._tasks.make(scope, session, _SESSION)
        known.context_id = context_id
        self._tasks.keep(known)

    def as_known(self, scope: Scope, event: hub.StreamResponse) -> hub.StreamResponse:
        """An event with the names of a scope, for delivery outside of a call."""
        task_id = task_id_of(event)
        name = self.find(scope, self.name_of(scope, task_id))
        if name is None:
            begun = hub.Task(id=task_id, context_id=context_id_of(event))
            task = event.task if event.HasField("task") else begun
            name = self.guess(scope, task)
        return self.rename(scope, name or Name(task_id, task_id), event)

    def for_caller(self, scope: Scope, name: Name, event: hub.StreamResponse) -> Iterable[hub.StreamResponse]:
        """An event as a series of updates."""
        event = self.rename(scope, name, event)
        which = event.WhichOneof("payload")
        if which == "message":
            update = hub.TaskStatusUpdateEvent(task_id=name.given)
            update.context_id = event.message.context_id or name.session
            yield hub.StreamResponse(status_update=wrap(update, event.message))
        elif which == "task":
            yield from _split(event.task)
        else:
            yield event

    def rename(self, scope: Scope, name: Name, response: M) -> M:
        """A copy of a response or event with the caller's names."""
        made = type(response)()
        made.CopyFrom(response)
        rename(
            made,
            lambda task_id: name.given if task_id == name.task_id else self.name_of(scope, task_id),
            lambda context_id: _session(name, context_id),
        )
        payload = payload_of(made)
        if isinstance(payload, hub.Task):
            # Ids that contain their index come first, so that no other artifact gets it.
            for artifact in sorted(payload.artifacts, key=lambda one: index_of(one.artifact_id) is None):
                name.index(artifact.artifact_id)
            for artifact in payload.artifacts:
                _number(name, artifact)
        elif isinstance(payload, hub.TaskArtifactUpdateEvent):
            _number(name, payload.artifact)
        if name.task_id and name is self.find(scope, name.given):
            self.keep(scope, name)
        return made


def _session(name: Name, context_id: str) -> str:
    return name.session if name.session and context_id == name.context_id else context_id


def _number(name: Name, artifact: hub.Artifact) -> None:
    """Notes the index of an artifact with an id that does not contain it, for the version's row to write."""
    if index_of(artifact.artifact_id) is None and MARK not in artifact.metadata.fields:
        artifact.metadata.update({MARK: {INDEX: name.index(artifact.artifact_id)}})


def wrap(made: S, message: hub.Message) -> S:
    """A task or event that represents a message."""
    made.status.state = hub.TASK_STATE_COMPLETED
    made.status.message.CopyFrom(message)
    made.metadata.update({MARK: {MESSAGE: True}})
    return made


def _split(task: hub.Task) -> list[hub.StreamResponse]:
    """A task as updates. A status that ends the stream comes last, because clients stop reading after it."""
    update = hub.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
    if task.HasField("metadata"):
        update.metadata.CopyFrom(task.metadata)
    made = [
        hub.StreamResponse(
            artifact_update=hub.TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=True
            )
        )
        for artifact in task.artifacts
    ]
    status = hub.StreamResponse(status_update=update)
    return [*made, status] if task.status.state in FINAL_STATES else [status, *made]
