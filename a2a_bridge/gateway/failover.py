"""Several interfaces and endpoints of one agent as one service.

Rules:
1. Another interface is tried only if a connection could not be made, so that an agent never gets a call
   twice. `Retries` decides about all other repetitions.
2. Interfaces are tried in the order of preference, interfaces that failed recently last. Of the endpoints of
   an interface, the endpoint with the fewest running calls comes first. The endpoint that has the task
   (`Affinity`) comes before all others.
3. An interface that fails several times in a row gets nothing for a pause, then a call that shows whether it
   is back, and a second call if the first takes long (`circuit`). While all are in a pause, calls fail at
   once.
4. The loss of an agent is a warning, with the causes of all its interfaces; its return is a second warning.
5. If the endpoint of a task cannot be reached, the response of another endpoint that it has no such task is
   no news about the task: the call is UNAVAILABLE.
6. The interfaces can be replaced at any time; calls that run finish where they began.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import ref

from a2a_bridge.bindings.binding import DialOptions, is_unconnected, unconnected_error
from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.circuit import Circuits
from a2a_bridge.core.errors import A2AError, Blame, Reason, cause_of
from a2a_bridge.core.messages import context_id_of, read_task_id, task_id_of
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, open_stream
from a2a_bridge.gateway.tasks import CONTEXT, TASK, Tasks
from a2a_bridge.gateway.upstream import Dial, Health, Upstream, dial, is_connect_failure, was_asked
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)

#: seconds during which an interface that refused a connection is tried after the others
COOL_DOWN = 5.0
#: seconds that a call waits for a connection before it goes to the next interface
_PATIENCE = 1.0

#: the reasons of an agent that are a sign of another version than its card says
_VERSIONS = frozenset({Reason.VERSION_NOT_SUPPORTED, Reason.METHOD_NOT_FOUND})

_NONE: Mapping[Upstream, A2AError] = MappingProxyType({})

T = TypeVar("T")
_Attempt = Callable[[Upstream, Call[Any, Any]], Awaitable[T]]


def circuits(trip: int, pause: float, longest: float, *, clock: Callable[[], float] = monotonic) -> Circuits:
    """Circuits for the endpoints of an agent. trip: failures in a row that open them. Times in seconds."""
    return Circuits(
        each=2**31,
        trip=trip,
        pause=pause,
        longest=longest,
        # The agent may be back, and the first call may be long.
        again=longest,
        patience=math.inf,
        most=2**31,
        now=clock,
    )


class Affinity:
    """The endpoints of tasks and contexts, for an agent whose endpoints do not share their tasks. The
    endpoint that answered with a task has it, and the context of it; each tenant has ids of its own.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    def home(self, call: Call[Any, Any]) -> tuple[Upstream | None, bool]:
        """The endpoint to ask, None if any may be; and whether it has the task of the call."""
        request = call.request
        scope = Scope(request.tenant)
        task_id = read_task_id(request)
        known = self._tasks.get(scope, task_id) if task_id else None
        if known is not None and known.endpoint is not None:
            return known.endpoint(), True
        context_id = request.message.context_id if isinstance(request, hub.SendMessageRequest) else ""
        known = self._tasks.get(scope, context_id, CONTEXT) if context_id else None
        return None if known is None or known.endpoint is None else known.endpoint(), False

    def learn(self, call: Call[Any, Any], answer: Any, upstream: Upstream) -> None:
        """Notes the task and the context of a response, or of the first event of a stream."""
        scope = Scope(call.request.tenant)
        for kind, id_ in ((TASK, task_id_of(answer)), (CONTEXT, context_id_of(answer))):
            if id_:
                known = self._tasks.make(scope, id_, kind)
                known.endpoint = ref(upstream)
                self._tasks.keep(known)


class Failover:
    """See above. Implements Service. upstreams: at least one, in the order of preference. discreet: errors
    contain neither the address of the agent nor the fact that it did not get the call. circuits, retries,
    affinity: None for none. on_doubt: called when the agent may have another card by now.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        discreet: bool = False,
        clock: Callable[[], float] = monotonic,
        circuits: Circuits | None = None,
        retries: Retries | None = None,
        affinity: Affinity | None = None,
        on_doubt: Callable[[], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not upstreams:
            raise ValueError("an agent without interfaces")
        self.upstreams = tuple(upstreams)
        self._discreet = discreet
        self._clock = clock
        self._circuits = circuits
        self._retries = retries
        self._affinity = affinity
        self._on_doubt = on_doubt
        self._sleep = sleep
        #: the interfaces with a loss that has been logged; all of them while the agent cannot be reached
        self._lost: set[Upstream] = set()
        #: calls that wait for their repetition
        self._pausing = 0

    @property
    def retried(self) -> int:
        """The number of repeated attempts."""
        return 0 if self._retries is None else self._retries.made

    def is_paused(self, upstream: Upstream) -> bool:
        """Whether the circuit of an interface is open, so that it gets nothing."""
        return self._circuits is not None and not self._admits(upstream, self._circuits)

    @property
    def is_gone(self) -> bool:
        """True while the last call reached none of the interfaces."""
        return len(self._lost) == len(self.upstreams)

    @property
    def is_busy(self) -> bool:
        """Whether a call or a stream is running, or waits for its repetition."""
        return self._pausing > 0 or any(one.is_busy for one in self.upstreams)

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if self._retries is not None:
            self._retries.budget.earn()
        upstream = self.upstreams[0]
        if self._affinity is None and not self._lost and upstream.health.reachable:
            # The usual case, without a frame in between.
            try:
                return await upstream.unary(call)
            except A2AError as error:
                failure = error
            except asyncio.CancelledError as error:
                self._note_cancelled(upstream, error)
                raise
            return await self._repeat(call, _unary, self._count_failure(upstream, failure), failure)
        return await self._repeat(call, _unary, {})

    def stream(self, call: Call[Any, Any], /) -> Events:
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        if self._retries is not None:
            self._retries.budget.earn()
        upstream = self.upstreams[0]
        if self._affinity is None and not self._lost and upstream.health.reachable:
            try:
                return await open_stream(upstream.stream(call))
            except A2AError as error:
                failure = error
            except asyncio.CancelledError as error:
                self._note_cancelled(upstream, error)
                raise
            return await self._repeat(call, _open, self._count_failure(upstream, failure), failure)
        return await self._repeat(call, _open, {})

    async def open(self, told: Collection[str] = ()) -> list[str]:
        """Removes the interfaces that cannot be dialled at all. Returns the reasons, and logs the reasons
        that are not in `told`. Raises UNSUPPORTED_OPERATION if no interface is left.
        """
        self.upstreams, reasons = await _dialable(self.upstreams)
        for text in reasons:
            if text not in told:
                logger.warning("%s", text)
        return reasons

    async def replace(self, upstreams: Sequence[Upstream]) -> list[Upstream]:
        """Uses other interfaces; the same interfaces stay connected. Returns the interfaces that are not used
        any more, which the caller closes. Raises UNSUPPORTED_OPERATION, and changes nothing, if no interface
        can be dialled.
        """
        known = {one.candidate.identity: one for one in self.upstreams}
        wanted = []
        for one in upstreams:
            kept = known.get(one.candidate.identity, one)
            kept.rank = one.rank
            wanted.append(kept)
        before, (self.upstreams, _) = self.upstreams, await _dialable(wanted)
        gone = [one for one in before if one not in self.upstreams]
        self._lost.difference_update(gone)
        return gone

    async def aclose(self) -> None:
        """Closes all of them."""
        for upstream in self.upstreams:
            await upstream.aclose()

    # ------------------------------------------------------------------ attempts

    async def _repeat(
        self,
        call: Call[Any, Any],
        attempt: _Attempt[T],
        failures: dict[Upstream, A2AError],
        failure: A2AError | None = None,
    ) -> T:
        """The result of an attempt, which is repeated as `retries` decides. failure: the error of a first
        attempt, which `failures` has if that attempt did not connect.
        """
        number = 0
        while True:
            if failure is None or failures:
                try:
                    return await self._anywhere(call, attempt, failures)
                except A2AError as error:
                    failure = error
            number += 1
            if self._on_doubt is not None and _is_doubtful(failure):
                self._on_doubt()
            pause = None if self._retries is None else self._retries.pause(call, failure, number)
            if pause is None:
                raise _told(failure) if self._discreet else failure
            self._pausing += 1
            try:
                with unsent():
                    await self._sleep(pause)
            finally:
                self._pausing -= 1
            failures, failure = {}, None

    async def _anywhere(
        self, call: Call[Any, Any], attempt: _Attempt[T], failures: dict[Upstream, A2AError]
    ) -> T:
        """The result of the first upstream that accepts a connection. Adds other errors to `failures`."""
        home, has_task = (None, False) if self._affinity is None else self._affinity.home(call)
        for upstream in self._order(home, failures):
            try:
                result = await self._try(upstream, call, attempt)
            except asyncio.CancelledError as error:
                self._note_cancelled(upstream, error, failures)
                raise
            except A2AError as error:
                if is_connect_failure(error):
                    failures[upstream] = error
                    continue
                if (failures or self._lost) and was_asked(error):  # an error is a response
                    self._log(upstream, failures)
                elsewhere = has_task and home is not None and upstream is not home
                if elsewhere and error.reason is Reason.TASK_NOT_FOUND:
                    raise self._unreachable(failures) from None
                raise
            if failures or self._lost:
                self._log(upstream, failures)
            if failures and self._on_doubt is not None:
                self._on_doubt()
            if self._affinity is not None:
                # Of a stream, its first event is the response.
                content = result[0].message if isinstance(result, tuple) else result
                self._affinity.learn(call, content, upstream)
            return result
        raise self._unreachable(failures)

    async def _try(self, upstream: Upstream, call: Call[Any, Any], attempt: _Attempt[T]) -> T:
        """The result of one upstream. Its circuit counts the calls that may find no connection."""
        circuits = self._circuits
        if circuits is None:
            return await attempt(upstream, call)
        if upstream.health.reachable is not False:
            try:
                return await attempt(upstream, call)
            except A2AError as error:
                self._count_failure(upstream, error)
                raise
        key = repr(upstream)
        circuits.begin(key)
        works: bool | None = None
        try:
            result = await attempt(upstream, call)
            works = True
        except A2AError as error:
            works = not is_connect_failure(error) if was_asked(error) else None
            raise
        finally:
            circuits.end(key, works)
        return result

    def _count_failure(self, upstream: Upstream, error: A2AError) -> dict[Upstream, A2AError]:
        """Counts a failed attempt without a circuit. Returns the failure, if the connection failed."""
        if not is_connect_failure(error):
            return {}
        if self._circuits is not None:
            self._circuits.begin(repr(upstream))
            self._circuits.end(repr(upstream), target_works=False)
        return {upstream: error}

    def _note_cancelled(
        self, upstream: Upstream, error: BaseException, failures: Mapping[Upstream, A2AError] = _NONE
    ) -> None:
        """A call that ended before it had a connection counts as a call that could not connect."""
        found = self._count_failure(upstream, unconnected_error()) if is_unconnected(error) else {}
        if failures or found:
            self._log(None, {**failures, **found})

    def _order(self, home: Upstream | None, failures: Collection[Upstream]) -> Sequence[Upstream]:
        """The upstreams to try; see the rules."""
        # Also of a single interface: the failure may belong to an interface that has been replaced.
        upstreams: Sequence[Upstream] = [one for one in self.upstreams if one not in failures]
        if len(upstreams) > 1:
            now = self._clock()
            upstreams = sorted(
                upstreams,
                key=lambda one: (one is not home, _is_down(one.health, now), one.rank, one.pending),
            )
        if self._circuits is None:
            return upstreams
        return [one for one in upstreams if self._admits(one, self._circuits)]

    def _admits(self, upstream: Upstream, circuits: Circuits) -> bool:
        return upstream.health.reachable is not False or circuits.capacity_of(repr(upstream)) > 0

    # ------------------------------------------------------------------ what is told

    def _log(self, answered: Upstream | None, failures: Mapping[Upstream, A2AError]) -> None:
        """One line for each change: the agent or an interface of it is lost, or is back."""
        was_gone = self.is_gone
        # An interface that has been replaced is not tried again, so it would never be noted as back.
        lost = {one: failures[one] for one in self.upstreams if one in failures and one not in self._lost}
        causes = "; ".join(f"{upstream!r}: {cause_of(error)}" for upstream, error in lost.items())
        self._lost.update(lost)
        if answered is None:
            if causes and not self.is_gone:
                logger.warning("an interface cannot be reached: %s", causes)
            elif causes and not was_gone:
                url = next(iter(lost)).candidate.interface.url
                logger.warning(
                    "the agent cannot be reached: %s; a2a-bridge card get -a %s asks it", causes, url
                )
            return
        if lost:
            logger.warning("an interface cannot be reached, the next one is used: %s", causes)
        if answered in self._lost:
            self._lost.remove(answered)
            logger.warning(
                "%s can be reached again: %r", "the agent" if was_gone else "an interface", answered
            )

    def _unreachable(self, failed: Mapping[Upstream, A2AError]) -> A2AError:
        self._log(None, failed)
        failures = list(failed.values())
        wait = None if failures or self._circuits is None else self._circuits.wait() or 0.0
        if self._discreet or not failures:
            text = "the agent behind this address cannot be reached"
            return UnreachableError(text, tried=bool(failures), blame=Blame.PEER, retry_after=wait)
        if len(failures) == 1:
            return failures[0]
        text = "; ".join(dict.fromkeys(error.message for error in failures))
        return UnreachableError(
            f"no interface of the agent can be reached: {text}",
            tried=True,
            metadata=failures[0].metadata,
            blame=failures[0].blame,
        )


def with_patience(options: DialOptions, interfaces: int) -> DialOptions:
    """The options for an interface. Calls that can go to another interface do not wait long to connect."""
    if interfaces < 2:
        return options
    return replace(options, connect_patience=_PATIENCE)


async def _unary(upstream: Upstream, call: Call[Any, Any]) -> Any:
    return await upstream.unary(call)


async def _open(upstream: Upstream, call: Call[Any, Any]) -> tuple[Event, Events] | None:
    return await open_stream(upstream.stream(call))


def _told(error: A2AError) -> A2AError:
    """The error for callers of a gateway: a response that is no A2A error does not say who is at fault."""
    if error.message != Reason.INTERNAL_ERROR.text or not hasattr(error, "__notes__"):
        return error
    return A2AError(Reason.INTERNAL_ERROR, "the agent failed with an internal error", blame=Blame.PEER)


def _is_doubtful(error: A2AError) -> bool:
    return isinstance(error, UnreachableError) or (error.reason in _VERSIONS and error.blame is Blame.PEER)


def _is_down(health: Health, now: float) -> bool:
    return health.reachable is False and now - health.since < COOL_DOWN


async def _dialable(upstreams: Sequence[Upstream]) -> tuple[tuple[Upstream, ...], list[str]]:
    """The upstreams that can be dialled, and why others cannot. Raises UNSUPPORTED_OPERATION without any."""
    usable, failures, reasons = [], [], []
    for upstream in upstreams:
        try:
            await upstream.open()
        except A2AError as error:
            failures.append(f"{upstream!r}: {error.message}")
            reasons.append(f"{upstream!r} is not used: {error.message}")
        else:
            usable.append(upstream)
    if not usable:
        text = f"no interface of the agent can be used: {'; '.join(failures)}"
        raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
    return tuple(usable), reasons


@asynccontextmanager
async def dial_failover(
    candidates: Sequence[Candidate], options: DialOptions, *, dial: Dial = dial
) -> AsyncIterator[Failover]:
    """A service for the interfaces of one agent; the first that accepts a connection answers."""
    options = with_patience(options, len(candidates))
    upstreams = Failover(
        [Upstream(candidate, options, dial=dial, rank=rank) for rank, candidate in enumerate(candidates)]
    )
    try:
        yield upstreams
    finally:
        await upstreams.aclose()


#: the bounds of the first and of any pause, in seconds
FIRST, LONGEST = 0.1, 2.0
#: the longest time to wait that an agent may ask for, in seconds
LONGEST_WISH = 5.0


class UnreachableError(A2AError):
    """No connection to the agent could be made. tried: False if the circuits let none be tried."""

    def __init__(self, message: str, *, tried: bool, **members: Any) -> None:
        super().__init__(Reason.UNAVAILABLE, message, **members)
        self.tried = tried


class RetryBudget:
    """A token bucket, full at first: a call adds `share` of a token, a repetition takes one. burst: the most
    tokens, which is the number of repetitions that a few calls may cause.
    """

    def __init__(self, share: float, burst: float) -> None:
        self._share = share
        self._burst = burst
        self._tokens = burst

    def earn(self) -> None:
        """Counts a call."""
        if self._tokens < self._burst:
            self._tokens = min(self._burst, self._tokens + self._share)

    def spend(self) -> bool:
        """Counts a repetition. Returns False if there is no token for it."""
        # Sums of shares are a little less than whole numbers.
        if self._tokens < 1 - 1e-9:
            return False
        self._tokens = max(0.0, self._tokens - 1)
        return True


class Retries:
    """Decides whether a failed call to an agent is repeated, and when. It calls nothing.

    Rules:
    1. Only safe calls are repeated: any call if no connection could be made, so that nothing was sent; and
       reads (`Operation.reads`) if the agent was not available, or said when it will be.
    2. Pauses are random between nothing and a bound that doubles (full jitter). A time that the agent states
       (`Retry-After`, RetryInfo) comes before that; if it is longer than `LONGEST_WISH`, the caller gets it.
    3. Nothing is repeated after the caller's deadline.
    4. Repetitions are a share of the calls (`RetryBudget`): they must not add to the load of an agent that is
       down.

    most: the repetitions of one call. clock: the clock of deadlines.
    """

    def __init__(
        self,
        most: int,
        budget: RetryBudget,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.budget = budget
        #: repetitions so far
        self.made = 0
        self._most = most
        self._clock = clock
        self._chance = chance

    def pause(self, call: Call[Any, Any], error: A2AError, number: int) -> float | None:
        """The seconds to wait before repetition `number` (1 is the first); None for no repetition."""
        if number > self._most or not _is_safe(call, error):
            return None
        wish = error.retry_after or 0.0
        if wish > LONGEST_WISH:
            return None
        pause = wish + self._chance() * min(LONGEST, FIRST * 2.0 ** (number - 1))
        deadline = call.context.deadline
        if deadline is not None and self._clock() + pause >= deadline:
            return None
        if not self.budget.spend():
            return None
        self.made += 1
        return pause


def _is_safe(call: Call[Any, Any], error: A2AError) -> bool:
    if isinstance(error, UnreachableError):
        return error.tried
    if not call.operation.reads or error.blame is not Blame.PEER:
        return False
    if error.reason is Reason.RESOURCE_EXHAUSTED:
        return error.retry_after is not None
    return error.reason is Reason.UNAVAILABLE
