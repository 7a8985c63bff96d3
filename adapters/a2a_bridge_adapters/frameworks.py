"""The adapters, as entry points name them. Importing it imports no framework."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from a2a_bridge import Agent
from a2a_bridge.core.extras import ADAPTERS, MissingExtraError
from a2a_bridge.hosting.adapters import comes_from


class FrameworkAdapter:
    """The adapter of one framework.

    package: the package of the agents alone, because a file with an agent has models and stores, too.
    module: of this distribution. It has `EXECUTOR`, a class that takes an agent and options, and
    `members_of`, which gives the members of the card that an agent has. extra: of this distribution.
    """

    def __init__(self, package: str, module: str, extra: str) -> None:
        self._package, self._module, self._extra = package, module, extra

    def recognises(self, thing: Any, /) -> bool:
        """True for an object of the framework."""
        return not inspect.isclass(thing) and comes_from(thing, self._package)

    def agent_of(self, thing: Any, /, **options: Any) -> Agent:
        """The agent. options: those of the executor; all others are the keyword arguments of `Agent`.

        Raises TypeError for an object of the framework that is no agent, and MissingExtraError if a package
        is missing beside the framework.
        """
        try:
            module = import_module(f"{__package__}.{self._module}")
        except ModuleNotFoundError as error:
            raise MissingExtraError(error.name or self._package, self._extra, ADAPTERS) from error
        own = inspect.signature(module.EXECUTOR).parameters.keys() & options.keys()
        executor = module.EXECUTOR(thing, **{name: options.pop(name) for name in own})
        return Agent(executor, **{**module.members_of(thing), **options})


LANGGRAPH = FrameworkAdapter("langgraph.pregel", "langgraph", "langgraph")
PYDANTIC_AI = FrameworkAdapter("pydantic_ai.agent", "pydantic_ai", "pydantic-ai")
