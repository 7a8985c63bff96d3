"""An agent whose tasks last as long as a test needs, and the same call over every binding."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from a2a_bridge import Agent, Run, connect, interface, serve
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.runtime import ServeOptions, Server
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.call import Call, Principal
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service
from tests.patience import PATIENCE

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


class Waiting:
    """wait: a task that works until it is let go; ask: one that asks back; anything else is repeated."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        match run.text:
            case "wait":
                yield run.status("working")
                await self.go.wait()
                yield run.status("completed")
            case "ask":
                yield run.status("input-required", "more?")
            case text:
                yield run.reply(text)


def agent(executor: Any, **members: Any) -> Agent:
    return Agent(executor, name="Waiting", **members)


def named(service: Service) -> Service:
    """Middleware that takes callers at their word: `x-name` is the principal."""
    return _Named(service)


class _Named:
    def __init__(self, service: Service) -> None:
        self._service = service

    @staticmethod
    def _of(call: Call[Any, Any]) -> Call[Any, Any]:
        name = call.context.parameters.get("x-name", "")
        principal = Principal(name) if name else None
        return Call(call.operation, call.request, call.context.replace(principal=principal))

    async def unary(self, call: Call[Req, Res], /) -> Res:
        return await self._service.unary(self._of(call))

    def stream(self, call: Call[Req, Res], /) -> Events:
        return self._service.stream(self._of(call))


@asynccontextmanager
async def served(one: Agent, options: ServeOptions, *, version: str = "1.0") -> AsyncIterator[Server]:
    async with serve(one, [interface(kind, version=version) for kind in BINDINGS], options) as server:
        yield server


@asynccontextmanager
async def peers(
    server: Server, *, version: str = "1.0", name: str = "", parameters: Mapping[str, str] | None = None
) -> AsyncIterator[dict[str, Peer]]:
    """A client for each binding. parameters: of every call."""
    options = DialOptions(parameters={**(parameters or {}), **({"x-name": name} if name else {})})
    async with AsyncExitStack() as stack:
        yield {
            kind: await stack.enter_async_context(
                connect(f"http://{server.http}", binding=kind, version=version, options=options)
            )
            for kind in BINDINGS
        }


def told(error: A2AError) -> tuple[Any, ...]:
    """What a caller learns of an error."""
    fields = tuple((one.field, one.description) for one in error.violations)
    return error.reason, error.message, fields, tuple(sorted(error.metadata.items())), error.retry_after


async def rejected(callers: dict[str, Peer], what: Callable[[Peer], Awaitable[Any]]) -> A2AError:
    """The error that something ends with over every binding, the same over each."""
    errors = {}
    for kind, peer in callers.items():
        try:
            async with asyncio.timeout(PATIENCE):
                await what(peer)
        except A2AError as error:
            errors[kind] = error
        else:
            raise AssertionError(f"{kind}: was not rejected")
    first = errors[BINDINGS[0]]
    assert {kind: told(error) for kind, error in errors.items()} == dict.fromkeys(errors, told(first))
    return first


async def first_event(events: AsyncGenerator[Any, None]) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await anext(events)
