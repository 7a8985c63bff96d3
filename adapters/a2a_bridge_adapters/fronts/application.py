"""A front as an ASGI 3 application, which starts with its server or before its first request.

Rules:
1. `agent` is an open peer, which its owner closes, or anything that `connect` takes, which is opened with the
   application and closed with it.
2. With `authenticate` the tasks and contexts of callers are kept apart here, because the agent sees one
   caller: this front.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from a2a_bridge.app.lifetime import Lifetime
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.runtime import connect
from a2a_bridge.bindings.asgi import Application, Receive, Scope, Send
from a2a_bridge.core.callers import Authenticate
from a2a_bridge.core.service import Service
from a2a_bridge.gateway.ownership import Owners, Ownership
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge_adapters.fronts.callers import respond
from a2a_bridge_adapters.fronts.turn import Upstream

_log = logging.getLogger("a2a_bridge.fronts")


class Opened(NamedTuple):
    """A front that is open. front: of its one agent, with what it keeps. end_calls: ends running calls with
    an error.
    """

    application: Application
    front: Any = None
    end_calls: Callable[[], None] | None = None


#: opens a front for an agent
Opens = Callable[[Upstream], AbstractAsyncContextManager[Opened]]


@asynccontextmanager
async def upstream_of(agent: Any, *, separates: bool) -> AsyncIterator[Upstream]:
    """The agent of a front while the context is open. separates: whether the tasks of callers are kept apart.
    Raises the errors of `connect`.
    """
    async with AsyncExitStack() as stack:
        peer = agent if isinstance(agent, Peer) else await stack.enter_async_context(connect(agent))
        service: Service | None = Ownership(peer.service, Owners(Tasks())) if separates else None
        upstream = Upstream(peer, service)
        stack.push_async_callback(upstream.close)
        yield upstream


class FrontApplication:
    """See above. opens: makes the application when the agent is known."""

    def __init__(self, agent: Any, opens: Opens, authenticate: Authenticate | None) -> None:
        self._agent = agent
        self._opens = opens
        self._separates = authenticate is not None
        self._app: Application | None = None
        self._lifetime = Lifetime(self._open)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[FrontApplication]:
        async with (
            upstream_of(self._agent, separates=self._separates) as upstream,
            self._opens(upstream) as opened,
        ):
            self._app = opened.application
            try:
                yield self
            finally:
                self._app = None

    async def drain(self, grace: float) -> None:
        """Requests have ended before: the server of the application waits for them."""

    async def close(self) -> None:
        """Ends the application. A server with a lifespan does this; for a mounted application, its owner."""
        await self._lifetime.close(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            if self._app is None:
                await self._lifetime.start()
            assert self._app is not None  # noqa: S101  for the type checker
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._lifetime.start()
        except Exception as error:  # noqa: BLE001  the server ends with the text
            _log.exception("the front does not start")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})


async def not_found(send: Send) -> None:
    """The response for a path of no front."""
    await respond(send, 404, b'{"error":{"message":"there is nothing at this path"}}')
