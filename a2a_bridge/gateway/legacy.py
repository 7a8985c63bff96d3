"""What versions that will be dropped some day need around services and agents. It does none of it itself.

Who drops a version deletes its modules and its lines here; callers need not change.
"""

from __future__ import annotations

from collections.abc import Callable

from a2a_bridge.core.service import Middleware
from a2a_bridge.gateway import identity, identity_agents
from a2a_bridge.gateway.upstream import Dial

#: around every service that is served, the first outermost; outside of what checks and ends streams
CALLERS: tuple[Middleware, ...] = (
    identity.callers,
)  # fmt: skip

#: around the client side of every agent, innermost first
AGENTS: tuple[Callable[[Dial], Dial], ...] = (
    identity_agents.agents,
)  # fmt: skip


def dialling(dial: Dial) -> Dial:
    """`dial` with what agents of such versions need."""
    for wrap in AGENTS:
        dial = wrap(dial)
    return dial
