"""Access rules: which callers may use which operations.

Rules:
1. Without access rules, every authenticated caller may use every operation. With any, a call needs one rule
   that allows it.
2. A rule allows a call if each of its members does. An empty member allows everything.
3. A caller that lacks a scope gets PERMISSION_DENIED, whether the task it asks for exists or not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.authentication import Permit, ScopeMissingError
from a2a_bridge.core.call import Call, Principal
from a2a_bridge.core.service import Middleware, reject_if

#: names for several operations
GROUPS: Mapping[str, frozenset[str]] = {
    "read": frozenset(
        {ops.GET_TASK.name, ops.LIST_TASKS.name, ops.SUBSCRIBE_TO_TASK.name, ops.GET_EXTENDED_AGENT_CARD.name}
    ),
    "send": frozenset({ops.SEND_MESSAGE.name, ops.SEND_STREAMING_MESSAGE.name}),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows calls. Raises ValueError for an operation that does not exist.

    operations: names such as `SendMessage`, or of `GROUPS`. scopes: the caller needs all of them. principals:
    names or patterns (`*`, `?`) of callers. agents: names or patterns of agents, on servers with several.
    """

    operations: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {one.name for one in ops.ALL} | GROUPS.keys()
        for name in self.operations:
            if name not in known:
                raise ValueError(f"operations: {name!r} is none of {', '.join(sorted(known))}")

    def allows(self, operation: str, principal: Principal | None) -> bool:
        """True for a call that the rule allows."""
        if self.operations and not any(
            operation == name or operation in GROUPS.get(name, ()) for name in self.operations
        ):
            return False
        if self.scopes and (principal is None or not principal.scopes.issuperset(self.scopes)):
            return False
        name = "" if principal is None else principal.name
        return not self.principals or _fits(name, self.principals)


def _fits(name: str, patterns: Collection[str]) -> bool:
    """Whether a name fits one of the patterns. Of `fnmatch`, sets in brackets do not count: names may have
    brackets, and a rule for such a name must not allow another one.
    """
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in patterns)


def authorise(rules: Sequence[Rule], agent: str = "") -> Middleware:
    """Middleware that rejects calls which no rule allows. It has to be inside of the authentication.

    agent: the name of the agent on a server with several.
    """
    own = [one for one in rules if not one.agents or _fits(agent, one.agents)]
    return reject_if(partial(_problem, own)) if rules else lambda service: service


def permit(rules: Sequence[Rule], agent: str = "") -> Permit | None:
    """The same for bindings, which know the caller before they decode a request; None without rules."""
    own = [one for one in rules if not one.agents or _fits(agent, one.agents)]

    def check(operation: str, principal: Principal | None) -> None:
        problem = _denial(own, operation, principal)
        if problem is not None:
            raise problem

    return check if rules else None


def _problem(rules: Collection[Rule], call: Call[Any, Any]) -> ScopeMissingError | None:
    return _denial(rules, call.operation.name, call.context.principal)


def _denial(rules: Collection[Rule], name: str, principal: Principal | None) -> ScopeMissingError | None:
    if any(rule.allows(name, principal) for rule in rules):
        return None
    wanted = {
        scope for rule in rules if Rule(rule.operations).allows(name, principal) for scope in rule.scopes
    }
    challenge = f'Bearer realm="a2a", error="insufficient_scope", scope="{" ".join(sorted(wanted))}"'
    return ScopeMissingError(f"{name} is not allowed for this caller", (challenge,) if wanted else ())
