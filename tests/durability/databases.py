"""A PostgreSQL of one's own for the programs of this folder, which run without pytest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from tests.postgres import Postgres, _folder, _running


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server that runs while the context is open."""
    with _running(_folder(os.getpid(), uuid4().hex[:12])) as server:
        yield server
