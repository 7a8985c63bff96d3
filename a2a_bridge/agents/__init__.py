"""Several agents behind one server: `serve_agents`."""

from a2a_bridge.agents.member import PATH, AgentEntry, Opening, hosted, interfaces_of, options_of, remote
from a2a_bridge.agents.several import Agents, asgi_agents, serve_agents

__all__ = [
    "PATH",
    "AgentEntry",
    "Agents",
    "Opening",
    "asgi_agents",
    "hosted",
    "interfaces_of",
    "options_of",
    "remote",
    "serve_agents",
]
