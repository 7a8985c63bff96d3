"""Where tasks, events and push notifications are kept: one module or folder per kind of place, opened by URL."""

from a2a_bridge.hosting.stores.memory import MemoryPushConfigStore, MemoryTaskStore
from a2a_bridge.hosting.stores.opening import CannotOpen, open_store

__all__ = ["CannotOpen", "MemoryPushConfigStore", "MemoryTaskStore", "open_store"]
