"""The names that callers of 0.1 gave to tasks, sessions and artifacts, in a bounded table. It makes no calls.

Rules:
1. A name belongs to a scope (tenant and principal): the same name in another scope is another name.
2. Above `most` entries, tasks are evicted in LRU order. A task and an artifact count as one entry each; names
   with more than LONGEST characters together count as several. Nothing survives the process.
3. A table belongs to one event loop; between two awaits it does not change.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from a2a_bridge.bindings.tables import Table, size_of
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects.v0_1.messages import index_of
from a2a_bridge.pb import lf_a2a_v1 as hub

#: tasks and artifacts that are remembered for one service
MOST = 100_000
#: sessions that are remembered for one service, and artifacts of one task
MOST_SESSIONS = 10_000
MOST_ARTIFACTS = 10_000
#: characters of the names of a task that count as one entry
LONGEST = 1024


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
    #: characters of all artifact ids
    letters: int = 0
    #: the indices in use
    _used: set[int] = field(default_factory=set)

    def index(self, artifact_id: str) -> int:
        """The index of an artifact: the one in its id, else the first free one when it is first seen.

        Raises INVALID_AGENT_RESPONSE for a task with too many artifacts.
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
        self.letters += len(artifact_id)
        return index


@dataclass(frozen=True, slots=True)
class Expected:
    """A name that was sent to an agent that has not answered yet, with values that identify its task."""

    given: str
    session: str
    message_id: str


class IdentityTable:
    """Names of tasks and sessions by scope."""

    def __init__(self, most: int = MOST, most_sessions: int = MOST_SESSIONS) -> None:
        self.most = most
        self._weight = 0
        self._names: OrderedDict[tuple[Scope, str], Name] = OrderedDict()
        self._weights: dict[tuple[Scope, str], int] = {}
        self._by_task: dict[tuple[Scope, str], Name] = {}
        self._contexts: Table[tuple[Scope, str], str] = Table(most_sessions)
        self._expected: dict[tuple[Scope, str], Expected] = {}

    def __len__(self) -> int:
        return self._weight

    def find(self, scope: Scope, given: str) -> Name | None:
        """The task that a caller calls `given`; None if it is unknown or evicted."""
        name = self._names.get((scope, given))
        if name is not None:
            self._names.move_to_end((scope, given))
        return name

    def name_of(self, scope: Scope, task_id: str) -> str:
        """The name of a task for callers of a scope; its own id if they have no other."""
        name = self._by_task.get((scope, task_id))
        return task_id if name is None else name.given

    def expect(self, scope: Scope, expected: Expected) -> None:
        """Notes that a message was sent. `settle` has to follow."""
        self._expected[scope, expected.given] = expected

    def settle(self, scope: Scope, given: str) -> None:
        """Notes that the agent has answered, or will not answer."""
        self._expected.pop((scope, given), None)

    def guess(self, scope: Scope, task: hub.Task) -> Name | None:
        """The name of a task that appears before the response to its first message.

        It is identified by that message in its history, else by its session if only one message was sent in
        it.
        """
        sent = [one for (where, _), one in self._expected.items() if where == scope]
        ids = {message.message_id for message in task.history}
        found = [one for one in sent if one.message_id in ids]
        if not task.history:
            found = [
                one for one in sent if one.session and self.context(scope, one.session) == task.context_id
            ]
        if len(found) != 1 or (scope, task.id) in self._by_task:
            return None
        name = Name(found[0].given, task.id, found[0].session, task.context_id)
        self.keep(scope, name)
        return name

    def keep(self, scope: Scope, name: Name) -> None:
        """Stores a name with its current artifacts, or marks it as used."""
        key = scope, name.given
        before = self._names.get(key)
        if before is not None and before is not name:
            self._forget(key)
        self._names[key] = name
        self._names.move_to_end(key)
        self._by_task[scope, name.task_id] = name
        texts = (*scope, name.given, name.session, name.task_id, name.context_id)
        weight = 1 + len(name.indices) + (sum(map(len, texts)) + name.letters) // LONGEST
        self._weight += weight - self._weights.get(key, 0)
        self._weights[key] = weight
        while self._weight > self.most and len(self._names) > 1:
            self._forget(next(iter(self._names)))

    def context(self, scope: Scope, session: str) -> str:
        """The agent's context id of a session; the session's name if the agent accepted it."""
        return self._contexts.get((scope, session)) or session

    def keep_session(self, scope: Scope, session: str, context_id: str) -> None:
        """Stores the context id by which the agent calls a session."""
        if session in ("", context_id) or not context_id:
            return
        self._contexts.put((scope, session), context_id, size_of(scope, session, context_id))

    def _forget(self, key: tuple[Scope, str]) -> None:
        name = self._names.pop(key)
        self._weight -= self._weights.pop(key)
        by_task = key[0], name.task_id
        if self._by_task.get(by_task) is name:
            del self._by_task[by_task]
