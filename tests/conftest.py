"""Settings of all tests."""

import gc
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from tests.left_over import LeftOver
from tests.nats import nats, own_nats
from tests.peers.processes import peer_agents, peer_clients
from tests.postgres import database, own_postgres, postgres

__all__ = ["database", "nats", "own_nats", "own_postgres", "peer_agents", "peer_clients", "postgres"]

# grpcio's handlers for forks crash the commands that start and stop a database. Read when it starts.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# Shells start background jobs with SIGINT ignored, and commands that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test depends on time, and the tests of a submission must not depend on chance.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, max_examples=50)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=5)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out tests that start a program")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("quick")


def _no_program(*_: object, **__: object) -> None:
    pytest.fail("a test that starts a program needs the mark `process`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        left_out = [item for item in items if item.get_closest_marker("process") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("process") is None]


@settings(max_examples=1, database=None)
@given(strategies.none())
def _one_example(_: None) -> None:
    """A property without content."""


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Spares the garbage collector the collected tests and modules, which live as long as the process."""
    # Hypothesis looks for the owner of its generator of random numbers, and does not find a frozen one.
    _one_example()
    gc.collect()
    gc.freeze()
    if session.config.getoption("--quick"):
        subprocess.Popen.__init__ = _no_program  # type: ignore[method-assign]


@pytest.fixture
def unused_tcp_port_factory() -> Iterator[Callable[[], int]]:
    """Ports without a listener, bound until the test ends; servers listen there, as they set SO_REUSEADDR."""
    with ExitStack() as bound:

        def made() -> int:
            one = bound.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            return port

        yield made


@pytest.fixture
def unused_tcp_port(unused_tcp_port_factory: Callable[[], int]) -> int:
    return unused_tcp_port_factory()


_left_over = LeftOver()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Closed engines, stores, gateways, hosts and clients are empty: see `tests.left_over`."""
    yield
    left = _left_over.found()
    if left:
        pytest.fail("left over:\n" + "\n".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands set the level of the bridge's log for their process, which here is that of all other tests."""
    log, root = logging.getLogger("a2a_bridge"), logging.getLogger()
    level, handlers = log.level, list(root.handlers)
    yield
    log.setLevel(level)
    root.handlers[:] = handlers
