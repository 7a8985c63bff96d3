"""The connections of a gateway to its agent, with the services right above them. They change with its card.

Rules:
1. Another address of the agent replaces connections only. What else the services depend on (`_Shape`:
   version, tenant, resumption) replaces the services, too.
2. A change happens between two calls. Calls and streams that run finish where they began; what they use is
   closed after the last of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.call import Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service
from a2a_bridge.dialects import Dialect
from a2a_bridge.dialects.annotation import finality
from a2a_bridge.gateway.contexts import Contexts
from a2a_bridge.gateway.endpoints import with_endpoints
from a2a_bridge.gateway.failover import Affinity, Failover, circuits, with_patience
from a2a_bridge.gateway.options import UpstreamOptions
from a2a_bridge.gateway.replay_log import ReplayOptions
from a2a_bridge.gateway.retries import Retries, RetryBudget
from a2a_bridge.gateway.router import Route, Router
from a2a_bridge.gateway.silence import SilenceLimit
from a2a_bridge.gateway.stream_sharing import StreamSharing
from a2a_bridge.gateway.tasks import Tasks, scopes_by
from a2a_bridge.gateway.unstreamed import Unstreamed
from a2a_bridge.gateway.upstream import Dial, Upstream

logger = logging.getLogger(__name__)

#: seconds between two looks at connections that wait for their last call
_LOOK = 0.25


class _Shape(NamedTuple):
    """What the services above the connections depend on."""

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
        self.on_doubt: Callable[[], None] = _nothing
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
        if none can be dialled.
        """
        failover = await self._open(candidates)
        shape = _shape(failover, resumes=resumes)
        before = self._current
        if shape == before.shape:
            offered = failover.upstreams
            gone = await before.failover.replace(offered)
            spare = [one for one in offered if one not in before.failover.upstreams]
            if gone or spare:
                self._close_later(lambda: any(one.is_busy for one in gone), _closing([*gone, *spare]))
            return
        self._current = self._above(failover, shape)

        async def close() -> None:
            await before.sharing.aclose()
            await before.failover.aclose()

        self._close_later(lambda: before.sharing.is_read or before.failover.is_busy, close)

    async def aclose_streams(self) -> None:
        """Ends the streams."""
        await self._current.sharing.aclose()

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
        """Connections to those that can be dialled at all. Raises UNSUPPORTED_OPERATION, ValueError."""
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
            # A stream that it opens again needs what the credentials of its caller are made from.
            forward=self._options.forward | made_from,
            is_final=is_final,
            resumes=shape.resumes,
            memory=self._memory,
        )
        service: Service = Contexts(sharing, self._tasks, scopes_by(self._options.forward))
        if shape.tenant:
            service = Router(Route(service, shape.tenant))
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


def _closing(upstreams: Sequence[Upstream]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def close() -> None:
        for one in upstreams:
            await one.aclose()

    return close


def _shape(failover: Failover, *, resumes: bool) -> _Shape:
    first = failover.upstreams[0].candidate
    return _Shape(first.dialect, first.interface.protocol_binding, first.interface.tenant, resumes)


def _nothing() -> None:
    """Nobody reads the card again."""
