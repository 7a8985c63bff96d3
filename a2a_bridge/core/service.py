"""The central interface (`Service`): servers accept it, clients implement it, middleware
wraps it.

Rules:
1. Two methods, permanently. Anything that cannot be expressed as one of them is not a service.
2. `stream` returns an async generator; its consumer closes it (`contextlib.aclosing`), and closing releases
   everything below it. It is a generator and not any iterator so that closing is always possible.
3. Both raise A2AError for errors that the caller should see. Any other exception is a defect and becomes
   INTERNAL where the call entered.
4. Nobody changes a response that was given: a large one is encoded in another thread, and others may have the
   same one. A middleware that changes it copies it first.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.event import Events
from a2a_bridge.core.operations import Req, Res


class Service(Protocol):
    """Answers calls: a hosted agent, a dialled client, a gateway, a middleware around one of them."""

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        """Answers a unary operation. Raises A2AError when awaited.

        Usually an `async def`. A middleware that only looks at the request returns the coroutine of the
        service inside, so that no frame of its own stays in the way of the response.
        """
        ...

    def stream(self, call: Call[Any, Any], /) -> Events:
        """Answers a streaming operation. The generator raises A2AError when iterated."""
        ...


Middleware = Callable[[Service], Service]


def compose(service: Service, *middleware: Middleware) -> Service:
    """Wraps `service`; the first middleware in the list is the outermost."""
    for wrap in reversed(middleware):
        service = _check(wrap(service), wrap)
    return service


def _check(wrapped: Any, wrap: Middleware) -> Service:
    """What a middleware has returned. Raises TypeError for anything but a service."""
    if callable(getattr(wrapped, "unary", None)) and callable(getattr(wrapped, "stream", None)):
        service: Service = wrapped
        return service
    name = getattr(wrap, "__qualname__", type(wrap).__name__)
    if isinstance(wrapped, Coroutine):
        wrapped.close()
        raise TypeError(f"the middleware {name} is async: write a plain function, service -> service")
    raise TypeError(
        f"the middleware {name} returned {type(wrapped).__name__}: let it return a service, with `unary` and"
        " `stream`, such as the one that it was given"
    )


async def reject(error: A2AError) -> Any:
    """The response to a rejected call: a coroutine that raises `error`."""
    raise error


async def reject_stream(error: A2AError) -> Events:
    """The stream of a rejected call: a generator that raises `error` when iterated."""
    raise error
    yield  # type: ignore[unreachable]  # makes this a generator


def reject_if(problem: Callable[[Call[Any, Any]], A2AError | None]) -> Middleware:
    """Middleware that rejects the calls for which `problem` returns an error."""
    return lambda service: _Rejecting(service, problem)


class _Rejecting:
    def __init__(self, service: Service, problem: Callable[[Call[Any, Any]], A2AError | None]) -> None:
        self._service = service
        self._problem = problem

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        error = self._problem(call)
        return self._service.unary(call) if error is None else reject(error)

    def stream(self, call: Call[Any, Any], /) -> Events:
        error = self._problem(call)
        return self._service.stream(call) if error is None else reject_stream(error)
