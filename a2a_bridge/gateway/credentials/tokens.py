"""A token of a token endpoint: requested once for all who wait for it, and renewed before it expires.

Rules:
1. A token that is about to expire is renewed beside the calls that still use it.
2. A request that is running answers everybody who waits. A caller that leaves does not end it.
3. A rejected token is forgotten, at most once in `REJECTIONS` seconds: an agent that rejects every token must
   not make us request one for each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.core.errors import A2AError

#: seconds between two renewals because of rejections
REJECTIONS = 10.0
#: the part of its lifetime, and the seconds at most, that a token is renewed before it expires
_EARLY_PART, _EARLY = 0.2, 60.0
#: the same, that it is no longer used before it expires: calls take time, and clocks differ
_UNUSED_PART, _UNUSED = 0.05, 5.0


class Token(NamedTuple):
    """An access token."""

    value: str
    #: seconds for which it is valid
    lifetime: float

    def __repr__(self) -> str:
        return f"<Token for {self.lifetime:g} s>"


class CachedToken:
    """See above. clock: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._value = ""
        self._renew_at = self._usable_until = 0.0
        self._renewing: asyncio.Task[A2AError | None] | None = None
        self._rejected_at: float | None = None

    async def get(self, request: Callable[[], Awaitable[Token]]) -> str:
        """A valid token. request: obtains one; raises A2AError. Raises the A2AError of the request."""
        now = self._clock()
        if self._value and now < self._usable_until:
            if now >= self._renew_at:
                self._start(request)
            return self._value
        with unsent():
            problem = await asyncio.shield(self._start(request))
        if problem is not None:
            raise _copy(problem)
        return self._value

    def invalidate(self, value: str) -> bool:
        """Forgets a token that was rejected. Returns whether another one may be accepted."""
        if value != self._value:
            return True
        now = self._clock()
        if self._rejected_at is not None and now - self._rejected_at < REJECTIONS:
            return False
        self._rejected_at = now
        self._value = ""
        return True

    def _start(self, request: Callable[[], Awaitable[Token]]) -> asyncio.Task[A2AError | None]:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(request), name="request token")
        return self._renewing

    async def _renew(self, request: Callable[[], Awaitable[Token]]) -> A2AError | None:
        """The error of a failed request."""
        now = self._clock()
        try:
            token = await request()
        except A2AError as error:
            return error
        self._value = token.value
        self._renew_at = now + token.lifetime - min(_EARLY, token.lifetime * _EARLY_PART)
        self._usable_until = now + token.lifetime - min(_UNUSED, token.lifetime * _UNUSED_PART)
        return None


def _copy(error: A2AError) -> A2AError:
    """The error once more: each caller raises one of its own."""
    made = A2AError(error.reason, error.message, blame=error.blame, retry_after=error.retry_after)
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made
