"""Event buses, one module per carrier."""

from a2a_bridge.hosting.buses.memory import MemoryEventBus

__all__ = ["MemoryEventBus"]
