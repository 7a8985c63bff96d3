"""Fixtures of this folder."""

from tests.interop.deviations import sdk_agents

__all__ = ["sdk_agents"]
