"""An agent: an executor and its card; and the decorator that makes one from a plain function.

A function that returns a value answers directly; one that yields, or is declared with `task=True`, works on a
task.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from types import UnionType
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin, overload

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.hosting.executor import AgentExecutor, Event
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.threads import Threads
from a2a_bridge.hosting.views import AT_REST
from a2a_bridge.pb import lf_a2a_v1 as hub

TEXT = ("text/plain",)

#: the texts of an annotation with notes, and of a union that is not written with `|`
_ANNOTATED = re.compile(r"[\w.]*\bAnnotated\[(?P<type>[^,]*),.*\]", re.DOTALL)
_UNION = re.compile(r"[\w.]*\b(?:Optional|Union)\[(?P<members>.*)\]", re.DOTALL)
_QUOTES = "'\" "

#: a card for authenticated callers, or a function of the call, async or not, that returns it
ExtendedCard = hub.AgentCard | Callable[[CallContext], hub.AgentCard | Awaitable[hub.AgentCard]]

_STATES = (hub.Task, hub.TaskStatusUpdateEvent)


class Agent:
    """An agent that can be served, mounted, or connected to.

    card: everything but the interfaces, which depend on where it is served. executor: the code.
    extended_card: the answer to GetExtendedAgentCard, if given (spec 3.1.11). If the agent was made by the
    decorator, calling it calls the function.
    """

    def __init__(
        self,
        executor: AgentExecutor,
        *,
        card: hub.AgentCard | None = None,
        name: str = "",
        description: str = "",
        version: str = "1.0.0",
        skills: Sequence[hub.AgentSkill] = (),
        streaming: bool = True,
        push_notifications: bool = False,
        extensions: Sequence[hub.AgentExtension] = (),
        provider: hub.AgentProvider | None = None,
        input_modes: Sequence[str] = TEXT,
        output_modes: Sequence[str] = TEXT,
        extended_card: ExtendedCard | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        """Takes a whole `card` (its interfaces are ignored), or the members of one.

        Raises TypeError for an executor without an `execute` of one argument, such as those of other SDKs.
        """
        _require_executor(executor)
        self.executor = executor
        self.extended_card = extended_card
        self._function = function
        if card is None:
            name = name or type(executor).__name__
            card = hub.AgentCard(
                name=name,
                description=description or name,
                version=version,
                provider=provider,
                default_input_modes=input_modes,
                default_output_modes=output_modes,
                skills=skills or [_skill(name, description or name)],
                capabilities=hub.AgentCapabilities(
                    streaming=streaming, push_notifications=push_notifications, extensions=extensions
                ),
            )
            if extended_card is not None:
                card.capabilities.extended_agent_card = True
        self.card = card

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the decorated function. Raises TypeError for an agent made from an executor."""
        if self._function is None:
            raise TypeError(f"{self!r} was not made of a function")
        return self._function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<Agent {self.card.name!r}>"


@overload
def agent(function: Callable[..., Any], /) -> Agent: ...


@overload
def agent(
    *,
    name: str = "",
    description: str = "",
    task: bool = False,
    version: str = "1.0.0",
    skills: Sequence[hub.AgentSkill] = (),
    streaming: bool = True,
    push_notifications: bool = False,
    extensions: Sequence[hub.AgentExtension] = (),
    provider: hub.AgentProvider | None = None,
    input_modes: Sequence[str] = TEXT,
    output_modes: Sequence[str] = TEXT,
    extended_card: ExtendedCard | None = None,
) -> Callable[[Callable[..., Any]], Agent]: ...


def agent(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    task: bool = False,
    **members: Any,
) -> Any:
    """Makes an agent from a function of the message's text, or of a `Run`.

    The name is the function's, description and skill come from its docstring. The returned value (text,
    bytes, JSON, a Part, a list of Parts, a Message) is the direct answer. If it yields, or with `task=True`,
    there is a task: the yielded values are the chunks of an artifact, a yielded Message becomes the status
    message, and events (`run.status`, `run.artifact`) pass unchanged.

    A synchronous function, or generator, runs in a thread (see `hosting.threads`).

    Raises TypeError for anything but a function of at most one argument.
    """

    def make(decorated: Callable[..., Any]) -> Agent:
        call = _caller(decorated) if callable(decorated) else decorated
        executor: AgentExecutor
        if inspect.isasyncgenfunction(decorated):
            executor = _Yielding(call)
        elif inspect.isgeneratorfunction(decorated):
            executor = _Yielding(Threads(call).values)
        elif not callable(decorated) or inspect.isclass(decorated):
            raise TypeError(f"{decorated!r} is no function")
        elif not inspect.iscoroutinefunction(decorated):
            call = Threads(call).result
            executor = _Working(call) if task else _Replying(call)
        elif task:
            executor = _Working(call)
        else:
            executor = _Replying(call)
        title = name or getattr(decorated, "__name__", "agent")
        text = description or inspect.getdoc(decorated) or title
        return Agent(executor, name=title, description=text, function=decorated, **members)

    return make if function is None else make(function)


def _require_executor(executor: Any) -> None:
    """Raises TypeError for invalid executors, with advice for those of the official SDK."""
    execute = getattr(executor, "execute", None)
    name = type(executor).__name__
    if not callable(execute):
        raise TypeError(f"{name} is no executor: it has no method `execute(self, run)`")
    try:
        inspect.signature(execute).bind(None)
    except TypeError:
        text = f"{name}.execute has to take one argument, the Run"
        if any(base.__module__.partition(".")[0] == "a2a" for base in type(executor).__mro__):
            text = (
                f"{name} is an executor of the a2a-sdk, which only that SDK can run: serve it with the SDK,"
                " and put"
                " `a2a-bridge gateway URL` before it"
            )
        raise TypeError(text) from None
    except ValueError:
        return  # a callable without a readable signature


def _skill(name: str, description: str) -> hub.AgentSkill:
    return hub.AgentSkill(
        id=name, name=name, description=description.partition("\n\n")[0], tags=[name.replace("_", "-")]
    )


def _caller(function: Callable[..., Any]) -> Callable[[Run], Any]:
    """Returns a call of `function` for a run: with the run, with its text, or without arguments."""
    positional = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    required = [one for one in positional if one.default is one.empty]
    if len(required) > 1:
        raise TypeError(f"{function!r} takes more than the message")
    if positional and _takes_run(positional[0]):
        return function
    if not required:
        return lambda _: function()
    return lambda run: function(run.text)


def _takes_run(parameter: inspect.Parameter) -> bool:
    if parameter.annotation is inspect.Parameter.empty:
        return parameter.name == "run"
    return _names_run(parameter.annotation)


def _names_run(annotation: Any) -> bool:
    """True for `Run`, for a union with it, for either in Annotated, and for the text of either."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):  # its names may not be known here, so it is not evaluated
        text = _ANNOTATED.sub(r"\g<type>", annotation.strip(_QUOTES))
        union = _UNION.fullmatch(text)
        members = re.split("[|,]", union["members"]) if union else text.split("|")
        return any(member.strip(_QUOTES).rpartition(".")[2] == "Run" for member in members)
    origin = get_origin(annotation)
    if origin is Annotated:
        return _names_run(annotation.__origin__)
    if origin in (Union, UnionType):
        return any(map(_names_run, get_args(annotation)))
    return getattr(annotation, "__name__", "") == "Run"


def _contents(value: Any) -> Iterable[Any]:
    """The result of a function, as the parts of one message or artifact."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, hub.Part) for one in value):
        return value
    if value is None:
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, "the agent ended without an answer", blame=Blame.SELF)
    return (value,)


class _Replying(AgentExecutor):
    """A function that returns its answer."""

    def __init__(self, call: Callable[[Run], Awaitable[Any]]) -> None:
        self._call = call

    async def reply(self, run: Run, /) -> hub.Message:
        value = await self._call(run)
        return run.reply(value) if type(value) is str else run.reply(*_contents(value))

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        yield await self.reply(run)


class _Working(AgentExecutor):
    """A function that returns the result of a task."""

    def __init__(self, call: Callable[[Run], Awaitable[Any]]) -> None:
        self._call = call

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        if run.task is None:
            yield run.start()
        yield run.status(hub.TASK_STATE_WORKING)
        result = await self._call(run)
        if isinstance(result, hub.Message):
            yield run.status(hub.TASK_STATE_COMPLETED, result)
            return
        yield run.artifact(*_contents(result))
        yield run.status(hub.TASK_STATE_COMPLETED)


class _Yielding(AgentExecutor):
    """A generator whose values are the chunks of one artifact.

    No chunk is marked as the last: that is known only when the generator ends, and holding a chunk back until
    then would delay the output. The status that follows shows that the artifact is complete.
    """

    def __init__(self, call: Callable[[Run], AsyncIterator[Any]]) -> None:
        self._call = call

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        if run.task is None:
            yield run.start()
        yield run.status(hub.TASK_STATE_WORKING)
        artifact_id = new_id()
        begun = at_rest = False
        values = self._call(run)
        try:
            async for value in values:
                if isinstance(value, hub.TaskArtifactUpdateEvent):
                    yield value
                elif isinstance(value, _STATES):
                    # The function's own event may leave the task waiting or ended.
                    at_rest = value.status.state in AT_REST
                    yield value
                elif isinstance(value, hub.Message):
                    yield run.status(hub.TASK_STATE_WORKING, value)
                else:
                    contents = (value,) if type(value) is str else _contents(value)
                    yield run.artifact(*contents, artifact_id=artifact_id, append=begun, last=False)
                    begun = True
        finally:
            close = getattr(values, "aclose", None)
            if close is not None:
                await close()
        if not at_rest:
            yield run.status(hub.TASK_STATE_COMPLETED)
