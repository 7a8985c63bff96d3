"""The life of a serving command: ready line, signals, draining."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import typer

from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.flags import LoopKind
from a2a_bridge.cli.log_setup import change_level
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import cannot_listen, data, fail, not_opened, print_message
from a2a_bridge.cli.reading import Reading
from a2a_bridge.cli.workers import Worker
from a2a_bridge.core.extras import MissingExtraError

if TYPE_CHECKING:
    from a2a_bridge.cli.advertised import Advertised
    from a2a_bridge.cli.playground import Page
    from a2a_bridge.cli.reload import Reloader
    from a2a_bridge.cli.usage_recorder import UsageRecorder
    from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)


def reloader_of(context: typer.Context) -> Reloader | None:
    """Follows the configuration file of the running command; None if it has none."""
    reading = Reading.of_context(context)
    if reading.path is None:
        return None
    from a2a_bridge.cli.reload import Reloader  # loads the parser of TOML

    reloader = Reloader(reading)
    # Workers get no SIGHUP, and the process of Envoy gets it from its supervisor.
    if inside() is None and Worker.of_environment() is None:
        reloader.note_hangups()
    return reloader


def run_on(kind: LoopKind, main: Coroutine[Any, Any, None]) -> None:
    """Runs a command on an event loop to its end. Raises typer.Exit for a loop that is not installed."""
    envoy = inside()
    if envoy is not None:
        envoy.run(main)
        return
    from a2a_bridge.app.process import loop_factory  # loads protobuf

    try:
        make = loop_factory(kind.value)
    except MissingExtraError as error:
        main.close()
        raise fail(Exit.USAGE, f"--loop {kind.value}: {error.text}", error.remedy) from None
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main)


def serve(
    builtin: Callable[[], AbstractAsyncContextManager[Any]],
    application: Callable[[], Any],
    interfaces: Sequence[hub.AgentInterface],
    drain_window: float | None,
) -> AbstractAsyncContextManager[Any]:
    """The server to run: `builtin` with its own listeners or, in the process of Envoy, an application."""
    envoy = inside()
    if envoy is None:
        return builtin()
    return envoy.serve(application(), interfaces, drain_window)


async def run(
    opening: AbstractAsyncContextManager[Any],
    grace: float,
    counting: UsageRecorder | None = None,
    reloader: Reloader | None = None,
    advertised: Advertised | None = None,
    playground: Callable[[Any], Page] | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM, then drains; a second signal ends the process at once.

    Prints the ready line when the sockets listen. advertised: checks the URLs of the card. playground: of the
    running server; None without one. Raises typer.Exit when the sockets cannot listen, or the store cannot be
    opened.
    """
    from a2a_bridge.app.loop_watch import watch_loop
    from a2a_bridge.app.process import ready_line, stop_signals
    from a2a_bridge.stores import StoreOpenError  # loads protobuf

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
                reloader.on_change(change_level)
                await stack.enter_async_context(reloader.attach(None if envoy is None else envoy.hangups))
            line = ready_line(server) + (f" usage=http://{usage}" if usage is not None else "")
            logger.info("started as process %d: %s", os.getpid(), line)
            if playground is not None:
                # Its address has a token, which no log should have.
                line += f" ui={await stack.enter_async_context(_open(playground(server)))}"
            if worker is None:
                data(line)
                _announce(server)
            else:
                worker.ready(line)
                stack.enter_context(worker.attach())
            if advertised is not None and (worker is None or worker.is_first):
                await stack.enter_async_context(advertised.check_cards(server))
            with watch_loop():
                await stop.wait()
            logger.info("%s: draining for at most %g s", stop.cause, grace)
            if worker is None and sys.stderr.isatty():
                print_message("draining; again to end at once")
            await server.drain(grace)
            logger.info("stopped, because of %s", stop.cause)
        finally:
            await opening.__aexit__(None, None, None)


@asynccontextmanager
async def _open(playground: Page) -> AsyncIterator[str]:
    """The address of a playground while the context is open. Raises typer.Exit."""
    async with AsyncExitStack() as stack:
        try:
            address = await stack.enter_async_context(playground.open())
        except OSError as error:
            raise cannot_listen(error) from error
        yield address


def _announce(server: Any) -> None:
    """Prints the addresses on stderr."""
    if not sys.stderr.isatty():
        return
    several: Mapping[str, hub.AgentCard] | None = getattr(server, "cards", None)
    for card in [server.card] if several is None else several.values():
        if card is None:  # several agents in Envoy
            continue
        print_message(f"{card.name} {card.version}".strip(), "bold")
        for interface in card.supported_interfaces:
            print_message(f"  {interface.protocol_binding:<10} {interface.protocol_version}  {interface.url}")
