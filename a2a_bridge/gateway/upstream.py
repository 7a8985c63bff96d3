"""Upstreams: each is one interface of an agent, dialled on first use. `failover` chooses among several.

Rules:
1. Messages pass by reference; nothing here reads, copies or changes them.
2. Closing a stream closes the stream below it; so does cancelling a call.
3. Answers that show a fault of the agent (`_FAULTS`) are warnings with their cause, one in `QUIET` seconds.
4. An interface that its binding refuses to dial (an invalid URL, a version without that binding) counts as an
   interface that accepts no connection.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any
from weakref import ref

from a2a_bridge.bindings.binding import IMPERSONAL, DialOptions, find, is_unconnected, unconnected_error
from a2a_bridge.bindings.bounded import Silence, bound_result, bound_stream
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, Call, Origin
from a2a_bridge.core.errors import A2AError, Blame, Reason, cause_of
from a2a_bridge.core.masking import without_query_values
from a2a_bridge.core.operations import SEND_STREAMING_MESSAGE, Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, Service, innermost, open_stream

logger = logging.getLogger(__name__)

#: seconds after a warning about a response in which further faults are only counted
QUIET = 10.0
#: answers of a working agent never have these reasons; callers get them without the cause
_FAULTS = frozenset({Reason.INTERNAL_ERROR, Reason.INVALID_AGENT_RESPONSE, Reason.UNAVAILABLE})


#: the value of `phase` in the metadata of an error for want of credentials
CREDENTIALS = "credentials"
#: the origin of a question whether the agent is there, which needs no credentials
QUESTION = Origin("question")

Dial = Callable[[Candidate, DialOptions], AbstractAsyncContextManager[Service]]


def dial(candidate: Candidate, options: DialOptions) -> AbstractAsyncContextManager[Service]:
    """The client side for a candidate, from the binding of its card entry."""
    binding = find(candidate.interface.protocol_binding)
    return binding.dial(candidate.interface, candidate.dialect, options_for(candidate, options))


def options_for(candidate: Candidate, options: DialOptions) -> DialOptions:
    """The options for a candidate: a request to a host that the operator has not named has no credentials."""
    if not candidate.credentials:
        options = replace(options, parameters={}, query={}, forward=options.forward & IMPERSONAL)
    if candidate.resolve is not None:
        options = replace(options, resolve=candidate.resolve)
    return candidate.dial_options(options)


def is_connect_failure(error: A2AError) -> bool:
    """True if a call failed before it reached any agent, so that another interface may be tried."""
    return error.reason.kind.is_silence and error.metadata.get("phase") == "connect"


def was_asked(error: A2AError) -> bool:
    """False if a call failed for want of credentials, so that nothing is known about the agent."""
    return error.metadata.get("phase") != CREDENTIALS


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the connection to an upstream."""

    #: None before the first call
    reachable: bool | None
    #: when it became reachable, or last failed; seconds on the clock of the upstream
    since: float


class Upstream:
    """One interface of an agent as a service. Implements Service.

    The first call dials it, and it stays dialled. The client side below reconnects by itself, so an upstream
    that comes back answers the next call. rank: among the interfaces of the agent, 0 for the preferred
    interface; the same interface at several endpoints has one rank.
    """

    def __init__(
        self,
        candidate: Candidate,
        options: DialOptions,
        *,
        dial: Dial = dial,
        clock: Callable[[], float] = monotonic,
        rank: int = 0,
    ) -> None:
        self.candidate = candidate
        self.rank = rank
        self.health = Health(None, clock())
        self._options = options
        self._dial = dial
        self._clock = clock
        self._stack = AsyncExitStack()
        self._closed = False
        self._service: Service | None = None
        #: when a fault was last logged, and how many came since
        self._warned = -QUIET
        self._unlogged = 0
        #: unary calls without a response
        self._running = 0
        #: streams that their readers still hold; counted without a frame of their own in the way of events
        self._streams: set[ref[Any]] = set()

    def __repr__(self) -> str:
        interface = self.candidate.interface
        place = without_query_values(interface.url)  # for the log
        return f"<Upstream {interface.protocol_binding} {interface.protocol_version} {place}>"

    @property
    def pending(self) -> int:
        """The calls that run here, streams of readers that have not released them yet included."""
        return self._running + len(self._streams)

    @property
    def waiting(self) -> int:
        """The calls and the streams that have no response of the agent yet."""
        return self._running

    @property
    def is_busy(self) -> bool:
        """Whether a call or a stream is running."""
        # The frame of a generator that has ended is gone.
        streams = [one for reference in tuple(self._streams) if (one := reference()) is not None]
        return self._running > 0 or any(getattr(one, "ag_frame", one) is not None for one in streams)

    async def unary(self, call: Call[Req, Res], /) -> Res:
        service = self._service
        if service is None:
            service = await self.open()
        if call.context.reply:
            _withdraw(call)
        self._running += 1
        try:
            response = await service.unary(call)
        except A2AError as error:
            self._note(error, call)
            raise
        except asyncio.CancelledError as error:
            self._note_cancelled(error)
            raise
        finally:
            self._running -= 1
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
        self._running += 1
        try:
            stream = await open_stream(service.stream(call))
        except A2AError as error:
            self._note(error, call)
            raise
        except asyncio.CancelledError as error:
            self._note_cancelled(error)
            raise
        finally:
            self._running -= 1
        if stream is not None:
            # Not a WeakSet: its methods take several times as long.
            self._streams.add(ref(innermost(stream[1]), self._streams.discard))
        if self.health.reachable is not True:
            self._note(None)
        if stream is None and call.operation is SEND_STREAMING_MESSAGE:
            # The first event is a task or a message (spec 3.1.2). Without it, a caller would get nothing.
            raise A2AError(
                Reason.INVALID_AGENT_RESPONSE, "the agent's stream ended without an event", blame=Blame.PEER
            )
        return stream

    async def open(self) -> Service:
        """Creates the client side, which does not connect yet. Raises UNAVAILABLE if its binding rejects."""
        if self._service is not None:
            return self._service
        try:
            return await self._dial_service()
        except A2AError as error:
            self._note(error)
            raise

    async def aclose(self) -> None:
        """Closes the client side. Running calls and later ones fail."""
        self._service, self._closed = None, True
        await self._stack.aclose()

    async def _dial_service(self) -> Service:
        # Entering does not connect, so two first calls at once cost at most a spare client side.
        if self._closed:
            raise A2AError(
                Reason.UNAVAILABLE,
                "the connection to the agent is closed",
                metadata={"phase": "connect"},
                blame=Blame.SELF,
            )
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
        """Updates `health`. Any response of the agent, even an error, shows that it is reachable."""
        reachable = error is None or not is_connect_failure(error)
        if reachable and error is not None and call is not None:
            self._report(error, call)
        if (reachable and self.health.reachable) or (error is not None and not was_asked(error)):
            return
        self.health = Health(reachable, self._clock())

    def _note_cancelled(self, error: BaseException) -> None:
        """A call that ended before it had a connection shows that none can be made in its time."""
        if is_unconnected(error):
            self._note(unconnected_error())

    def _report(self, error: A2AError, call: Call[Any, Any]) -> None:
        """Logs a response that shows a fault of the agent."""
        if error.reason not in _FAULTS and not hasattr(error, "__notes__"):
            return
        now = self._clock()
        if now - self._warned < QUIET:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more since the last one)" if self._unlogged else ""
        logger.warning("%s failed at %r: %s%s", call.operation.name, self, cause_of(error), more)
        self._warned, self._unlogged = now, 0


def _withdraw(call: Call[Any, Any]) -> None:
    """Removes extensions that middleware confirmed: the agent itself says which ones it activates."""
    call.context.reply.pop(EXTENSIONS_PARAMETER, None)


#: the value of `phase` in the metadata of the error
SILENCE = "silence"


class SilenceLimit:
    """Ends calls to an agent that sends nothing for `limit` seconds with an error. Implements Service.

    After an internal failure some agents never answer (a panic in an executor of the SDK for Rust), and keep
    the connection alive. The limit is off by default, because an agent may think for any time.

    Rules:
    1. A call without a response, and a stream without an event, end after the limit: DEADLINE_EXCEEDED.
    2. Keep-alives count as silence: the client side watches the connection (`DialOptions.idle_timeout`).
    3. The end is no break of the connection, so the gateway does not subscribe again.
    4. The limit begins when the request has been sent (`bounded.Silence`). The wait for a connection has
       limits of its own: `DialOptions.connect_timeout`, and the caller's deadline.
    """

    def __init__(self, service: Service, limit: float) -> None:
        self._service = service
        self._limit = limit
        self._bound = partial(Silence, limit)

    async def unary(self, call: Call[Req, Res], /) -> Res:
        return await bound_result(self._service.unary(call), self._bound(), self._silent)

    def stream(self, call: Call[Req, Res], /) -> Events:
        return bound_stream(self._service.stream(call), self._bound, self._silent)

    def _silent(self, _ended: BaseException) -> A2AError:
        text = f"the agent said nothing for {self._limit:g} seconds; the task may go on, see GetTask"
        return A2AError(Reason.DEADLINE_EXCEEDED, text, metadata={"phase": SILENCE}, blame=Blame.PEER)
