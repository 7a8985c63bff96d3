"""Live agents for the client commands, and the marker that says which requirement a test shows."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from a2a_bridge.core.options import CLIENT_PREFIX
from tests.peers.processes import ALL, Agent
from tests.tools.client.live import Live, ours, theirs
from tests.tools.specification import REQUIREMENTS


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requirement(*names): identifiers without A2ACLI_ that the test shows")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("requirement"):
            unknown = [name for name in marker.args if CLIENT_PREFIX + name not in REQUIREMENTS]
            assert not unknown, f"{item.nodeid}: no such requirement: {unknown}"


@pytest.fixture(scope="session")
def demo() -> Iterator[dict[str, str]]:
    """The addresses of `a2a-bridge server`."""
    words = ("server", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    process = subprocess.Popen(
        (sys.executable, "-m", "a2a_bridge", *words), stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        yield dict(word.partition("=")[::2] for word in process.stdout.readline().split()[1:])
        process.terminate()


CELLS = [(agent, binding) for agent in ("ours", "1.3.0") for binding in ALL]


@pytest.fixture(params=CELLS, ids="-".join)
def live(request: pytest.FixtureRequest) -> Live:
    """A live agent of 1.0 over one binding: the demo server, and one of the official SDK."""
    release, binding = request.param
    if release == "ours":
        return ours(request.getfixturevalue("demo"), binding)
    agent: Agent = request.getfixturevalue("peer_agents")(release)
    return theirs(agent, binding)


@pytest.fixture(params=ALL)
def older(request: pytest.FixtureRequest) -> Live:
    """A live agent of the official SDK that speaks 0.3 only."""
    agent: Agent = request.getfixturevalue("peer_agents")("0.3.26")
    return theirs(agent, request.param)


@pytest.fixture
def one(demo: dict[str, str]) -> Live:
    """The demo server over JSON-RPC, for what does not depend on the agent."""
    return ours(demo, "JSONRPC")
