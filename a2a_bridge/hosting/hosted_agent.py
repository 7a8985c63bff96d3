"""An agent: an executor and its card; and what is taken as an agent (`TAKEN`)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from types import NoneType
from typing import Any, NamedTuple

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import AgentFactoryError
from a2a_bridge.core.kinds import Kinds, check_items, check_values
from a2a_bridge.hosting import adapters, factories, sdk
from a2a_bridge.hosting.executor import AgentExecutor
from a2a_bridge.pb import lf_a2a_v1 as hub

#: media types of a text, and of a data part
TEXT = ("text/plain",)
JSON = ("application/json",)

#: a card for authenticated callers, or a function of the call, async or not, that returns it
ExtendedCard = hub.AgentCard | Callable[[CallContext], hub.AgentCard | Awaitable[hub.AgentCard]]

_TEXT = ((str,), "text")
_MODES = ((str,), 'a tuple of media types such as ("text/plain",)')
#: the members of a card as arguments; below: the members that are sequences
_KINDS: Kinds = {
    "name": _TEXT,
    "description": _TEXT,
    "version": _TEXT,
    "icon_url": _TEXT,
    "documentation_url": _TEXT,
    "card": ((hub.AgentCard, NoneType), "an AgentCard, with `hub` of a2a_bridge.ext"),
    "resume": ((bool,), "True or False"),
    "mask_errors": ((bool,), "True or False"),
    "provider": ((hub.AgentProvider, NoneType), 'hub.AgentProvider(organization="…", url="…")'),
}
_EXTENDED: Kinds = {
    "extended_card": ((hub.AgentCard, NoneType), "an AgentCard, or a function that returns it")
}
_ITEMS: Kinds = {
    "skills": (
        (hub.AgentSkill,),
        'a list such as [hub.AgentSkill(id="…", name="…", description="…", tags=["…"])]',
    ),
    "extensions": ((hub.AgentExtension,), 'a list such as [hub.AgentExtension(uri="…")]'),
    "input_modes": _MODES,
    "output_modes": _MODES,
    "security": ((hub.SecurityScheme,), 'a dict such as {"key": hub.SecurityScheme(…)}'),
}


class Agent:
    """An agent that can be served, mounted, or connected to.

    card: everything but the interfaces, which depend on where it is served. executor: the code.
    extended_card: the response to GetExtendedAgentCard, if given (spec 3.1.11). If the agent was made by the
    decorator, calling it calls the function.
    """

    #: False for the agent of a factory, which has a card and an executor when it is open; see `open`
    is_open = True
    #: False for one of a framework without a name; a command names it after its file or its table
    is_named = True
    #: the name or the place of its factory, for errors
    origin = ""

    def __init__(
        self,
        executor: AgentExecutor | sdk.SdkAgentExecutor | Callable[[], sdk.SdkAgentExecutor],
        *,
        card: hub.AgentCard | Any = None,
        name: str = "",
        description: str = "",
        version: str = "1.0.0",
        skills: Sequence[hub.AgentSkill] = (),
        streaming: bool = True,
        push_notifications: bool = False,
        extensions: Sequence[hub.AgentExtension] = (),
        provider: hub.AgentProvider | None = None,
        input_modes: Sequence[str] = (),
        output_modes: Sequence[str] = TEXT,
        extended_card: ExtendedCard | None = None,
        icon_url: str = "",
        documentation_url: str = "",
        security: Mapping[str, hub.SecurityScheme] | None = None,
        function: Callable[..., Any] | None = None,
        resume: bool = False,
        mask_errors: bool = False,
    ) -> None:
        """Takes a whole `card` (its interfaces are ignored), or the members of one.

        executor: also one of the a2a-sdk 1.x or 0.3.x, a class of them, or a function without arguments that
        makes one (see `hosting.sdk`). Then cards may be of the SDK, too; resume: True for an executor that
        continues from `current_task` after a restart; mask_errors: True to replace the texts of failures.
        input_modes: the media types of parts that are accepted, beside a whole card too, whose modes alone
        reject nothing because every card has some. Without any, all are, and a card made here says
        text/plain. security: schemes by name, of which a caller needs one. The card only describes them.
        Raises TypeError for an executor without an `execute` of one argument.
        """
        card, extended_card = sdk.card_of(card), sdk.card_of(extended_card)
        given = {**locals(), "security": security or {}}
        check_values("Agent", given, _KINDS)
        check_items("Agent", given, _ITEMS)
        if not callable(extended_card):
            check_values("Agent", given, _EXTENDED)
        of_sdk = sdk.executor_in(executor)
        if of_sdk is not None:
            name = name or type(of_sdk).__name__
            executor = sdk.adopt(of_sdk, resume=resume, mask_errors=mask_errors)
        elif resume or mask_errors:
            raise TypeError("resume and mask_errors are for executors of the a2a-sdk")
        self.executor = _checked(executor)
        self.extended_card = extended_card
        self._function = function
        #: media types of parts; a part of another type is rejected. Empty: all are accepted
        self.input_modes = frozenset(input_modes)
        if card is None:
            name = name or type(executor).__name__
            card = hub.AgentCard(
                name=name,
                description=description or name,
                version=version,
                provider=provider,
                default_input_modes=input_modes or TEXT,
                default_output_modes=output_modes,
                skills=skills or [skill_of(name, description or name)],
                capabilities=hub.AgentCapabilities(
                    streaming=streaming, push_notifications=push_notifications, extensions=extensions
                ),
                icon_url=icon_url or None,
                documentation_url=documentation_url or None,
            )
            for scheme_name, scheme in (security or {}).items():
                card.security_schemes[scheme_name].CopyFrom(scheme)
                card.security_requirements.add().schemes[scheme_name].SetInParent()
            if extended_card is not None:
                card.capabilities.extended_agent_card = True
        self.card = card

    @classmethod
    def of(cls, thing: Any, /, *, name: str = "", **options: Any) -> Agent:
        """An agent of an object that an adapter recognises, such as a compiled graph of LangGraph, of an
        executor of the a2a-sdk (an object, a class, or a function that is annotated to return one), or of a
        factory: a function, `async` or not, or a context manager or generator, that gives one of these. See
        `open` for factories. The first row of `TAKEN` that fits decides. An Agent is returned as it is; with
        `name`, `description` or `version`, a copy with another card.

        name: of the card; the adapter chooses one without it. options: those of the adapter, and the keyword
        arguments of `Agent`. Raises NoAgentError, which is a TypeError, for an object that no adapter
        recognises; MissingAdapterError, which is an ImportError with the `pip install`, for one of a known
        framework; TypeError for other options of an Agent; and the errors of the adapter.
        """
        if name:
            options["name"] = name
        for one in TAKEN:
            if one.fits(thing):
                return one.make(thing, options)
        raise adapters.no_agent(thing)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Agent]:
        """The agent, while the context is open; servers and clients do this. Of a factory it is what the
        factory makes: called in the running event loop, and closed when the context is left. Raises
        AgentFactoryError, which names the factory.
        """
        yield self

    def named(self, *, name: str = "", description: str = "", version: str = "") -> Agent:
        """A copy of the agent whose card has another name, description or version; empty: as it is."""
        made = copy(self)
        made.card = hub.AgentCard()
        made.card.CopyFrom(self.card)
        if name and self.card.description == self.card.name:  # it has no description of its own
            description = description or name
            if [one.id for one in self.card.skills] == [self.card.name]:
                made.card.skills[0].CopyFrom(skill_of(name, description))
        for member, text in (("name", name), ("description", description), ("version", version)):
            if text:
                setattr(made.card, member, text)
        return made

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the decorated function. Raises TypeError for an agent made from an executor."""
        if self._function is None:
            raise TypeError(f"{self!r} was not made of a function")
        return self._function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<Agent {self.card.name!r}>"


class _Later(Agent):
    """The agent of a factory. It has a card and an executor when it is opened: see `Agent.open`."""

    is_open = False

    def __init__(self, factory: Any, options: Mapping[str, Any]) -> None:
        # Not the members of an agent: there is none yet.
        self._factory = factory
        self._options = options
        self.origin = factories.name_of(factory)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the agent of {self.origin} has no {name} before it is open: `async with agent.open() as opened`"
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Agent]:
        async with factories.opened(self._factory, self.origin, _is_agent) as made:
            try:
                agent = Agent.of(made, **self._options)
            except Exception as error:
                raise AgentFactoryError(
                    self.origin, f"made {adapters.kind_of(made)}, which cannot be served: {error}"
                ) from error
            async with agent.open() as opened:  # it may be that of another factory
                yield opened

    def named(self, *, name: str = "", description: str = "", version: str = "") -> Agent:
        given = {"name": name, "description": description, "version": version}
        made = _Later(self._factory, {**self._options, **{key: text for key, text in given.items() if text}})
        made.origin = self.origin
        return made

    def __call__(self, *_arguments: Any, **_named: Any) -> Any:
        raise TypeError(f"{self!r} is no function: call {self.origin} itself")

    def __repr__(self) -> str:
        return f"<Agent of {self.origin}>"


class Taken(NamedTuple):
    """A kind of object from which an agent is made. what: for readers of the documentation, in Markdown."""

    what: str
    then: str
    fits: Callable[[Any], bool]
    make: Callable[[Any, dict[str, Any]], Agent]


def _of_agent(thing: Agent, options: dict[str, Any]) -> Agent:
    if not options:
        return thing
    if unknown := sorted(options.keys() - {"name", "description", "version"}):
        raise TypeError(f"{thing!r} is an agent already, and takes no {', '.join(unknown)}")
    return thing.named(**options)


def _of_framework(thing: Any, options: dict[str, Any]) -> Agent:
    adapter = adapters.adapter_of(thing)
    assert adapter is not None  # noqa: S101  the row fits
    made = adapter.agent_of(thing, **options)
    if not isinstance(made, Agent):
        raise TypeError(f"the adapter for {adapters.describe(thing)} made {adapters.describe(made)}")
    return made


#: what is taken as an agent, in the order in which it is tried
TAKEN = (
    Taken(
        "an `Agent`, such as a function with `@agent`",
        "it is the agent",
        lambda thing: isinstance(thing, Agent),
        _of_agent,
    ),
    Taken(
        "an `AgentExecutor` of a2a-sdk: an object, a class, or a function that is annotated to return one",
        "[it runs on this engine](serve-sdk-executors.md)",
        sdk.is_executor,
        lambda thing, options: Agent(thing, **options),
    ),
    Taken(
        "an agent of LangGraph, Pydantic AI, Google ADK, OpenAI Agents, Strands, Claude, CrewAI,"
        " [your adapter](write-an-adapter.md)",
        "[the adapter makes the agent](serve-frameworks.md)",
        lambda thing: adapters.adapter_of(thing) is not None,
        _of_framework,
    ),
    Taken(
        "a function without arguments, or with `config`: plain, `async`, a generator, or with"
        " `@asynccontextmanager`; also a method, a `partial`, a function with `@cache`",
        "it is a factory: the server calls it, and what it gives is looked up in this table",
        factories.is_factory,
        _Later,
    ),
    Taken(
        "a coroutine, a generator, or a context manager of any other kind",
        "the server awaits or enters it, once, and what it gives is looked up in this table",
        factories.is_opened,
        _Later,
    ),
)
_AGENTS = TAKEN[:3]


def _is_agent(thing: Any) -> bool:
    """Whether it needs no further opening."""
    return any(one.fits(thing) for one in _AGENTS)


def _checked(executor: Any) -> AgentExecutor:
    """The executor. Raises TypeError for an invalid one, with advice for objects of the official SDK."""
    execute = getattr(executor, "execute", None)
    name = type(executor).__name__
    if not callable(execute) or inspect.isclass(executor):
        remedy = sdk.remedy(executor) or "it has no method `execute(self, run)`"
        raise TypeError(f"{adapters.describe(executor)} is no executor: {remedy}")
    try:
        inspect.signature(execute).bind(None)
    except TypeError:
        raise TypeError(f"{name}.execute has to take one argument, the Run") from None
    except ValueError:
        pass  # a callable without a readable signature
    checked: AgentExecutor = executor
    return checked


def skill_of(name: str, description: str) -> hub.AgentSkill:
    """A skill that a card is made with; its description is the first paragraph."""
    return hub.AgentSkill(
        id=name, name=name, description=description.partition("\n\n")[0], tags=[name.replace("_", "-")]
    )
