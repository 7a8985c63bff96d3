"""Factories: code that makes an agent when its server starts, and closes what it opened when that ends.

Rules:
1. A factory is a function, `async` or not, without arguments, or with the one argument that its framework
   gives (`_GIVEN`). What it returns may be awaited or entered: a context manager, or a generator that yields
   once. An object of these kinds is taken, too, and can be opened once.
2. It runs in the event loop of its server, in the task that leaves its contexts, too. Each server that is
   opened calls it once.
3. What it raises is an AgentFactoryError, which names it. What it has opened before is closed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from a2a_bridge.core.errors import AgentFactoryError
from a2a_bridge.hosting import adapters
from a2a_bridge.hosting.parameters import code_of

#: the arguments that frameworks give, by the name of the parameter or of its type
_GIVEN: Mapping[str, Callable[[], Any]] = dict.fromkeys(
    ("config", "RunnableConfig"),
    lambda: {"configurable": {}},  # of LangGraph
)


def is_factory(thing: Any) -> bool:
    """Whether it is a function that can be called without arguments, or with one that a framework gives."""
    return _is_function(thing) and _arguments(thing) is not None


def lacks(thing: Any) -> list[str]:
    """The parameters without a default of a function that is no factory."""
    if not _is_function(thing):
        return []
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if one.default is one.empty and one.kind not in _REST]


_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_function(thing: Any) -> bool:
    """True for a function, also one that is wrapped (`functools.cache`) or a partial; False for a class and
    for any other object that can be called.
    """
    if inspect.isclass(thing) or not callable(thing):
        return False
    return isinstance(thing, functools.partial) or inspect.isroutine(inspect.unwrap(thing))


def _arguments(function: Callable[..., Any]) -> tuple[Any, ...] | None:
    """The arguments to call a function with; None if it takes others."""
    try:
        signature = inspect.signature(function)
        signature.bind()
    except ValueError:
        return None
    except TypeError:
        needed = lacks(function)
        if len(needed) != 1 or signature.parameters[needed[0]].kind is inspect.Parameter.KEYWORD_ONLY:
            return None
        annotation = signature.parameters[needed[0]].annotation
        kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        given = _GIVEN.get(needed[0]) or _GIVEN.get(kind.rpartition(".")[2])
        return None if given is None else (given(),)
    return ()


def is_opened(thing: Any) -> bool:
    """Whether an object is awaited or entered to get an agent: a coroutine, a generator, or a context manager
    that is nothing else that is known.
    """
    if _is_generator(thing) or inspect.isawaitable(thing):
        return True
    if inspect.isclass(thing) or not (_is_entered(thing, "a") or _is_entered(thing, "")):
        return False
    return adapters.framework_of(thing) is None and not adapters.remedy_of_value(thing)


def _is_generator(thing: Any) -> bool:
    return inspect.isgenerator(thing) or inspect.isasyncgen(thing)


def _is_entered(thing: Any, prefix: str) -> bool:
    """Whether an object has the methods of a context manager. prefix: "a" for an asynchronous one."""
    return all(hasattr(type(thing), f"__{prefix}{name}__") for name in ("enter", "exit"))


def name_of(thing: Any) -> str:
    """The name of a factory in a text."""
    named = thing if isinstance(getattr(thing, "__name__", None), str) else None
    if named is None and callable(thing):
        named = code_of(thing)
    if named is not None:
        return f"{named.__name__}()"
    inner = getattr(thing, "__qualname__", "") or getattr(getattr(thing, "gen", None), "__qualname__", "")
    return f"{inner}()" if inner else adapters.describe(thing)


@asynccontextmanager
async def opened(thing: Any, name: str, is_agent: Callable[[Any], bool]) -> AsyncIterator[Any]:
    """What a factory makes, while the context is open. name: of the factory, for errors. is_agent: whether
    something needs no further opening. Raises AgentFactoryError.
    """
    stack = AsyncExitStack()
    try:
        try:
            made = await _made(thing, name, is_agent, stack)
        except BaseException as error:
            await _close(stack, name, raised=error)
            if isinstance(error, AgentFactoryError) or not _is_failure(error):
                raise
            raise AgentFactoryError(name, f"failed: {_shown(error)}") from error
        yield made
    except BaseException:
        await _close(stack, name, raised=True)
        raise
    await _close(stack, name)


def _is_failure(error: BaseException) -> bool:
    """False for what ends the server, and not only its start."""
    return isinstance(error, (Exception, SystemExit))


def _shown(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def _close(stack: AsyncExitStack, name: str, *, raised: object = None) -> None:
    """Closes in reverse order. raised: there is an error already, which outweighs one of closing."""
    try:
        await stack.aclose()
    except BaseException as error:
        if not _is_failure(error):
            raise
        if raised is None:
            if isinstance(error, AgentFactoryError):
                raise
            raise AgentFactoryError(name, f"failed when it was closed: {_shown(error)}") from error
        adapters.log.error("%s failed when it was closed", name, exc_info=error)


async def _made(thing: Any, name: str, is_agent: Callable[[Any], bool], stack: AsyncExitStack) -> Any:
    made, verb = thing, "gave"
    if is_factory(thing):
        made, verb = thing(*(_arguments(thing) or ())), "returned"
    seen: list[Any] = []
    while not is_agent(made):
        if any(made is one for one in seen) or not is_opened(made):
            raise AgentFactoryError(name, f"{verb} {_no_agent(made)}")
        seen.append(made)
        if inspect.isawaitable(made):
            made = await made
        elif _is_generator(made):
            made, verb = await stack.enter_async_context(_OneYield(made, name)), "yielded"
        elif _is_entered(made, "a"):
            made, verb = await stack.enter_async_context(made), "gave"
        else:
            made, verb = stack.enter_context(made), "gave"
    return made


def _no_agent(made: Any) -> str:
    """What a factory has made instead of an agent, and the remedy."""
    kind = adapters.kind_of(made)
    if made is None:
        return "None, and no agent: it may lack `return`"
    if isinstance(made, (tuple, list)):
        return f"{kind}, and no agent: give its agent alone; `yield` it inside `with` of what is to be closed"
    if _is_function(made):
        return f"the function {adapters.describe(made)}, and no agent: call it, or decorate it with @agent"
    if isinstance(made, (str, bytes, dict, int, float)):
        return f"{kind}, and no agent: give a function that answers messages to @agent"
    error = adapters.no_agent(made)
    return f"{kind}, and no agent: {str(error).removeprefix(f'{adapters.describe(made)} is no agent: ')}"


class _OneYield:
    """A generator as a context manager. The code after its `yield` always runs, without an error there."""

    def __init__(self, values: Any, name: str) -> None:
        self._values = values
        self._name = name
        self._is_async = inspect.isasyncgen(values)

    async def _next(self) -> Any:
        """The next value. Raises StopAsyncIteration."""
        if self._is_async:
            return await anext(self._values)
        end = object()
        value = next(self._values, end)
        if value is end:
            raise StopAsyncIteration
        return value

    async def __aenter__(self) -> Any:
        try:
            return await self._next()
        except StopAsyncIteration:
            raise AgentFactoryError(self._name, "yields nothing; it has to yield an agent once") from None

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._next()
        except StopAsyncIteration:
            return
        if self._is_async:
            await self._values.aclose()
        else:
            self._values.close()
        raise AgentFactoryError(
            self._name,
            "yields more than once; it has to yield an agent once (a function that answers needs @agent)",
        )
