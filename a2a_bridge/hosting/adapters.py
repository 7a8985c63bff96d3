"""Adapters: agents made of objects of other frameworks, by entry points of the group `a2a_bridge.adapters`.

Rules:
1. An object is recognised by the modules of its classes, which are loaded already. No framework is imported.
2. The first adapter that recognises an object makes the agent, in the order of their names.
3. An adapter that cannot be loaded is logged, and does not disturb the others.
4. An object of a known framework without an adapter gets an error that names its `pip install`.
"""

from __future__ import annotations

import inspect
import logging
import sys
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol, cast

from a2a_bridge.core.extras import ADAPTERS, MissingExtraError, OtherVersionError, check_version
from a2a_bridge.extensions import BrokenExtensionError, load
from a2a_bridge.hosting import sdk
from a2a_bridge.hosting.sdk.types import comes_from

#: the group of entry points
GROUP = "a2a_bridge.adapters"

log = logging.getLogger("a2a_bridge.hosting.adapters")


class Adapter(Protocol):
    """Makes agents of the objects of one framework. An entry point names such an object, or a module with
    these two functions. Its module imports the framework when `agent_of` is called, and not before.
    """

    def recognises(self, thing: Any, /) -> bool:
        """True if `agent_of` takes this object. It looks at the modules of the classes: see `comes_from`."""

    def agent_of(self, thing: Any, /, **options: Any) -> Any:
        """An `Agent` for the object. options: those of the adapter, and keyword arguments of `Agent`, such as
        `name` and `card`. Raises TypeError or ValueError for an object or options that cannot be served.
        """


class NoAgentError(TypeError):
    """An object from which no agent can be made. The text says what to give instead.

    known: True if the kind of the object is known, and the text is about that.
    """

    def __init__(self, text: str, *, known: bool = False) -> None:
        super().__init__(text)
        self.known = known


class MissingAdapterError(MissingExtraError):
    """The framework of an object is known, and the adapter of that framework is not installed."""

    def __init__(self, thing: Any, framework: Framework) -> None:
        super().__init__(ADAPTERS, framework.extra, ADAPTERS)
        self.text = (
            f"{describe(thing)} is an object of {framework.title}, and the adapter for it is not installed"
        )
        self.msg = f"{self.text}: {self.remedy}"


class Framework(NamedTuple):
    """A framework that is known. module: a package, or a module of one.

    extra: of the distribution of adapters, and name of the entry point; empty for a framework without an
    adapter there. instead: the remedy for an object that no installed adapter takes. shows: a name in the
    package, for a package whose name others have, too.
    """

    title: str
    module: str
    extra: str = ""
    instead: str = ""
    shows: str = ""


_FUNCTION = "call it in a function with @agent, and give that"

KNOWN = (
    Framework("LangGraph", "langgraph", "langgraph", "give the graph that its `compile()` returns"),
    Framework("Pydantic AI", "pydantic_ai", "pydantic-ai", "give an Agent"),
    Framework("Google ADK", "google.adk", "google-adk", "give an agent, a Workflow, an App or a Runner"),
    Framework("the OpenAI Agents SDK", "agents", "openai-agents", "give an Agent", shows="Runner"),
    Framework("Strands Agents", "strands", "strands", "give an Agent"),
    Framework("the Claude Agent SDK", "claude_agent_sdk", "claude-agent", "give ClaudeAgentOptions"),
    Framework(
        "Microsoft Agent Framework",
        "agent_framework",
        instead="give its executor of a2a-sdk, agent_framework_a2a.A2AExecutor(agent, stream=True)",
    ),
    Framework("CrewAI", "crewai", "crewai", "give a Crew, or a Flow"),
)


def adapter_of(thing: Any) -> Adapter | None:
    """The adapter that recognises an object, or None. An adapter whose `recognises` raises is passed over."""
    for name, adapter in _adapters().items():
        try:
            if adapter.recognises(thing):
                return adapter
        except Exception as error:  # noqa: BLE001  code of others, which must not disturb the other adapters
            log.warning("the adapter %s failed to look at a %s: %r", name, type(thing).__name__, error)
    return None


@cache
def _adapters() -> dict[str, Adapter]:
    """The adapters by name."""
    found: dict[str, Adapter] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            check_version(point.dist)
            loaded = load(point, f"the adapter {point.name}")
        except (OtherVersionError, BrokenExtensionError) as error:
            log.error("%s", error, exc_info=error.__cause__)  # noqa: TRY400  the error is ours, its cause is not
            continue
        if callable(getattr(loaded, "recognises", None)) and callable(getattr(loaded, "agent_of", None)):
            found[point.name] = cast("Adapter", loaded)
        else:
            log.error("the adapter %s has no recognises and agent_of: %s", point.name, point.value)
    return found


def framework_of(thing: Any) -> Framework | None:
    """The known framework of an object."""
    for one in KNOWN:
        if comes_from(thing, one.module) and (
            not one.shows or hasattr(sys.modules.get(one.module), one.shows)
        ):
            return one
    return None


def absent_framework(module: str) -> Framework | None:
    """The known framework with an adapter whose module an import has not found; None for any other module,
    and for a framework that shares its name with other packages.
    """
    known = (one for one in KNOWN if one.extra and not one.shows)
    return next((one for one in known if f"{one.module}.".startswith(f"{module}.")), None)


def install(framework: Framework) -> str:
    """The command that installs a framework with its adapter."""
    return MissingExtraError(ADAPTERS, framework.extra, ADAPTERS).remedy


#: packages whose objects call a model
_MODELS = (
    *(
        "anthropic",
        "cohere",
        "google.genai",
        "groq",
        "langchain_core.language_models",
        "litellm",
        "mistralai",
    ),
    *("ollama", "openai", "pydantic_ai.models"),
)


def remedy_of_value(thing: Any) -> str:
    """What to give instead of a value that is often taken for an agent; empty for any other."""
    if isinstance(thing, list | tuple | set | frozenset | dict):
        return (
            "give one of its items a name; a table [agents.NAME] for each of them in --config serves several"
        )
    if any(comes_from(thing, package) for package in _MODELS):
        return f"it calls a model: {_FUNCTION}"
    return ""


def no_agent(thing: Any) -> NoAgentError | MissingAdapterError:
    """The error for an object that no adapter recognises."""
    framework = framework_of(thing)
    if framework is not None and (not framework.extra or framework.extra in _adapters()):
        lack = "is no agent" if framework.extra else "has no adapter here"
        text = f"{describe(thing)} is an object of {framework.title}, which {lack}"
        return NoAgentError(f"{text}: {framework.instead}", known=True)
    if framework is not None:
        return MissingAdapterError(thing, framework)
    advice = sdk.remedy(thing)
    remedy = advice or remedy_of_value(thing) or _remedy(thing)
    return NoAgentError(f"{describe(thing)} is no agent: {remedy}", known=bool(advice))


def describe(thing: Any) -> str:
    """An object in the text of an error: its name if it has one, and its type, but never its value."""
    kind, name = type(thing).__name__, getattr(thing, "__name__", "")
    return f"{name} ({kind})" if callable(thing) and name else f"a value of type {kind}"


def kind_of(thing: Any) -> str:
    """The type of an object with its article: `an int`."""
    kind = type(thing).__name__
    return "None" if thing is None else f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def _remedy(thing: Any) -> str:
    if inspect.isclass(thing):
        return "decorate its method with @agent and give that of an object, or give Agent(executor)"
    if hasattr(thing, "execute"):
        return "give Agent(executor)"
    if callable(thing):
        return "decorate it with @agent"
    if isinstance(thing, str):
        return "import it, and give the object; `run_gateway` serves the agent at a URL"
    return "decorate a function with @agent, and give that"
