"""One message and its answer, over one interface of an agent or over all of them, as `call` prints it."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing

from a2a_bridge.cli import printing
from a2a_bridge.cli.compare import compare
from a2a_bridge.cli.connect import reached
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.message import CallOptions, Outgoing, encode_event, encode_response
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import document, talk
from a2a_bridge.cli.target import parse
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peer import Peer


async def converse(target: str, said: Outgoing, how: CallOptions) -> Exit:
    """Calls the agent and prints the answer. Raises A2AError, TimeoutError, BadTargetError."""
    # An unreachable agent is reported once, by the error that ends the command.
    logging.getLogger("a2a_bridge").setLevel(logging.ERROR)
    async with asyncio.timeout(how.timeout):
        if how.binding == "all":
            return await compare(parse(target), said, how)
        return await _one(target, said, how)


async def _one(target: str, said: Outgoing, how: CallOptions) -> Exit:
    async with reached(parse(target), how.binding, how.dial, how.version) as peer:
        started = time.monotonic()
        if how.stream:
            task = await _stream(peer, said, how)
        else:
            task = await _unary(peer, said, how)
        if how.output is Output.TEXT:
            talk(printing.summary(task, peer.interface, time.monotonic() - started), "dim")
            if task is not None and task.status.state == hub.TASK_STATE_INPUT_REQUIRED:
                talk(f"  go on with: a2a-bridge call {target} TEXT --task {task.id}")
        return exit_of(task)


async def _unary(peer: Peer, said: Outgoing, how: CallOptions) -> hub.Task | None:
    response = await peer.send_message(said.request(), how.context())
    if how.output is Output.JSON:
        document(encode_response(response))
    else:
        printing.print_response(response)
    return response.task if response.HasField("task") else None


async def _stream(peer: Peer, said: Outgoing, how: CallOptions) -> hub.Task | None:
    """Prints events as they arrive; returns the task as far as the events described it."""
    task: hub.Task | None = None
    printer = printing.StreamPrinter()
    try:
        async with aclosing(peer.events(said.request(), how.follow, how.context())) as events:
            async for event in events:
                task = _followed(task, event.message)
                if how.output is Output.JSON:
                    document(encode_event(event.message))
                else:
                    printer.show(event.message)
    finally:
        printer.end()
    return task


def _followed(task: hub.Task | None, event: hub.StreamResponse) -> hub.Task | None:
    """The parts of a task that are kept while its events are printed: id and status."""
    which = event.WhichOneof("payload")
    if which == "task":
        return hub.Task(id=event.task.id, context_id=event.task.context_id, status=event.task.status)
    if which == "status_update":
        update = event.status_update
        return hub.Task(id=update.task_id, context_id=update.context_id, status=update.status)
    return task


def exit_of(task: hub.Task | None) -> Exit:
    """The exit code for a task. A task that continues, or waits for the caller, has not failed."""
    state = hub.TASK_STATE_COMPLETED if task is None else task.status.state
    if state == hub.TASK_STATE_AUTH_REQUIRED:
        return Exit.AUTH
    return Exit.TASK_FAILED if state in TERMINAL - {hub.TASK_STATE_COMPLETED} else Exit.OK
