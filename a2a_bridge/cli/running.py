"""The life of a serving command: its server, ready line, signals, draining, and the playground beside it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.log_setup import change_level, configure_logging
from a2a_bridge.cli.output import cannot_listen, data, fail, not_loaded, not_opened, print_message
from a2a_bridge.cli.reading import Reading
from a2a_bridge.cli.security import note_open, server_tls
from a2a_bridge.cli.server_flags import LogFormat, LoopKind, ServerFlags, ServerKind
from a2a_bridge.cli.values import Exit, listen_address, usage_error
from a2a_bridge.cli.worker import Worker
from a2a_bridge.core.extras import MissingExtraError, OtherVersionError, check_version, missing_tools
from a2a_bridge.core.option_classes import HostValues, ServerTlsValues
from a2a_bridge.core.options import taken
from a2a_bridge.extensions import BrokenExtensionError, load

if TYPE_CHECKING:
    from a2a_bridge.app.process import Stop
    from a2a_bridge.bindings.binding import DialOptions
    from a2a_bridge.cards import Candidate
    from a2a_bridge.cli.advertised import Advertised
    from a2a_bridge.cli.reload import Reloader
    from a2a_bridge.cli.usage import UsageRecorder
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


def builtin_or_envoy(
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


async def serve_until_signal(
    opening: AbstractAsyncContextManager[Any],
    grace: float,
    counting: UsageRecorder | None = None,
    reloader: Reloader | None = None,
    advertised: Advertised | None = None,
    launch: Launch | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM, then drains; a second signal ends the process at once. Prints the ready
    line when the sockets listen. advertised: checks the URLs of the card. launch: the playground.
    Raises typer.Exit if the sockets cannot listen, or the store cannot be opened.
    """
    from a2a_bridge.app.fronts import TakenPathError
    from a2a_bridge.app.process import ready_line, stop_signals, watch_loop
    from a2a_bridge.stores import StoreOpenError  # loads protobuf

    worker = Worker.of_environment()
    async with AsyncExitStack() as stack:
        envoy = inside()
        signals = stop_signals if envoy is None else envoy.stop_signals
        stop = stack.enter_context(signals(grace))
        usage = None
        try:
            async with _until(stop):
                if counting is not None:
                    usage = await stack.enter_async_context(counting.open())
                server = await opening.__aenter__()
        except TimeoutError:
            if not stop.is_set():
                raise
            logger.info("%s: ended while it started", stop.cause)
            return
        except StoreOpenError as error:
            raise not_opened(error) from error
        except OSError as error:
            raise cannot_listen(error) from error
        except TakenPathError as error:
            raise fail(Exit.USAGE, str(error)) from None
        try:
            if reloader is not None and worker is None:  # else the supervisor starts a successor
                reloader.on_change(change_level)
                await stack.enter_async_context(reloader.attach(None if envoy is None else envoy.hangups))
            line = ready_line(server) + (f" usage=http://{usage}" if usage is not None else "")
            logger.info("started as process %d: %s", os.getpid(), line)
            if launch is not None:
                # Its address has a token, which no log should have.
                line += f" ui={await stack.enter_async_context(_open(launch.open(server)))}"
            if worker is None:
                data(line)
                _announce(server)
            else:
                worker.ready(line)
                stack.enter_context(worker.attach())
            if advertised is not None and (worker is None or worker.is_first):
                await stack.enter_async_context(advertised.check_cards(server.cards))
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
async def _until(stop: Stop) -> AsyncIterator[None]:
    """Cancels the start of a server at the first signal: a factory may wait for something that never comes.
    Raises TimeoutError then.
    """
    async with asyncio.timeout(None) as scope:
        waiting = asyncio.create_task(stop.wait())
        waiting.add_done_callback(lambda _: scope.reschedule(0.0) if is_starting and stop.is_set() else None)
        is_starting = True
        try:
            yield
        finally:
            is_starting = False
            waiting.cancel()


@asynccontextmanager
async def _open(playground: AbstractAsyncContextManager[str]) -> AsyncIterator[str]:
    """The address of a playground while the context is open. Raises typer.Exit."""
    async with AsyncExitStack() as stack:
        try:
            address = await stack.enter_async_context(playground)
        except OSError as error:
            raise cannot_listen(error) from error
        yield address


def _announce(server: Any) -> None:
    """Prints the addresses on stderr."""
    if not sys.stderr.isatty():
        return
    for card in server.cards.values():
        print_message(f"{card.name} {card.version}".strip(), "bold")
        for interface in card.supported_interfaces:
            print_message(f"  {interface.protocol_binding:<10} {interface.protocol_version}  {interface.url}")


#: the flags of fronts: `app.fronts.NAMES`, which loads protobuf
FRONTS = ("mcp", "openai")

#: a group of entry points; the entry `page` is called with the flags of the server and its kind, and makes
#: an object with the callables of a Launch
PLAYGROUND = "a2a_bridge.playground"


class Launch(NamedTuple):
    """The playground of a server, as the tools make it."""

    #: serves the playground of a running server, and gives its URL. Raises OSError
    open: Callable[[object], AbstractAsyncContextManager[str]]
    #: name (empty for the only one), card and interfaces of an agent behind a gateway → options to dial it
    tap: Callable[[str, hub.AgentCard, Sequence[Candidate], DialOptions], DialOptions]


def check_one_process(flags: ServerFlags) -> None:
    """Raises typer.BadParameter if a server with a playground or a front would be more than one process."""
    for name in FRONTS:
        if getattr(flags, name) and flags.workers > 1:
            text = "its sessions and conversations are those of one process, and --workers asks for several"
            raise usage_error(f"--{name}", text)
    reloads = flags.reload and flags.config is None
    if flags.ui and (flags.workers > 1 or flags.server is ServerKind.ENVOY or reloads):
        text = "the playground needs a server of one process; beside this one: a2a-bridge ui URL"
        raise usage_error("--ui", text)


def launch_of(flags: ServerFlags, kind: str = "agent") -> Launch | None:
    """The playground that the flags ask for, if any. kind: `agent` or `gateway`. Raises typer.BadParameter,
    and typer.Exit if the tools are not installed, or their page cannot be loaded.
    """
    if not flags.ui:
        return None
    from importlib.metadata import entry_points

    for point in entry_points(group=PLAYGROUND, name="page"):
        try:
            check_version(point.dist)
            page = load(point, "--ui: the page")
        except (OtherVersionError, BrokenExtensionError) as error:
            raise not_loaded("--ui: the page", error) from None
        made = page(flags, kind)
        return Launch(made, made.tap)
    missing = missing_tools()
    raise fail(Exit.USAGE, f"--ui: {missing.text}", missing.remedy)


#: flags of each server that the other one does not have
_OF_ENVOY = ("listen", "print_envoy_config")
_OF_BUILTIN = ("http", "grpc")
#: seconds without a request after which a connection is closed, as by the HTTP host: a test compares
IDLE_TIMEOUT = 75.0


def prepare(context: typer.Context, flags: ServerFlags) -> Reloader | None:
    """The part of a serving command before it loads its agent: it checks that one process suffices, runs in
    Envoy if the flags ask for that, and opens the log. Returns the reloader of the configuration file, if
    there is one. Raises typer.BadParameter, typer.Exit.
    """
    check_one_process(flags)
    note_open(flags)
    _check_server(context, flags)
    configure_logging(flags)
    if flags.envoy_address and inside() is None:
        raise typer.Exit(_run_envoy(flags))
    return reloader_of(context)


def _check_server(context: typer.Context, flags: ServerFlags) -> None:
    """Raises typer.BadParameter for flags that are not for the server of the command."""
    if inside() is not None:
        return
    envoy, read = flags.server is ServerKind.ENVOY, Reading.of_context(context)
    for name in _OF_BUILTIN if envoy else _OF_ENVOY:
        if not read.is_default(name):
            hint = f"--{name.replace('_', '-')}"
            reason = "Envoy has one port for every binding: --listen" if envoy else "needs --server envoy"
            raise usage_error(hint, reason)
    if not envoy:
        return
    if flags.workers > 1:
        raise usage_error("--workers", "Envoy runs one interpreter; start several replicas instead")
    if flags.reload and flags.config is None:
        raise usage_error(
            "--reload", "Envoy keeps the code that it has loaded; --server builtin while you work"
        )


def _run_envoy(flags: ServerFlags) -> int:
    """Runs the command in Envoy to its end. Raises typer.BadParameter for unusable files, typer.Exit."""
    from a2a_bridge.cli.envoy import supervisor
    from a2a_bridge.cli.envoy.bootstrap import EnvoyOptions, bootstrap

    host, port = listen_address(flags.envoy_address, "--listen")
    files = ServerTlsValues(**taken(ServerTlsValues, flags))
    # Checked here: of files that cannot be used, Envoy would only report that it cannot start.
    tls = None if server_tls(files) is None else files
    try:
        hosts = supervisor.addresses(host, port)
        options = EnvoyOptions(
            hosts=tuple(hosts),
            port=port,
            module=supervisor.module(),
            admin=supervisor.ADMIN,
            loop="asyncio" if flags.loop is LoopKind.ASYNCIO else "uvloop",
            limits=HostValues(**taken(HostValues, flags)),
            idle_timeout=IDLE_TIMEOUT,
            tls=tls,
        )
        if flags.print_envoy_config:
            typer.echo(json.dumps(bootstrap(options), indent=2))
            return Exit.OK
        for one in hosts:
            supervisor.check_free(one, port)
        return supervisor.run(
            options,
            flags.log_level,
            flags.timeout_graceful_shutdown,
            json_log=flags.log_format is LogFormat.JSON,
            reloads=flags.config is not None,
        )
    except MissingExtraError as error:
        raise fail(Exit.USAGE, f"--server envoy: {error.text}", error.remedy) from None
    except supervisor.NoLibraryError as error:
        raise fail(Exit.USAGE, f"--server envoy: {error}", error.remedy) from None
    except OSError as error:
        raise cannot_listen(error) from None
