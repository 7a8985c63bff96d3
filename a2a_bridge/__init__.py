"""Bridges A2A agents between transports and protocol versions.

The names below are the library; each is imported when it is first used, so that `import a2a_bridge` is cheap.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2a_bridge.app.process import run, run_gateway
    from a2a_bridge.app.runtime import add_to_server, asgi, connect
    from a2a_bridge.app.runtime import serve_agent as serve
    from a2a_bridge.cards import interface
    from a2a_bridge.core.agent_api import Client
    from a2a_bridge.core.errors import A2AError, Reason
    from a2a_bridge.hosting import Agent, Run, agent
    from a2a_bridge.hosting.programs import Program

_HOMES = {
    "A2AError": ("a2a_bridge.core.errors", "A2AError"),
    "Agent": ("a2a_bridge.hosting", "Agent"),
    "Client": ("a2a_bridge.core.agent_api", "Client"),
    "Program": ("a2a_bridge.hosting.programs", "Program"),
    "Reason": ("a2a_bridge.core.errors", "Reason"),
    "Run": ("a2a_bridge.hosting", "Run"),
    "add_to_server": ("a2a_bridge.app.runtime", "add_to_server"),
    "agent": ("a2a_bridge.hosting", "agent"),
    "asgi": ("a2a_bridge.app.runtime", "asgi"),
    "connect": ("a2a_bridge.app.runtime", "connect"),
    "run": ("a2a_bridge.app.process", "run"),
    "run_gateway": ("a2a_bridge.app.process", "run_gateway"),
    "interface": ("a2a_bridge.cards", "interface"),
    "serve": ("a2a_bridge.app.runtime", "serve_agent"),
}

__all__ = [
    "A2AError",
    "Agent",
    "Client",
    "Program",
    "Reason",
    "Run",
    "__version__",
    "add_to_server",
    "agent",
    "asgi",
    "connect",
    "interface",
    "run",
    "run_gateway",
    "serve",
]


def _reject_other_distribution() -> None:
    """Raises ImportError beside PyPI's `a2a-bridge`: both write the files of this package, so each breaks."""
    # Not with importlib.metadata or pathlib, which take longer than the rest of the import.
    folder = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
    for name in os.listdir(folder):  # noqa: PTH208
        if name.startswith("a2a_bridge-") and name.endswith(".dist-info"):
            raise ImportError(
                "the distribution a2a-bridge is installed beside a2a-transport-bridge, and both have the"
                " package a2a_bridge: pip uninstall -y a2a-bridge a2a-transport-bridge, and install the"
                " latter again"
            )


_reject_other_distribution()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("a2a-transport-bridge")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home[0]), home[1])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
