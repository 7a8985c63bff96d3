"""The MCP server of an agent over stdio, and as an ASGI application (streamable HTTP)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import select
import socket
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from io import TextIOWrapper
from typing import Any, Unpack

import anyio
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from a2a_bridge.bindings.asgi import Application, Send
from a2a_bridge.core.errors import A2AError
from a2a_bridge_adapters.fronts.application import FrontApplication, Opened
from a2a_bridge_adapters.fronts.callers import (
    Edge,
    EdgeOptions,
    Form,
    Guarded,
    problem_headers,
    respond,
    status_of,
)
from a2a_bridge_adapters.fronts.mcp import BINDING, WAIT, McpFront, McpServer
from a2a_bridge_adapters.fronts.mcp_sessions import PATHS, Sessions
from a2a_bridge_adapters.fronts.turn import Background, Upstream

_log = logging.getLogger("a2a_bridge.fronts")

#: `Sessions` has the limits of sessions; before 2.2 the SDK has none
_UNBOUNDED: dict[str, Any] = (
    {"max_sessions": None}
    if "max_sessions" in inspect.signature(StreamableHTTPSessionManager).parameters
    else {}
)


def mcp_front(agent: Any, *, wait: float = WAIT, **options: Unpack[EdgeOptions]) -> Any:
    """An agent as an MCP server: an ASGI 3 application, with streamable HTTP at `/mcp` and at its root.

    agent: an open `Peer`, or anything that `connect` takes. authenticate: identifies callers, such as an
    `Authentication`; without it everybody who reaches the application may call, as one caller. wait: seconds
    of a call, after which its task goes on alone. allowed_hosts: values of the headers Host and, after http://
    or https://, Origin; `NAME:*` allows any port; empty: all. max_body, max_values: bytes and JSON values of
    a request. bearer_as: see `Edge`.
    """
    edge = Edge(**options)
    return FrontApplication(agent, partial(open_mcp, edge=edge, wait=wait), edge.authenticate)


@asynccontextmanager
async def open_mcp(
    upstream: Upstream,
    *,
    edge: Edge,
    wait: float = WAIT,
    name: str = "",
) -> AsyncIterator[Opened]:
    """The application of an agent that is open already; see `mcp_front`. name: of the agent, on a server with
    several.
    """
    front = McpFront(upstream, patience=wait, permit=edge.permit)
    try:
        async with _transport(McpServer.of(front), edge, upstream, hides=bool(name)) as application:
            yield Opened(application, front, front.end_calls)
    finally:
        front.is_closed = True


@asynccontextmanager
async def open_mcp_of_all(
    fronts: Mapping[str, McpFront], *, edge: Edge, background: Background
) -> AsyncIterator[Opened]:
    """The application of several agents, by name."""
    text = "Tools of several agents. The name of a tool begins with the name of its agent."
    async with _transport(McpServer(fronts, "agents", instructions=text), edge, background) as application:
        yield Opened(application)


@asynccontextmanager
async def _transport(
    made: McpServer, edge: Edge, background: Background, *, hides: bool = False
) -> AsyncIterator[Application]:
    # `Guarded` looks at Host and Origin.
    manager = StreamableHTTPSessionManager(made.server, max_request_body_size=edge.max_body, **_UNBOUNDED)
    sessions = Sessions(manager, background.tables, background.spawn)
    async with manager.run():
        yield Guarded(sessions, edge, FORM, hides=hides)


async def _reject(error: A2AError, send: Send) -> None:
    """Answers a request of a caller that is not let in, as JSON-RPC."""
    message = types.JSONRPCError(
        jsonrpc="2.0", id=None, error=types.ErrorData(code=error.code, message=error.message)
    )
    body = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    await respond(send, status_of(error), body, problem_headers(error))


FORM = Form(
    BINDING,
    dict.fromkeys(PATHS, ("DELETE", "GET", "POST")).get,
    _reject,
    checks_origin=True,
)


def take_stdout() -> int:
    """A descriptor of stdout for MCP alone. From here on to its end, everything else that this process prints
    goes to stderr: the file of an agent while it is imported, its code, other libraries, and exit handlers.
    """
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return own


async def serve_stdio(upstream: Upstream, stop: asyncio.Event, stdout: int, *, wait: float = WAIT) -> None:
    """Serves an agent on stdin and `stdout`, which it closes, until stdin ends, the client closes stdout, or
    `stop` is set.
    """
    server = McpServer.of(McpFront(upstream, patience=wait)).server
    # A thread that reads stdin cannot be interrupted: the transport reads what it passes on.
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as source:
        threading.Thread(target=_pass_on, args=(ours,), daemon=True, name="stdin").start()
        if hasattr(select, "poll"):  # not on Windows
            # Of its own, because the other one is closed at the end.
            threading.Thread(
                target=_end_with, args=(os.dup(stdout), ours), daemon=True, name="stdout"
            ).start()
        stopping = asyncio.create_task(_end(ours, stop))
        try:
            stdin = anyio.wrap_file(TextIOWrapper(source, encoding="utf-8", errors="replace"))
            with open(stdout, "w", encoding="utf-8", newline="") as sink:  # noqa: ASYNC230  a descriptor
                async with stdio_server(stdin, anyio.wrap_file(sink)) as (read, write):
                    await server.run(read, write, server.create_initialization_options())
        except* BrokenPipeError:
            _log.info("the client has closed stdout")
        finally:
            stopping.cancel()


async def _end(pipe: socket.socket, stop: asyncio.Event) -> None:
    await stop.wait()
    pipe.shutdown(socket.SHUT_WR)


def _end_with(stdout: int, pipe: socket.socket) -> None:
    """Ends what is read when the client closes stdout: no answer would reach it."""
    watching = select.poll()
    watching.register(stdout, 0)  # errors and hang-ups only
    watching.poll()
    try:
        pipe.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the server has ended
    _log.info("the client has closed stdout")


def _pass_on(pipe: socket.socket) -> None:
    """Passes stdin on until it ends."""
    try:
        while chunk := os.read(0, 1 << 16):
            pipe.sendall(chunk)
        pipe.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the server has ended
