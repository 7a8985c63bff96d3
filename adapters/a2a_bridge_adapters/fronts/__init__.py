"""Fronts: an agent for clients that do not speak A2A.

A front is no binding: it is a client of the agent that looks like another kind of server to its own callers.
The names below are imported when they are first used. They raise MissingExtraError without the package of
their extra: `mcp`, or `jsonschema` for `openai_front`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2a_bridge_adapters.fronts.mcp_serving import mcp_front
    from a2a_bridge_adapters.fronts.openai_serving import openai_front

__all__ = ["mcp_front", "openai_front"]

#: the module of a name, the package that it needs, and the extra that installs it
_HOMES = {
    "mcp_front": ("mcp_serving", "mcp", "mcp"),
    "openai_front": ("openai_serving", "jsonschema", "openai"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module
    from importlib.util import find_spec

    from a2a_bridge.core.extras import missing_fronts

    home, package, extra = _HOMES[name]
    if find_spec(package) is None:
        raise missing_fronts(package, extra)
    return getattr(import_module(f"{__name__}.{home}"), name)
