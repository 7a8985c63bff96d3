"""Makes the same call over several cells at once, and has an example of each request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from secrets import token_hex
from time import monotonic
from typing import Any
from uuid import uuid4

from a2a_bridge.app import runtime
from a2a_bridge.app.peer import Peer
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.masking import Secrets
from a2a_bridge.gateway import rewrite
from a2a_bridge_tools.playground.exchange import (
    CLIENT,
    TRACE_PARAMETER,
    UPSTREAM,
    Compared,
    Exchange,
    Hop,
    Result,
    Seen,
    comparison,
)
from a2a_bridge_tools.playground.subject import Cell, Found


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
    """The request for one cell. Agents may know the id of each message that they had, so that a second cell
    needs another one.
    """
    if asked.operation not in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE) or number == 0:
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
