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
from a2a_bridge.cli.message import CallOptions, Outgoing, answers_of, exit_of, followed, tree_of
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import document, print_message
from a2a_bridge.cli.target import parse
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peer import Peer


async def converse(target: str, outgoing: Outgoing, call_options: CallOptions) -> Exit:
    """Calls the agent and prints the answer. Raises A2AError, TimeoutError, BadTargetError."""
    # An unreachable agent is reported once, by the error that ends the command.
    logging.getLogger("a2a_bridge").setLevel(logging.ERROR)
    async with asyncio.timeout(call_options.timeout):
        if call_options.binding == "all":
            return await compare(parse(target), outgoing, call_options)
        return await _one(target, outgoing, call_options)


async def _one(target: str, outgoing: Outgoing, call_options: CallOptions) -> Exit:
    async with reached(parse(target), call_options.binding, call_options.dial, call_options.version) as peer:
        started = time.monotonic()
        task = await _print_answers(peer, outgoing, call_options)
        if call_options.output is Output.TEXT:
            print_message(printing.summary(task, peer.interface, time.monotonic() - started), "dim")
            if task is not None and task.status.state == hub.TASK_STATE_INPUT_REQUIRED:
                print_message(f"  go on with: a2a-bridge call {target} TEXT --task {task.id}")
        return exit_of(task)


async def _print_answers(peer: Peer, outgoing: Outgoing, call_options: CallOptions) -> hub.Task | None:
    """Prints answers as they arrive; returns the task as far as they describe it."""
    task: hub.Task | None = None
    printer = printing.StreamPrinter()
    try:
        async with aclosing(answers_of(peer, outgoing, call_options)) as answers:
            async for answer in answers:
                task = followed(task, answer)
                if call_options.output is Output.JSON:
                    document(tree_of(answer))
                elif isinstance(answer, hub.StreamResponse):
                    printer.show(answer)
                else:
                    printing.print_response(answer)
    finally:
        printer.end()
    return task
