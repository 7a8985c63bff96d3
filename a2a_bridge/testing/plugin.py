"""A pytest plugin for tests of agents: the agent on all bindings, and a client for each binding.

Rules:
1. pytest loads this module in every environment with this distribution. So the library, and asyncio, are
   imported when a fixture is used, and not before.
2. The agent and the clients run in a thread with an event loop of its own. So tests are plain functions, or
   coroutines of any plugin for asynchronous tests.
3. A test that defines `a2a_target` has a new server, with ports of its own.
4. A test that fails shows the frames of its clients.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from a2a_bridge.bindings.frames import Frame
    from a2a_bridge.testing.agent_client import AgentClient, AgentUnderTest, Background

__all__ = ["a2a_agent", "a2a_peer", "a2a_record", "a2a_target"]

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: frames of a failed test that are shown, from its end
_SHOWN = 100

_NO_TARGET = """a2a_target is not defined. Define it in the test file or in conftest.py:

@pytest.fixture
def a2a_target():
    return agent  # what Agent.of takes: an Agent, a factory …; or the URL or the card of a running agent
"""


@pytest.fixture
def a2a_target() -> Any:
    """The agent under test: define this fixture. It returns an Agent, an object or a factory that Agent.of
    takes, or the URL or the card of a running agent.
    """
    raise pytest.UsageError(_NO_TARGET)


@pytest.fixture
def a2a_record() -> list[Frame]:
    """The frames that the clients of the test have sent and received, in their order."""
    return []


@pytest.fixture
def _a2a_background() -> Iterator[Background]:
    from a2a_bridge.testing.agent_client import Background

    background = Background()
    try:
        yield background
    finally:
        background.close()


@pytest.fixture
def a2a_agent(a2a_target: Any, _a2a_background: Background) -> Iterator[AgentUnderTest]:
    """The agent of `a2a_target` on all bindings, at ports of this machine; or the running agent."""
    from a2a_bridge import connect, serve
    from a2a_bridge.app.planning import ServeOptions
    from a2a_bridge.pb import lf_a2a_v1 as hub
    from a2a_bridge.testing.agent_client import AgentUnderTest

    if isinstance(a2a_target, str | hub.AgentCard):
        with _a2a_background.opened(lambda: connect(a2a_target)) as peer:
            yield AgentUnderTest(peer.card)
        return
    # Credentials that a card asks for are not under test, and nobody waits for tasks that a test leaves.
    options = ServeOptions(allow_unauthenticated=True, grace=0.0)
    with _a2a_background.opened(lambda: serve(a2a_target, options=options)) as server:
        yield AgentUnderTest(server.card)


@pytest.fixture(params=BINDINGS)
def a2a_peer(
    request: pytest.FixtureRequest,
    a2a_agent: AgentUnderTest,
    a2a_record: list[Frame],
    _a2a_background: Background,
) -> Iterator[AgentClient]:
    """A client of the agent. A test with it runs for each binding, except those that the agent lacks."""
    from a2a_bridge import connect
    from a2a_bridge.bindings.binding import DialOptions
    from a2a_bridge.testing.agent_client import AgentClient

    binding: str = request.param
    if all(one.protocol_binding != binding for one in a2a_agent.card.supported_interfaces):
        pytest.skip(f"the agent has no interface of {binding}")
    options = DialOptions(frame_observer=a2a_record.append)
    with _a2a_background.opened(lambda: connect(a2a_agent.card, binding=binding, options=options)) as peer:
        client = AgentClient(binding, peer, _a2a_background)
        try:
            yield client
        finally:
            client.close()


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
