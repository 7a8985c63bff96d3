"""The result of one call over one interface, and the comparison of several. It makes no call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.cli.canonical import canonical, differences, without_generated
from a2a_bridge.cli.client.comparing import rule_of
from a2a_bridge.cli.client.text import state_name
from a2a_bridge.cli.error_codes import failure
from a2a_bridge.codec import encoder
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.operations import Operation
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(slots=True)
class Result:
    """The responses or events of a call, as JSON of 1.0, or its error."""

    operation: Operation[Any, Any]
    events: list[Any] = field(default_factory=list)
    error: A2AError | None = None
    #: of the task, as far as the events describe it; `message` for an answer without a task
    state: str = ""

    def take(self, message: Any) -> None:
        """Adds a response, or the message of an event."""
        self.events.append(encoder(type(message))(message))
        if isinstance(message, hub.Task):
            self.state = state_name(message.status.state)
        elif isinstance(message, (hub.SendMessageResponse, hub.StreamResponse)):
            which = message.WhichOneof("payload")
            if which in ("task", "status_update"):
                self.state = state_name(getattr(message, which).status.state)
            elif which == "message":
                self.state = "message"

    @property
    def failure(self) -> dict[str, Any] | None:
        """The error as JSON: code, message, hint, a2aCode and the fields at fault; None without one."""
        return None if self.error is None else error_tree(self.error)

    @property
    def comparable(self) -> Any:
        """The result in a form that can be compared."""
        return canonical(self.events if self.error is None else [self.failure])


@dataclass(frozen=True, slots=True)
class Compared:
    """A result in its place. cell, hop: see `exchange.py`. interfaces: those that its content passed."""

    cell: str
    hop: str
    interfaces: Sequence[hub.AgentInterface]
    result: Result


def comparison(results: Sequence[Compared]) -> list[dict[str, Any]]:
    """Each result against the first one: the verdict, and the differences with their rules."""
    found = []
    for number, one in enumerate(results):
        if number == 0:
            found.append(_row(one, "first"))
            continue
        left, right = results[0].result.comparable, one.result.comparable
        different = differences(left, right)
        real = different and differences(without_generated(left), without_generated(right))
        verdict = "different" if real else "generated" if different else "identical"
        rows = [
            {
                "path": each.path,
                "this": each.this,
                "that": each.that,
                "rule": rule_of(each.path, *results[0].interfaces, *one.interfaces),
            }
            for each in different
        ]
        found.append(_row(one, verdict, rows))
    return found


def _row(one: Compared, verdict: str, rows: Sequence[Any] = ()) -> dict[str, Any]:
    return {"cell": one.cell, "hop": one.hop, "verdict": verdict, "differences": list(rows)}


def error_tree(error: A2AError) -> dict[str, Any]:
    """An error as JSON."""
    tree: dict[str, Any] = failure(error, error.message).document["error"]
    if error.violations:
        tree["fields"] = [{"field": one.field, "description": one.description} for one in error.violations]
    return tree
