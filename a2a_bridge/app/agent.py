"""A hosted agent with its store, its engine and the delivery of its notifications. No sockets.

Rules:
1. Resources opened here are closed here, after the last call: the engine, then the notifications, then the
   store. A store that the application opened is closed by the application.
2. Agents, targets and interfaces that an application gives are checked before anything is opened.
3. Worker processes of one ASGI server, such as those of `uvicorn --workers`, must not keep tasks apart
   without a warning. They have one parent, and listen on sockets that it has bound: each process locks a file
   for each of these addresses, and the second finds it locked. A server in one process has bound nothing when
   it starts, or an address of its own. Nothing is rejected: a SQLite file has a lock of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import inspect
import logging
import os
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from filelock import FileLock, Timeout

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.binding import Document
from a2a_bridge.core.call import Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.resume import offer_resume
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.hosting.adapters import NoAgentError, describe
from a2a_bridge.middleware.tracing import delivery_spans
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import JWKS_PATH, PushService, WebhookResolver, push_service
from a2a_bridge.push.notification import Names
from a2a_bridge.stores import MemoryStore, open_store
from a2a_bridge.stores.ports import Store


@dataclass(frozen=True, slots=True)
class AgentApp:
    """A hosted agent, ready to be served."""

    engine: Engine
    store: Store
    #: the engine as a service
    service: Service
    #: the agent's card, with the extensions that the engine adds
    card: hub.AgentCard
    #: the given options, with the opened store
    options: ServeOptions
    #: which addresses notifications may go to; None for an agent that sends none
    resolver: WebhookResolver | None
    #: ends the agent within a grace in seconds; may be called twice
    close: Callable[[float], Awaitable[None]]
    #: documents to publish, by path
    documents: Mapping[str, Document] = field(default_factory=dict)


def build_agent_app(agent: Agent, options: ServeOptions, *, sends: bool = False) -> AgentApp:
    """An agent over an open store or over memory; `StartsLazily` starts its engine. sends: whether the agent
    sends notifications. Raises TypeError for the URL of a store, ValueError for contradictory options.
    """
    if isinstance(options.store, str):
        raise TypeError("open the store of a URL first: see a2a_bridge.stores.open_store")
    store = options.store
    if store is None:
        store = MemoryStore(max_memory=options.store_options.max_memory)
    sends = sends and agent.card.capabilities.push_notifications
    resolver = WebhookResolver(options.push_options.policy()) if sends else None
    engine = Engine(agent, store=store, options=options.engine, push_sender=resolver)
    host = options.host
    if host.rejection is None:
        host = replace(host, rejection=store.rejection)
    if host.status is None:
        host = replace(host, status=lambda: {"tasks to take over": engine.left})
    return AgentApp(
        engine,
        store,
        engine.service,
        offer_resume(agent.card),
        replace(options, store=store, host=host),
        resolver,
        engine.close,
    )


class StartsLazily:
    """The agent's service; the first call starts the engine. For servers of the application."""

    def __init__(self, one: AgentApp) -> None:
        self._one = one
        self._lock = asyncio.Lock()
        self._done = False

    async def _start(self) -> None:
        async with self._lock:
            if not self._done:
                await self._one.engine.start()
                self._done = True

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if not self._done:
            await self._start()
        return await self._one.service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        return self._one.service.stream(call) if self._done else HandedOver(partial(self._late, call))

    async def _late(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        await self._start()
        return await open_stream(self._one.service.stream(call))


def open_store_of(options: ServeOptions) -> AbstractAsyncContextManager[Store | None]:
    """The store of the options while the context is open. Raises StoreOpenError."""
    if isinstance(options.store, str):
        return open_store(options.store, options.store_options)
    return nullcontext(options.store)


@asynccontextmanager
async def agent_app(
    agent: Agent, options: ServeOptions, names: Names | None = None, *, sends: bool = True
) -> AsyncIterator[AgentApp]:
    """A running agent while the context is open. names: of tasks, where callers name them. sends: whether the
    agent sends notifications, if the options allow it. Raises StoreOpenError, ValueError for contradictory
    options.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store_of(options))
        one = build_agent_app(agent, replace(options, store=store), sends=sends and options.push)
        worker: PushService | None = None
        if one.resolver is not None:
            worker = await stack.enter_async_context(
                push_service(
                    one.store.outbox,
                    one.store.task_at,
                    options.push_options,
                    names=names,
                    sender=one.resolver,
                    issuer=options.public_url or agent.card.name,
                    traced=delivery_spans(options.tracing),
                )
            )

        async def close(grace: float) -> None:
            end = monotonic() + grace
            await one.engine.close(grace)
            if worker is not None:
                await worker.close(max(0.0, end - monotonic()))

        stack.push_async_callback(close, 0.0)
        await one.engine.start()
        keys = worker.jwks if worker is not None else None
        yield replace(one, close=close, documents={} if keys is None else {JWKS_PATH: keys})


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
    example: str, take: Callable[[Any], Any] | None = None
) -> Callable[[Callable[_P, AsyncIterator[_T]]], Callable[_P, AbstractAsyncContextManager[_T]]]:
    """Like `asynccontextmanager`, for contexts that applications open. example: the statement that opens one.
    take: converts the first argument, or raises, at the call.
    """

    def decorate(
        function: Callable[_P, AsyncIterator[_T]],
    ) -> Callable[_P, AbstractAsyncContextManager[_T]]:
        make = asynccontextmanager(function)
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> AbstractAsyncContextManager[_T]:
            bound = signature.bind(*args, **kwargs)
            if take is not None:
                name, given = next(iter(bound.arguments.items()))
                bound.arguments[name] = take(given)
            return _Unopened(make(*bound.args, **bound.kwargs), example)

        return call

    return decorate


def check_interfaces(given: Any) -> None:
    """Raises TypeError for anything but a list of interfaces."""
    example = 'write [interface("JSONRPC")], with `interface` of a2a_bridge'
    if isinstance(given, (str, hub.AgentInterface)) or not isinstance(given, Sequence):
        raise TypeError(f"interfaces is a list, not {describe(given)}: {example}")
    for one in given:
        if not isinstance(one, hub.AgentInterface):
            raise TypeError(f"interfaces has {describe(one)}, which is no interface: {example}")


def take_target(given: Any) -> Agent | hub.AgentCard | hub.AgentInterface | str:
    """A target for `connect`: an address, a card, or an agent as for `Agent.of`. Raises TypeError."""
    if isinstance(given, (Agent, hub.AgentCard, hub.AgentInterface, str)):
        return given
    try:
        return Agent.of(given)
    except NoAgentError as error:
        if error.known or callable(given) or hasattr(given, "execute"):
            raise
    text = f"{describe(given)} is no target: give a URL, host:port, a card, an interface or an Agent"
    raise TypeError(text)


_log = logging.getLogger("a2a_bridge.shared_listener")

#: the locks of this process by file; they end with it
_held: dict[Path, FileLock] = {}


def note_other_workers(name: str) -> None:
    """Warns if another worker of this server serves the agent, which keeps its tasks in this process."""
    if not all(map(_alone, list(_bound()) or _parents())):
        _log.warning(
            "several worker processes of this server serve the agent %r, and each keeps its own tasks:"
            " a task is often not found again. Start one worker, or use"
            " ServeOptions(store='postgresql://…'). This is for agents that answer with messages only",
            name,
        )


def _parents() -> Iterator[str]:
    """The name of the server whose workers bind after the application has started: Granian, where workers are
    spawned and not forked, as from Python 3.14 on. It has one server in a process.
    """
    if "granian" in sys.modules:
        from multiprocessing import parent_process

        if parent_process() is not None:
            yield "granian"


def _alone(address: str) -> bool:
    """Whether no other process of the same parent has called this for an address, or for `_parents`."""
    key = hashlib.sha256(f"{os.getuid()} {os.getppid()} {address}".encode()).hexdigest()[:32]
    path = Path(tempfile.gettempdir()) / f"a2a-bridge-{key}.lock"
    if path in _held:
        return True
    lock = FileLock(path, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        return False
    except OSError:  # no such folder, or a file of another user: unknown
        return True
    _held[path] = lock
    atexit.register(path.unlink, missing_ok=True)
    return True


def _bound() -> Iterator[str]:
    """The addresses that sockets of this process accept connections at, or will."""
    with suppress(OSError):  # systems without it
        for path in list(Path("/dev/fd").iterdir()):
            with suppress(OSError):  # closed meanwhile
                if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                    yield from _address(int(path.name))


def _address(descriptor: int) -> Iterator[str]:
    found = socket.socket(fileno=descriptor)
    try:
        address = found.getsockname()
        with suppress(OSError):
            found.getpeername()
            return
        unbound = not address or (isinstance(address, tuple) and address[1] == 0)
        if found.type == socket.SOCK_STREAM and not unbound:
            yield repr(address)
    finally:
        found.detach()
