"""Envoy as the server of `serve` and `gateway` (`--server envoy`), in two processes: `supervisor.py` starts
Envoy; `application.py` runs in it, executes the same command line again and serves an ASGI application.
`bootstrap.py` has the configuration of Envoy.
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
