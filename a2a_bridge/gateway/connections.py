"""The connections of a gateway to its agent, with the services right above them. They change with its card.

Rules:
1. Another address of the agent replaces connections only; another `_Shape` (version, binding, tenant,
   resumption) replaces the services, too.
2. A change happens between two calls. Calls and streams that run finish where they began; their connections
   are closed after the last of them.
3. A gateway is not ready while the last call reached no interface of its agent (`rejection`). Without
   readiness no caller comes, so the gateway itself asks the lost agent again (`ask_while_gone`): for a task
   that nobody has. It asks nothing while the agent can be reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast
from uuid import uuid4

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.probing import QUESTIONS
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.callers import ScopeOf
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.core.messages import RUNNING, TERMINAL, context_id_of, state_of, task_id_of
from a2a_bridge.core.operations import GET_TASK, Req, Res
from a2a_bridge.core.option_classes import ReplayOptions, UpstreamValues
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream, reject, reject_stream
from a2a_bridge.dialects import Dialect
from a2a_bridge.dialects.annotation import finality
from a2a_bridge.gateway.cards import ReadCard
from a2a_bridge.gateway.credentials.sending import UpstreamCredentials
from a2a_bridge.gateway.destinations import with_endpoints
from a2a_bridge.gateway.early_answers import EarlyAnswers
from a2a_bridge.gateway.failover import Affinity, Failover, Retries, RetryBudget, circuits, with_patience
from a2a_bridge.gateway.polyfill import Unstreamed
from a2a_bridge.gateway.stream_sharing import StreamSharing
from a2a_bridge.gateway.tasks import Tasks, scopes_by, visible_to
from a2a_bridge.gateway.upstream import QUESTION, Dial, SilenceLimit, Upstream
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)

#: seconds between two looks at connections that wait for their last call
_LOOK = 0.25


class _Shape(NamedTuple):
    """The facts that the services above the connections depend on."""

    dialect: Dialect
    binding: str
    tenant: str
    #: whether the agent's card offers to resume streams
    resumes: bool


class _Generation(NamedTuple):
    """The services of one shape."""

    shape: _Shape
    failover: Failover
    sharing: StreamSharing
    service: Service


class Connections:
    """See above. Implements Service; to be opened first."""

    def __init__(
        self,
        options: DialOptions,
        upstream: UpstreamOptions,
        replay: ReplayOptions,
        *,
        dial: Dial,
        memory: MemoryAccount,
        tasks: Tasks,
    ) -> None:
        self._options = replace(options, memory=memory)
        self._upstream = upstream
        self._replay = replay
        self._dial = dial
        self._memory = memory
        self._tasks = tasks
        self._retries = None
        if upstream.retries:
            budget = RetryBudget(upstream.retry_share, upstream.retry_burst)
            self._retries = Retries(upstream.retries, budget)
        self._affinity = Affinity(tasks) if upstream.is_apart else None
        self._circuits = circuits(upstream.trip, upstream.pause, upstream.longest_pause)
        #: why interfaces of the card are not used, as it was logged last
        self._unusable: list[str] = []
        self._closing: dict[asyncio.Task[None], Callable[[], Coroutine[Any, Any, None]]] = {}
        #: called when the agent may have another card by now
        self.on_doubt: Callable[[], None] = lambda: None
        #: set by `open`
        self._current: _Generation

    @property
    def version(self) -> str:
        """The protocol version of the preferred interface."""
        return self._current.shape.dialect.version

    @property
    def failover(self) -> Failover:
        """The connections that new calls use."""
        return self._current.failover

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        return self._current.service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        return self._current.service.stream(call)

    async def open(self, candidates: Sequence[Candidate], *, resumes: bool) -> None:
        """resumes: whether the agent's card offers to resume streams after an event id. Raises
        UNSUPPORTED_OPERATION if none of the interfaces can be dialled, and ValueError.
        """
        failover = await self._open(candidates)
        self._current = self._above(failover, _shape(failover, resumes=resumes))

    async def replace(self, candidates: Sequence[Candidate], *, resumes: bool) -> None:
        """Uses other interfaces from now on. Raises UNSUPPORTED_OPERATION or ValueError, and changes nothing,
        if no interface can be dialled.
        """
        failover = await self._open(candidates)
        shape = _shape(failover, resumes=resumes)
        before = self._current
        if shape == before.shape:
            offered = failover.upstreams
            gone = await before.failover.replace(offered)
            spare = [one for one in offered if one not in before.failover.upstreams]
            if gone or spare:
                work = partial(_close_all, [*gone, *spare])
                self._close_later(lambda: any(one.is_busy for one in gone), work)
            return
        self._current = self._above(failover, shape)

        async def close() -> None:
            await before.sharing.streams.aclose()
            await before.failover.aclose()

        self._close_later(lambda: before.sharing.streams.is_read or before.failover.is_busy, close)

    async def aclose_streams(self) -> None:
        """Ends the streams."""
        await self._current.sharing.streams.aclose()

    async def aclose(self) -> None:
        """Closes all connections. Running calls fail."""
        waiting = dict(self._closing)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for close in waiting.values():
            await close()
        await self._current.failover.aclose()

    async def _open(self, candidates: Sequence[Candidate]) -> Failover:
        """Connections to the candidates that can be dialled. Raises UNSUPPORTED_OPERATION, ValueError."""
        ranked = with_endpoints(candidates, self._upstream.endpoints)
        options = with_patience(self._options, len(ranked))
        upstreams = [Upstream(candidate, options, dial=self._dial, rank=rank) for rank, candidate in ranked]
        failover = Failover(
            upstreams,
            discreet=True,
            circuits=self._circuits,
            retries=self._retries,
            affinity=self._affinity,
            on_doubt=self._doubt,
        )
        try:
            self._unusable = await failover.open(self._unusable)
        except BaseException:
            await failover.aclose()
            raise
        return failover

    def _above(self, failover: Failover, shape: _Shape) -> _Generation:
        limit = self._options.silence_timeout
        credentials = self._upstream.credentials
        made_from: frozenset[str] = frozenset() if credentials is None else credentials.made_from
        is_final = finality(shape.dialect, shape.binding) if shape.dialect.final_events else None
        sharing = StreamSharing(
            Unstreamed(SilenceLimit(failover, limit) if limit else failover),
            self._replay,
            # When it opens a stream again, these parameters make the credentials of the caller again.
            forward=self._options.forward | made_from,
            is_final=is_final,
            resumes=shape.resumes,
            memory=self._memory,
        )
        early = (
            None
            if shape.dialect.final_events
            else EarlyAnswers(
                sharing, waits=self._options.profile.quirks.answers_early, limit=self._options.timeout
            )
        )
        service: Service = Contexts(sharing, self._tasks, scopes_by(self._options.forward), early)
        if shape.tenant:
            service = TenantRule(service, shape.tenant)
        return _Generation(shape, failover, sharing, service)

    def _doubt(self) -> None:
        self.on_doubt()

    def _close_later(
        self, is_used: Callable[[], bool], close: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Closes connections after the last call that uses them."""
        task = asyncio.create_task(_close_idle(is_used, close), name="close connections of an older card")
        self._closing[task] = close
        task.add_done_callback(self._close)

    def _close(self, task: asyncio.Task[None]) -> None:
        self._closing.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("connections of an older card cannot be closed", exc_info=error)


async def _close_idle(is_used: Callable[[], bool], close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while is_used():  # noqa: ASYNC110  the end of a stream is no event here
        await asyncio.sleep(_LOOK)
    await close()


async def _close_all(upstreams: Sequence[Upstream]) -> None:
    for one in upstreams:
        await one.aclose()


def _shape(failover: Failover, *, resumes: bool) -> _Shape:
    first = failover.upstreams[0].candidate
    return _Shape(first.dialect, first.interface.protocol_binding, first.interface.tenant, resumes)


@dataclass(frozen=True, slots=True)
class UpstreamOptions(UpstreamValues):
    """The options of a gateway for its agent: credentials, and its behaviour when the agent fails or changes.
    See docs/how-to/set-up-upstreams.md.
    """

    #: the credentials that prove the caller to the agent; None: as the options of the client side and of the
    #: edge say
    credentials: UpstreamCredentials | None = None
    #: reads the card of the agent again; None: it stays as it is
    read_card: ReadCard | None = None

    @property
    def is_apart(self) -> bool:
        """Whether there are endpoints that do not share their tasks."""
        return bool(self.endpoints) and self.affinity


class TenantRule:
    """Gives access to the tenant of the agent's interface only, so that callers reach no tenant that the
    operator did not open (spec 3.2.3, 4.4.6). A call without a tenant gets the tenant of the interface. An
    interface without a tenant needs no rule: each tenant belongs to the agent, and is forwarded. Implements
    Service.
    """

    def __init__(self, service: Service, tenant: str) -> None:
        self._service = service
        self._tenant = tenant

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        rejection = self._rejection(call)
        return self._service.unary(call) if rejection is None else reject(rejection)

    def stream(self, call: Call[Req, Res], /) -> Events:
        rejection = self._rejection(call)
        return self._service.stream(call) if rejection is None else reject_stream(rejection)

    def _rejection(self, call: Call[Any, Any]) -> A2AError | None:
        if call.context.tenant in ("", self._tenant):
            return None
        return invalid_params("tenant", "this tenant is not served here")


class Contexts:
    """Adds the context id to messages that have a task id only. Implements Service around a remote agent.

    A follow-up may leave out the context id (A2A 1.0, 3.4.3), and servers of a2a-sdk fail on it. Rules:
    1. The context id of an unfinished task is remembered by caller and task when the gateway first sees it
       (`tasks.py`).
    2. For an unknown task the gateway asks the agent with the caller's credentials. Without a response the
       message is sent unchanged.
    3. A message that has a context id, or no task id, passes by reference.
    4. A page of ListTasks is corrected to the request: some agents always include artifacts (a2a-server-lf
       0.5.3 never reads includeArtifacts), and agents disagree about `pageSize`, which is the number of tasks
       in this page.
    5. The task of an agent that does not wait for it is waited for here (`early_answers.py`).

    scoped: the scope of a call. early: None for an agent that need not wait.
    """

    def __init__(
        self,
        service: Service,
        tasks: Tasks,
        scoped: ScopeOf = visible_to,
        early: EarlyAnswers | None = None,
    ) -> None:
        self._service = service
        self._early = early
        self._scoped = scoped
        self._tasks = tasks

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.operation is not ops.SEND_MESSAGE:
            answer = await self._service.unary(call)
            if call.operation is ops.LIST_TASKS:
                return cast("Res", _settled(call.request, answer))
            return answer
        request: Any = call.request
        completed: Call[Req, Res] = call
        if request.message.task_id or request.configuration.return_immediately:
            completed = await self._complete(call)
        response = await self._service.unary(completed)
        sent: Any = response
        if not sent.HasField("task"):
            return response
        if (
            self._early is not None
            and sent.task.status.state in RUNNING
            and sent.task.id
            and not request.configuration.return_immediately
        ):
            sent = response = cast("Res", await self._early.wait(completed, sent))
        task: hub.Task = sent.task
        if task.id and task.status.state not in TERMINAL:
            self._note(call, task.id, task.context_id)
        return response

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is not ops.SEND_STREAMING_MESSAGE:
            return self._service.stream(call)
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        stream = await open_stream(self._service.stream(await self._complete(call)))
        if stream is not None:
            self._note_event(call, stream[0].message)
        return stream

    async def _complete(self, call: Call[Any, Any]) -> Call[Any, Any]:
        """The call with the context id of its message's task, if it lacks one and the id can be found, and as
        an agent that does not wait reads it.
        """
        if self._early is not None:
            call = self._early.adapt(call)
        message = call.request.message
        if not message.task_id or message.context_id:
            return call
        context_id = await self._context_of(call, message.task_id)
        if not context_id:
            return call
        request = hub.SendMessageRequest()
        request.CopyFrom(call.request)
        request.message.context_id = context_id
        return Call(call.operation, request, call.context)

    async def _context_of(self, call: Call[Any, Any], task_id: str) -> str:
        known = self._tasks.context_of(self._scoped(call.request, call.context), task_id)
        if known:
            return known
        try:
            task = await fetch_task(self._service, call, task_id, history_length=0)
        except A2AError as error:
            logger.debug("the context of task %s is not known: %s", task_id, error)
            return ""
        self._note(call, task_id, task.context_id)
        return task.context_id

    def _note_event(self, call: Call[Any, Any], event: hub.StreamResponse) -> None:
        if not event.HasField("message") and not (event.HasField("task") and state_of(event) in TERMINAL):
            self._note(call, task_id_of(event), context_id_of(event))

    def _note(self, call: Call[Any, Any], task_id: str, context_id: str) -> None:
        if not context_id or call.request.message.context_id:
            return
        self._tasks.keep_context(self._scoped(call.request, call.context), task_id, context_id)


def _settled(request: Any, page: Any) -> Any:
    """The page with its true size, and without artifacts that were not asked for."""
    bare = not request.include_artifacts and any(task.artifacts for task in page.tasks)
    if page.page_size == len(page.tasks) and not bare:
        return page
    made = hub.ListTasksResponse()
    made.CopyFrom(page)
    made.page_size = len(made.tasks)
    for task in made.tasks if bare else ():
        task.ClearField("artifacts")
    return made


#: seconds between two questions, and for the response to one
PAUSE, _LIMIT = 2.0, 10.0


def rejection(failover: Failover) -> A2AError | None:
    """Why a gateway takes no new work; None while its agent can be reached."""
    if not failover.is_gone:
        return None
    text = "the agent behind this gateway cannot be reached"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.PEER)


def question() -> Call[Any, Any]:
    """A harmless call, for a task that nobody has: any response, even an error, shows an agent."""
    return Call(GET_TASK, hub.GetTaskRequest(id=str(uuid4())), CallContext(origin=QUESTION))


async def ask_while_gone(current: Callable[[], Failover], pause: float = PAUSE) -> None:
    """Asks a lost agent until it answers; runs until it is cancelled. current: the connections to use."""
    while True:
        await asyncio.sleep(pause)
        failover = current()
        if not failover.is_gone:
            continue
        url = failover.upstreams[0].candidate.interface.url
        with suppress(A2AError, TimeoutError):
            async with QUESTIONS.at(url), asyncio.timeout(_LIMIT):
                await failover.unary(question())  # Failover notes any response
