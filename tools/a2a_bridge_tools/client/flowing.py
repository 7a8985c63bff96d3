"""A stream as text for a person, as it comes.

Rules:
1. The text of an artifact is one block under one label, however many events it comes in. What the artifact
   is, and states on the way, are messages on stderr.
2. No part is dropped: data and files are blocks and fields between the texts, as in `text.py`.
3. The last state is on stdout, with the ids that go on.
"""

from __future__ import annotations

from collections.abc import Iterable

from a2a_bridge.cli.output import data, print_message
from a2a_bridge.core.messages import AT_REST
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import text

_NOTHING = ("", hub.TASK_STATE_UNSPECIFIED)


class TextFlow:
    """The output of one stream. verbose: each event is printed as it is, with its metadata."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
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
        """Prints an event."""
        which = event.WhichOneof("payload")
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
