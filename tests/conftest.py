"""Settings of all tests."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import database, own_postgres, postgres

__all__ = ["database", "own_postgres", "postgres"]

# grpcio's handlers for forks crash the commands that start and stop a database. Read when it starts.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# No test depends on time, and the tests of a submission must not depend on chance.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, max_examples=50)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spares the garbage collector the collected tests and modules, which live as long as the process."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands set the level of the bridge's log for their process, which here is that of all other tests."""
    log, root = logging.getLogger("a2a_bridge"), logging.getLogger()
    level, handlers = log.level, list(root.handlers)
    yield
    log.setLevel(level)
    root.handlers[:] = handlers
