"""The tasks that have passed through a gateway, for agents that cannot list them. It holds no content of
tasks.

Rules:
1. An entry holds ids, a state and a time, in a table of `tasks.py`.
2. A caller sees entries of its own scope only. Without authentication the scope is a digest of the
   credentials that the caller sends: a caller with other credentials sees none of them. Every
   forwarded parameter may be a credential.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from a2a_bridge.bindings.binding import IMPERSONAL
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.tables import Table, Tables, size_of
from a2a_bridge.core.call import CallContext, entries_of
from a2a_bridge.core.callers import Scope, ScopeOf, scope_of
from a2a_bridge.core.messages import payload_of
from a2a_bridge.pb import lf_a2a_v1 as hub

_AUTHORIZATION = "authorization"
#: parameters that are others with each request, and so identify no caller
_OF_REQUESTS = frozenset({"x-correlation-id", "x-request-id"})


@dataclass(slots=True)
class Seen:
    """The known facts of a task."""

    task_id: str
    context_id: str
    state: hub.TaskState
    #: time of its status, or of the observation; nanoseconds since the epoch
    time: int

    @property
    def place(self) -> tuple[int, str]:
        """Its position in a list: by time, ties by id."""
        return self.time, self.task_id


class TaskIndex:
    """The tasks of one agent. now: nanoseconds since the epoch. memory: the account of what is remembered."""

    def __init__(self, most: int, now: Callable[[], int], memory: MemoryAccount | None = None) -> None:
        self._now = now
        self._seen: Table[tuple[Scope, str], Seen] = Table(most, Tables.of(memory), on_drop=self._on_drop)
        self._tasks: dict[Scope, dict[str, Seen]] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def note(self, scope: Scope, task_id: str, context_id: str, status: hub.TaskStatus | None = None) -> Seen:
        """Remembers a task, with its status if that is known."""
        seen = self._seen.get((scope, task_id))
        if seen is None or (context_id and seen.context_id != context_id):
            if seen is None:
                seen = Seen(task_id, context_id, hub.TASK_STATE_UNSPECIFIED, self._now())
            seen.context_id = context_id
            self._tasks.setdefault(scope, {})[task_id] = seen
            self._seen.put((scope, task_id), seen, size_of(scope, task_id, context_id))
        if status is not None:
            stamp = status.timestamp
            changed = seen.state != status.state
            seen.state = status.state
            if status.HasField("timestamp"):
                seen.time = stamp.seconds * 1_000_000_000 + stamp.nanos
            elif changed:
                seen.time = self._now()
        return seen

    def note_event(self, scope: Scope, event: hub.StreamResponse | hub.SendMessageResponse) -> None:
        """Remembers the task of a response or an event, if it has one."""
        found = payload_of(event)
        if isinstance(found, hub.Task):
            self.note_task(scope, found)
        elif found is not None and not isinstance(found, hub.Message):
            self.note(scope, found.task_id, found.context_id, getattr(found, "status", None))

    def note_task(self, scope: Scope, task: hub.Task) -> Seen:
        """Remembers a task."""
        return self.note(scope, task.id, task.context_id, task.status)

    def forget(self, scope: Scope, task_id: str) -> None:
        """Forgets a task, if it is known."""
        seen = self._seen.pop((scope, task_id))
        if seen is not None:
            self._on_drop((scope, task_id), seen)

    def _on_drop(self, key: tuple[Scope, str], _seen: Seen) -> None:
        scope, task_id = key
        tasks = self._tasks[scope]
        del tasks[task_id]
        if not tasks:
            del self._tasks[scope]

    def of(self, scope: Scope) -> Iterable[Seen]:
        """All known tasks of a scope, newest first."""
        return sorted(self._tasks.get(scope, {}).values(), key=lambda seen: seen.place, reverse=True)


def scopes_by(forward: Iterable[str]) -> ScopeOf:
    """How to tell the scope of a call to a gateway, which forwards credentials without knowing their owner.

    forward: names of the parameters that the agent gets; `authorization` counts in any case.
    """
    names = tuple(sorted({_AUTHORIZATION, *forward} - IMPERSONAL - _OF_REQUESTS))

    def scope(request: Any, context: CallContext) -> Scope:
        found = scope_of(request, context)
        if found.owner:
            return found
        credentials = _credentials(names, context.parameters)
        if not credentials:
            return found
        digest = hashlib.blake2b(credentials.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        return Scope(found.tenant, f"credentials {digest}")

    return scope


def _credentials(names: Iterable[str], parameters: Mapping[str, str]) -> str:
    """What a caller sends that may identify it; empty for nothing."""
    given = given_entries((name for name in names if parameters.get(name)), parameters)
    if [name for name, _ in given] == [_AUTHORIZATION]:
        return given[0][1]
    # With their names: the same text in another header is another caller.
    return repr(given) if given else ""


def given_entries(names: Iterable[str], parameters: Mapping[str, str]) -> list[tuple[str, str]]:
    """The entries of the named parameters. Two entries differ from one with their joined text: an agent may
    read only the first.
    """
    return [
        (name, entry)
        for name in names
        if (value := parameters.get(name)) is not None
        for entry in entries_of(value)
    ]


#: for a gateway that forwards nothing else
visible_to = scopes_by(())
