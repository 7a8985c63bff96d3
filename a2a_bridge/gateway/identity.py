"""Maps the task and session ids of callers of 0.1, and their artifact indices. It converts no messages.

Rules for a call of 0.1 (calls of other versions pass after one check of the version, or of the task id):
1. A message with an unknown task name begins a task, and the agent's response has the id of the task. Further
   calls with that name wait for this response.
2. A session's name is sent to the agent unchanged. If the agent rejects it, or answers with another context
   id, that id is mapped to the name.
3. Any other call with an unknown name is about the task with exactly that id, as in other versions. If there
   is none, the error says that names can be forgotten.
4. Answers, events and errors use the caller's names again (see `identity_names`).
5. A message without an id gets an id that differs from the ids of answered messages of the same task. A
   repeated message that had no response gets the same id again.
6. A name has at most LONGEST characters: longer names are rejected.
7. Three methods have the same name in 0.1 and later. A caller that declares no version and uses a task name
   of a 0.1 caller is treated and answered as a caller of 0.1 (see VARIANT_PARAMETER).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from typing import Any, cast

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import VERSION_PARAMETER, Call, ResponseParameters
from a2a_bridge.core.callers import Scope, ScopeOf, scope_of
from a2a_bridge.core.errors import A2AError, Kind, Reason, invalid_params
from a2a_bridge.core.messages import context_id_of, read_task_id, task_id_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, Middleware, Service
from a2a_bridge.dialects import JSONRPC, KNOWN
from a2a_bridge.dialects.annotation import by_state
from a2a_bridge.dialects.v0_1.messages import place_id
from a2a_bridge.gateway.identity_names import Expected, IdentityTable, Name, wrap
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.pb import lf_a2a_v1 as hub

VERSION = "0.1"

#: seconds that a call waits for a task that is being created, unless its own deadline comes first
PATIENCE = 30.0

#: maximum length of a task or session name, in characters
LONGEST = 1024

#: operations with a method of the same name in 0.1 and later versions
_SHARED = (ops.GET_TASK, ops.CANCEL_TASK, ops.SUBSCRIBE_TO_TASK)


def remember_names(
    scoped: ScopeOf, tasks: Tasks
) -> tuple[Middleware, Callable[[Scope, hub.StreamResponse], hub.StreamResponse]]:
    """Middleware for callers of 0.1, and the renaming of events that are sent outside of calls; both share
    one table of names. scoped: the scope of a call; names belong to scopes. tasks: keeps the names.
    """
    table = IdentityTable(tasks)

    def wrap(service: Service) -> Service:
        return LegacyCallers(service, table, scoped=scoped)

    return wrap, table.as_known


class LegacyCallers:
    """A service in the form that callers of 0.1 expect. Implements Service."""

    def __init__(
        self,
        service: Service,
        table: IdentityTable,
        *,
        patience: float = PATIENCE,
        scoped: ScopeOf = scope_of,
    ) -> None:
        self._service = service
        self._table = table
        self._patience = patience
        self._scoped = scoped
        self._making: dict[tuple[Scope, str], asyncio.Event] = {}

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.context.origin.version != VERSION:
            recognised = self._recognise(call)
            if recognised is None:
                return await self._service.unary(call)
            call = recognised
        if call.operation is ops.SEND_MESSAGE:
            return cast("Res", await self._send(cast("Any", call)))
        if call.operation is ops.GET_PUSH_CONFIG:
            return cast("Res", await self._config(cast("Any", call)))
        return await self._about(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.context.origin.version != VERSION:
            recognised = self._recognise(call)
            if recognised is None:
                return self._service.stream(call)
            call = recognised
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            return self._send_streaming(cast("Any", call))
        return self._subscribe(cast("Any", call))

    def _recognise(self, call: Call[Req, Res]) -> Call[Req, Res] | None:
        """The call as a call of 0.1, if the name of its task shows that the caller speaks 0.1."""
        context = call.context
        origin = context.origin
        if (
            call.operation not in _SHARED
            or origin.binding != JSONRPC.name
            or origin.version not in _undeclared_versions()
        ):
            return None
        if context.parameters.get(VERSION_PARAMETER):
            return None
        request: Any = call.request
        scope = self._scoped(request, context)
        name = self._table.find(scope, request.id)
        if (scope, request.id) not in self._making and (name is None or name.given == name.task_id):
            return None
        context.reply.version = VERSION
        if isinstance(request, hub.GetTaskRequest) and not request.HasField("history_length"):
            # A request for no history in 0.1.
            request = hub.GetTaskRequest()
            request.CopyFrom(cast("Any", call.request))
            request.history_length = 0
        return Call(call.operation, request, context.replace(origin=replace(origin, version=VERSION)))

    # Sending.

    async def _send(self, call: Call[hub.SendMessageRequest, Any]) -> hub.SendMessageResponse:
        sending = await self._begin(call)
        try:
            response = hub.SendMessageResponse()
            for request in sending.attempts():
                try:
                    response = await self._service.unary(Call(call.operation, request, call.context))
                    break
                except A2AError as error:
                    if not sending.may_retry(error, request):
                        raise self._error(sending.name, error) from None
            sending.learn_task(response)
        finally:
            sending.settle()
        if response.HasField("message"):
            task = wrap(hub.Task(id=sending.given), response.message)
            task.context_id = response.message.context_id or sending.session
            response = hub.SendMessageResponse(task=task)
        return self._table.rename(sending.scope, sending.learned_name(), response)

    async def _send_streaming(self, call: Call[hub.SendMessageRequest, Any]) -> Events:
        sending = await self._begin(call)
        try:
            for request in sending.attempts():
                try:
                    async with aclosing(
                        self._service.stream(Call(call.operation, request, call.context))
                    ) as events:
                        async for event in events:
                            sending.learn_task(event.message)
                            for renamed in _parts(
                                event,
                                self._table.for_caller(sending.scope, sending.learned_name(), event.message),
                            ):
                                yield renamed
                                if _is_final(renamed.message):
                                    return
                except A2AError as error:
                    if not sending.may_retry(error, request):
                        raise self._error(sending.name, error) from None
                else:
                    return
        finally:
            sending.settle()

    async def _begin(self, call: Call[hub.SendMessageRequest, Any]) -> _Sending:
        scope = self._scoped(call.request, call.context)
        given = call.request.message.task_id
        for member, text in (("id", given), ("sessionId", call.request.message.context_id)):
            if len(text) > LONGEST:
                # Many names are remembered, so the size of each needs a limit.
                raise invalid_params(member, f"is longer than {LONGEST} characters")
        name = await self._find(scope, given)
        sending = _Sending(self._table, self._making, scope, call.request, name)
        sending.reserve()
        return sending

    # Everything else.

    async def _about(self, call: Call[Req, Res]) -> Res:
        scope, name = await self._name_in(call)
        try:
            response = await self._service.unary(_rename(call, name))
        except A2AError as error:
            raise self._error(name, error) from None
        answer: Any = response
        if isinstance(response, hub.Task):
            self._learn(scope, name, response.id, response.context_id)
        if isinstance(response, (hub.Task, hub.TaskPushNotificationConfig)):
            answer = self._table.rename(scope, name, response)
        return cast("Res", answer)

    async def _config(self, call: Call[hub.GetTaskPushNotificationConfigRequest, Any]) -> Any:
        """The config that the caller has set, else the first existing config, else an empty config."""
        scope, name = await self._name_in(call)
        renamed = _rename(call, name)
        try:
            return self._table.rename(scope, name, await self._service.unary(renamed))
        except A2AError as error:
            if error.reason is not Reason.TASK_NOT_FOUND:
                raise self._error(name, error) from None
            missing = error
        request = hub.ListTaskPushNotificationConfigsRequest(
            task_id=name.task_id, tenant=call.request.tenant, page_size=1
        )
        listing = Call(ops.LIST_PUSH_CONFIGS, request, call.context.replace(reply=ResponseParameters()))
        try:
            page = await self._service.unary(listing)
        except A2AError as error:
            raise self._error(name, missing if error.reason.kind is Kind.LACKING else error) from None
        found = page.configs[0] if page.configs else hub.TaskPushNotificationConfig(task_id=name.task_id)
        return self._table.rename(scope, name, found)

    async def _subscribe(self, call: Call[Any, Any]) -> Events:
        scope, name = await self._name_in(call)
        try:
            async with aclosing(self._service.stream(_rename(call, name))) as events:
                async for event in events:
                    message = event.message
                    self._learn(scope, name, task_id_of(message), context_id_of(message))
                    for renamed in _parts(event, self._table.for_caller(scope, name, message)):
                        yield renamed
                        if _is_final(renamed.message):
                            return
        except A2AError as error:
            raise self._error(name, error) from None

    async def _name_in(self, call: Call[Any, Any]) -> tuple[Scope, Name]:
        scope = self._scoped(call.request, call.context)
        given = read_task_id(call.request)
        return scope, await self._find(scope, given) or Name(given, given)

    async def _find(self, scope: Scope, given: str) -> Name | None:
        """The task with this name. Waits if it is being created."""
        making = self._making.get((scope, given))
        while making is not None:
            try:
                async with asyncio.timeout(self._patience):
                    await making.wait()
            except TimeoutError:
                text = f"the agent has not answered yet what began the task {given!r}"
                raise A2AError(
                    Reason.UNAVAILABLE, text, metadata={"taskId": given}, retry_after=1.0
                ) from None
            making = self._making.get((scope, given))
        return self._table.find(scope, given)

    def _learn(self, scope: Scope, name: Name, task_id: str, context_id: str) -> None:
        if task_id != name.task_id:
            return
        name.context_id = name.context_id or context_id
        self._table.keep(scope, name)

    def _error(self, name: Name | None, error: A2AError) -> A2AError:
        """The error with the caller's name of the task."""
        if name is None:
            return error
        unknown = name.given == name.task_id and error.reason is Reason.TASK_NOT_FOUND
        if name.task_id and error.metadata.get("taskId") == name.task_id:
            error.metadata["taskId"] = name.given
        if unknown:
            error.message = (
                f"no task is known as {name.given!r}. Names of tasks from callers of 0.1 are kept in memory: "
                f"the bridge forgets them when it restarts, and the oldest of more than {self._table.most}"
            )
            error.args = (error.message,)
        return error


class _Sending:
    """A message that is being sent: the names it is sent under, and how to learn from the response."""

    def __init__(
        self,
        table: IdentityTable,
        making: dict[tuple[Scope, str], asyncio.Event],
        scope: Scope,
        request: hub.SendMessageRequest,
        name: Name | None,
    ) -> None:
        self.scope = scope
        self.name = name
        self.given = request.message.task_id
        self.session = request.message.context_id
        self._table = table
        self._making = making
        self._request = request
        self._done: asyncio.Event | None = None
        self._answered = False
        self._without_session = False

    def reserve(self) -> None:
        """Makes other calls with this name wait. Requires that nothing was awaited since the lookup."""
        if self.name is None:
            self._done = self._making[self.scope, self.given] = asyncio.Event()
            sent = Expected(self.given, self.session, self._request.message.message_id)
            self._table.expect(self.scope, sent)

    def attempts(self) -> Iterable[hub.SendMessageRequest]:
        """The request with the agent's ids; if the agent rejects it, then the request without a session."""
        request = hub.SendMessageRequest()
        request.CopyFrom(self._request)
        message = request.message
        if self.name is not None:
            message.task_id = self.name.task_id
            if self.session in ("", self.name.session):
                message.context_id = self.name.context_id
            else:
                message.context_id = self._table.context(self.scope, self.session)
            if self.name.turns:
                message.message_id = place_id(message.message_id, f"{self.given}/{self.name.turns}")
        else:
            message.task_id = ""
            message.context_id = self._table.context(self.scope, self.session)
        for place, task_id in enumerate(message.reference_task_ids):
            known = self._table.find(self.scope, task_id)
            message.reference_task_ids[place] = known.task_id if known is not None else task_id
        yield request
        if self._without_session:
            again = hub.SendMessageRequest()
            again.CopyFrom(request)
            again.message.context_id = ""
            yield again

    def may_retry(self, error: A2AError, request: hub.SendMessageRequest) -> bool:
        """True if the agent rejected only the session's name, so that the request may be sent without it."""
        if self._answered or self._without_session or self.name is not None or not request.message.context_id:
            return False
        if error.reason is not Reason.INVALID_PARAMS:
            return False
        self._without_session = any(
            one.field.endswith(("contextId", "context_id")) for one in error.violations
        )
        return self._without_session

    def learn_task(self, response: hub.SendMessageResponse | hub.StreamResponse) -> None:
        """Learns the task id behind the name from the first response or event."""
        task_id, context_id = task_id_of(response), context_id_of(response)
        begins = not self._answered or self.name is None
        self._answered = True
        if self.name is None and task_id:
            known = self._table.find(self.scope, self.given)  # a notification was faster
            same = known is not None and known.task_id == task_id
            self.name = known if same else Name(self.given, task_id, self.session, context_id)
        if self.name is None:
            return
        if begins:
            self.name.turns += 1
        self.name.context_id = self.name.context_id or context_id
        self._table.keep(self.scope, self.name)
        self._table.keep_session(self.scope, self.session, self.name.context_id)
        self.settle()

    def learned_name(self) -> Name:
        """The learned name; a name without a task if the agent created no task."""
        return self.name if self.name is not None else Name(self.given, "", self.session)

    def settle(self) -> None:
        """Lets the waiting calls go on. May be called again."""
        if self._done is not None:
            del self._making[self.scope, self.given]
            self._table.settle(self.scope, self.given)
            self._done.set()
            self._done = None


@cache
def _undeclared_versions() -> frozenset[str]:
    """The versions in which callers declare no version."""
    return frozenset(dialect.version for dialect in KNOWN if not dialect.declares)


def _rename(call: Call[Req, Res], name: Name) -> Call[Req, Res]:
    """The call with the agent's task id."""
    if name.given == name.task_id:
        return call
    request: Any = type(call.request)()
    request.CopyFrom(call.request)
    if "task_id" in request.DESCRIPTOR.fields_by_name:
        request.task_id = name.task_id
    else:
        request.id = name.task_id
    return Call(call.operation, request, call.context)


def _is_final(event: hub.StreamResponse) -> bool:
    """True if this event ends a stream of 0.1."""
    return event.HasField("status_update") and by_state(event.status_update)


def _parts(event: Event, renamed: Iterable[hub.StreamResponse]) -> list[Event]:
    """The updates that replace an event; the last update gets its id."""
    parts = [Event(update) for update in renamed]
    if parts:
        parts[-1].id, parts[-1].gap = event.id, event.gap
    return parts
