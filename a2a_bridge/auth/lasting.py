"""Ends the streams of callers whose credentials no longer count: a key that was revoked, a token that has
expired.

Rules:
1. The methods that identify callers say whether a caller still counts (`Lapses`); it is asked for each open
   stream, every `INTERVAL` seconds. Without open streams nothing runs.
2. The stream ends with UNAUTHENTICATED, also while it waits for an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from a2a_bridge.auth.authentication import Authentication
from a2a_bridge.core.authentication import UnauthenticatedError
from a2a_bridge.core.call import Call, Principal
from a2a_bridge.core.event import Event, Events, HandedOver, innermost
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Middleware, Service

#: seconds between two looks. The methods have new files within a second
INTERVAL = 0.25


def end_lapsed_streams(authentication: Authentication) -> Middleware:
    """Middleware that ends streams. It has to be inside of the authentication."""
    return lambda service: _Lasting(service, authentication)


class _Lasting:
    def __init__(self, service: Service, authentication: Authentication) -> None:
        self._service = service
        self._authentication = authentication
        self._open: set[_Stream] = set()
        self._next_look: asyncio.TimerHandle | None = None

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        return self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        events, principal = self._service.stream(call), call.context.principal
        if principal is None or not self._authentication.can_lapse(principal):
            return events
        return _Stream(self, events, principal)

    def add(self, stream: _Stream) -> None:
        """Looks after a stream from now on."""
        self._open.add(stream)
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(INTERVAL, self._look)

    def remove(self, stream: _Stream) -> None:
        """Forgets a stream, if it is known."""
        self._open.discard(stream)
        if not self._open and self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _look(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(INTERVAL, self._look)
        for stream in list(self._open):
            error = self._authentication.lapsed(stream.principal)
            if error is not None:
                stream.end(error)


class _Stream(Events):
    """A stream that can be ended while its reader waits."""

    def __init__(self, owner: _Lasting, events: Events, principal: Principal) -> None:
        self.principal = principal
        self._owner = owner
        self._events = events
        self._error: UnauthenticatedError | None = None
        #: the task that waits for the next event
        self._reader: asyncio.Task[Any] | None = None
        self._is_known = False

    def end(self, error: UnauthenticatedError) -> None:
        """Ends the stream with an error."""
        self._owner.remove(self)
        self._error = error
        if self._reader is not None:
            self._reader.cancel()

    async def __anext__(self) -> Event:
        if self._error is not None:
            raise self._error
        if not self._is_known:
            self._is_known = True
            self._owner.add(self)
        events = self._events
        if type(events) is HandedOver:
            events = self._events = innermost(events)
        reader = self._reader = asyncio.current_task()
        try:
            return await anext(events)
        except asyncio.CancelledError:
            error = self._lapse()
            # Somebody else may have cancelled the reader, too.
            if error is None or reader is None or reader.uncancel():
                raise
            raise error from None
        finally:
            self._reader = None

    def _lapse(self) -> UnauthenticatedError | None:
        return self._error  # set meanwhile

    def asend(self, _value: None, /) -> Any:
        return self.__anext__()

    def athrow(self, *arguments: Any) -> Any:
        return self._events.athrow(*arguments)

    async def aclose(self) -> None:
        self._owner.remove(self)
        await self._events.aclose()
