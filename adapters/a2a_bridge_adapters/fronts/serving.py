"""From the flags of a front to its agent behind middleware, and to the front on a pipe or on a listener.

Rules:
1. The agent is reached as by `gateway`, with credentials of the front. Those of callers go nowhere.
2. stdout of `--stdio` has MCP only: everything else is printed on stderr.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import typer

from a2a_bridge.app import runtime
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.process import stop_signals
from a2a_bridge.bindings.binding import DocumentHost, ListenAddress, http_host
from a2a_bridge.cli.gateway_setup import GatewayPlan, GatewayPlanner, found
from a2a_bridge.cli.log_setup import configure_logging, open_logging
from a2a_bridge.cli.output import guard
from a2a_bridge.cli.running import reloader_of, run_on, serve_until_signal
from a2a_bridge.cli.security import check_card, note_open
from a2a_bridge.cli.server_flags import LoopKind, UpstreamAuth
from a2a_bridge.cli.target import Target, load, parse
from a2a_bridge.cli.values import use_bridge_key
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.fronts.application import Opens
from a2a_bridge_adapters.fronts.callers import LOCAL, Edge
from a2a_bridge_adapters.fronts.flags import FrontFlags, McpFlags, OpenAiFlags
from a2a_bridge_adapters.fronts.served import CLOSING, edge_of
from a2a_bridge_adapters.fronts.turn import Upstream


@dataclass(frozen=True, slots=True)
class _Front:
    """A front to be served."""

    target: Target
    loop: LoopKind
    #: seconds for running calls at the end
    grace: float
    plan: GatewayPlan

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
        plan = GatewayPlanner(served).plan(relays=False)
        return cls(parse(target), served.loop, served.timeout_graceful_shutdown, plan)

    def edge(self, flags: McpFlags | OpenAiFlags) -> Edge:
        """What the front asks of its callers."""
        hosts = flags.allow_host or (LOCAL if self.plan.listening.http.is_local else ())
        return edge_of(self.plan.listening.options.host_of("http"), hosts)

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
        options = self.plan.listening.options
        if self.target.is_code:
            async with load(self.target).open() as agent:
                check_card(agent, options)
                async with runtime.guarded_agent(agent, options) as peer:
                    yield peer
            return
        async with (
            found(self.target, self.plan, options) as (card, candidates, served, dialling),
            runtime.guarded_gateway(card, candidates, served, dialling) as peer,
        ):
            yield peer


def run_mcp(context: typer.Context, target: str, flags: McpFlags) -> None:
    """Serves an agent over MCP until a signal, or until stdin ends. Raises typer.Exit."""
    from a2a_bridge_adapters.fronts.mcp_serving import open_mcp, take_stdout

    stdout = take_stdout() if flags.stdio else -1
    configure_logging(flags.as_gateway())
    open_logging(flags.log_config, flags.log_format)
    with guard(target):
        front = _Front.of(target, flags)
        if flags.stdio:
            run_on(flags.loop, _serve_pipe(front, stdout, flags.wait, flags.timeout_graceful_shutdown))
            return
        _serve(context, front, partial(open_mcp, wait=flags.wait, edge=front.edge(flags)))


def run_openai(context: typer.Context, target: str, flags: OpenAiFlags) -> None:
    """Serves an agent over OpenAI's API until a signal. Raises typer.Exit."""
    from a2a_bridge_adapters.fronts.openai_serving import open_openai

    configure_logging(flags.as_gateway())
    open_logging(flags.log_config, flags.log_format)
    with guard(target):
        front = _Front.of(target, flags)
        _serve(context, front, partial(open_openai, edge=front.edge(flags)))


async def _serve_pipe(front: _Front, stdout: int, wait: float, grace: float) -> None:
    from a2a_bridge_adapters.fronts.mcp_serving import serve_stdio

    with stop_signals(grace) as stop:
        async with front.upstream(grace) as upstream:
            await serve_stdio(upstream, stop, stdout, wait=wait)


def _serve(context: typer.Context, front: _Front, opens: Opens) -> None:
    """Serves a front over HTTP until a signal. Raises typer.Exit."""
    reloader = reloader_of(context)
    front.plan.listening.follow(reloader)
    opening = _open(front, opens)
    run_on(
        front.loop,
        serve_until_signal(opening, front.grace, reloader=reloader),
    )


@dataclass(frozen=True, slots=True)
class Listener:
    """The listener of a front, as a server for `serve_until_signal`."""

    host: DocumentHost
    grpc: None = None
    admin: None = None

    @property
    def http(self) -> ListenAddress:
        return self.host.address

    @property
    def secure(self) -> bool:
        return self.host.options.tls is not None

    @property
    def cards(self) -> Mapping[str, hub.AgentCard]:
        """No cards: the addresses of the agent's own are not those of the front."""
        return {}

    async def drain(self, grace: float) -> None:
        """Lets requests end for `grace` seconds, and streams that clients only listen to at once. May be
        repeated.
        """
        await self.host.drain(grace)


@asynccontextmanager
async def _open(front: _Front, opens: Opens) -> AsyncIterator[Listener]:
    options, grace = front.plan.listening.options, front.grace
    host = http_host(front.plan.listening.http, options.host_of("http"))
    used: OSError | None = None
    async with (
        _ready(front),
        front.upstream(min(CLOSING, grace)) as upstream,
        opens(upstream) as opened,
    ):
        host.mount_application("", opened.application, ending=opened.end_calls)
        try:
            await host.start()
        except OSError as error:
            used = error  # raised below: the tasks of the application would make a group of it
        else:
            listener = Listener(host)
            try:
                yield listener
            finally:
                await listener.drain(grace)
    if used is not None:
        raise used


@asynccontextmanager
async def _ready(front: _Front) -> AsyncIterator[None]:
    """Reads the keys of identity providers before the first call."""
    authentication = front.plan.listening.options.authentication
    if authentication is not None:
        await authentication.open()
    yield
