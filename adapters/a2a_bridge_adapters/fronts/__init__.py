"""Fronts: an agent for clients that do not speak A2A.

A front is no binding: it is a client of the agent that looks like another kind of server to its own callers.
The names below are imported when they are first used: `openai_front` needs no package beside the library, and
`mcp_front` raises MissingExtraError without the package `mcp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2a_bridge_adapters.fronts.mcp_serving import mcp_front
    from a2a_bridge_adapters.fronts.openai import openai_front

__all__ = ["mcp_front", "openai_front"]

_HOMES = {"mcp_front": "mcp_serving", "openai_front": "openai"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module
    from importlib.util import find_spec

    from a2a_bridge.core.extras import missing_fronts

    if name == "mcp_front" and find_spec("mcp") is None:
        raise missing_fronts("mcp", "mcp")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
