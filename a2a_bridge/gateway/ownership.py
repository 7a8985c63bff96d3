"""Keeps the tasks of callers apart, for an agent that cannot tell the callers of the gateway apart.

Rules:
1. A task belongs to the caller whose message began it. Other callers get TASK_NOT_FOUND, as for a task that
   does not exist, and the agent is not asked. The same for tasks that a message refers to.
2. A context belongs to the caller whose message began it. A context id that a caller chose gets another name
   at the agent (`name_for`): two callers with the same id have two contexts.
3. A task without a known owner does not exist, or with `unowned` the agent decides. Calls without a
   principal, which only middleware of the application lets in, reach such tasks.
4. ListTasks is answered from the tasks that the caller began (`tasks.TaskLists`).
5. The first caller that a record is made for is the owner; nobody else becomes it.
6. Without a store, records are in the table of `tasks.py`. A name without a record belongs to nobody.
7. With a durable store each record is written before a caller sees the name, for every gateway on that store
   and after a restart. Records stay there: an agent does not say when it forgets a task.
8. In a store, the newest tasks of a caller are listed in GROUPS groups, each of the size that a store allows.
9. The work to find an owner is the same for a name of another caller and for a name of nobody: only the
   records of the asking caller are taken from the table.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID, uuid5

from google.protobuf.message import Message

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params, task_not_found
from a2a_bridge.core.messages import context_id_of, read_task_id, rename, task_id_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.gateway.relay_store import Groups
from a2a_bridge.gateway.tasks import CONTEXT, TASK, TaskLists, Tasks, visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import PushConfigStore, Registered

M = TypeVar("M", bound=Message)

#: groups of the tasks of one caller in a store
GROUPS = 16

#: the scope of records, in the table and in the store; no caller has it: no principal has this name
_SCOPE = Scope("", "a2a-bridge owners")
#: the beginning of the kinds of records in the table, which no kind of another service has
_RECORD = "owner of "
#: the namespace of the names that `name_for` makes
_SPACE = UUID("6a5b0d1c-8f0e-4c67-9d5f-0a2e3f7b9c41")


def name_for(scope: Scope, context_id: str) -> str:
    """The name for the agent of a context id that a caller chose. It is made of the caller and the id, so it
    is the same after a restart and in every gateway: a UUID of version 5, which no agent makes at random.
    """
    words = json.dumps([scope.tenant, scope.owner, context_id])
    return str(uuid5(_SPACE, words.encode("utf-8", "surrogatepass").decode("utf-8", "replace")))


def may_be_made_here(context_id: str) -> bool:
    """Whether an id looks like a name of `name_for`."""
    return len(context_id) == 36 and context_id[14] == "5"


class Owned(NamedTuple):
    """The record of a task or a context."""

    #: of the owner
    scope: Scope
    #: of a task: its context, as the agent names it; of a context: the caller's own name for it, if any
    name: str = ""


class Begun(NamedTuple):
    """A task of a caller."""

    task_id: str
    #: as the agent names it
    context_id: str
    #: when it was first seen, in nanoseconds since the epoch
    time: int


class Owners:
    """The records of an agent in the table of this process."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    async def of(self, kind: str, name: str, _asking: Scope, /) -> Owned | None:
        """The record of a name; None without a record. _asking: the caller who wants to know."""
        return self._recall(kind, name)

    async def claim(self, kind: str, name: str, owned: Owned, /) -> Owned:
        """Makes a record, if there is none. Returns the record that counts."""
        return self._recall(kind, name) or self._remember(kind, name, owned)

    async def tasks(self, _scope: Scope, /) -> Sequence[Begun]:
        """Tasks of a caller that other gateways, or earlier processes, may have seen."""
        return ()

    async def rename_notification(self, scope: Scope, message: M) -> M:
        """A notification of the agent for a caller, with the caller's name of its context. Raises
        TASK_NOT_FOUND for a task of another caller.
        """
        name, task_id = context_id_of(message), task_id_of(message)
        if task_id and (await self.claim(TASK, task_id, Owned(scope, name))).scope != scope:
            raise task_not_found(task_id)
        return await self.rename_for_caller(scope, message)

    async def rename_for_caller(self, scope: Scope, message: M) -> M:
        """A response or event with the caller's name of its context."""
        name = context_id_of(message)
        if not may_be_made_here(name):
            return message
        found = await self.of(CONTEXT, name, scope)
        if found is None or found.scope != scope or not found.name:
            return message
        shown = found.name
        # A copy: events have several readers.
        made = type(message)()
        made.CopyFrom(message)
        rename(made, contexts=lambda context_id: shown if context_id == name else context_id)
        return made

    def _recall(self, kind: str, name: str) -> Owned | None:
        known = self._tasks.get(_SCOPE, name, _RECORD + kind)
        return None if known is None or known.owner is None else Owned(known.owner, known.context_id)

    def _remember(self, kind: str, name: str, owned: Owned) -> Owned:
        known = self._tasks.make(_SCOPE, name, _RECORD + kind)
        known.owner, known.context_id = owned
        self._tasks.keep(known)
        return owned


class StoredOwners(Owners):
    """Records in a store. tasks: keeps the records read last. agent: its name, if a server has several."""

    def __init__(self, configs: PushConfigStore, tasks: Tasks, agent: str = "") -> None:
        super().__init__(tasks)
        self._configs = configs
        self._agent = agent
        self._groups = Groups(configs, _SCOPE)

    async def of(self, kind: str, name: str, asking: Scope, /) -> Owned | None:
        known = self._recall(kind, name)
        if known is not None and known.scope == asking:
            return known
        found = await self._configs.get(_SCOPE, self._place(kind, name), kind)
        if found is None:
            return None
        owned = _parse_owned(found)
        return self._remember(kind, name, owned) if owned.scope == asking else owned

    async def claim(self, kind: str, name: str, owned: Owned, /) -> Owned:
        known = self._recall(kind, name)
        if known is not None and known.scope == owned.scope:
            return known
        made = _record(self._place(kind, name), kind, owned)
        await self._configs.put(_SCOPE, made, replace=False)
        found = await self._configs.get(_SCOPE, made.config.task_id, kind)
        if found is None:
            raise A2AError(Reason.UNAVAILABLE, "the store did not keep what was put there")
        counts = _parse_owned(found)
        if counts.scope == owned.scope:
            if kind == TASK:
                # Not together with the record: only its owner may find the task in a list.
                await self._list(name, owned)
            self._remember(kind, name, counts)
        return counts

    async def tasks(self, scope: Scope, /) -> Sequence[Begun]:
        groups = [self._number(scope, number) for number in range(GROUPS)]
        pages = await asyncio.gather(*(self._configs.list(_SCOPE, group) for group in groups))
        return [
            Begun(one.config.id, _parse_owned(one).name, int(one.version)) for page in pages for one in page
        ]

    async def _list(self, task_id: str, owned: Owned) -> None:
        """Adds a task to the list of its owner, in place of the oldest task if there is no room."""
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


class Ownership:
    """Implements Service around an agent, see above. unowned: whether callers reach tasks without a known
    owner. tasks: the tasks that lists are answered from; None: ListTasks is UNSUPPORTED_OPERATION.
    """

    def __init__(
        self, service: Service, owners: Owners, *, unowned: bool = False, tasks: Tasks | None = None
    ) -> None:
        self._service = service
        self._owners = owners
        self._unowned = unowned
        self._tasks = tasks
        self._lists = None if tasks is None else TaskLists(service, tasks)

    async def unary(self, call: Call[Req, Res], /) -> Res:
        scope = visible_to(call.request, call.context)
        if call.operation is ops.LIST_TASKS:
            return cast("Res", await self._list(call, scope))
        task_id, owned = await self._check(call, scope)
        if call.operation is ops.SEND_MESSAGE:
            call = await self._sent(call, scope, owned)
        answer: Any
        try:
            answer = await self._service.unary(call)
        except A2AError as error:
            raise _alike(error, task_id, owned) from None
        if call.operation is ops.SEND_MESSAGE:
            await self._note(scope, task_id, answer)
        elif isinstance(answer, hub.Task) and owned is not None and self._tasks is not None:
            self._tasks.note_task(scope, answer)
        return cast("Res", await self._owners.rename_for_caller(scope, answer))

    async def stream(self, call: Call[Any, Any], /) -> Events:
        scope = visible_to(call.request, call.context)
        task_id, owned = await self._check(call, scope)
        sends = call.operation is ops.SEND_STREAMING_MESSAGE
        if sends:
            call = await self._sent(call, scope, owned)
        known = task_id
        try:
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    message = event.message
                    named = task_id_of(message)
                    if sends and (named != known or not known):
                        await self._note(scope, known, message)
                        known = named
                    elif self._tasks is not None and (sends or owned is not None):
                        self._tasks.note_event(scope, message)
                    shown = await self._owners.rename_for_caller(scope, message)
                    yield event if shown is message else Event(shown, event.id, event.gap)
        except A2AError as error:
            raise _alike(error, task_id, owned) from None

    async def _check(self, call: Call[Any, Any], scope: Scope) -> tuple[str, Owned | None]:
        """The task in a request, and its record. Raises TASK_NOT_FOUND if the caller may not reach it."""
        request = call.request
        task_id = read_task_id(request)
        others: list[str] = []
        if isinstance(request, hub.SendMessageRequest):
            others += request.message.reference_task_ids
            others.append(request.configuration.task_push_notification_config.task_id)
        owned = await self._find_owned(call, scope, task_id) if task_id else None
        for one in dict.fromkeys(others):
            if one and one != task_id:
                await self._find_owned(call, scope, one)
        return task_id, owned

    async def _sent(self, call: Call[Any, Any], scope: Scope, owned: Owned | None) -> Call[Any, Any]:
        """The message with the agent's name of its context."""
        context_id = call.request.message.context_id
        if not context_id or (owned is not None and owned.name == context_id):
            return call
        name = await self._at_agent(call, scope, context_id)
        if name == context_id:
            return call
        # Before the agent can mention the name.
        await self._owners.claim(CONTEXT, name, Owned(scope, context_id))
        request = hub.SendMessageRequest()
        request.CopyFrom(call.request)
        request.message.context_id = name
        return Call(call.operation, request, call.context)

    async def _note(self, scope: Scope, task_id: str, answer: Any) -> None:
        """Notes a task and a context that a response to a message shows for the first time."""
        named = task_id_of(answer)
        await self._begun(scope, "" if named == task_id else named, context_id_of(answer))
        if self._tasks is not None:
            self._tasks.note_event(scope, answer)

    async def _list(self, call: Call[Any, Any], scope: Scope) -> hub.ListTasksResponse:
        if self._lists is None:
            raise A2AError(
                Reason.UNSUPPORTED_OPERATION,
                "this gateway keeps no tasks to list",
                metadata={"operation": call.operation.name},
                blame=Blame.SELF,
            )
        await self._recall(scope)
        request: hub.ListTasksRequest = call.request
        if request.context_id:
            made = hub.ListTasksRequest()
            made.CopyFrom(request)
            made.context_id = await self._at_agent(call, scope, request.context_id)
            call = Call(call.operation, made, call.context)
        page = await self._lists.answer(call)
        return hub.ListTasksResponse(
            tasks=[await self._owners.rename_for_caller(scope, one) for one in page.tasks],
            next_page_token=page.next_page_token,
            page_size=page.page_size,
            total_size=page.total_size,
        )

    async def _find_owned(self, call: Call[Any, Any], scope: Scope, task_id: str) -> Owned | None:
        """The record of a task that the caller may reach; None if it has no owner. Raises TASK_NOT_FOUND."""
        found = await self._owners.of(TASK, task_id, scope)
        if found is not None and found.scope == scope:
            return found
        if found is None and (self._unowned or call.context.principal is None):
            return None
        raise task_not_found(task_id)

    async def _begun(self, scope: Scope, task_id: str, context_id: str) -> None:
        """Notes the task and the context that a message of the caller has begun. Raises INVALID_PARAMS if the
        task belongs to another caller.
        """
        if task_id:
            found = await self._owners.claim(TASK, task_id, Owned(scope, context_id))
            if found.scope != scope:
                # An agent that answers a repeated message id with the first response.
                raise invalid_params("message.messageId", "has been used already")
        if context_id and not may_be_made_here(context_id):
            await self._owners.claim(CONTEXT, context_id, Owned(scope))

    async def _at_agent(self, call: Call[Any, Any], scope: Scope, context_id: str) -> str:
        """The name of a caller's context at the agent."""
        found = await self._owners.of(CONTEXT, context_id, scope)
        if found is not None and found.scope == scope:
            return context_id
        if found is None and (self._unowned or call.context.principal is None):
            return context_id
        return name_for(scope, context_id)

    async def _recall(self, scope: Scope) -> None:
        """Adds the tasks of the store to the lists."""
        if self._tasks is None:
            return
        known = {one.id for one in self._tasks.list_of(scope)}
        for one in await self._owners.tasks(scope):
            if one.task_id not in known:
                self._tasks.note(scope, one.task_id, one.context_id).time = one.time


def _alike(error: A2AError, task_id: str, owned: Owned | None) -> A2AError:
    """The error of an agent. If nobody owns the task, it is the same as for a task of another caller."""
    if error.reason is Reason.TASK_NOT_FOUND and task_id and owned is None:
        return task_not_found(task_id)
    return error
