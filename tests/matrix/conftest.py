"""Fixtures of this folder."""

from tests.interop.peers import sdk_agents

__all__ = ["sdk_agents"]
