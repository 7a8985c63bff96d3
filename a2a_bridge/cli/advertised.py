"""Calls the URLs of the served card, as callers elsewhere do, and warns of wrong URLs.

Rules:
1. Only with `--public-url` or `--public-grpc`: all other URLs are those that this process listens on.
2. It begins after the ready line, in the background of the first worker, and ends with the server.
3. One harmless call for each URL, without credentials: a question for a task that nobody has. Every response
   of A2A is right, a rejection included.
4. A balancer in front learns only now that this process is ready. So only a fault that lasts is a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.bindings.probing import QUESTIONS, within
from a2a_bridge.cards import Candidate, select
from a2a_bridge.cli.output import print_message
from a2a_bridge.core.errors import A2AError, Blame, Reason, cause_of
from a2a_bridge.dialects import GRPC
from a2a_bridge.gateway.connections import question
from a2a_bridge.gateway.upstream import dial
from a2a_bridge.pb import lf_a2a_v1 as hub

#: seconds for the response to one call
QUESTION = 5.0
#: seconds before each further call to a URL that does not answer as an agent
_PAUSES = (1.0, 2.0, 4.0, 8.0)
#: reasons that no agent has to reject the question for a task
FAULTS = frozenset({Reason.METHOD_NOT_FOUND, Reason.INVALID_AGENT_RESPONSE})
#: answers in whatever words: a proxy may ask who calls, and agents of 0.3 have no form for errors over HTTP
_ANSWERS = frozenset({Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED, Reason.TASK_NOT_FOUND})

#: in the cause when a certificate is of an authority that this machine does not know; callers may know it
_PRIVATE = "--cacert"


async def ask(candidate: Candidate, options: DialOptions, limit: float = QUESTION) -> A2AError | None:
    """The error with which an interface answers the question for a task that nobody has. limit: seconds."""

    async def answer() -> None:
        async with dial(candidate, options) as service:
            await service.unary(question())

    try:
        async with QUESTIONS.at(candidate.interface.url):
            await within(limit, answer())
    except TimeoutError:
        silent = A2AError(Reason.DEADLINE_EXCEEDED, f"no answer in {limit:g} s", blame=Blame.PEER)
        silent.metadata["phase"] = "call"
        return silent
    except A2AError as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class Advertised:
    """Which cards are checked. names: of agents; None: all that the server has."""

    names: frozenset[str] | None = None
    pauses: Sequence[float] = _PAUSES

    @classmethod
    def of(cls, options: ServeOptions) -> Advertised | None:
        """For the only agent of a server; None if its card has no public URL."""
        return cls() if options.public_url or options.public_grpc else None

    @asynccontextmanager
    async def check_cards(self, cards: Mapping[str, hub.AgentCard]) -> AsyncIterator[None]:
        """Checks the cards of a running server in the background, while the context is open. cards: by the
        name of the agent.
        """
        chosen = [card for name, card in cards.items() if self.names is None or name in self.names]
        task = asyncio.create_task(self._check(chosen))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _check(self, cards: Sequence[hub.AgentCard]) -> None:
        found: dict[tuple[str, str], Candidate] = {}
        for card in cards:
            for one in select(card, known=names()):
                found.setdefault((one.interface.protocol_binding, one.interface.url), one)
        for text in await asyncio.gather(*map(self.warning, found.values())):
            if text:
                print_message(f"warning: {text}", "yellow")

    async def warning(self, candidate: Candidate) -> str:
        """What is wrong with an advertised interface, and the remedy; empty if it answers as an agent."""
        fault = ""
        for pause in (0.0, *self.pauses):
            await asyncio.sleep(pause)
            error = await ask(candidate, DialOptions(timeout=None))
            fault = "" if error is None else fault_of(error)
            if not fault:
                return ""
        one = candidate.interface
        return (
            f"the card names {one.url} for {one.protocol_binding}, which does not answer as this agent:"
            f" {fault}; {_remedy(one)}"
        )


def fault_of(error: A2AError) -> str:
    """What an error says of the way to the agent; empty if it comes from an agent."""
    cause = cause_of(error)
    if error.reason in _ANSWERS or _PRIVATE in cause:
        return ""
    is_local = hasattr(error, "__notes__") or "phase" in error.metadata
    return cause if is_local or error.reason in FAULTS else ""


def _remedy(one: hub.AgentInterface) -> str:
    if one.protocol_binding == GRPC.name:
        return (
            "--public-grpc HOST:PORT names the address that leads here with HTTP/2, and --advertise leaves"
            " GRPC out of the card"
        )
    path = urlsplit(one.url).path or "/"
    return f"--public-url has to be the URL that leads here, and a proxy has to pass on what is below {path}"
