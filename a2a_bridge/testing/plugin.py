"""A pytest plugin for tests of agents: the agent on all bindings, and a client for each binding.

Rules:
1. pytest loads this module in every environment with this distribution. So the library is imported when a
   fixture is used, and not before.
2. The agent and the clients run in a thread with an event loop of its own. So tests are plain functions, or
   coroutines of any plugin for asynchronous tests.
3. A test that defines `a2a_target` has a new server, with ports of its own.
4. A test that fails shows the frames of its clients.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from a2a_bridge.app.peer import Peer, Reply
    from a2a_bridge.bindings.frames import Frame
    from a2a_bridge.pb import lf_a2a_v1 as hub

__all__ = ["AgentClient", "AgentUnderTest", "a2a_agent", "a2a_peer", "a2a_record", "a2a_target"]

T = TypeVar("T")

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: seconds for a call of a test, and for the start and the end of a server
LIMIT = 60.0
#: frames of a failed test that are shown, from its end
_SHOWN = 100

_NO_TARGET = """a2a_target is not defined. Define it in the test file or in conftest.py:

@pytest.fixture
def a2a_target():
    return agent  # an Agent, an object that Agent.of takes, or the URL or the card of a running agent
"""


class _Background:
    """A thread with an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="a2a test", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Raises its errors, and TimeoutError after LIMIT seconds."""
        return asyncio.run_coroutine_threadsafe(_limited(work), self._loop).result()

    @contextmanager
    def opened(self, opens: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
        """Keeps an asynchronous context open, which one task enters and leaves."""
        ready: Future[T] = Future()
        end = asyncio.Event()

        async def keep() -> None:
            async with opens() as value:
                ready.set_result(value)
                await end.wait()

        def ended(task: Future[None]) -> None:
            if not ready.done():
                ready.set_exception(task.exception() or asyncio.CancelledError())

        task = asyncio.run_coroutine_threadsafe(keep(), self._loop)
        task.add_done_callback(ended)
        try:
            yield ready.result(LIMIT)
        finally:
            if not task.done():
                self._loop.call_soon_threadsafe(end.set)
                task.result(LIMIT)

    def close(self) -> None:
        """Ends the thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()


async def _limited(work: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(LIMIT):
        return await work


@dataclass(frozen=True)
class AgentUnderTest:
    """A running agent. card: with the addresses of all its interfaces, for clients of any kind."""

    card: hub.AgentCard

    def url(self, binding: str) -> str:
        """The address of its first interface of a binding. Raises LookupError without any."""
        for one in self.card.supported_interfaces:
            if one.protocol_binding == binding:
                return str(one.url)
        raise LookupError(f"the agent has no interface of {binding}")


class AgentClient:
    """A client of the agent over one binding. Its methods block, and have a limit of 60 s."""

    def __init__(self, binding: str, peer: Peer, background: _Background) -> None:
        self.binding = binding
        #: the client itself, whose methods are coroutines of the thread behind it: see `run`
        self.peer = peer
        self._background = background

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a call of `peer`, such as `run(peer.get_task(…))`. Raises A2AError."""
        return self._background.run(work)

    def send(self, *content: Any, **options: Any) -> Reply:
        """Sends a message and waits for the response: see `Peer.send`. Raises A2AError."""
        return self.run(self.peer.send(*content, **options))

    def stream(self, *content: Any, **options: Any) -> list[hub.StreamResponse]:
        """Sends a message, and returns all events of the stream: see `Peer.stream`. Raises A2AError."""

        async def read() -> list[hub.StreamResponse]:
            return [event async for event in self.peer.stream(*content, **options)]

        return self.run(read())


@pytest.fixture
def a2a_target() -> Any:
    """The agent under test: define this fixture. It returns an Agent, an object that Agent.of takes, or the
    URL or the card of a running agent.
    """
    raise pytest.UsageError(_NO_TARGET)


@pytest.fixture
def a2a_record() -> list[Frame]:
    """The frames that the clients of the test have sent and received, in their order."""
    return []


@pytest.fixture
def _a2a_background() -> Iterator[_Background]:
    background = _Background()
    try:
        yield background
    finally:
        background.close()


@pytest.fixture
def a2a_agent(a2a_target: Any, _a2a_background: _Background) -> Iterator[AgentUnderTest]:
    """The agent of `a2a_target` on all bindings, at ports of this machine; or the running agent."""
    from a2a_bridge import connect, serve
    from a2a_bridge.pb import lf_a2a_v1 as hub

    if isinstance(a2a_target, str | hub.AgentCard):
        with _a2a_background.opened(lambda: connect(a2a_target)) as peer:
            yield AgentUnderTest(peer.card)
        return
    with _a2a_background.opened(lambda: serve(a2a_target)) as server:
        yield AgentUnderTest(server.card)


@pytest.fixture(params=BINDINGS)
def a2a_peer(
    request: pytest.FixtureRequest,
    a2a_agent: AgentUnderTest,
    a2a_record: list[Frame],
    _a2a_background: _Background,
) -> Iterator[AgentClient]:
    """A client of the agent. A test with it runs once for each binding; those that a running agent lacks are
    skipped.
    """
    from a2a_bridge import connect
    from a2a_bridge.bindings.binding import DialOptions

    binding: str = request.param
    if all(one.protocol_binding != binding for one in a2a_agent.card.supported_interfaces):
        pytest.skip(f"the agent has no interface of {binding}")
    options = DialOptions(frame_observer=a2a_record.append)
    with _a2a_background.opened(lambda: connect(a2a_agent.card, binding=binding, options=options)) as peer:
        yield AgentClient(binding, peer, _a2a_background)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the frames of a failed test to its report."""
    report = yield
    record = getattr(item, "funcargs", {}).get("a2a_record")
    if call.when == "call" and report.failed and record:
        from a2a_bridge.bindings.frames import shown_lines

        lines = [
            f"{'>' if frame.sent else '<'} {line}".rstrip()
            for frame in record[-_SHOWN:]
            for line in shown_lines(frame)
        ]
        report.sections.append(("A2A frames", "\n".join(lines)))
    return report
