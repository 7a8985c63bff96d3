"""Access rules: which callers may use which operations.

Rules:
1. Without access rules, every authenticated caller may use every operation. With any, a call needs one rule
   that allows it.
2. A rule allows a call if each of its members does. An empty member allows everything.
3. A caller that lacks a scope gets PERMISSION_DENIED, whether the task it asks for exists or not.
4. `LiveRules` can change while a server runs: streams and waiting sends that they no longer allow end
   (`lasting`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, Principal
from a2a_bridge.core.callers import Permit, ScopeMissingError
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


class LiveRules:
    """Access rules that can change while a server runs."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        #: a call needs a rule of each of these lists. Each change makes another object
        self.current: tuple[tuple[Rule, ...], ...] = (tuple(rules),)

    def change(self, rules: Sequence[Rule]) -> None:
        """From now on these rules count."""
        self.current = (tuple(rules),)

    def narrow(self, rules: Sequence[Rule]) -> None:
        """From now on a call needs a rule of these beside one of the first: for a server whose callers are
        identified as before, while the rules are for a successor, which may identify them otherwise.
        """
        self.current = (self.current[0], tuple(rules))

    def denial(self, agent: str, operation: str, principal: Principal | None) -> ScopeMissingError | None:
        """PERMISSION_DENIED for a call that is not allowed, else None. agent: its name among several."""
        for rules in self.current:
            if rules and (error := _denial(rules, agent, operation, principal)) is not None:
                return error
        return None


def live(rules: Sequence[Rule] | LiveRules) -> LiveRules | None:
    """Rules as an object that says whether calls are allowed; None for none that could deny one."""
    if isinstance(rules, LiveRules):
        return rules
    return LiveRules(rules) if rules else None


def authorise(rules: Sequence[Rule] | LiveRules, agent: str = "") -> Middleware:
    """Middleware that rejects calls which no rule allows. It has to be inside of the authentication.

    agent: the name of the agent on a server with several.
    """
    known = live(rules)
    if known is None:
        return lambda service: service

    def problem(call: Call[Any, Any]) -> ScopeMissingError | None:
        return known.denial(agent, call.operation.name, call.context.principal)

    return reject_if(problem)


def permit(rules: Sequence[Rule] | LiveRules, agent: str = "") -> Permit | None:
    """The same for bindings, which know the caller before they decode a request; None without rules."""
    known = live(rules)
    if known is None:
        return None

    def check(operation: str, principal: Principal | None) -> None:
        problem = known.denial(agent, operation, principal)
        if problem is not None:
            raise problem

    return check


def _denial(
    rules: Collection[Rule], agent: str, name: str, principal: Principal | None
) -> ScopeMissingError | None:
    own = [one for one in rules if not one.agents or _fits(agent, one.agents)]
    if any(rule.allows(name, principal) for rule in own):
        return None
    wanted = {scope for rule in own if Rule(rule.operations).allows(name, principal) for scope in rule.scopes}
    challenge = f'Bearer realm="a2a", error="insufficient_scope", scope="{" ".join(sorted(wanted))}"'
    return ScopeMissingError(f"{name} is not allowed for this caller", (challenge,) if wanted else ())
