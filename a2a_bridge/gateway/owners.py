"""Whose the tasks and contexts of an agent are, for a gateway whose agent cannot tell callers apart.

Rules:
1. The first caller that a record is made for has it; nobody else gets it.
2. Without a store, records are in a table of `tasks.py`. What is not known belongs to nobody.
3. With a durable store each record is written before a caller sees the name, for every gateway on that store
   and after a restart. They stay there: an agent does not say when it forgets a task.
4. In a store, the newest tasks of a caller are listed in GROUPS groups, each of the size that a store allows.
5. The work of a look does not tell whether a name is of somebody else or of nobody: only records of the
   asking caller are cached.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.tables import Table, Tables, size_of
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.relay_store import Configs, Groups
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Registered

#: records in memory: a few hundred bytes each
MOST = 100_000
#: groups of the tasks of one caller in a store
GROUPS = 16

TASK, CONTEXT = "task", "context"

#: the scope in the store; no caller can have it, because no principal has this name
_SCOPE = Scope("", "a2a-bridge owners")


class Owned(NamedTuple):
    """What is known of a task or a context."""

    scope: Scope
    #: of a task: its context, as the agent names it; of a context: its name for the caller, if it is another
    name: str = ""


class Begun(NamedTuple):
    """A task of a caller."""

    task_id: str
    #: as the agent names it
    context_id: str
    #: when it was first seen, in nanoseconds since the epoch
    time: int


class Owners(Protocol):
    """See above."""

    async def of(self, kind: str, name: str, asking: Scope, /) -> Owned | None:
        """The record of a name; None without. asking: who wants to know."""
        ...

    async def claim(self, kind: str, name: str, owned: Owned, /) -> Owned:
        """Makes a record, if there is none. Returns the one that counts."""
        ...

    async def tasks(self, scope: Scope, /) -> Sequence[Begun]:
        """Tasks of a caller that other gateways, or earlier processes, may have seen."""
        ...


class MemoryOwners:
    """Records of this process only. memory: their account."""

    def __init__(self, most: int = MOST, memory: MemoryAccount | None = None) -> None:
        self._records: Table[tuple[str, str], Owned] = Table(most, Tables.of(memory))

    async def of(self, kind: str, name: str, _asking: Scope, /) -> Owned | None:
        return self._records.get((kind, name))

    async def claim(self, kind: str, name: str, owned: Owned, /) -> Owned:
        found = self._records.get((kind, name))
        if found is None:
            found = owned
            self._records.put((kind, name), owned, size_of(owned.scope, name, owned.name))
        return found

    async def tasks(self, _scope: Scope, /) -> Sequence[Begun]:
        return ()


class StoredOwners:
    """Records in a store. agent: its name, where a server has several. memory: the account of what is kept
    beside the store.
    """

    def __init__(self, configs: Configs, agent: str = "", memory: MemoryAccount | None = None) -> None:
        self._configs = configs
        self._agent = agent
        self._groups = Groups(configs, _SCOPE)
        self._own: Table[tuple[Scope, str, str], Owned] = Table(MOST, Tables.of(memory))

    async def of(self, kind: str, name: str, asking: Scope, /) -> Owned | None:
        known = self._own.get((asking, kind, name))
        if known is not None:
            return known
        found = await self._configs.get(_SCOPE, self._place(kind, name), kind)
        if found is None:
            return None
        owned = _parse_owned(found)
        if owned.scope == asking:
            self._keep(kind, name, owned)
        return owned

    async def claim(self, kind: str, name: str, owned: Owned, /) -> Owned:
        if (known := self._own.get((owned.scope, kind, name))) is not None:
            return known
        made = _record(self._place(kind, name), kind, owned)
        await self._configs.put(_SCOPE, made, replace=False)
        found = await self._configs.get(_SCOPE, made.config.task_id, kind)
        if found is None:
            raise A2AError(Reason.UNAVAILABLE, "the store did not keep what was put there")
        counts = _parse_owned(found)
        if counts.scope == owned.scope:
            if kind == TASK:
                # Not together with the record: who is not the owner must not find the task in a list.
                await self._list(name, owned)
            self._keep(kind, name, counts)
        return counts

    async def tasks(self, scope: Scope, /) -> Sequence[Begun]:
        groups = [self._number(scope, number) for number in range(GROUPS)]
        pages = await asyncio.gather(*(self._configs.list(_SCOPE, group) for group in groups))
        return [
            Begun(one.config.id, _parse_owned(one).name, int(one.version)) for page in pages for one in page
        ]

    def _keep(self, kind: str, name: str, owned: Owned) -> None:
        self._own.put((owned.scope, kind, name), owned, size_of(owned.scope, name, owned.name))

    async def _list(self, task_id: str, owned: Owned) -> None:
        """Adds a task to those of its owner, in place of the oldest one if there is no room."""
        group = self._group(owned.scope, task_id)
        # The field of the version of a receiver has the time.
        made = _record(group, task_id, owned)._replace(version=str(time.time_ns()))
        await self._groups.put(made)

    def _place(self, kind: str, name: str) -> str:
        return json.dumps(["a2a-bridge owner", self._agent, kind, name])

    def _group(self, scope: Scope, task_id: str) -> str:
        return self._number(scope, hashlib.blake2b(task_id.encode(), digest_size=1).digest()[0] % GROUPS)

    def _number(self, scope: Scope, number: int) -> str:
        return json.dumps(["a2a-bridge tasks", self._agent, *scope, number])


def _record(place: str, key: str, owned: Owned) -> Registered:
    config = hub.TaskPushNotificationConfig(task_id=place, id=key)
    return Registered(config, "", json.dumps([*owned.scope, owned.name]))


def _parse_owned(registered: Registered) -> Owned:
    tenant, owner, name = json.loads(registered.side_channel)
    return Owned(Scope(tenant, owner), name)
