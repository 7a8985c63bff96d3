"""Access rules: which callers may use which operations.

Rules:
1. Without access rules, every authenticated caller may use every operation. With any, a call needs one rule
   that allows it. A rule allows a call if each of its members does. An empty member allows everything. Calls
   find the rules of their agent and caller by name; only rules with patterns are tried one after the other.
2. A caller that lacks a scope gets PERMISSION_DENIED, whether the task it asks for exists or not.

Rules of streams and waiting sends, which end when their callers may no longer make them: their key was
revoked, their token has expired, or the access rules have changed.
1. The methods that identify callers say whether a caller still counts (`Method`), and `LiveRules` whether the
   call is still allowed. Both are asked for each open call, every `INTERVAL` seconds; rules only after a
   change. Without open calls nothing runs.
2. The call ends with UNAUTHENTICATED or PERMISSION_DENIED, also while it waits. Its task goes on.
3. Of unary calls, only SendMessage waits for long. The others finish as they began.
4. A call whose caller has lapsed since its request began, because its body took long, does not begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from a2a_bridge.auth.authentication import Authentication
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, Principal
from a2a_bridge.core.callers import Permit, ScopeMissingError
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import (
    Event,
    Events,
    HandedOver,
    Middleware,
    Service,
    innermost,
    reject,
    reject_if,
    reject_stream,
)

#: name of an operation, or of a group of them -> the names of the operations
_NAMED: Mapping[str, frozenset[str]] = {one.name: frozenset((one.name,)) for one in ops.ALL} | {
    group: frozenset(one.name for one in members) for group, members in ops.GROUPS.items()
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows calls. Raises ValueError for an operation that does not exist.

    operations: names such as `SendMessage`, or of groups (`operations.GROUPS`). scopes: the caller needs all.
    principals: names or patterns (`*`, `?`) of callers. agents: names or patterns of agents, on servers with
    several.
    """

    operations: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.operations:
            if name not in _NAMED:
                raise ValueError(f"operations: {name!r} is none of {', '.join(sorted(_NAMED))}")

    def is_about(self, operation: str) -> bool:
        """Whether the operation is one of the rule's."""
        return not self.operations or any(operation in _NAMED[name] for name in self.operations)

    def allows(self, operation: str, principal: Principal | None) -> bool:
        """True for a call that the rule allows."""
        name = "" if principal is None else principal.name
        return (not self.principals or _fits(name, self.principals)) and self.suits(operation, principal)

    def suits(self, operation: str, principal: Principal | None) -> bool:
        """Whether the rule allows the call if it is for this caller: by the operation and the scopes."""
        if not self.is_about(operation):
            return False
        return not self.scopes or (principal is not None and principal.scopes.issuperset(self.scopes))


def _fits(name: str, patterns: Collection[str]) -> bool:
    """Whether a name fits a pattern of `*` and `?`. Names may have brackets, which `fnmatch` would read."""
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in patterns)


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


def _by_name(rules: Iterable[tuple[Rule, Collection[str]]]) -> tuple[dict[str, list[Rule]], list[Rule]]:
    """Rules by the only names that they have; and the others, which have patterns or fit every name."""
    named: dict[str, list[Rule]] = {}
    others: list[Rule] = []
    for rule, names in rules:
        if not names or any(map(_is_pattern, names)):
            others.append(rule)
        else:
            for name in dict.fromkeys(names):
                named.setdefault(name, []).append(rule)
    return named, others


class _OfAgent:
    """The rules of one agent: a call looks at those that name its caller, and at those with patterns."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._named, self._others = _by_name((rule, rule.principals) for rule in rules)
        #: operation → why a caller without a rule for it is rejected
        self._denials: dict[str, tuple[str, tuple[str, ...]]] = {}

    def denial(self, operation: str, principal: Principal | None) -> ScopeMissingError | None:
        name = "" if principal is None else principal.name
        if any(rule.suits(operation, principal) for rule in self._named.get(name, ())):
            return None
        if any(rule.allows(operation, principal) for rule in self._others):
            return None
        known = self._denials.get(operation)
        if known is None:
            known = self._denials[operation] = self._words(operation)
        return ScopeMissingError(*known)

    def _words(self, operation: str) -> tuple[str, tuple[str, ...]]:
        """The text, and the challenge with the scopes that allow the operation to any caller."""
        fitting = (rule for rule in self._rules if rule.scopes and rule.is_about(operation))
        wanted = {scope for rule in fitting for scope in rule.scopes}
        challenge = f'Bearer realm="a2a", error="insufficient_scope", scope="{" ".join(sorted(wanted))}"'
        return f"{operation} is not allowed for this caller", (challenge,) if wanted else ()


class _Rules:
    """A list of rules, for calls by agent, caller and operation. An agent's rules are looked for once."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._is_empty = not rules
        self._named, self._others = _by_name((rule, rule.agents) for rule in rules)
        self._agents: dict[str, _OfAgent] = {}

    def denial(self, agent: str, operation: str, principal: Principal | None) -> ScopeMissingError | None:
        if self._is_empty:
            return None
        known = self._agents.get(agent)
        if known is None:
            fitting = (rule for rule in self._others if not rule.agents or _fits(agent, rule.agents))
            known = self._agents[agent] = _OfAgent([*self._named.get(agent, ()), *fitting])
        return known.denial(operation, principal)


class LiveRules:
    """Access rules that can change while a server runs."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        #: a call needs a rule of each of these lists. Each change makes another object
        self.current: tuple[_Rules, ...] = (_Rules(rules),)

    def change(self, rules: Sequence[Rule]) -> None:
        """From now on these rules count."""
        self.current = (_Rules(rules),)

    def narrow(self, rules: Sequence[Rule]) -> None:
        """From now on a call needs a rule of these beside one of the first: for a server whose callers are
        identified as before, while the rules are for a successor, which may identify them otherwise.
        """
        self.current = (self.current[0], _Rules(rules))

    def denial(self, agent: str, operation: str, principal: Principal | None) -> ScopeMissingError | None:
        """PERMISSION_DENIED for a call that is not allowed, else None. agent: its name among several."""
        for rules in self.current:
            if (error := rules.denial(agent, operation, principal)) is not None:
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
    return reject_if(lambda call: known.denial(agent, call.operation.name, call.context.principal))


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


#: seconds between two looks. The methods have new files within a second
INTERVAL = 0.25


def end_lapsed_calls(
    authentication: Authentication | None, rules: LiveRules | None = None, agent: str = ""
) -> Middleware:
    """Middleware that ends calls. It has to be inside of the authentication and of the rules. rules: if they
    can change. agent: the name of the agent on a server with several.
    """
    if authentication is None and rules is None:
        return lambda service: service
    return lambda service: _Lasting(service, authentication, rules, agent)


class _Lasting:
    def __init__(
        self, service: Service, authentication: Authentication | None, rules: LiveRules | None, agent: str
    ) -> None:
        self._service = service
        self._authentication = authentication
        self._rules = rules
        self._agent = agent
        self._open: set[_Watched] = set()
        self._next_look: asyncio.TimerHandle | None = None

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        if (lapsed := self._lapsed(call)) is not None:
            return reject(lapsed)
        if call.operation is not ops.SEND_MESSAGE or not self._may_end(call):
            return self._service.unary(call)
        return self._send(call)

    async def _send(self, call: Call[Req, Res]) -> Res:
        sending = _Watched(self, call)
        sending.reader = asyncio.current_task()
        self.add(sending)
        try:
            return await self._service.unary(call)
        except asyncio.CancelledError:
            error = sending.ended(sending.reader)
            if error is None:
                raise
            raise error from None
        finally:
            sending.reader = None
            self.remove(sending)

    def stream(self, call: Call[Req, Res], /) -> Events:
        if (lapsed := self._lapsed(call)) is not None:
            return reject_stream(lapsed)
        events = self._service.stream(call)
        return _Stream(self, events, call) if self._may_end(call) else events

    def _lapsed(self, call: Call[Any, Any]) -> A2AError | None:
        """Why the caller does not count any more; None if it does."""
        principal, known = call.context.principal, self._authentication
        return None if principal is None or known is None else known.lapsed(principal)

    def _may_end(self, call: Call[Any, Any]) -> bool:
        if self._rules is not None:
            return True
        principal, known = call.context.principal, self._authentication
        return principal is not None and known is not None and known.can_lapse(principal)

    @property
    def rules(self) -> object:
        """The rules that count now; another object after each change."""
        return None if self._rules is None else self._rules.current

    def add(self, one: _Watched) -> None:
        """Looks after a call from now on."""
        self._open.add(one)
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(INTERVAL, self._look)

    def remove(self, one: _Watched) -> None:
        """Forgets a call, if it is known."""
        self._open.discard(one)
        if not self._open and self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _look(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(INTERVAL, self._look)
        for one in list(self._open):
            error = self._error(one)
            if error is not None:
                self.remove(one)
                one.end(error)

    def _error(self, one: _Watched) -> A2AError | None:
        """Why a call may not go on; None if it may."""
        if (lapsed := self._lapsed(one.call)) is not None:
            return lapsed
        if self._rules is None or one.rules is self._rules.current:
            return None
        one.rules = self._rules.current
        return self._rules.denial(self._agent, one.call.operation.name, one.call.context.principal)


class _Watched:
    """A call that can be ended while a task waits for its next result."""

    def __init__(self, owner: _Lasting, call: Call[Any, Any]) -> None:
        self.call = call
        #: the rules that have allowed the call
        self.rules = owner.rules
        #: why the call has been ended
        self.error: A2AError | None = None
        #: the task that waits
        self.reader: asyncio.Task[Any] | None = None

    def end(self, error: A2AError) -> None:
        """Ends the call with an error."""
        self.error = error
        if self.reader is not None:
            self.reader.cancel()

    def ended(self, reader: asyncio.Task[Any] | None) -> A2AError | None:
        """The error in place of a cancellation of this task; None if somebody else has cancelled it, too."""
        if self.error is None or reader is None or reader.uncancel():
            return None
        return self.error


class _Stream(_Watched, Events):
    """A stream that can be ended while its reader waits."""

    def __init__(self, owner: _Lasting, events: Events, call: Call[Any, Any]) -> None:
        super().__init__(owner, call)
        self._owner = owner
        self._events = events
        self._is_known = False

    async def __anext__(self) -> Event:
        if self.error is not None:
            raise self.error
        if not self._is_known:
            self._is_known = True
            self._owner.add(self)
        events = self._events
        if type(events) is HandedOver:
            events = self._events = innermost(events)
        reader = self.reader = asyncio.current_task()
        try:
            return await anext(events)
        except asyncio.CancelledError:
            error = self.ended(reader)
            if error is None:
                raise
            raise error from None
        finally:
            self.reader = None

    def asend(self, _value: None, /) -> Any:
        return self.__anext__()

    def athrow(self, *arguments: Any) -> Any:
        return self._events.athrow(*arguments)

    async def aclose(self) -> None:
        self._owner.remove(self)
        await self._events.aclose()
