"""The adapters, as entry points name them. Importing it imports no framework."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from a2a_bridge import Agent
from a2a_bridge.core.extras import ADAPTERS, MissingExtraError, check_served, least_of
from a2a_bridge.hosting.adapters import framework_of
from a2a_bridge.hosting.sdk.types import comes_from

#: the name of an agent that has none
_UNNAMED = "agent"


class FrameworkAdapter:
    """The adapter of one framework.

    packages: those of the agents alone, because a file with an agent has models and stores, too. module: of
    this distribution. It has `EXECUTOR`, a class that takes an agent and options, and `members_of`, which
    gives the members of the card that an agent has. extra: of this distribution, and of the framework in
    `a2a_bridge.hosting.adapters.KNOWN`.
    """

    def __init__(self, *packages: str, module: str, extra: str) -> None:
        self._packages, self._module, self._extra = packages, module, extra

    def recognises(self, thing: Any, /) -> bool:
        """True for an object of the framework."""
        if inspect.isclass(thing) or not any(comes_from(thing, package) for package in self._packages):
            return False
        framework = framework_of(thing)
        return framework is not None and framework.extra == self._extra

    def agent_of(self, thing: Any, /, **options: Any) -> Agent:
        """The agent. options: those of the executor; all others are the keyword arguments of `Agent`.

        Raises TypeError for an object of the framework that is no agent, UnservedVersionError for a framework
        that is too old, and MissingExtraError if a package is missing beside the framework.
        """
        for package, least in least_of(self._extra):
            check_served(package, least)
        try:
            module = import_module(f"{__package__}.{self._module}")
        except ModuleNotFoundError as error:
            raise MissingExtraError(error.name or self._extra, self._extra, ADAPTERS) from error
        own = inspect.signature(module.EXECUTOR).parameters.keys() & options.keys()
        executor = module.EXECUTOR(thing, **{name: options.pop(name) for name in own})
        members = {**module.members_of(thing), **options}
        made = Agent(executor, **{"name": _UNNAMED, **members})
        made.is_named = not members.keys().isdisjoint(("name", "card"))
        return made


LANGGRAPH = FrameworkAdapter("langgraph.pregel", module="langgraph", extra="langgraph")
PYDANTIC_AI = FrameworkAdapter("pydantic_ai.agent", module="pydantic_ai", extra="pydantic-ai")
CREWAI = FrameworkAdapter("crewai.crew", "crewai.flow.runtime", module="crewai", extra="crewai")
GOOGLE_ADK = FrameworkAdapter(
    "google.adk.agents.base_agent",
    "google.adk.apps.app",
    "google.adk.runners",
    "google.adk.workflow._workflow",
    module="google_adk",
    extra="google-adk",
)
OPENAI_AGENTS = FrameworkAdapter("agents.agent", module="openai_agents", extra="openai-agents")
CLAUDE_AGENT = FrameworkAdapter(
    "claude_agent_sdk.types", "claude_agent_sdk.client", module="claude_agent", extra="claude-agent"
)
STRANDS = FrameworkAdapter("strands.agent.agent", module="strands", extra="strands")
