"""A Python agent in this process: the executor's side, the engine that runs it, and where it keeps things."""

from a2a_bridge.hosting.decorator import Agent, agent
from a2a_bridge.hosting.engine import Engine
from a2a_bridge.hosting.executor import AgentExecutor, DirectExecutor, Event, ResumingExecutor
from a2a_bridge.hosting.options import EngineOptions
from a2a_bridge.hosting.run import Run

__all__ = [
    "Agent",
    "AgentExecutor",
    "DirectExecutor",
    "Engine",
    "EngineOptions",
    "Event",
    "ResumingExecutor",
    "Run",
    "agent",
]
