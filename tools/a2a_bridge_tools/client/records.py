"""`--record`: calls and frames of a command in a file; `recording.py` has the format of a line."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from a2a_bridge.bindings.binding import DialOptions, Frame
from a2a_bridge.cli.output import print_message
from a2a_bridge.core.call import Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service
from a2a_bridge_tools.client.recording import Recorder

#: the hop of a command: from here to the agent
HOP = "upstream"


@contextmanager
def record_to(path: Path | None) -> Iterator[Recorder | None]:
    """A recorder whose lines are in a file, for its owner only; None without one. A file that is there keeps
    its mode, with a warning. Raises typer.BadParameter.
    """
    if path is None:
        yield None
        return
    try:
        path.touch(0o600)
        file = path.open("w", encoding="utf-8", buffering=1)
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if sys.platform != "win32" and mode & 0o077:
            text = (
                f"warning: {path} has mode {mode:04o}, and others may read the record; try: chmod 600 {path}"
            )
            print_message(text, "yellow")
    except OSError as error:
        raise typer.BadParameter(
            f"{path} cannot be written: {error.strerror}", param_hint="--record"
        ) from None
    with file:
        yield Recorder(file.write)


def add_observer(options: DialOptions, observe: Callable[[Frame], None]) -> DialOptions:
    """The options with a further observer of frames."""
    earlier = options.frame_observer
    if earlier is None:
        return replace(options, frame_observer=observe)

    def both(frame: Frame) -> None:
        observe(frame)
        earlier(frame)

    return replace(options, frame_observer=both)


class Recorded:
    """A service whose calls are recorded."""

    def __init__(self, service: Service, recorder: Recorder) -> None:
        self._service = service
        self._recorder = recorder

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        self._recorder.call(HOP, call)
        return self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        self._recorder.call(HOP, call)
        return self._service.stream(call)
