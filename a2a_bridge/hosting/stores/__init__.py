"""Task stores and push config stores, one module per place where things are kept."""

from a2a_bridge.hosting.stores.memory import MemoryPushConfigStore, MemoryTaskStore

__all__ = ["MemoryPushConfigStore", "MemoryTaskStore"]
