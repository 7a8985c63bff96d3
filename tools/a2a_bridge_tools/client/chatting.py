"""`chat`: reads lines from a terminal, and shows what the agent answers.

Rules:
1. It needs a terminal on both sides; anywhere else it ends at once and names `send`.
2. The context of the first response goes with every further message, and the task only while it asks for
   something.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

import typer

from a2a_bridge.cli.output import fail, print_message
from a2a_bridge.cli.values import Exit
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import INTERRUPTED
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client.flags import ContinueFlags
from a2a_bridge_tools.client.reaching import Session, run
from a2a_bridge_tools.client.results import show_events
from a2a_bridge_tools.client.sending import request_with
from a2a_bridge_tools.client.waiting import send_and_wait


def talk(context: typer.Context, flags: ContinueFlags) -> None:
    """Talks until the end of the input. Raises typer.Exit."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise fail(Exit.USAGE, "chat needs a terminal", "a2a-bridge send, with --context-id and --task-id")
    run(context, flags, partial(_talk, flags=flags))


async def _talk(session: Session, *, flags: ContinueFlags) -> None:
    context_id, task_id = flags.context_id, flags.task_id
    while True:
        print_message(f"to {session.card.name or 'the agent'}" + (" (it asks)" if task_id else ""), "dim")
        line = await asyncio.to_thread(sys.stdin.readline)
        text = line.strip()
        if not line or text == "/quit":
            return
        if not text:
            continue
        request = request_with([hub.Part(text=text)], flags)
        request.message.context_id, request.message.task_id = context_id, task_id
        session.task = None
        events = send_and_wait(session, request, flags, streamed=True)
        try:
            last = await show_events(session, events, flags, live=True)
        except A2AError as error:
            # A conversation outlives a message that is rejected.
            print_message(f"error: {error.message}", "red")
            continue
        if last is not None and last.HasField("message"):
            context_id = last.message.context_id or context_id
            task_id = last.message.task_id
        elif (task := _task(session)) is not None:
            context_id = task.context_id or context_id
            task_id = task.id if task.status.state in INTERRUPTED else ""


def _task(session: Session) -> hub.Task | None:
    return session.task
