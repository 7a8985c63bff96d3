"""`a2a-bridge serve`: serves an agent from Python code, or a program, over every binding."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.running import check_one_process, launch_of, prepare, run_on
from a2a_bridge.cli.server_flags import ServeFlags, check_target
from a2a_bridge.cli.values import usage_error, use_bridge_key

if TYPE_CHECKING:
    from a2a_bridge.app.serving import Server
    from a2a_bridge.bindings.binding import ApplicationHost
    from a2a_bridge.cli.reload import Reloader


@with_flags
def serve(
    context: typer.Context,
    target: Annotated[
        str | None, typer.Argument(help="file.py, file.py:agent or package.module:agent.", metavar="AGENT")
    ] = None,
    *,
    flags: ServeFlags,
) -> None:
    """Serve an agent over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.

    It prints one line when ready: ready http=http://HOST:PORT grpc=HOST:PORT

    Tasks are stored in .a2a-bridge/NAME.db in the working directory; see --store.

    For example:

      a2a-bridge serve weather.py

      a2a-bridge serve my.package:agent --public-url https://agent.example

      a2a-bridge serve --http 0.0.0.0:8080 --exec ./agent.sh
    """
    check_target(target, flags.agents, "AGENT", flags.exec)
    reloader = prepare(context, flags)
    from a2a_bridge.cli import loopback_bus, workers
    from a2a_bridge.cli.output import guard

    with guard(target or "the program"):
        code = _watched_code(target) if flags.reload and reloader is None else None
    if workers.is_requested(flags.workers, code):
        if flags.workers > 1:
            workers.check_store(flags.store)
        alone = flags.cluster or flags.workers == 1 or not flags.store.startswith("postgresql:")
        bus = "" if alone else loopback_bus.found()

        def check(new: ServeFlags) -> None:
            check_one_process(new)
            workers.check_new_store(new.store)

        waits = flags.workers == 1 and workers.is_of_one_process(flags.store)
        raise workers.supervise(flags, reloader, bus, check=check, code=code, waits=waits)

    use_bridge_key(flags.bridge_key)
    if target is None and not flags.exec:
        from a2a_bridge.cli.configured_agents import SERVE, serve_all

        with guard("the agents"):
            run_on(flags.loop, serve_all(SERVE, flags, reloader))
    else:
        serve_one(target, flags, reloader)


def serve_one(target: str | None, flags: ServeFlags, reloader: Reloader | None = None) -> None:
    """Serves one agent until a signal. target: None for a program. Raises typer.Exit, typer.BadParameter."""
    from a2a_bridge.app import runtime
    from a2a_bridge.cli.advertised import Advertised
    from a2a_bridge.cli.output import guard
    from a2a_bridge.cli.running import builtin_or_envoy, serve_until_signal
    from a2a_bridge.cli.server_options import AgentPlanner

    with guard(target or "the program"):
        loaded = AgentPlanner(flags).load(target)
        listening = loaded.listening
        listening.follow(reloader)
        options, interfaces = listening.options, listening.interfaces

        @asynccontextmanager
        async def open_server(host: ApplicationHost | None = None) -> AsyncIterator[Server]:
            async with (
                loaded.opened() as (agent, own),
                runtime.serve_agent(agent, interfaces, own, host=host) as server,
            ):
                yield server

        opening = builtin_or_envoy(
            open_server,
            lambda: runtime.application(interfaces, options, open_server),
            interfaces,
            flags.drain_window,
        )
        advertised, grace = Advertised.of(options), flags.timeout_graceful_shutdown
        launch = launch_of(flags)
        run_on(
            flags.loop, serve_until_signal(opening, grace, listening.counting, reloader, advertised, launch)
        )


def _watched_code(target: str | None) -> Path:
    """The folder of the agent's code, for `--reload`. Raises BadTargetError, typer.BadParameter."""
    if target is None:
        text = "it loads changed code of an agent in Python, and a program is started anew for each message"
        raise usage_error("--reload", f"{text}; leave it out, or give --config FILE, which it watches, too")
    from a2a_bridge.cli.target import TargetKind, is_folder, parse

    parsed = parse(target)
    if parsed.sort is TargetKind.MODULE or is_folder(parsed.place):
        return Path(parsed.place if is_folder(parsed.place) else ".").resolve()
    return Path(parsed.place).resolve().parent
