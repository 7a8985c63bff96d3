"""What the steps of `check` share: the target, how to reach it, and what earlier steps have found.

Rules:
1. A step is a function over one `Inspection`. It yields findings, and leaves what later steps need.
2. A finding that is not ok names the fix. One that is ok may have advice.
3. A step whose conditions earlier steps did not meet yields nothing: a fault is reported once.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from a2a_bridge.bindings.binding import CheckCard, DialOptions, Fetched
from a2a_bridge.cards import Candidate
from a2a_bridge.cli.target import Target
from a2a_bridge.core.errors import A2AError, Kind
from a2a_bridge.core.masking import HIDDEN, Secrets
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client.credentials import secrets_of

#: user and password in a URL
_USER = re.compile(r"//[^/@\s]+@")

#: errors that ask for other credentials


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a step, or of one part of it."""

    #: the step, such as `TLS dates` or `JSONRPC 1.0`
    name: str
    ok: bool
    #: what was found
    detail: str
    #: what to change. A finding that is ok and has a fix is a warning: some callers have a problem, or a step
    #: could not be tried
    fix: str = ""
    #: whether the agent cannot be reached at all
    unreachable: bool = False

    @property
    def warns(self) -> bool:
        return self.ok and bool(self.fix)

    @property
    def mark(self) -> str:
        """The sign before its name."""
        return "!" if self.warns else "✓" if self.ok else "✗"


@dataclass(slots=True)
class Dialled:
    """An interface of the card and how it answers the question for a task that nobody has."""

    candidate: Candidate
    #: the error of the response; None for a task
    error: A2AError | None
    #: until the response
    seconds: float
    #: whether an agent answered that speaks the version of the card
    works: bool = False
    #: the response to its message; None before it was sent, or if it failed
    response: hub.SendMessageResponse | None = None

    @property
    def name(self) -> str:
        one = self.candidate.interface
        return f"{one.protocol_binding} {one.protocol_version}"

    @property
    def url(self) -> str:
        url: str = self.candidate.interface.url
        return url

    @property
    def is_rejected(self) -> bool:
        """Whether it answers only to other credentials."""
        return self.error is not None and self.error.reason.kind is Kind.CREDENTIALS


@dataclass(slots=True)
class Inspection:
    """One run of `check`."""

    target: Target
    #: how the agent is dialled, with the headers of the user
    options: DialOptions
    #: the message to send; empty: nothing that changes something at the agent
    text: str
    #: for each call, in seconds
    limit: float
    #: verifies the signatures of the card; None without keys
    trust: CheckCard | None = None
    #: host:port of this machine that notifications are sent to; empty: for agents of this machine only
    webhook: str = ""
    #: URL -> answer, of every place where a card was looked for
    documents: dict[str, Fetched] = field(default_factory=dict)
    #: where the card was found
    location: str = ""
    #: the card as it was received; None if it came over gRPC
    tree: Mapping[str, Any] | None = None
    #: empty until it was found
    card: hub.AgentCard = field(default_factory=hub.AgentCard)
    #: the interfaces that could be dialled, in the order of the card
    dialled: list[Dialled] = field(default_factory=list)
    #: whether a step has found that further steps make no sense
    is_over: bool = False

    @property
    def working(self) -> list[Dialled]:
        """The interfaces that answer to these credentials, in the version of the card."""
        return [one for one in self.dialled if one.works and not one.is_rejected]

    @property
    def answered(self) -> list[Dialled]:
        """The dialled interfaces that have answered the message."""
        return [one for one in self.working if one.response is not None]

    def over(self, some: Sequence[Dialled]) -> str:
        """These interfaces in words."""
        if len(some) == len(self.dialled) > 1:
            return f"over all {len(some)} interfaces"
        return f"over {', '.join(one.name for one in some)}"

    def without_secrets(self, text: str) -> str:
        """A text for reports of faults, which people paste into public places."""
        given = [part for one in self.options.parameters.values() for part in (one, one.rpartition(" ")[2])]
        secrets = secrets_of(self.card, self.options) | Secrets(values=frozenset(given))
        return secrets.head(_USER.sub(f"//{HIDDEN}@", text))

    def dial_options(self, *, anonymous: bool = False) -> DialOptions:
        """The options for one call. anonymous: without the headers of the user."""
        options = replace(self.options, timeout=self.limit)
        return replace(options, parameters={}) if anonymous else options


#: yields findings; an asynchronous generator
Step = Callable[[Inspection], AsyncGenerator[Finding, None]]
