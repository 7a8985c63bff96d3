"""Access rules in configuration files: `[[rules]]`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from a2a_bridge.cli.declared import Table, table

#: what `auth.rules` knows. That module loads protobuf, and a supervisor reads rules, too; a test compares
OPERATIONS = frozenset(
    {
        "SendMessage",
        "SendStreamingMessage",
        "GetTask",
        "ListTasks",
        "CancelTask",
        "SubscribeToTask",
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
        "GetExtendedAgentCard",
        "read",
        "send",
    }
)


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

    def unknown(self, agents: Collection[str]) -> Iterator[tuple[str, str]]:
        """The members with names that do not exist, each with the problem. agents: the names of the file."""
        for name in self.operations:
            if name not in OPERATIONS:
                yield "operations", f"{name!r} is none of {', '.join(sorted(OPERATIONS))}"
        if self.agents and not any(fnmatchcase(name, one) for name in agents for one in self.agents):
            known = ", ".join(agents) or "none, because there are no tables [agents.NAME]"
            yield "agents", f"none of the agents here: {known}"
