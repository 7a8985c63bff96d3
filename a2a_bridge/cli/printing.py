"""Answers as text: their content on stdout, the state of the task on stderr. No JSON."""

from __future__ import annotations

from collections.abc import Iterable

from a2a_bridge.cli.output import data, print_message
from a2a_bridge.codec import dumps, encoder
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Value

_encode_value = encoder(Value)


def state_name(state: hub.TaskState) -> str:
    """The state of a task as text: `input-required`."""
    try:
        return hub.TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")
    except ValueError:
        return f"state {int(state)}"


def print_response(response: hub.SendMessageResponse) -> None:
    """Prints the parts of a message or the artifacts of a task; without artifacts, its status message. With
    artifacts, the status message of a task that is not completed is printed on stderr.
    """
    if response.HasField("message"):
        data(content(response.message.parts))
        return
    task = response.task
    if task.artifacts:
        for artifact in task.artifacts:
            data(content(artifact.parts))
        if task.status.message.parts and task.status.state != hub.TASK_STATE_COMPLETED:
            print_message(f"{state_name(task.status.state)}: {content(task.status.message.parts)}")
    elif task.status.message.parts:
        data(content(task.status.message.parts))


def content(parts: Iterable[hub.Part]) -> str:
    """Parts as text: texts joined as they are, everything else on lines of its own."""
    pieces: list[str] = []
    for part in parts:
        if part.WhichOneof("content") == "text":
            pieces.append(part.text)
            continue
        if pieces and not pieces[-1].endswith("\n"):
            pieces.append("\n")
        pieces.append(_other(part) + "\n")
    return "".join(pieces).removesuffix("\n")


def _other(part: hub.Part) -> str:
    which = part.WhichOneof("content")
    if which == "data":
        return dumps(_encode_value(part.data)).decode()
    label = " ".join(filter(None, (part.filename, part.media_type)))
    if which == "url":
        return f"{part.url} {label}".rstrip()
    return f"[{len(part.raw)} bytes {label}]".replace(" ]", "]")


def summary(task: hub.Task | None, interface: hub.AgentInterface | None, seconds: float) -> str:
    """One line about the result: state, task, binding, time."""
    title = "message" if task is None else f"{state_name(task.status.state)}  task {task.id}"
    where = "in-process" if interface is None else interface.protocol_binding
    return f"{title}  {where}  {seconds * 1000:.0f} ms"


class StreamPrinter:
    """Prints the events of a stream: chunks of one artifact run on, another artifact begins a line."""

    def __init__(self) -> None:
        self._artifact = ""
        self._open = False

    def show(self, event: hub.StreamResponse) -> None:
        """Prints one event."""
        which = event.WhichOneof("payload")
        if which == "artifact_update":
            update = event.artifact_update
            if not (update.append and update.artifact.artifact_id == self._artifact):
                self.end()
            self._artifact = update.artifact.artifact_id
            self._write(content(update.artifact.parts))
        elif which == "message":
            self._write(content(event.message.parts))
        elif which == "status_update":
            self._status(event.status_update.status)
        elif which == "task":
            for artifact in event.task.artifacts:
                self.end()
                self._write(content(artifact.parts))
            self._status(event.task.status)

    def end(self) -> None:
        """Ends a line that is being written."""
        if self._open:
            data("")
        self._open = False

    def _write(self, text: str) -> None:
        if text:
            data(text, end="")
            self._open = not text.endswith("\n")

    def _status(self, status: hub.TaskStatus) -> None:
        text = content(status.message.parts) if status.HasField("message") else ""
        self.end()
        print_message(f"{state_name(status.state)}: {text}" if text else state_name(status.state), "dim")
