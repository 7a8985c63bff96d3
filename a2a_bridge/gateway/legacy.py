"""Middleware and adapters that only old versions need around services and agents. This file only lists them.

To drop a version, delete its modules and its lines here; callers need not change.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from a2a_bridge.core.callers import Scope, ScopeOf, scope_of
from a2a_bridge.core.service import Middleware
from a2a_bridge.dialects import Dialect
from a2a_bridge.gateway import identity, identity_agents
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.gateway.upstream import Dial
from a2a_bridge.pb import lf_a2a_v1 as hub

#: renames an event for callers of a scope, for delivery outside of a call
Names = Callable[[Scope, hub.StreamResponse], hub.StreamResponse]

#: version → makes the middleware around services of that version, and its renaming of events
CALLERS: Mapping[str, Callable[[ScopeOf, Tasks], tuple[Middleware, Names]]] = {
    identity.VERSION: identity.remember_names,
}

#: adapters around the client side of every agent, innermost first
AGENTS: tuple[Callable[[Dial, Callable[[], Tasks]], Dial], ...] = (
    identity_agents.agents,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Legacy:
    """The state that one server keeps for callers of such versions."""

    #: for its services, the first outermost; outside of the middleware that checks and ends streams
    middleware: tuple[Middleware, ...]
    #: version → names of tasks in push notifications, from the same memory
    names: Mapping[str, Names]


def build_legacy(
    dialects: Iterable[Dialect], scoped: ScopeOf = scope_of, tasks: Tasks | None = None
) -> Legacy:
    """The parts a server of these versions needs. scoped: the scope of names; by default the scope of the
    principal. tasks: keeps the names; None for a table of their own.
    """
    kept = Tasks() if tasks is None else tasks
    made = {one.version: CALLERS[one.version](scoped, kept) for one in dialects if one.version in CALLERS}
    return Legacy(
        tuple(middleware for middleware, _ in made.values()),
        {version: names for version, (_, names) in made.items()},
    )


def adapt_dial(dial: Dial, tasks: Callable[[], Tasks]) -> Dial:
    """`dial` with the adapters for agents of such versions. tasks: the table of an interface."""
    for wrap in AGENTS:
        dial = wrap(dial, tasks)
    return dial
