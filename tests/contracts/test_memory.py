"""The store in memory passes the contract of stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Store
from a2a_bridge.testing.contracts import StoreContract


class TestMemoryStore(StoreContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        yield MemoryStore()
