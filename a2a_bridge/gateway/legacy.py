"""What versions that will be dropped some day need around services and agents. It does none of it itself.

Who drops a version deletes its modules and its lines here; callers need not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.scope import Scope, scope_of
from a2a_bridge.core.service import Middleware
from a2a_bridge.dialects import Dialect
from a2a_bridge.gateway import identity, identity_agents
from a2a_bridge.gateway.upstream import Dial
from a2a_bridge.pb import lf_a2a_v1 as hub

#: an event as callers of a scope know it, who get it outside of a call
Names = Callable[[Scope, hub.StreamResponse], hub.StreamResponse]

#: whose a call is
ScopeOf = Callable[[Any, CallContext], Scope]

#: version → makes what stands around services that are served in it, and the names it uses
CALLERS: Mapping[str, Callable[[ScopeOf], tuple[Middleware, Names]]] = {
    identity.VERSION: identity.remembering,
}

#: around the client side of every agent, innermost first
AGENTS: tuple[Callable[[Dial], Dial], ...] = (
    identity_agents.agents,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Legacy:
    """What one server remembers for callers of such versions.

    middleware: for its services, the first outermost; outside of what checks and ends streams. names: version
    → names of tasks in push notifications, by the same memory.
    """

    middleware: tuple[Middleware, ...]
    names: Mapping[str, Names]


def remembered(dialects: Iterable[Dialect], scoped: ScopeOf = scope_of) -> Legacy:
    """What a server needs that serves these versions. scoped: whose names are whose; by default the
    principal's.
    """
    made = {one.version: CALLERS[one.version](scoped) for one in dialects if one.version in CALLERS}
    return Legacy(
        tuple(middleware for middleware, _ in made.values()),
        {version: names for version, (_, names) in made.items()},
    )


def callers(dialects: Iterable[Dialect]) -> tuple[Middleware, ...]:
    """The middleware of `remembered` alone, for servers that send no push notifications."""
    return remembered(dialects).middleware


def dialling(dial: Dial) -> Dial:
    """`dial` with what agents of such versions need."""
    for wrap in AGENTS:
        dial = wrap(dial)
    return dial
