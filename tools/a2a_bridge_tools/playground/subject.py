"""An agent that the playground calls: its card, its cells, and the same call over several cells at once, with
an example of each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from secrets import token_hex
from time import monotonic
from typing import Any
from uuid import uuid4

from a2a_bridge.app import runtime
from a2a_bridge.app.peer import Peer
from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.cards import Candidate, select
from a2a_bridge.cli.connect import found_at, with_user_url
from a2a_bridge.cli.target import Target
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.masking import NONE_KNOWN, Secrets
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.cards import rewrite
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client.credentials import secrets_of
from a2a_bridge_tools.playground.exchange import (
    CLIENT,
    TRACE_PARAMETER,
    UPSTREAM,
    Compared,
    Exchange,
    Hop,
    Result,
    Seen,
    UpstreamTap,
    comparison,
)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The agent behind a gateway: its card and its first interface, and what the gateway says to it."""

    card: hub.AgentCard
    candidate: Candidate
    tap: UpstreamTap
    #: that the gateway says to it
    secrets: Secrets = NONE_KNOWN


@dataclass(frozen=True, slots=True)
class Cell:
    """An interface of a card, under a name that is unique there, such as `JSONRPC 1.0`."""

    id: str
    candidate: Candidate

    def tree(self) -> dict[str, Any]:
        one = self.candidate.interface
        return {
            "id": self.id,
            "binding": one.protocol_binding,
            "version": one.protocol_version,
            "url": one.url,
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """An agent. target: where its card is. upstream: of a gateway. fronts: protocols beside A2A, and their
    addresses.
    """

    name: str
    target: Target
    options: DialOptions
    upstream: Upstream | None = None
    #: its card, if that is not read at the target
    card: hub.AgentCard | None = None
    fronts: Sequence[tuple[str, str]] = ()

    async def found(self) -> Found:
        """Reads the card. Raises A2AError, BadTargetError."""
        card, options = self.card, self.options
        if card is None:
            card, options = await found_at(self.target, self.options)
        return Found(self, card, with_user_url(self.target, options))


@dataclass(frozen=True, slots=True)
class Found:
    """An agent whose card is known. options: to dial it with."""

    subject: Subject
    card: hub.AgentCard
    options: DialOptions
    cells: Sequence[Cell] = field(init=False)

    def __post_init__(self) -> None:
        """Raises A2AError UNSUPPORTED_OPERATION for a card without a usable interface."""
        counts: dict[str, int] = {}
        made = []
        for one in select(self.card, known=names()):
            name = f"{one.interface.protocol_binding} {one.interface.protocol_version}"
            counts[name] = counts.get(name, 0) + 1
            made.append(Cell(name if counts[name] == 1 else f"{name} ({counts[name]})", one))
        object.__setattr__(self, "cells", made)

    @property
    def secrets(self) -> Secrets:
        """The known credentials, but for the credentials of a call."""
        return secrets_of(self.card, self.options)

    def choose(self, ids: Sequence[str]) -> list[Cell]:
        """The cells of these names. Raises LookupError for a name that is none of them."""
        by_id = {one.id: one for one in self.cells}
        return [by_id[one] for one in ids]

    def dial_options(
        self, parameters: Mapping[str, str], observe: Callable[[Frame], None] | None = None
    ) -> DialOptions:
        """The options with further parameters, and an observer of frames."""
        merged = {**self.options.parameters, **parameters}
        return replace(self.options, parameters=merged, frame_observer=observe, tracing="off")

    def tree(self) -> dict[str, Any]:
        """What the page shows of the agent."""
        card, upstream = self.card, self.subject.upstream
        skills = [
            {"name": one.name, "description": one.description, "examples": list(one.examples)}
            for one in card.skills
        ]
        place = upstream.candidate.interface if upstream is not None else None
        return {
            "name": card.name or self.subject.name,
            "description": card.description,
            "url": self.subject.target.place,
            "card": card_tree(card),
            "cells": [one.tree() for one in self.cells],
            "fronts": [{"protocol": protocol, "url": url} for protocol, url in self.subject.fronts],
            "skills": skills,
            "upstream": None
            if place is None
            else {"binding": place.protocol_binding, "version": place.protocol_version, "url": place.url},
            "upstream_card": None if upstream is None else card_tree(upstream.card),
        }


def card_tree(card: hub.AgentCard) -> Any:
    """A card as JSON of 1.0."""
    return V1_0.card.encode(card)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that the page asks for."""

    found: Found
    operation: ops.Operation[Any, Any]
    request: Any
    cells: Sequence[Cell]
    #: of the user; lower-case names
    headers: Mapping[str, str] = field(default_factory=dict)
    #: id of the event after which a stream goes on
    after: str = ""


async def make(asked: Asked, exchange: Exchange) -> None:
    """Calls all cells at the same time, and compares the results."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_call(asked, exchange, cell, number)) for number, cell in enumerate(asked.cells)
        ]
    results = [one for task in tasks for one in task.result()]
    # The hops of an agent behind a gateway come last: the first one is what a client sees.
    results.sort(key=lambda one: one.hop == UPSTREAM)
    exchange.add({"comparison": comparison(results)})


async def _call(asked: Asked, exchange: Exchange, cell: Cell, number: int) -> list[Compared]:
    found, one, trace = asked.found, cell.candidate, token_hex(16)
    secrets = found.secrets | Secrets.of(asked.headers, names=found.secrets.names)
    result, seen, upstream = Result(asked.operation), None, found.subject.upstream
    if upstream is not None:
        secrets |= upstream.secrets
    hop = Hop(exchange, cell.id, CLIENT, secrets)
    started = monotonic()
    options = one.dial_options(found.dial_options(asked.headers, hop.frame))
    with ExitStack() as stack:
        if upstream is not None:
            seen = stack.enter_context(upstream.tap.collect(trace, Hop(exchange, cell.id, UPSTREAM, secrets)))
        try:
            source = rewrite(found.card, [one.interface])
            async with runtime.connect(source, options=options) as peer:
                await _ask(peer, asked, _fresh(asked, number), trace, result, hop)
        except A2AError as error:
            result.error = error
    hop.end(monotonic() - started, result.state, result.failure)
    return [Compared(cell.id, CLIENT, [one.interface], result), *_upstream(asked, cell, seen)]


def _upstream(asked: Asked, cell: Cell, seen: Seen | None) -> list[Compared]:
    """The result of the agent behind a gateway, if the gateway made the same call."""
    upstream = asked.found.subject.upstream
    if upstream is None or seen is None or seen.result is None:
        return []
    if seen.result.operation is not asked.operation:
        return []
    passed = [cell.candidate.interface, upstream.candidate.interface]
    return [Compared(cell.id, UPSTREAM, passed, seen.result)]


async def _ask(peer: Peer, asked: Asked, request: Any, trace: str, result: Result, hop: Hop) -> None:
    parameters = {TRACE_PARAMETER: f"00-{trace}-{token_hex(8)}-01"}
    if asked.after:
        parameters[LAST_EVENT_PARAMETER] = asked.after
    context = CallContext(parameters=parameters)
    if not isinstance(asked.operation, ops.Streaming):
        result.take(await peer.service.unary(Call(asked.operation, request, context)))
        hop.event(result.events[-1])
        return
    async with aclosing(peer.events(request, False, context)) as events:
        async for event in events:
            result.take(event.message)
            hop.event(result.events[-1], event)


def _fresh(asked: Asked, number: int) -> Any:
    """The request for one cell, with an id of its own: agents may know the ids of earlier messages."""
    if asked.operation not in ops.SEND or number == 0:
        return asked.request
    request = type(asked.request)()
    request.CopyFrom(asked.request)
    if request.message.message_id:
        request.message.message_id = str(uuid4())
    return request


_MESSAGE = {"message": {"role": "ROLE_USER", "parts": [{"text": "hello"}]}}
_TASK = {"id": "TASK-ID"}
_CONFIG = {"taskId": "TASK-ID", "id": "CONFIG-ID"}
_REQUESTS: dict[ops.Operation[Any, Any], dict[str, Any]] = {
    ops.SEND_MESSAGE: _MESSAGE,
    ops.SEND_STREAMING_MESSAGE: _MESSAGE,
    ops.GET_TASK: _TASK,
    ops.LIST_TASKS: {"pageSize": 20},
    ops.CANCEL_TASK: _TASK,
    ops.SUBSCRIBE_TO_TASK: _TASK,
    ops.CREATE_PUSH_CONFIG: {"taskId": "TASK-ID", "url": "https://receiver.example/webhook"},
    ops.GET_PUSH_CONFIG: _CONFIG,
    ops.LIST_PUSH_CONFIGS: {"taskId": "TASK-ID"},
    ops.DELETE_PUSH_CONFIG: _CONFIG,
    ops.GET_EXTENDED_AGENT_CARD: {},
}


def operations() -> list[dict[str, Any]]:
    """All operations, with an example of each request in ProtoJSON of 1.0."""
    return [
        {"name": one.name, "streams": isinstance(one, ops.Streaming), "request": _REQUESTS[one]}
        for one in ops.ALL
    ]
