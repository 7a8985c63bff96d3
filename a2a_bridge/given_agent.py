"""Whether what an application gives as an agent, and as its interfaces, can be served."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub


def check_agent(given: Any) -> None:
    """Raises TypeError for anything but an Agent, with what makes one of it."""
    if not isinstance(given, Agent):
        raise TypeError(f"{_name_of(given)} is no agent: {_remedy(given)}")


def check_interfaces(given: Any) -> None:
    """Raises TypeError for anything but a list of interfaces."""
    example = 'write [interface("JSONRPC")], with `interface` of a2a_bridge'
    if isinstance(given, (str, hub.AgentInterface)) or not isinstance(given, Sequence):
        raise TypeError(f"interfaces is a list, not {_name_of(given)}: {example}")
    for one in given:
        if not isinstance(one, hub.AgentInterface):
            raise TypeError(f"interfaces has {_name_of(one)}, which is no interface: {example}")


def check_target(given: Any) -> None:
    """Raises TypeError for what nothing can be connected to."""
    if isinstance(given, (Agent, hub.AgentCard, hub.AgentInterface, str)):
        return
    if callable(given) or hasattr(given, "execute"):
        check_agent(given)
    raise TypeError(
        f"{_name_of(given)} is no target: give a URL, host:port, a card, an interface or an Agent"
    )


def _name_of(given: Any) -> str:
    kind, name = type(given).__name__, getattr(given, "__name__", "")
    return f"{name} ({kind})" if callable(given) and name else f"a value of type {kind}"


def _remedy(given: Any) -> str:
    if inspect.isclass(given):
        return "decorate its method with @agent and give that of an object, or give Agent(executor)"
    if hasattr(given, "execute"):
        return "give Agent(executor)"
    if callable(given):
        return "decorate it with @agent"
    if isinstance(given, str):
        return "import it, and give the object; `run_gateway` serves the agent at a URL"
    return "decorate a function with @agent, and give that"
