"""Upstreams: agents reached over the network, dialled on first use. The router chooses among agents.

Rules:
1. Messages pass by reference; nothing here reads, copies or changes them.
2. Another interface is tried only if a connection could not be made, so an agent never gets a call twice.
3. Closing a stream closes the one below it; so does cancelling a call.
4. An agent that cannot be reached is one warning, with the causes of all its interfaces, and its return is
   another. Answers that show a fault of the agent (`_FAULTS`) are warnings with their cause, at most one in
   `QUIET` seconds.
5. An interface that its binding refuses to dial (an invalid URL, a version without that binding) counts as
   one that accepts no connection.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any

from a2a_bridge.bindings import IMPERSONAL, DialOptions, find
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, Call
from a2a_bridge.core.errors import A2AError, Blame, Reason, cause_of
from a2a_bridge.core.event import Event, Events, HandedOver, opened
from a2a_bridge.core.operations import SEND_STREAMING_MESSAGE, Req, Res
from a2a_bridge.core.service import Service

logger = logging.getLogger(__name__)

#: seconds during which an interface that refused a connection is tried after the others
COOL_DOWN = 5.0

#: seconds after a warning about an answer in which further ones are only counted
QUIET = 10.0
#: answers of a working agent never have these reasons; callers get them without the cause
_FAULTS = frozenset({Reason.INTERNAL_ERROR, Reason.INVALID_AGENT_RESPONSE, Reason.UNAVAILABLE})

Dial = Callable[[Candidate, DialOptions], AbstractAsyncContextManager[Service]]


def dial(candidate: Candidate, options: DialOptions) -> AbstractAsyncContextManager[Service]:
    """The client side for a candidate, from the binding of its card entry."""
    binding = find(candidate.interface.protocol_binding)
    if not candidate.credentials:
        options = replace(options, parameters={}, forward=options.forward & IMPERSONAL)
    if candidate.resolve is not None:
        options = replace(options, resolve=candidate.resolve)
    return binding.dial(candidate.interface, candidate.dialect, candidate.dial_options(options))


def failed_to_connect(error: A2AError) -> bool:
    """True if a call failed before it reached any agent, so that another interface may be tried."""
    return error.reason is Reason.UNAVAILABLE and error.metadata.get("phase") == "connect"


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the connection to an upstream."""

    #: None before the first call
    reachable: bool | None
    #: when it became reachable, or last failed; seconds on the clock of the upstream
    since: float
    #: why it is not reachable
    failure: str = ""


class Upstream:
    """One interface of an agent as a service. Implements Service.

    It is dialled by the first call and stays dialled; the client side below reconnects by itself, so an
    upstream that comes back answers the next call.
    """

    def __init__(
        self,
        candidate: Candidate,
        options: DialOptions,
        *,
        dial: Dial = dial,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.candidate = candidate
        self.health = Health(None, clock())
        self._options = options
        self._dial = dial
        self._clock = clock
        self._stack = AsyncExitStack()
        self._service: Service | None = None
        #: when a fault was last logged, and how many came since
        self._warned = -QUIET
        self._unlogged = 0

    def __repr__(self) -> str:
        interface = self.candidate.interface
        return f"<Upstream {interface.protocol_binding} {interface.protocol_version} {interface.url}>"

    async def unary(self, call: Call[Req, Res], /) -> Res:
        service = self._service
        if service is None:
            service = await self.open()
        if call.context.reply:
            _withdraw(call)
        try:
            response = await service.unary(call)
        except A2AError as error:
            self._note(error, call)
            raise
        if self.health.reachable is not True:
            self._note(None)
        return response

    def stream(self, call: Call[Any, Any], /) -> Events:
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        service = self._service
        if service is None:
            service = await self.open()
        _withdraw(call)
        try:
            stream = await opened(service.stream(call))
        except A2AError as error:
            self._note(error, call)
            raise
        if self.health.reachable is not True:
            self._note(None)
        if stream is None and call.operation is SEND_STREAMING_MESSAGE:
            # The first event is a task or a message (spec 3.1.2). Without one, a caller would get nothing.
            raise A2AError(
                Reason.INVALID_AGENT_RESPONSE, "the agent's stream ended without an event", blame=Blame.PEER
            )
        return stream

    async def open(self) -> Service:
        """Creates the client side, which does not connect yet. Raises UNAVAILABLE if its binding refuses."""
        if self._service is not None:
            return self._service
        try:
            return await self._dialled()
        except A2AError as error:
            self._note(error)
            raise

    async def aclose(self) -> None:
        """Closes the client side. Running calls fail."""
        self._service = None
        await self._stack.aclose()

    async def _dialled(self) -> Service:
        # Entering does not connect, so two first calls at once cost at most a spare client side.
        try:
            service = await self._stack.enter_async_context(self._dial(self.candidate, self._options))
        except (ValueError, LookupError) as error:
            text = f"this interface cannot be used: {error}"
            raise A2AError(
                Reason.UNAVAILABLE, text, metadata={"phase": "connect"}, blame=Blame.PEER
            ) from error
        self._service = self._service or service
        return self._service

    def _note(self, error: A2AError | None, call: Call[Any, Any] | None = None) -> None:
        """Updates `health`. Any answer, even an error, shows that the agent is reachable."""
        reachable = error is None or not failed_to_connect(error)
        if reachable and error is not None and call is not None:
            self._report(error, call)
        if reachable and self.health.reachable:
            return
        self.health = Health(reachable, self._clock(), "" if reachable else str(error))

    def _report(self, error: A2AError, call: Call[Any, Any]) -> None:
        """Logs an answer that shows a fault of the agent."""
        if error.reason not in _FAULTS and not hasattr(error, "__notes__"):
            return
        now = self._clock()
        if now - self._warned < QUIET:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more since the last one)" if self._unlogged else ""
        logger.warning("%s failed at %r: %s%s", call.operation.name, self, cause_of(error), more)
        self._warned, self._unlogged = now, 0


class Failover:
    """Several interfaces of one agent as one service: the first that accepts a connection. Implements
    Service.

    upstreams: at least one, in the order of preference. discreet: errors contain neither the address of the
    agent nor the fact that it did not get the call.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        discreet: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if not upstreams:
            raise ValueError("an agent without interfaces")
        self.upstreams = tuple(upstreams)
        self._discreet = discreet
        self._clock = clock
        #: the interfaces whose loss has been logged; all of them while the agent cannot be reached
        self._lost: set[Upstream] = set()

    async def unary(self, call: Call[Req, Res], /) -> Res:
        failures: dict[Upstream, A2AError] = {}
        for upstream in self._order():
            try:
                response = await upstream.unary(call)
            except A2AError as error:
                if not failed_to_connect(error):
                    raise
                failures[upstream] = error
            else:
                if failures or self._lost:
                    self._log(upstream, failures)
                return response
        raise self._unreachable(failures)

    def stream(self, call: Call[Any, Any], /) -> Events:
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        failures: dict[Upstream, A2AError] = {}
        for upstream in self._order():
            try:
                stream = await opened(upstream.stream(call))
            except A2AError as error:
                if not failed_to_connect(error):
                    raise
                failures[upstream] = error
            else:
                if failures or self._lost:
                    self._log(upstream, failures)
                return stream
        raise self._unreachable(failures)

    async def open(self) -> None:
        """Removes the interfaces that cannot be dialled at all, and logs why.

        Raises UNSUPPORTED_OPERATION if none is left.
        """
        usable, failures = [], []
        for upstream in self.upstreams:
            try:
                await upstream.open()
            except A2AError as error:
                failures.append(f"{upstream!r}: {error.message}")
                logger.warning("%r is not used: %s", upstream, error.message)
            else:
                usable.append(upstream)
        if not usable:
            text = f"no interface of the agent can be used: {'; '.join(failures)}"
            raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
        self.upstreams = tuple(usable)

    async def aclose(self) -> None:
        """Closes all of them."""
        for upstream in self.upstreams:
            await upstream.aclose()

    def _order(self) -> Sequence[Upstream]:
        """The upstreams in order of preference; those that failed recently come last."""
        if len(self.upstreams) == 1 or self.upstreams[0].health.reachable:
            return self.upstreams
        now = self._clock()
        return sorted(self.upstreams, key=lambda one: _is_down(one.health, now))

    def _log(self, answered: Upstream | None, failures: Mapping[Upstream, A2AError]) -> None:
        """One line for each change: the agent or an interface of it is lost, or is back."""
        was_gone = len(self._lost) == len(self.upstreams)
        lost = {upstream: error for upstream, error in failures.items() if upstream not in self._lost}
        causes = "; ".join(f"{upstream!r}: {cause_of(error)}" for upstream, error in lost.items())
        self._lost.update(lost)
        if answered is None:
            if not was_gone:
                logger.warning("the agent cannot be reached: %s", causes)
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
        if self._discreet:
            return A2AError(
                Reason.UNAVAILABLE, "the agent behind this address cannot be reached", blame=Blame.PEER
            )
        if len(failures) == 1:
            return failures[0]
        text = "; ".join(dict.fromkeys(error.message for error in failures))
        return A2AError(
            Reason.UNAVAILABLE,
            f"no interface of the agent can be reached: {text}",
            metadata=failures[0].metadata,
            blame=failures[0].blame,
        )


def _withdraw(call: Call[Any, Any]) -> None:
    """Removes extensions that middleware confirmed: the agent itself says which ones it activates."""
    call.context.reply.pop(EXTENSIONS_PARAMETER, None)


def _is_down(health: Health, now: float) -> bool:
    return health.reachable is False and now - health.since < COOL_DOWN


@asynccontextmanager
async def dialled(
    candidates: Sequence[Candidate], options: DialOptions, *, discreet: bool = False, dial: Dial = dial
) -> AsyncIterator[Failover]:
    """A service for an agent with the interfaces `candidates`; the first that accepts a connection answers.

    discreet: see Failover.
    """
    upstreams = Failover(
        [Upstream(candidate, options, dial=dial) for candidate in candidates], discreet=discreet
    )
    try:
        yield upstreams
    finally:
        await upstreams.aclose()
