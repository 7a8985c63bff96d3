"""Stores of tasks, events and push notifications: one module or folder per kind of store, opened by URL."""

from a2a_bridge.stores.errors import StoreOpenError
from a2a_bridge.stores.memory import MemoryStore
from a2a_bridge.stores.opening import open_store
from a2a_bridge.stores.options import StoreOptions

__all__ = ["MemoryStore", "StoreOpenError", "StoreOptions", "open_store"]
