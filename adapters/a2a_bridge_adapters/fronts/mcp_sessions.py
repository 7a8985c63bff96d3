"""The sessions of an MCP server over HTTP: each belongs to the caller that has opened it.

Rules:
1. The transport of the SDK keeps the sessions, and ends one that was idle for 30 minutes. Here their number
   is limited, so that no caller takes the place of another one: see `bindings.shares`.
2. A session that goes is ended by a request to delete it, as a client sends it: its client gets 404, and
   begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from a2a_bridge.bindings.asgi import Message, Receive, Scope, Send
from a2a_bridge.bindings.memory import Tables
from a2a_bridge.bindings.shares import SharedTable
from a2a_bridge.core.errors import Reason
from a2a_bridge_adapters.fronts.application import not_found
from a2a_bridge_adapters.fronts.callers import BODY, EdgeError, path_of, principal_of
from a2a_bridge_adapters.fronts.conversations import MOST
from a2a_bridge_adapters.fronts.mcp_requests import method_and_id

#: where it is, below the application
PATHS = frozenset({"", "/", "/mcp", "/mcp/"})
_HEADER = b"mcp-session-id"
#: the header of the version, without which a request is of the oldest one
_VERSION, _OLDEST = b"mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[0].encode()
#: bytes of a session of the SDK that is idle: its tasks, streams and queues
SIZE = 48 * 1024
Spawn = Callable[[Coroutine[Any, Any, None]], Any]


@dataclass(frozen=True, slots=True)
class _Opened:
    """How a session was opened. user: the caller. host: the header."""

    user: AuthenticatedUser | None
    host: bytes


class Sessions:
    """The transport for callers. spawn: runs work that goes on after a request. most: sessions."""

    def __init__(
        self, manager: StreamableHTTPSessionManager, tables: Tables, spawn: Spawn, most: int = MOST
    ) -> None:
        self._manager = manager
        self._spawn = spawn
        #: the requests of sessions: owner, session and id
        self._running: set[tuple[str, str, str]] = set()
        self._known: SharedTable[_Opened] = SharedTable(
            most, tables, most_bytes=most * SIZE, on_drop=self._drop
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if path_of(scope) not in PATHS:
            await not_found(send)
            return
        principal = principal_of(scope)
        owner, user = "", None
        if principal is not None:
            # The transport compares these names. It gets no credential.
            owner = principal.name
            user = AuthenticatedUser(AccessToken(token="", client_id=owner, scopes=[]))
            scope = {**scope, "user": user}
        headers = dict(scope["headers"])
        session = headers.get(_HEADER, b"").decode("latin-1")
        running, method = ("", "", ""), ""
        if scope["method"] == "POST":
            method, name = method_and_id(scope[BODY])
            running = (owner, session, name)
            if running in self._running:
                # The transport would forget the first request, whose client would wait for ever.
                raise EdgeError(400, Reason.INVALID_REQUEST, "id: a request with this id is running")
        if session:
            self._known.get((owner, session))  # it is used now
        elif (
            method != "initialize"
            and headers.get(_VERSION, _OLDEST).decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS
        ):
            # The transport would open a session for it first, and some releases keep that.
            raise EdgeError(400, Reason.INVALID_REQUEST, "the header Mcp-Session-Id is missing")

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = "" if session else dict(message["headers"]).get(_HEADER, b"").decode("latin-1")
                known = _Opened(user, headers.get(b"host", b""))
                if opened and message["status"] < 300:
                    self._known.put((owner, opened), known, SIZE)
                elif opened:  # it is of no use
                    self._drop((owner, opened), known)
                elif session and (message["status"] == 404 or scope["method"] == "DELETE"):
                    self._known.pop((owner, session))
            elif not message.get("more_body", False):
                self._running.discard(running)  # its client may use the id again at once
            await send(message)

        if not all(running[1:]):
            await self._manager.handle_request(scope, receive, noting)
            return
        self._running.add(running)
        try:
            await self._manager.handle_request(scope, receive, noting)
        finally:
            self._running.discard(running)

    def _drop(self, key: tuple[str, str], opened: _Opened) -> None:
        self._spawn(self._end(key[1], opened))

    async def _end(self, session: str, opened: _Opened) -> None:
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "DELETE",
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [(_HEADER, session.encode("latin-1")), (b"host", opened.host)],
            "client": None,
            "server": None,
        }
        if opened.user is not None:
            scope["user"] = opened.user
        await self._manager.handle_request(scope, _no_body, _unread)


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unread(_: Message) -> None:
    """Takes the response to a request of our own."""
