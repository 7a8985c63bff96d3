"""Prints the results of client commands: text or JSON on stdout, what a person may want to know on stderr.

Rules (SPEC.md 9):
1. `-o json` is one document of the protocol's own type; with `--stream` one event a line, and the last
   event has the state of the task.
2. Text shows ids and state of every task, and the command to go on.
3. What became of a task is no exit code, but with `--check`; a task that failed or asks for something is a
   warning on stderr, or an error with `--check`.
4. With `--quiet` the text on stdout is that of the answer alone.

Rules of a stream as text:
1. The text of an artifact is one block under one label, however many events it comes in. The description of
   the artifact, and states on the way, are messages on stderr.
2. No part is dropped: data and files are blocks and fields between the texts, as in `text.py`.
3. The last state is on stdout, with the ids that go on.

The line of progress appears on stderr, if that is a terminal, after a second, changes every second, and is
wiped before anything else is printed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import typer

from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import data, document, on_terminal, print_message, progress
from a2a_bridge.cli.values import Exit
from a2a_bridge.codec import encoder
from a2a_bridge.core.messages import AT_REST, INTERRUPTED
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.flags import ClientFlags, SendFlags, StreamFlags
from a2a_bridge_tools.client.parts import file_name, files_of, save
from a2a_bridge_tools.client.reaching import Session

_encode_event = encoder(hub.StreamResponse)
_encode_task = encoder(hub.Task)
_encode_answer = encoder(hub.SendMessageResponse)


async def show_events(
    session: Session, events: AsyncGenerator[hub.StreamResponse, None], flags: StreamFlags, *, live: bool
) -> hub.StreamResponse | None:
    """Prints events as they arrive, or only messages, of which none repeats another. Returns the last one."""
    last: hub.StreamResponse | None = None
    flow = TextFlow(verbose=flags.verbose, quiet=is_quiet(flags))
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
        if live and flags.output is Output.TEXT and not is_quiet(flags):
            flow.rest(session.task)
            go_on(session, session.task, flags)
        warn(session.task)
    return last


def is_quiet(flags: ClientFlags) -> bool:
    """Whether the answer alone is printed: `send --quiet`."""
    return isinstance(flags, SendFlags) and flags.quiet


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
    elif is_quiet(flags):
        data("".join(text.answer(last.message if which == "message" else task_of(session, last))), end="")
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


#: the exit codes of `--check`
_CHECKED: Mapping[int, Exit] = {
    hub.TASK_STATE_FAILED: Exit.TASK_FAILED,
    hub.TASK_STATE_REJECTED: Exit.TASK_REJECTED,
    hub.TASK_STATE_CANCELED: Exit.TASK_CANCELED,
    hub.TASK_STATE_INPUT_REQUIRED: Exit.TASK_ASKS,
    hub.TASK_STATE_AUTH_REQUIRED: Exit.TASK_ASKS,
}
_LOST = (hub.TASK_STATE_FAILED, hub.TASK_STATE_REJECTED)


def warn(task: hub.Task) -> None:
    """Names an outcome that is no success."""
    if task.status.state in AT_REST - {hub.TASK_STATE_COMPLETED}:
        print_message(f"warning: {_outcome(task)}", "red" if task.status.state in _LOST else "yellow")


def _outcome(task: hub.Task) -> str:
    said = " ".join(part.text for part in task.status.message.parts if part.text)
    words = f"the task is {text.state_name(task.status.state)}"
    return f"{words}: {said}" if said else words


def check(task: hub.Task) -> None:
    """Raises typer.Exit for a task that is not completed, as the error on stderr says."""
    if task.status.state == hub.TASK_STATE_COMPLETED:
        return
    print_message(f"error: {_outcome(task)} (--check)", "red")
    raise typer.Exit(_CHECKED.get(task.status.state, Exit.FAILURE))


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
        print_message(f"warning: {error.filename or folder} cannot be written: {error.strerror}", "yellow")
        session.unsaved += 1
        return None


def note_link(part: hub.Part) -> None:
    """Says that a file is somewhere else."""
    print_message(f"note: {part.url} is a link; it is not fetched", "yellow")


_NOTHING = ("", hub.TASK_STATE_UNSPECIFIED)


class TextFlow:
    """The output of one stream. verbose: each event is printed as it is, with its metadata. quiet: texts and
    other parts of the answer alone.
    """

    def __init__(self, *, verbose: bool, quiet: bool = False) -> None:
        self._verbose = verbose
        self._quiet = quiet
        #: whether something has been printed
        self._begun = False
        #: of the artifact of the last event
        self._artifact: str | None = None
        #: whether the block of its text is open, and a line in it
        self._is_open = self._in_line = False
        #: the state on the way that was said last
        self._said: hub.TaskState | None = None
        #: the task and the state that were printed last, if nothing came after them
        self._rests = _NOTHING

    def event(self, event: hub.StreamResponse) -> None:
        which = event.WhichOneof("payload")
        if self._quiet:
            if which == "artifact_update":
                self._piece(event.artifact_update.artifact.parts)
            elif which == "message":
                self._piece(event.message.parts)
            return
        if which == "artifact_update" and not self._verbose:
            self._update(event.artifact_update)
            return
        if which == "status_update" and not self._verbose:
            self._status(event.status_update)
        elif which == "task" and not self._verbose and event.task.status.state not in AT_REST:
            self._snapshot(event.task)
        else:
            self._artifact = None
            self._show(text.event(event, verbose=self._verbose))
            if which in ("task", "status_update"):
                self._note(event)

    def rest(self, task: hub.Task) -> None:
        """Prints what a task is in the end, unless the last event has said it."""
        if self._rests != (task.id, task.status.state):
            self._show(text.identity(task.id, task.context_id, task.status.state))

    def end(self) -> None:
        """Ends the text of an artifact."""
        if self._in_line:
            data("")
        self._is_open = self._in_line = False

    def _update(self, update: hub.TaskArtifactUpdateEvent) -> None:
        one = update.artifact
        if self._artifact != one.artifact_id or (one.parts and not update.append):
            self.end()
            said = " ".join(filter(None, (one.artifact_id, one.name)))
            print_message(f"artifact {said}", "dim")
            self._artifact = one.artifact_id
        for part in one.parts:
            if part.WhichOneof("content") == "text":
                self._flow(part.text)
            else:
                self._show(text.parts([part]))

    def _piece(self, parts: Iterable[hub.Part]) -> None:
        """Prints parts of the answer without labels."""
        for line in text.plain(parts):
            data(line, end="")
            self._in_line = not line.endswith("\n")

    def _flow(self, piece: str) -> None:
        if not self._is_open:
            self._show(["Text:\n"])
            self._is_open = True
        if piece:
            data(piece, end="")
            self._in_line = not piece.endswith("\n")

    def _status(self, update: hub.TaskStatusUpdateEvent) -> None:
        state = update.status.state
        said = text.parts(update.status.message.parts, "Status message")
        if state in AT_REST:
            self._show([*text.identity(update.task_id, update.context_id, state), *said])
            self._rests = (update.task_id, state)
        else:
            if state != self._said:
                print_message(f"task {update.task_id}: {text.state_name(state)}", "dim")
            self._said = state
            self._show(said)

    def _snapshot(self, task: hub.Task) -> None:
        """A task that goes on; its ids and its state were said when it became known."""
        self._show(text.parts(task.status.message.parts, "Status message"))
        for one in task.artifacts:
            self._show(text.artifact(one))

    def _note(self, event: hub.StreamResponse) -> None:
        if event.HasField("task"):
            self._rests = (event.task.id, event.task.status.state)
        else:
            self._rests = (event.status_update.task_id, event.status_update.status.state)

    def _show(self, lines: Iterable[str]) -> None:
        """Prints fields and blocks, after an empty line if they are not the first."""
        shown = "".join(lines).rstrip("\n")
        if shown:
            self.end()
            self._rests = _NOTHING
            data(f"\n{shown}" if self._begun else shown)
            self._begun = True


_T = TypeVar("_T")
#: seconds between two changes of the line
_TICK = 1.0


@asynccontextmanager
async def show_waiting(
    session: Session, request: hub.SendMessageRequest | None = None
) -> AsyncIterator[None]:
    """Shows while the block runs how the task of a session is, and for how long it has run. request: the
    message that is sent; until there is a task, the line names the size of its files.
    """
    if not on_terminal():
        yield
        return
    started = time.monotonic()
    sizes = [len(part.raw) for part in request.message.parts if part.raw] if request is not None else []
    files = f" ({len(sizes)} file{'s' * (len(sizes) > 1)}, {sum(sizes)} bytes)" if sizes else ""

    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK)
            task = session.task
            what = f"waiting for the agent{files}"
            if task is not None:
                what = f"task {task.id}: {text.state_name(task.status.state)}"
            leave = "; Ctrl-C leaves it" if task is not None else ""
            progress(f"{what}, {time.monotonic() - started:.0f} s{leave}")

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        progress("")


def count_steps(what: str, things: Iterable[tuple[str, _T]]) -> Iterator[_T]:
    """The second of each pair; shows `what`, its number and its name, the first, while it is worked on."""
    every = list(things)
    try:
        for number, (name, thing) in enumerate(every, 1):
            progress(f"{what} {number} of {len(every)}: {name}")
            yield thing
    finally:
        progress("")
