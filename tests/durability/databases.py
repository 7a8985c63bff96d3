"""PostgreSQL databases for servers under test, and a PostgreSQL server for programs that run without pytest."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from sqlalchemy import create_engine

from a2a_bridge.stores.sql.store import upgrade
from tests.postgres import Postgres, _folder, _running


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server that runs while the context is open."""
    with _running(_folder(os.getpid(), uuid4().hex[:12])) as server:
        yield server


def filled(server: Postgres) -> str:
    """A new database with the tables of a server, without content."""
    url = server.create()
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            upgrade(connection)
    finally:
        engine.dispose()
    return url
