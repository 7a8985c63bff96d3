"""The stores and the bus in memory keep what the engine relies on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from a2a_bridge.hosting.buses.memory import MemoryEventBus
from a2a_bridge.hosting.ports import EventBus, PushConfigStore, TaskStore
from a2a_bridge.hosting.stores.memory import MemoryPushConfigStore, MemoryTaskStore
from a2a_bridge.testing.contracts import EventBusContract, PushConfigStoreContract, TaskStoreContract


class TestMemoryTaskStore(TaskStoreContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[TaskStore]:
        yield MemoryTaskStore()


class TestMemoryPushConfigStore(PushConfigStoreContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[PushConfigStore]:
        yield MemoryPushConfigStore()


class TestMemoryEventBus(EventBusContract):
    @asynccontextmanager
    async def opened(self, *, stall: float) -> AsyncIterator[EventBus]:
        yield MemoryEventBus(stall=stall)
