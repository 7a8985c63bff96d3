"""What a program writes on stdout: text, or one JSON object a line.

Rules:
1. All of it is text, unless the first line is the value of $A2A_EVENTS, another value in each run. Then each
   further line is an event. So a program that repeats a caller's text cannot be made to write events.
2. Text is passed on as it comes. Bytes that are no UTF-8 become U+FFFD.
3. An object has one member that says what the event is, and members that belong to it: see KINDS. Anything
   else breaks the protocol. The error names the line, and has nothing of its content.
4. Events and artifacts are limited in number, not in bytes only: a short line becomes a message or an
   artifact, which takes a hundred times its bytes, and a task looks through its artifacts for each.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.codec import JsonSyntaxError, loads
from a2a_bridge.hosting.agent_content import ExecutorError
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.hosting.programs.folder import OutputTooLargeError
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the member that says what an event is → the members that may stand beside it, with their types
KINDS: dict[str, dict[str, type]] = {
    "text": {"artifact": str, "name": str, "last": bool},
    "data": {"artifact": str, "name": str, "last": bool},
    "file": {"mediaType": str},
    "status": {},
    "message": {},
    "ask": {},
    "error": {},
}

#: events of one run, and artifacts that they begin
_MOST_EVENTS, _MOST_ARTIFACTS = 50_000, 1000


@dataclass(frozen=True, slots=True)
class FileName:
    """A file in the folder for output that is complete."""

    name: str
    media_type: str


@dataclass(slots=True)
class Output:
    """The stdout of one run. token: the value of $A2A_EVENTS."""

    run: Run
    token: str
    #: the text of a task that ends well, the question of one that waits, and the text of one that fails
    messages: list[str] = field(default_factory=list)
    question: str | None = None
    error: str | None = None
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    #: None until it is known what the program writes
    _has_events: bool | None = None
    _rest: bytes = b""
    _number: int = 0
    _events: int = 0
    _artifacts: int = 0
    _artifact_id: str = field(default_factory=new_id)
    #: the artifacts of this run that take further chunks
    _begun: set[str] = field(default_factory=set)

    def feed(self, data: bytes, *, last: bool = False) -> Iterator[Event | FileName]:
        """The events of further bytes. last: True for the last. Raises ExecutorError, OutputTooLargeError."""
        if self._has_events is None:
            first = f"{self.token}\n".encode()
            data = self._rest + data
            if len(data) < len(first) and first.startswith(data) and not last:
                self._rest = data
                return
            # The last line of a program may be without an end.
            self._has_events = data.startswith(first) or (last and data == first[:-1])
            self._rest = b""
            if self._has_events:
                data, self._number = data[len(first) :], 1
        if self._has_events:
            yield from self._lines(data, last=last)
        elif text := self._decoder.decode(data, last):
            yield self._chunk(text)

    def _chunk(self, content: Any, artifact_id: str = "", *, name: str = "", last: bool = False) -> Event:
        """A piece of an artifact; of the one for text without an id."""
        artifact_id = artifact_id or self._artifact_id
        append = artifact_id in self._begun
        if not append:
            self._count_artifact()
        self._begun.add(artifact_id)
        if last:
            self._begun.discard(artifact_id)
        return self.run.artifact(content, artifact_id=artifact_id, name=name, append=append, last=last)

    def _count_artifact(self) -> None:
        self._artifacts += 1
        if self._artifacts > _MOST_ARTIFACTS:
            raise OutputTooLargeError(f"{_MOST_ARTIFACTS} artifacts")

    def _lines(self, data: bytes, *, last: bool) -> Iterator[Event | FileName]:
        if b"\n" not in data and not last:
            self._rest += data
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        if last:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._number += 1
            if line.strip():
                self._events += 1
                if self._events > _MOST_EVENTS:
                    raise OutputTooLargeError(f"{_MOST_EVENTS} events")
                event = self._event(line)
                if event is not None:
                    yield event

    def _event(self, line: bytes) -> Event | FileName | None:
        try:
            members = loads(line.decode("utf-8", "replace"))
        except (JsonSyntaxError, RecursionError):
            raise self._broken("is not JSON") from None
        if not isinstance(members, dict):
            raise self._broken("is no object")
        kinds = [name for name in members if name in KINDS]
        if len(kinds) != 1:
            raise self._broken(f"does not have exactly one of {', '.join(KINDS)}")
        kind, beside = kinds[0], KINDS[kinds[0]]
        for name, value in members.items():
            wanted: type
            if name == kind:
                wanted = object if kind == "data" else str
            elif name in beside:
                wanted = beside[name]
            else:
                known = ", ".join(beside) or "nothing"
                raise self._broken(f"has a member that {kind!r} does not have; beside it may stand: {known}")
            if not isinstance(value, wanted):
                raise self._broken(
                    f"has a {name!r} that is no {'text' if wanted is str else 'true or false'}"
                )
        return self._made(kind, members)

    def _made(self, kind: str, members: dict[str, Any]) -> Event | FileName | None:
        value = members[kind]
        if isinstance(value, str):
            value = _encodable(value)
        names = {key: _encodable(members.get(key, "")) for key in ("artifact", "name", "mediaType")}
        match kind:
            case "text":
                last = members.get("last", False)
                return self._chunk(value, names["artifact"], name=names["name"], last=last)
            case "data":
                # Without an id each is an artifact of its own.
                own = names["artifact"] or new_id()
                last = members.get("last", not names["artifact"])
                return self._chunk(_data(value), own, name=names["name"], last=last)
            case "file":
                self._count_artifact()
                return FileName(value, names["mediaType"])
            case "status":
                return self.run.status(hub.TASK_STATE_WORKING, value)
            case "message":
                self.messages.append(value)
            case "ask":
                self.question = value
            case _:
                self.error = value
        return None

    def _broken(self, problem: str) -> ExecutorError:
        return ExecutorError(f"line {self._number} of the program's output {problem}")


def _data(value: Any) -> hub.Part:
    from a2a_bridge.core.messages import data_part

    return data_part(value)


def _encodable(text: str) -> str:
    """A text without halves of pairs of UTF-16, which JSON can name and no message can have."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
