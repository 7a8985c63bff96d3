"""Warns of code that blocks the event loop: while it runs, every call of the process waits.

A thread asks the loop for a sign of life, and looks at the stack of the loop's thread when none comes. Only
code outside of the bridge, of its libraries and of Python itself is reported: a process that gets no CPU is
no defect of the agent.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

_log = logging.getLogger("a2a_bridge.loop")

#: seconds without a sign of life after which the loop counts as blocked, and between two questions: so each
#: block of half a second is found
LIMIT, _EVERY = 0.4, 0.1

_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_PYTHON = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_OWN = ("a2a_bridge", "a2a_bridge_transports")


@contextmanager
def watch_loop(limit: float = LIMIT) -> Iterator[None]:
    """Watches the running loop. limit: in seconds."""
    loop, ident, ended = asyncio.get_running_loop(), threading.get_ident(), threading.Event()
    watch = threading.Thread(
        target=_watch, args=(loop, ident, ended, limit), name="a2a loop watch", daemon=True
    )
    watch.start()
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
        if frame.f_globals.get("__name__", "").partition(".")[0] in _OWN:
            return installed  # an agent that is an installed package
        file = frame.f_code.co_filename
        is_installed = file.startswith(_INSTALLED)
        if is_installed or not file.startswith(("<", *_PYTHON)):
            place = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
            if not is_installed:
                return place
            installed = installed or place
        frame = frame.f_back
    return ""
