"""Applications of ASGI 3 that are mounted on a host: their start and end, and which requests they get."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from a2a_bridge.bindings.asgi import Application, Message
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge_transports._http.application import SPECIFICATION
from a2a_bridge_transports._http.exchange import Answer, ApplicationReply, Reject, Request

_log = logging.getLogger("a2a_bridge.http")

#: seconds for an application to end after its last request
_END = 5.0


class Mounted:
    """An application at a path. reject: the form of errors that the host answers in its place."""

    def __init__(self, path: str, application: Application, reject: Reject) -> None:
        self.path = path
        self.application = application
        self.reject = reject
        #: what the application keeps for its requests
        self.state: dict[str, Any] = {}
        self._lifespan: asyncio.Task[None] | None = None
        self._told: asyncio.Future[str] | None = None
        self._ending: asyncio.Event | None = None

    async def handle(self, request: Request) -> Answer:
        if "Trailer" in request.headers:
            return self.reject(A2AError(Reason.INVALID_REQUEST, "trailers are not taken here"))
        below = request.path[len(self.path) :]
        return ApplicationReply(self.application, self.state, self.reject, below)

    async def start(self) -> None:
        """Starts the application, if it has a lifespan. Raises RuntimeError if it cannot start."""
        if self._lifespan is not None:
            return
        self._told = asyncio.get_running_loop().create_future()
        self._ending = asyncio.Event()
        self._lifespan = asyncio.create_task(self._live(self._ending), name="a2a lifespan")
        waits: set[asyncio.Future[Any]] = {self._lifespan, self._told}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if self._told.done() and (failure := self._told.result()):
            await self._end(self._lifespan)
            raise RuntimeError(f"the application at {self.path or '/'} does not start: {failure}")

    async def stop(self) -> None:
        """Ends the application, which answers no request any more."""
        lifespan, ending = self._lifespan, self._ending
        if lifespan is not None and ending is not None:
            ending.set()
            await self._end(lifespan)

    async def _end(self, lifespan: asyncio.Task[None]) -> None:
        self._lifespan = None
        _, pending = await asyncio.wait({lifespan}, timeout=_END)
        if pending:
            _log.error("the application at %s has not ended within %g s", self.path or "/", _END)
            lifespan.cancel()
            await asyncio.wait(pending)

    async def _live(self, ending: asyncio.Event) -> None:
        events = iter(("lifespan.startup", "lifespan.shutdown"))
        now = ""

        async def receive() -> Message:
            nonlocal now
            now = next(events, "")
            if now == "lifespan.shutdown":
                await ending.wait()
            elif not now:
                await asyncio.Event().wait()
            return {"type": now}

        async def send(message: Message) -> None:
            failed = message["type"].endswith(".failed")
            text = str(message.get("message", "")) or "see its log"
            if self._told is not None and not self._told.done():
                self._told.set_result(text if failed else "")
            elif failed:
                _log.error("the application at %s did not end as it should: %s", self.path or "/", text)

        scope = {"type": "lifespan", "asgi": SPECIFICATION, "state": self.state}
        try:
            await self.application(scope, receive, send)
        except Exception as error:  # noqa: BLE001  an application without a lifespan raises
            if self._told is not None and self._told.done():
                _log.error("the lifespan of the application at %s failed", self.path or "/", exc_info=error)
            else:
                _log.debug("the application at %s has no lifespan: %r", self.path or "/", error)
