"""Access rules in configuration files: `[[rules]]`."""

from __future__ import annotations

from dataclasses import dataclass

from a2a_bridge.cli.declared import Table, table


@dataclass(frozen=True, kw_only=True)
class RuleSettings(Table):
    """One `[[rules]]`: allows calls, as `auth.rules.Rule` does. An empty member allows everything. Raises
    ValueError for a rule without members: it is the beginning of one more often than what somebody wants.
    """

    operations: tuple[str, ...] = table(
        tuple, "Names such as SendMessage, or read and send for groups of them."
    )
    scopes: tuple[str, ...] = table(tuple, "The caller needs all of these.")
    principals: tuple[str, ...] = table(tuple, "Names or patterns (*, ?) of callers.")
    agents: tuple[str, ...] = table(tuple, "Names of the agents that the rule is for.")

    def __post_init__(self) -> None:
        if not (self.operations or self.scopes or self.principals or self.agents):
            text = 'says nothing, and would allow everything; principals = ["*"] says that'
            raise ValueError(text)
