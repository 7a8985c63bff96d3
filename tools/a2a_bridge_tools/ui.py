"""`a2a-bridge ui`: the playground for an agent that is served elsewhere, or in Python code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from a2a_bridge.cli.flags import DialFlags
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.server_flags import LogLevel, LoopKind, ServerFlags
from a2a_bridge.core.options import flag


@dataclass(frozen=True, kw_only=True)
class UiFlags(DialFlags):
    """The flags of `ui`."""

    listen: str = flag(
        "127.0.0.1:0",
        "Listen here for the browser; everyone who has the token can call the agent.",
        "HOST:PORT",
        variable="",
        group="Process",
    )
    log_level: LogLevel = flag(LogLevel.WARNING, "Log level on stderr.", group="Process")


@with_flags
def ui(
    target: Annotated[
        str, typer.Argument(help="URL, :PORT, host:port (gRPC), card file, file.py[:agent] or module:agent.")
    ],
    *,
    flags: UiFlags,
) -> None:
    """Serve the playground for the agent at TARGET: a page to call it over several bindings at once.

    The command prints one line when it is ready: ready ui=http://HOST:PORT/?token=TOKEN

    For example:

      a2a-bridge ui http://localhost:9999

      a2a-bridge ui https://agent.example -H 'Authorization: @token.txt'

      a2a-bridge ui weather.py
    """
    from a2a_bridge.cli.log_setup import configure_logging
    from a2a_bridge.cli.output import guard
    from a2a_bridge.cli.running import run_on
    from a2a_bridge.cli.target import parse
    from a2a_bridge_tools.playground.launch import serve_playground

    configure_logging(ServerFlags(log_level=flags.log_level))
    with guard(target):
        run_on(LoopKind.AUTO, serve_playground(parse(target), flags, flags.listen))
