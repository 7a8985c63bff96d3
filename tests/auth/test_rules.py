"""Access rules by agent and caller: the same results as a look at each rule, and less work."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import builds, lists, sampled_from, tuples

from a2a_bridge.auth.rules import LiveRules, Rule
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Principal

#: names, among them some that fnmatch would read as patterns
NAMES = ("", "ann", "bob", "a[n]n", "a")
PATTERNS = (*NAMES, "*", "a*", "?nn", "a[n]?", "*b")
SCOPES = ("one", "two")
OPERATIONS = ("GetTask", "SendMessage", "CancelTask", "GetTaskPushNotificationConfig")


def some(values: tuple[str, ...]) -> Any:
    return lists(sampled_from(values), max_size=3).map(tuple)


RULES = lists(
    builds(
        Rule,
        operations=some((*OPERATIONS, *ops.GROUPS)),
        scopes=some(SCOPES),
        principals=some(PATTERNS),
        agents=some(PATTERNS),
    ),
    max_size=6,
)
CALLERS = sampled_from(
    [None, *(Principal(name, {"scope": "one"}) for name in NAMES), Principal("ann", {"scope": "one two"})]
)


def found(
    rules: list[Rule], agent: str, operation: str, principal: Principal | None
) -> tuple[str, ...] | None:
    """The scopes in the challenge of a denial, by a look at each rule; None for a call that is allowed."""
    own = [
        rule
        for rule in rules
        if not rule.agents or Rule(principals=rule.agents).allows(operation, Principal(agent))
    ]
    if not rules or any(rule.allows(operation, principal) for rule in own):
        return None
    return tuple(
        sorted(
            {scope for rule in own if Rule(rule.operations).allows(operation, None) for scope in rule.scopes}
        )
    )


@given(RULES, lists(tuples(sampled_from(NAMES), sampled_from(OPERATIONS), CALLERS), max_size=8))
def test_the_index_finds_what_a_look_at_each_rule_finds(
    rules: list[Rule], calls: list[tuple[str, str, Principal | None]]
) -> None:
    known = LiveRules(rules)
    for agent, operation, principal in calls:
        expected = found(rules, agent, operation, principal)
        error = known.denial(agent, operation, principal)
        if expected is None:
            assert error is None
        else:
            assert error is not None
            assert [f'scope="{" ".join(expected)}"' in one for one in error.challenges] == [True] * bool(
                expected
            )


def test_a_call_looks_at_the_rules_of_its_agent_and_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a call that is rejected; not counted is the first call of each agent."""
    looks = 0
    is_about = Rule.is_about

    def counted(rule: Rule, operation: str) -> bool:
        nonlocal looks
        looks += 1
        return is_about(rule, operation)

    monkeypatch.setattr(Rule, "is_about", counted)
    counts = []
    for size in (100, 10_000):
        rules = [
            Rule(("read",), principals=(f"caller {number}",), agents=(f"agent {number % 10}",))
            for number in range(size)
        ]
        known = LiveRules([*rules, Rule(("send",), principals=("robot-*",))])
        for caller, operation, allowed in (
            ("caller 7", "GetTask", True),
            ("caller 7", "CancelTask", False),
            ("robot-1", "SendMessage", True),
            ("nobody", "GetTask", False),
        ):
            known.denial("agent 7", operation, Principal(caller))
            looks = 0
            assert (known.denial("agent 7", operation, Principal(caller)) is None) is allowed
            counts.append(looks)
    assert counts[:4] == counts[4:]
    assert max(counts) <= 2
