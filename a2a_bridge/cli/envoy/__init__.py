"""Envoy as the server of `serve` and `gateway` (`--server envoy`).

Two processes: `supervisor.py` starts Envoy and passes signals on; `application.py` runs in Envoy, where it
executes the same command line again and serves the agent as an ASGI application. `bootstrap.py` is the
configuration of Envoy, and `cli/running.py` makes it from the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a2a_bridge.cli.envoy.application import Inside

_inside: Inside | None = None


def inside() -> Inside | None:
    """The command in the process of Envoy; None in every other process."""
    return _inside


def set_inside(command: Inside) -> None:
    """Sets the command that runs in this process, which is Envoy."""
    global _inside  # noqa: PLW0603  a fact about the process
    _inside = command
