"""The life of a serving command: ready line, signals, draining."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from time import gmtime
from typing import TYPE_CHECKING, Any

import typer

from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.flags import LogLevel, LoopKind, ServerFlags
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import cannot_listen, data, fail, not_opened, print_message
from a2a_bridge.cli.reading import Reading
from a2a_bridge.cli.workers import Worker
from a2a_bridge.core.extras import MissingExtraError

if TYPE_CHECKING:
    from a2a_bridge.cli.reload import Reloader
    from a2a_bridge.cli.usage_recorder import UsageRecorder
    from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)


#: libraries of the bridge: below WARNING some of them log headers, and with them credentials
_LIBRARIES = (
    "aiohttp",
    "alembic",
    "asyncio",
    "grpc",
    "h2",
    "hpack",
    "httpcore",
    "httpx",
    "psycopg",
    "sqlalchemy",
)


class _Format(logging.Formatter):
    """Lines with the time in UTC, in milliseconds (RFC 3339)."""

    converter = staticmethod(gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def configure_logging(level: LogLevel) -> None:
    """Sends the bridge's log to stderr. To be called before the agent's code is loaded, which may configure
    logging; then `open_logging` for all other loggers.
    """
    bridge = logging.getLogger("a2a_bridge")
    bridge.setLevel(level.value.upper())
    bridge.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Format("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    bridge.handlers[:] = [handler]


def open_logging() -> None:
    """Lets the agent's loggers work. If its code has configured the root logger, the bridge logs there, too;
    otherwise all loggers have the bridge's format and level, except libraries below WARNING.
    """
    bridge, root = logging.getLogger("a2a_bridge"), logging.getLogger()
    handlers, bridge.handlers[:] = list(bridge.handlers), []
    bridge.propagate = True
    if root.handlers:
        return
    root.handlers[:] = handlers
    root.setLevel(bridge.level)
    for name in _LIBRARIES:
        library = logging.getLogger(name)
        if library.level == logging.NOTSET:
            library.setLevel(max(logging.WARNING, bridge.level))


def reloader_of(context: typer.Context) -> Reloader | None:
    """Follows the configuration file of the running command; None if it has none."""
    if Reading.of_context(context).path is None:
        return None
    from a2a_bridge.cli.reload import Reloader  # loads the parser of TOML

    return Reloader.of(context)


def _change_level(old: ServerFlags, new: ServerFlags) -> None:
    """Gives other loggers a new level as far as `configure_logging` and `open_logging` gave them theirs."""
    before, after = (logging.getLevelName(one.log_level.value.upper()) for one in (old, new))
    names = ["a2a_bridge"]
    root = logging.getLogger()
    if any(isinstance(one.formatter, _Format) for one in root.handlers):
        root.setLevel(after)
        names += _LIBRARIES
    for name in names:
        logger = logging.getLogger(name)
        least = logging.NOTSET if name == "a2a_bridge" else logging.WARNING
        if logger.level == max(least, before):
            logger.setLevel(max(least, after))


def run_on(kind: LoopKind, main: Coroutine[Any, Any, None]) -> None:
    """Runs a command on an event loop to its end. Raises typer.Exit for a loop that is not installed."""
    envoy = inside()
    if envoy is not None:
        envoy.run(main)
        return
    from a2a_bridge.process import loop_factory  # loads protobuf

    try:
        make = loop_factory(kind.value)
    except MissingExtraError as error:
        main.close()
        raise fail(Exit.USAGE, f"--loop {kind.value}: {error.text}", error.remedy) from None
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main)


def serving(
    builtin: Callable[[], AbstractAsyncContextManager[Any]],
    application: Callable[[], Any],
    interfaces: Sequence[hub.AgentInterface],
    drain_window: float | None,
) -> AbstractAsyncContextManager[Any]:
    """The server to run: `builtin` with its own listeners or, in the process of Envoy, an application."""
    envoy = inside()
    if envoy is None:
        return builtin()
    return envoy.serving(application(), interfaces, drain_window)


async def run(
    opening: AbstractAsyncContextManager[Any],
    grace: float,
    counting: UsageRecorder | None = None,
    reloader: Reloader | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM, then drains; a second signal ends the process at once.

    Prints the ready line when the sockets listen. Raises typer.Exit when they cannot, or the store cannot be
    opened.
    """
    from a2a_bridge.hosting.stores import StoreOpenError  # loads protobuf
    from a2a_bridge.loop_watch import watched_loop
    from a2a_bridge.process import ready_line, stop_signals

    worker = Worker.of_environment()
    async with AsyncExitStack() as stack:
        envoy = inside()
        signals = stop_signals if envoy is None else envoy.stop_signals
        stop = stack.enter_context(signals(grace))
        usage = None
        try:
            if counting is not None:
                usage = await stack.enter_async_context(counting.open())
            server = await opening.__aenter__()
        except StoreOpenError as error:
            raise not_opened(error) from error
        except OSError as error:
            raise cannot_listen(error) from error
        try:
            if reloader is not None and worker is None:  # else the supervisor starts a successor
                reloader.on_change(_change_level)
                await stack.enter_async_context(reloader.attached(None if envoy is None else envoy.hangups))
            line = ready_line(server) + (f" usage=http://{usage}" if usage is not None else "")
            if worker is None:
                data(line)
                _announce(server)
            else:
                worker.ready(line)
                stack.enter_context(worker.attached())
            with watched_loop():
                await stop.wait()
            logger.info("draining for at most %g s", grace)
            if worker is None and sys.stderr.isatty():
                print_message("draining; again to end at once")
            await server.drain(grace)
        finally:
            await opening.__aexit__(None, None, None)


def _announce(server: Any) -> None:
    """Prints the addresses on stderr."""
    if sys.stderr.isatty():
        card = server.card
        print_message(f"{card.name} {card.version}".strip(), "bold")
        for interface in card.supported_interfaces:
            print_message(f"  {interface.protocol_binding:<10} {interface.protocol_version}  {interface.url}")
