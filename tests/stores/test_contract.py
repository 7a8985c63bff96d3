"""The stores in SQLite and PostgreSQL pass the contract of stores."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from a2a_bridge.stores import MemoryStore, StoreOptions, open_store
from a2a_bridge.stores.ports import Store
from a2a_bridge.testing.contracts import (
    DurableOutboxContract,
    DurableStoreContract,
    OutboxContract,
    SharedStoreContract,
)
from tests.patience import PATIENCE


class OnSqlite:
    """The store of a test, and a process after its death, which works on a copy of the file."""

    @pytest.fixture(autouse=True)
    def _file(self, sqlite_url: str, copied: Callable[[str], str]) -> None:
        self.url = sqlite_url
        self.copied = copied

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with open_store(self.url) as store:
            yield store

    @asynccontextmanager
    async def survivor(self, store: Store) -> AsyncIterator[Store]:
        async with open_store(self.copied(self.url)) as other:
            yield other


class TestSqliteStore(OnSqlite, DurableStoreContract):
    pass


class TestPostgresStore(SharedStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self.url = postgres_url

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with open_store(self.url, StoreOptions(lease=600.0, ack_timeout=PATIENCE)) as store:
            yield store

    @asynccontextmanager
    async def survivor(self, store: Store) -> AsyncIterator[Store]:
        # The action of a replica that has seen no heartbeat of it for the lease.
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("DELETE FROM replicas")
        async with open_store(self.url, StoreOptions(lease=600.0, ack_timeout=PATIENCE)) as other:
            yield other

    @asynccontextmanager
    async def beside(self, store: Store) -> AsyncIterator[Store]:
        async with open_store(self.url, StoreOptions(lease=600.0, ack_timeout=PATIENCE)) as other:
            yield other


# --- Outboxes pass the contract of the delivery worker: in memory, in SQLite, in PostgreSQL ---
class TestMemory(OutboxContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        yield MemoryStore()


class TestSqlite(OnSqlite, DurableOutboxContract):
    pass


class TestPostgres(DurableOutboxContract):
    @pytest.fixture(autouse=True)
    def _somewhere(self, postgres_url: str) -> None:
        self._url = postgres_url

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with open_store(self._url) as store:
            yield store

    @asynccontextmanager
    async def survivor(self, store: Store) -> AsyncIterator[Store]:
        async with open_store(self._url) as other:
            # The action of the others after a missing heartbeat.
            one: Any = store
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("DELETE FROM replicas WHERE id = %s", [one._beside.me])
            yield other
