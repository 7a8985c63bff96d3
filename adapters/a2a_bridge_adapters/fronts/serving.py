"""From the flags of a front to its agent behind middleware, and to the front on a pipe or on a listener.

Rules:
1. The agent is reached as by `gateway`, with credentials of the front. Those of callers go nowhere.
2. stdout of `--stdio` has MCP only: everything else is printed on stderr.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import typer

from a2a_bridge.app import runtime
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.process import stop_signals
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cli.connect import version_of
from a2a_bridge.cli.gateway_setup import found, gateway_options
from a2a_bridge.cli.log_setup import configure_logging, open_logging
from a2a_bridge.cli.output import guard
from a2a_bridge.cli.running import reloader_of, run_on, serve_until_signal
from a2a_bridge.cli.security import check_card, note_open
from a2a_bridge.cli.server_flags import GatewayFlags, UpstreamAuth
from a2a_bridge.cli.server_options import ListenOptions
from a2a_bridge.cli.target import Target, load, parse
from a2a_bridge.cli.values import parse_binding, use_bridge_key
from a2a_bridge_adapters.fronts.application import Opens
from a2a_bridge_adapters.fronts.callers import LOCAL
from a2a_bridge_adapters.fronts.flags import FrontFlags, McpFlags, OpenAiFlags
from a2a_bridge_adapters.fronts.listener import Listener, bind, listen
from a2a_bridge_adapters.fronts.turn import Upstream

#: seconds for agents to cancel the tasks of requests, after the time for draining
_CLOSING = 2.0


@dataclass(frozen=True, slots=True)
class _Front:
    """A front to be served."""

    target: Target
    flags: GatewayFlags
    listening: ListenOptions
    dialling: DialOptions

    @classmethod
    def of(cls, target: str, flags: FrontFlags) -> _Front:
        """Raises typer.BadParameter, typer.Exit, BadTargetError."""
        auth = flags.upstream_auth
        if auth in (UpstreamAuth.PASS_THROUGH, UpstreamAuth.TOKEN_EXCHANGE):
            raise typer.BadParameter(
                f"{auth.value} would send credentials of callers to the agent, and a front never does",
                param_hint="--upstream-auth",
            )
        served = flags.as_gateway()
        note_open(served)
        use_bridge_key(served.bridge_key)
        listening, dialling = gateway_options(served, relays=False)
        return cls(parse(target), served, listening, dialling)

    def edge(self, flags: McpFlags | OpenAiFlags) -> dict[str, Any]:
        """The arguments of `open_mcp` and `open_openai` about callers and their requests."""
        return {
            "authenticate": self.listening.options.authentication,
            # Empty for all.
            "allowed_hosts": flags.allow_host or (LOCAL if self.listening.http.is_local else ()),
            "max_body": flags.max_body,
            "bearer_as": flags.api_key_header if flags.api_keys else "",
        }

    @asynccontextmanager
    async def upstream(self, closing: float) -> AsyncIterator[Upstream]:
        """The agent behind the middleware of the front while the context is open. closing: seconds at the end
        for the cancellation of tasks. Raises A2AError.
        """
        async with AsyncExitStack() as stack:
            upstream = Upstream(await stack.enter_async_context(self._peer()))
            stack.push_async_callback(upstream.close, closing)
            yield upstream

    @asynccontextmanager
    async def _peer(self) -> AsyncIterator[Peer]:
        options = self.listening.options
        if self.target.is_code:
            agent = load(self.target)
            check_card(agent, options)
            async with runtime.guarded_agent(agent, options) as peer:
                yield peer
            return
        flags = self.flags
        async with (
            found(
                self.target,
                options,
                self.dialling,
                file=flags.card,
                binding=parse_binding(flags.binding),
                version=version_of(flags.a2a_version),
            ) as (card, candidates, served, dialling),
            runtime.guarded_gateway(card, candidates, served, dialling) as peer,
        ):
            yield peer


def run_mcp(context: typer.Context, target: str, flags: McpFlags) -> None:
    """Serves an agent over MCP until a signal, or until stdin ends. Raises typer.Exit."""
    from a2a_bridge_adapters.fronts.mcp_serving import open_mcp

    configure_logging(flags.as_gateway())
    open_logging(flags.as_gateway())
    with guard(target):
        front = _Front.of(target, flags)
        if flags.stdio:
            run_on(flags.loop, _serve_pipe(front, flags.wait, flags.timeout_graceful_shutdown))
            return
        _serve(context, front, partial(open_mcp, wait=flags.wait, **front.edge(flags)))


def run_openai(context: typer.Context, target: str, flags: OpenAiFlags) -> None:
    """Serves an agent over OpenAI's API until a signal. Raises typer.Exit."""
    from a2a_bridge_adapters.fronts.openai import open_openai

    configure_logging(flags.as_gateway())
    open_logging(flags.as_gateway())
    with guard(target):
        front = _Front.of(target, flags)
        _serve(context, front, partial(open_openai, **front.edge(flags)))


async def _serve_pipe(front: _Front, wait: float, grace: float) -> None:
    from a2a_bridge_adapters.fronts.mcp_serving import serve_stdio

    with stop_signals(grace) as stop:
        async with front.upstream(grace) as upstream:
            await serve_stdio(upstream, stop, wait=wait)


def _serve(context: typer.Context, front: _Front, opens: Opens) -> None:
    """Serves a front over HTTP until a signal. Raises typer.Exit."""
    reloader = reloader_of(context)
    front.listening.follow(reloader)
    opening = _open(front, opens)
    run_on(
        front.flags.loop,
        serve_until_signal(opening, front.flags.timeout_graceful_shutdown, reloader=reloader),
    )


@asynccontextmanager
async def _open(front: _Front, opens: Opens) -> AsyncIterator[Listener]:
    # Before the front is open: an address that is used is an error without a group of its server's tasks.
    with bind(front.listening.http) as bound:
        async with (
            _ready(front),
            front.upstream(min(_CLOSING, front.flags.timeout_graceful_shutdown)) as upstream,
            opens(upstream) as app,
            listen(app, bound, front.flags) as listener,
        ):
            yield listener


@asynccontextmanager
async def _ready(front: _Front) -> AsyncIterator[None]:
    """Reads the keys of identity providers before the first call."""
    authentication = front.listening.options.authentication
    if authentication is not None:
        await authentication.open()
    yield
