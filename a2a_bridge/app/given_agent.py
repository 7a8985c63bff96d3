"""Whether what an application gives as an agent, and as its interfaces, can be served; and the contexts that
it gets for that, which have to be opened.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Unopened(Generic[_T]):
    """An asynchronous context. Each other use of it raises a TypeError that says how it is opened."""

    def __init__(self, context: AbstractAsyncContextManager[_T], example: str) -> None:
        self._context = context
        self._example = example
        self._entered = False

    async def __aenter__(self) -> _T:
        if self._entered:
            raise RuntimeError(f"this context opens once, and it was opened: write `{self._example}` again")
        self._entered = True
        return await self._context.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._context.__aexit__(kind, raised, trace)

    def __await__(self) -> NoReturn:
        self._reject()

    def __enter__(self) -> NoReturn:
        self._reject()

    def __exit__(self, *raised: object) -> None:
        """`with` looks for it before it calls `__enter__`."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        self._reject()

    def _reject(self) -> NoReturn:
        raise TypeError(f"this context is not open: write `{self._example}`")


def opened_as(
    example: str, check: Callable[[Any], None] | None = None
) -> Callable[[Callable[_P, AsyncIterator[_T]]], Callable[_P, AbstractAsyncContextManager[_T]]]:
    """Like `asynccontextmanager`, for contexts that applications open.

    example: the statement that opens one. check: raises for an unusable first argument, at the call.
    """

    def decorate(
        function: Callable[_P, AsyncIterator[_T]],
    ) -> Callable[_P, AbstractAsyncContextManager[_T]]:
        make = asynccontextmanager(function)
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> AbstractAsyncContextManager[_T]:
            bound = signature.bind(*args, **kwargs)
            if check is not None:
                check(next(iter(bound.arguments.values())))
            return _Unopened(make(*args, **kwargs), example)

        return call

    return decorate


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
