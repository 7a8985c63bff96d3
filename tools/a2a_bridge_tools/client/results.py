"""Prints the results of client commands: text or JSON on stdout, what a person may want to know on stderr.

Rules (SPEC.md 9):
1. `-o json` is one document of the protocol's own type; with `--stream` one event a line, the last one with
   the state of the task.
2. Text shows ids and state of every task, and the command to go on.
3. What became of a task is no exit code; a task that failed or asks for something is a warning on stderr.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import data, document, print_message
from a2a_bridge.codec import encoder
from a2a_bridge.core.messages import AT_REST, INTERRUPTED
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.flags import ClientFlags, StreamFlags
from a2a_bridge_tools.client.flowing import TextFlow
from a2a_bridge_tools.client.parts import file_name, files_of, save
from a2a_bridge_tools.client.progress import count_steps
from a2a_bridge_tools.client.reaching import Session

_encode_event = encoder(hub.StreamResponse)
_encode_task = encoder(hub.Task)
_encode_answer = encoder(hub.SendMessageResponse)


async def show_events(
    session: Session, events: AsyncGenerator[hub.StreamResponse, None], flags: StreamFlags, *, live: bool
) -> hub.StreamResponse | None:
    """Prints events as they arrive, or only messages, of which none repeats another. Returns the last one."""
    last: hub.StreamResponse | None = None
    flow = TextFlow(verbose=flags.verbose)
    try:
        async with aclosing(events):
            async for event in events:
                last = event
                if live or event.HasField("message"):
                    _show_event(session, event, flags, flow if live else None)
    finally:
        flow.end()
    if last is None:
        return None
    if not live and flags.save_fileparts is not None and not last.HasField("message"):
        save_files(session, last, flags.save_fileparts)
    if session.task is not None:
        if live and flags.output is Output.TEXT:
            flow.rest(session.task)
            go_on(session, session.task, flags)
        warn(session.task)
    return last


def _show_event(
    session: Session, event: hub.StreamResponse, flags: StreamFlags, flow: TextFlow | None
) -> None:
    """Prints an event. flow: of live text."""
    if flags.save_fileparts is not None and event.WhichOneof("payload") != "task":
        save_files(session, event, flags.save_fileparts)
    if flow is None:
        show_answer(session, event, flags)
    elif flags.output is Output.JSON:
        document(_encode_event(event))
    else:
        flow.event(event)


def show_end(session: Session, last: hub.StreamResponse, flags: ClientFlags) -> None:
    """Prints the result of `send` after its events: the task, if there is one. Messages have been printed."""
    if not last.HasField("message"):
        show_answer(session, last, flags)
    elif session.task is not None:
        show_answer(session, hub.StreamResponse(task=session.task), flags)


def show_answer(session: Session, last: hub.StreamResponse, flags: ClientFlags) -> None:
    """Prints the result of `send`."""
    which = last.WhichOneof("payload")
    if flags.output is Output.JSON:
        if which == "message":
            document(_encode_answer(hub.SendMessageResponse(message=last.message)))
        else:
            document(_encode_answer(hub.SendMessageResponse(task=task_of(session, last))))
    elif which == "message":
        data("".join(text.message(last.message, verbose=flags.verbose)), end="")
    else:
        show_task(session, task_of(session, last), flags)


def show_task(
    session: Session, task: hub.Task, flags: ClientFlags, *, history: bool = False, warned: bool = True
) -> None:
    """Prints a task. warned: its warning is printed already."""
    if flags.output is Output.JSON:
        document(_encode_task(task))
    else:
        data("".join(text.task(task, verbose=flags.verbose, history=history)), end="")
        go_on(session, task, flags)
    if not warned:
        warn(task)


def task_of(session: Session, last: hub.StreamResponse) -> hub.Task:
    """The task of the last event."""
    if last.WhichOneof("payload") == "task" or session.task is None:
        return last.task
    return session.task


def go_on(session: Session, task: hub.Task, flags: ClientFlags) -> None:
    """Prints the command that goes on with a task, if there is something to do."""
    if flags.output is Output.JSON:
        return
    if task.status.state in INTERRUPTED:
        data(text.field("Next", session.command("send", "--task-id", task.id, "<reply>")), end="")
    elif task.status.state not in AT_REST:
        data(text.field("Next", session.command("task get", task.id, "--wait")), end="")
    elif task.context_id:
        data(text.field("Next", session.command("send", "--context-id", task.context_id, "<text>")), end="")


def warn(task: hub.Task) -> None:
    """Names an outcome that is no success."""
    if task.status.state in AT_REST - {hub.TASK_STATE_COMPLETED}:
        said = " ".join(part.text for part in task.status.message.parts if part.text)
        words = f"warning: the task is {text.state_name(task.status.state)}"
        print_message(f"{words}: {said}" if said else words, "yellow")


def save_files(session: Session, answer: Any, folder: Path) -> None:
    """Saves the files of a response, and says where."""
    found = ((artifact or "file", (artifact, part)) for artifact, part in files_of(answer))
    for artifact, part in count_steps("saving", found):
        if part.WhichOneof("content") == "url":
            note_link(part)
        elif path := save_one(session, folder, file_name(part, artifact or "file"), part.raw):
            print_message(f"saved {path} ({len(part.raw)} bytes)", "dim")


def save_one(
    session: Session, folder: Path, name: str, content: bytes, *, overwrite: bool = False
) -> Path | None:
    """Saves a file. Returns its path; None after a warning, and the command ends with a failure."""
    try:
        return save(folder, name, content, overwrite=overwrite)
    except OSError as error:
        where = error.filename or folder
        print_message(f"warning: {where} cannot be written: {error.strerror}", "yellow")
        session.unsaved += 1
        return None


def note_link(part: hub.Part) -> None:
    """Says that a file is somewhere else."""
    print_message(f"note: {part.url} is a link; it is not fetched", "yellow")
