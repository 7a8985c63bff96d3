"""Runs an agent or a gateway as a program: event loop, ready line, signals, draining.

A thread warns of code that blocks the event loop, and so every call of the process. It asks the loop for a
sign of life, and looks at the stack of the loop's thread when none comes. Only code outside of the bridge,
its libraries and Python is reported: a process that gets no CPU is no defect of the agent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from types import FrameType
from typing import Any, Literal

from a2a_bridge.app.agent import take_target
from a2a_bridge.app.planning import EVERYTHING, ServeOptions
from a2a_bridge.app.runtime import locate_agent, serve_agent, serve_gateway
from a2a_bridge.app.serving import Server
from a2a_bridge.bindings.binding import DialOptions, ListenAddress
from a2a_bridge.core.agent_traces import INSTALLED, OWN, PYTHON
from a2a_bridge.core.extras import load
from a2a_bridge.core.kinds import check_options
from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger("a2a_bridge.process")

#: "auto": uvloop if installed
LoopName = Literal["auto", "asyncio", "uvloop"]

#: the options without any
_DEFAULTS = ServeOptions(http=ListenAddress("127.0.0.1", 8080), grpc=ListenAddress("127.0.0.1", 50051))
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: seconds after the grace after which the process exits, closed or not
_LAST = 10.0


#: the place of the code that a command reads for its agent, while it does
being_read: ContextVar[str] = ContextVar("being_read", default="")


def run(
    agent: Agent | Any,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    *,
    loop: LoopName = "auto",
) -> None:
    """Serves a hosted agent until SIGINT or SIGTERM, then drains; a second signal exits at once. The process
    exits 10 seconds after the grace at the latest.

    agent: an Agent, or an object that `Agent.of` takes. To be called in the main thread. Prints the ready
    line of `a2a-bridge serve` when the sockets listen. interfaces: as for `serve`. options: `grace` limits
    draining; by default HTTP listens on 127.0.0.1:8080 and gRPC on 127.0.0.1:50051. Raises the errors of
    `serve`, and MissingExtraError for a loop that is not installed.
    """
    agent = Agent.of(agent)
    check_options(options, ServeOptions)
    options = options or _DEFAULTS
    _run("serve(agent)", lambda: serve_agent(agent, interfaces, options), options.grace, loop)


def run_gateway(
    target: hub.AgentCard | hub.AgentInterface | str,
    interfaces: Sequence[hub.AgentInterface] = EVERYTHING,
    options: ServeOptions | None = None,
    dial_options: DialOptions | None = None,
    *,
    loop: LoopName = "auto",
) -> None:
    """Serves a remote agent until SIGINT or SIGTERM, as `run` does; with `options.middleware`, for example.

    target: as for `connect`. dial_options: how the agent is called; by default without a time limit of its
    own. Raises the errors of `connect` and of `serve`, and TypeError for an agent of this process.
    """
    if isinstance(take_target(target), Agent):
        raise TypeError("run_gateway serves an agent elsewhere, by its URL: write run(agent) for this one")
    check_options(options, ServeOptions)
    options = options or _DEFAULTS

    @asynccontextmanager
    async def open_server() -> AsyncIterator[Server]:
        card, candidates, dialling = await locate_agent(
            target, options=dial_options or DialOptions(timeout=None)
        )
        async with serve_gateway(card, candidates, interfaces, options, dialling) as server:
            yield server

    _run("serve_gateway(card, candidates)", open_server, options.grace, loop)


def _run(
    awaited: str, opening: Callable[[], AbstractAsyncContextManager[Server]], grace: float, loop: LoopName
) -> None:
    if place := being_read.get():
        raise RuntimeError(
            f"a2a-bridge reads {place} for its agent, and `run` starts a server there: write it below"
            ' `if __name__ == "__main__":`, or start the file with `python`'
        )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError(
            "an event loop is running here, as in a notebook, and `run` starts one of its own:"
            f" write `async with {awaited} as server:`"
        )

    async def main() -> None:
        with stop_signals(grace) as stop:
            async with opening() as server:
                print(ready_line(server), flush=True)  # noqa: T201  parent processes wait for this line
                logger.info("started as process %d: %s", os.getpid(), ready_line(server))
                with watch_loop():
                    await stop.wait()
                logger.info("%s: draining for at most %g s", stop.cause, grace)
            logger.info("stopped, because of %s", stop.cause)

    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        runner.run(main())


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of an event loop; None for the loop of asyncio. Raises MissingExtraError."""
    factory = None
    if name != "asyncio":
        try:
            factory = load("uvloop", "uvloop").new_event_loop
        except ImportError:
            if name != "auto":
                raise
    logger.debug("event loop: %s", "uvloop" if factory is not None else "asyncio")
    made: Callable[[], asyncio.AbstractEventLoop] | None = factory
    return made


def ready_line(server: Any) -> str:
    """`ready http=http://HOST:PORT grpc=HOST:PORT admin=http://HOST:PORT`, with open listeners only."""
    parts = ["ready"]
    if server.http is not None:
        parts.append(f"http={'https' if server.secure else 'http'}://{server.http}")
    if server.grpc is not None:
        parts.append(f"grpc={server.grpc}")
    if server.admin is not None:
        parts.append(f"admin=http://{server.admin}")
    return " ".join(parts)


class Stop(asyncio.Event):
    """Set when the server has to stop."""

    #: why, such as the name of a signal
    cause = ""

    def request(self, cause: str) -> None:
        """Asks the server to stop; the first cause counts."""
        self.cause = self.cause or cause
        self.set()


@contextmanager
def stop_signals(grace: float) -> Iterator[Stop]:
    """An event that the first signal sets; the second signal exits with its default code. A process that
    still runs some time after `grace` (seconds) exits with code 1: an agent may block the event loop, so that
    signals are not handled.
    """
    stop = Stop()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.request(signal.Signals(number).name)

    #: released by the first signal. Its handler starts no thread: a further signal may interrupt that
    asked, over = threading.Lock(), threading.Event()
    asked.acquire()

    def limit() -> None:
        asked.acquire()
        if not over.wait(grace + _LAST):
            _end(grace)

    limiter = threading.Thread(target=limit, name="a2a stop limit", daemon=True)
    limiter.start()

    def watch(*_: Any) -> None:
        with suppress(RuntimeError):  # it is released already
            asked.release()

    previous: dict[int, Any] = {}
    for number in _SIGNALS:
        try:
            loop.add_signal_handler(number, on_signal, number)
            signal.signal(number, watch)  # in addition to the handler of the loop
        except NotImplementedError:  # Windows
            previous[number] = signal.signal(
                number, lambda caught, _: loop.call_soon_threadsafe(on_signal, caught)
            )
    try:
        yield stop
    finally:
        over.set()
        watch()
        limiter.join()
        for number in _SIGNALS:
            if number in previous:
                signal.signal(number, previous[number])
            else:
                loop.remove_signal_handler(number)


def _end(grace: float) -> None:
    # Not with the log: a blocked thread may hold its lock.
    text = f"a2a-bridge: not closed {grace + _LAST:g} s after the signal; running tasks are orphans now\n"
    os.write(2, text.encode())
    os._exit(1)


_log = logging.getLogger("a2a_bridge.loop")

#: seconds without a sign of life after which the loop counts as blocked, and between two questions: so each
#: block of half a second is found
LIMIT, _EVERY = 0.4, 0.1


@contextmanager
def watch_loop(limit: float = LIMIT) -> Iterator[None]:
    """Watches the running loop. limit: in seconds."""
    loop, ident, ended = asyncio.get_running_loop(), threading.get_ident(), threading.Event()
    threading.Thread(
        target=_watch, args=(loop, ident, ended, limit), name="a2a loop watch", daemon=True
    ).start()
    try:
        yield
    finally:
        ended.set()


def _watch(loop: asyncio.AbstractEventLoop, ident: int, ended: threading.Event, limit: float) -> None:
    while not ended.wait(_EVERY):
        alive = threading.Event()
        began = monotonic()
        try:
            loop.call_soon_threadsafe(alive.set)
        except RuntimeError:
            return  # the loop is closed
        if alive.wait(limit):
            continue
        place = _place(sys._current_frames().get(ident))  # noqa: SLF001  there is no public name
        if not place:
            alive.wait(limit)
            continue
        _log.warning(
            "the event loop has been blocked for %.1f s by %s; all calls wait:"
            " make the function `def`, or call the slow part with asyncio.to_thread",
            monotonic() - began,
            place,
        )
        while not alive.wait(limit) and not ended.is_set():
            pass
        _log.warning("the event loop was blocked for %.1f s by %s", monotonic() - began, place)


def _place(frame: FrameType | None) -> str:
    """The innermost line of the agent's code in a stack: `file:line in function`; empty if there is none."""
    installed = ""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in OWN:
            return installed  # an agent that is an installed package
        file = frame.f_code.co_filename
        is_installed = file.startswith(INSTALLED)
        if is_installed or not file.startswith(("<", *PYTHON)):
            place = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
            if not is_installed:
                return place
            installed = installed or place
        frame = frame.f_back
    return ""
