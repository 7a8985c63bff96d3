"""The stores in SQLite and PostgreSQL pass the contract of stores."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.stores.ports import Store
from a2a_bridge.testing.contracts import DurableStoreContract, SharedStoreContract
from tests.patience import PATIENCE


class TestSqliteStore(DurableStoreContract):
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
