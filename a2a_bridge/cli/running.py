"""What a serving command does between its first and its last moment: ready line, signals, draining."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from a2a_bridge.cli.options import Exit, LogLevel
from a2a_bridge.cli.output import data, fail, not_opened, talk

if TYPE_CHECKING:
    from a2a_bridge.cli.counting import Counting

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def configure_logging(level: LogLevel) -> None:
    """Sends the bridge's log to stderr; other libraries' from WARNING on."""
    logging.basicConfig(
        stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING
    )
    logging.getLogger("a2a_bridge").setLevel(level.value.upper())


async def run(
    opening: AbstractAsyncContextManager[Any], grace: float, counting: Counting | None = None
) -> None:
    """Serves until SIGINT or SIGTERM, then drains; a second signal ends the process at once.

    Prints the ready line when the sockets listen. Raises typer.Exit when they cannot, or the store cannot be opened.
    """
    from a2a_bridge.hosting.stores import CannotOpen  # loads protobuf

    async with AsyncExitStack() as stack:
        stop = stack.enter_context(_stop_signals())
        usage = None
        try:
            if counting is not None:
                usage = await stack.enter_async_context(counting.open())
            server = await opening.__aenter__()
        except CannotOpen as error:
            raise not_opened(error) from error
        except OSError as error:
            raise fail(Exit.USAGE, f"cannot listen: {error}", "another port, or port 0 for any") from error
        try:
            data(ready_line(server) + (f" usage=http://{usage}" if usage is not None else ""))
            _announce(server)
            await stop.wait()
            logger.info("draining for at most %g s", grace)
            if sys.stderr.isatty():
                talk("draining; again to end at once")
            await server.drain(grace)
        finally:
            await opening.__aexit__(None, None, None)


def ready_line(server: Any) -> str:
    """`ready http=http://HOST:PORT grpc=HOST:PORT`, without what is not served."""
    parts = ["ready"]
    if server.http is not None:
        parts.append(f"http=http://{server.http}")
    if server.grpc is not None:
        parts.append(f"grpc={server.grpc}")
    return " ".join(parts)


def _announce(server: Any) -> None:
    """The addresses for people who watch."""
    if sys.stderr.isatty():
        card = server.card
        talk(f"{card.name} {card.version}".strip(), "bold")
        for interface in card.supported_interfaces:
            talk(f"  {interface.protocol_binding:<10} {interface.protocol_version}  {interface.url}")


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """An event that the first signal sets. The second one exits as an unhandled one would."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    previous: dict[int, Any] = {}
    for number in _SIGNALS:
        try:
            loop.add_signal_handler(number, on_signal, number)
        except NotImplementedError:  # Windows
            previous[number] = signal.signal(
                number, lambda caught, _: loop.call_soon_threadsafe(on_signal, caught)
            )
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            if number in previous:
                signal.signal(number, previous[number])
            else:
                loop.remove_signal_handler(number)
