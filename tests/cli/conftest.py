"""Fixtures of this folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands set the level of the bridge's log for their process, which here is that of all other tests."""
    log, root = logging.getLogger("a2a_bridge"), logging.getLogger()
    level, handlers = log.level, list(root.handlers)
    yield
    log.setLevel(level)
    root.handlers[:] = handlers
