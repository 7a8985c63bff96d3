"""Python agents in this process: the executor interface, and the engine that runs executors."""

from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.hosting.decorator import agent
from a2a_bridge.hosting.engine import Engine
from a2a_bridge.hosting.executor import (
    AgentExecutor,
    CancellingExecutor,
    DirectExecutor,
    Event,
    ResumingExecutor,
    Run,
)
from a2a_bridge.hosting.hosted_agent import Agent

__all__ = [
    "Agent",
    "AgentExecutor",
    "CancellingExecutor",
    "DirectExecutor",
    "Engine",
    "EngineOptions",
    "Event",
    "ResumingExecutor",
    "Run",
    "agent",
]
