"""Ends the streams and waiting sends of callers who may no longer make them: their key was revoked, their
token has expired, or the access rules have changed.

Rules:
1. The methods that identify callers say whether a caller still counts (`Lapses`), and `LiveRules` whether
   the call is still allowed. Both are asked for each open call, every `INTERVAL` seconds; rules only after a
   change. Without open calls nothing runs.
2. The call ends with UNAUTHENTICATED or PERMISSION_DENIED, also while it waits for an event or for the
   response. The task of the call goes on, as after any other disconnection.
3. Of unary calls, only SendMessage waits for long. The others finish as they began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from a2a_bridge.auth.authentication import Authentication
from a2a_bridge.auth.rules import LiveRules
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Event, Events, HandedOver, Middleware, Service, innermost

#: seconds between two looks. The methods have new files within a second
INTERVAL = 0.25


def end_lapsed_calls(
    authentication: Authentication | None, rules: LiveRules | None = None, agent: str = ""
) -> Middleware:
    """Middleware that ends calls. It has to be inside of the authentication and of the rules.

    rules: if they can change. agent: the name of the agent on a server with several.
    """
    if authentication is None and rules is None:
        return lambda service: service
    return lambda service: _Lasting(service, authentication, rules, agent)


class _Lasting:
    def __init__(
        self, service: Service, authentication: Authentication | None, rules: LiveRules | None, agent: str
    ) -> None:
        self._service = service
        self._authentication = authentication
        self._rules = rules
        self._agent = agent
        self._open: set[_Watched] = set()
        self._next_look: asyncio.TimerHandle | None = None

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        if call.operation is not ops.SEND_MESSAGE or not self._may_end(call):
            return self._service.unary(call)
        return self._send(call)

    async def _send(self, call: Call[Req, Res]) -> Res:
        sending = _Watched(self, call)
        sending.reader = asyncio.current_task()
        self.add(sending)
        try:
            return await self._service.unary(call)
        except asyncio.CancelledError:
            error = sending.ended(sending.reader)
            if error is None:
                raise
            raise error from None
        finally:
            sending.reader = None
            self.remove(sending)

    def stream(self, call: Call[Req, Res], /) -> Events:
        events = self._service.stream(call)
        return _Stream(self, events, call) if self._may_end(call) else events

    def _may_end(self, call: Call[Any, Any]) -> bool:
        if self._rules is not None:
            return True
        principal, known = call.context.principal, self._authentication
        return principal is not None and known is not None and known.can_lapse(principal)

    @property
    def rules(self) -> object:
        """The rules that count now; another object after each change."""
        return None if self._rules is None else self._rules.current

    def add(self, one: _Watched) -> None:
        """Looks after a call from now on."""
        self._open.add(one)
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(INTERVAL, self._look)

    def remove(self, one: _Watched) -> None:
        """Forgets a call, if it is known."""
        self._open.discard(one)
        if not self._open and self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _look(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(INTERVAL, self._look)
        for one in list(self._open):
            error = self._error(one)
            if error is not None:
                self.remove(one)
                one.end(error)

    def _error(self, one: _Watched) -> A2AError | None:
        """Why a call may not go on; None if it may."""
        principal = one.call.context.principal
        if self._authentication is not None and principal is not None:
            lapsed = self._authentication.lapsed(principal)
            if lapsed is not None:
                return lapsed
        if self._rules is None or one.rules is self._rules.current:
            return None
        one.rules = self._rules.current
        return self._rules.denial(self._agent, one.call.operation.name, principal)


class _Watched:
    """A call that can be ended while a task waits for its next result."""

    def __init__(self, owner: _Lasting, call: Call[Any, Any]) -> None:
        self.call = call
        #: the rules that have allowed the call
        self.rules = owner.rules
        #: why the call has been ended
        self.error: A2AError | None = None
        #: the task that waits
        self.reader: asyncio.Task[Any] | None = None

    def end(self, error: A2AError) -> None:
        """Ends the call with an error."""
        self.error = error
        if self.reader is not None:
            self.reader.cancel()

    def ended(self, reader: asyncio.Task[Any] | None) -> A2AError | None:
        """The error in place of a cancellation of this task; None if somebody else has cancelled it, too."""
        if self.error is None or reader is None or reader.uncancel():
            return None
        return self.error


class _Stream(_Watched, Events):
    """A stream that can be ended while its reader waits."""

    def __init__(self, owner: _Lasting, events: Events, call: Call[Any, Any]) -> None:
        super().__init__(owner, call)
        self._owner = owner
        self._events = events
        self._is_known = False

    async def __anext__(self) -> Event:
        if self.error is not None:
            raise self.error
        if not self._is_known:
            self._is_known = True
            self._owner.add(self)
        events = self._events
        if type(events) is HandedOver:
            events = self._events = innermost(events)
        reader = self.reader = asyncio.current_task()
        try:
            return await anext(events)
        except asyncio.CancelledError:
            error = self.ended(reader)
            if error is None:
                raise
            raise error from None
        finally:
            self.reader = None

    def asend(self, _value: None, /) -> Any:
        return self.__anext__()

    def athrow(self, *arguments: Any) -> Any:
        return self._events.athrow(*arguments)

    async def aclose(self) -> None:
        self._owner.remove(self)
        await self._events.aclose()
