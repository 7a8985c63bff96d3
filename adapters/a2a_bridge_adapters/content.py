"""Parts of messages for frameworks, and values of frameworks as parts of messages."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from pydantic_core import to_jsonable_python

from a2a_bridge.codec import dumps, encoder
from a2a_bridge.hosting.executor import Run
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Value

#: the media type of bytes of which nothing else is known
UNKNOWN = "application/octet-stream"

_encode_value = encoder(Value)


def json_of(part: hub.Part) -> Any:
    """The JSON value of a data part."""
    return _encode_value(part.data)


def data_text(part: hub.Part) -> str:
    """A data part as text for a model."""
    return dumps(json_of(part)).decode()


def json_text(value: Any) -> str:
    """A JSON value as text: a text as it is."""
    return value if isinstance(value, str) else dumps(value).decode()


def media_type_of(part: hub.Part) -> str:
    """The media type of a part with bytes or a URL: as given, or else that of files with such a name."""
    if part.media_type:
        return part.media_type
    name = part.filename or urlsplit(part.url).path
    return mimetypes.guess_type(name)[0] or UNKNOWN


def bare_media_type_of(part: hub.Part) -> str:
    """As `media_type_of`, in lower case and without parameters."""
    return media_type_of(part).partition(";")[0].strip().lower()


def file_part(raw: bytes, media_type: str = "", filename: str = "") -> hub.Part:
    """A file of an agent as a part."""
    return hub.Part(raw=raw, media_type=media_type, filename=filename)


def url_part(url: str, media_type: str = "", filename: str = "") -> hub.Part:
    """A file of an agent elsewhere as a part; that of a `data:` URL as bytes."""
    if not url.startswith("data:"):
        return hub.Part(url=url, media_type=media_type, filename=filename)
    head, _, content = url.removeprefix("data:").partition(",")
    kind, _, encoding = head.partition(";")
    is_base64 = encoding.rpartition(";")[2] == "base64"
    raw = base64.b64decode(content) if is_base64 else unquote_to_bytes(content)
    return file_part(raw, kind or media_type, filename)


def jsonable(value: Any) -> Any:
    """A value of a framework as JSON: models, dataclasses, dates and enums too.

    Raises pydantic_core.PydanticSerializationError for anything else.
    """
    return to_jsonable_python(value)


def is_parts(content: Any) -> bool:
    """True for a list of Parts, which is one content."""
    return isinstance(content, list) and bool(content) and all(isinstance(one, hub.Part) for one in content)


class _Text:
    """An artifact with text. heard: the pieces of its newest message. told: how many of them callers have.

    known: True once callers have the artifact, with these pieces or the text of an earlier message.
    """

    __slots__ = ("artifact_id", "heard", "known", "message", "told")

    def __init__(self) -> None:
        self.artifact_id = new_id()
        self.message: str | None = None
        self.heard: list[str] = []
        self.told = 0
        self.known = False

    @property
    def text(self) -> str | None:
        """The text that callers have; None for that of an earlier message."""
        return None if self.known and not self.told else "".join(self.heard[: self.told])


class Answer:
    """The output of one turn: its answer, and files and data as artifacts of their own.

    Rules:
    1. The answer is what the plain call of the framework returns, told by `settle` at the end. Streamed text
       only anticipates it, and is replaced where it differs.
    2. Guarded text is text that the framework may still stop or change. It is held back to the end, and so is
       the text after it, for its order. stream: True to tell all text at once, False to hold back all text.
    3. Each message that is kept is an artifact. A message that is not kept is replaced by the next one.
    """

    def __init__(self, run: Run, stream: bool | None = None) -> None:
        self._run, self._stream = run, stream
        #: the artifacts with text that callers have, in their order
        self._texts: list[_Text] = []
        #: by place: the artifact of the newest message there
        self._open: dict[str, _Text] = {}
        #: artifacts whose messages are no part of the answer
        self._free: list[_Text] = []
        #: True once callers have guarded text
        self._risky = False
        #: True once a message is held back that is kept
        self._waits = False

    def text(
        self, message: str, text: str, place: str = "", *, guarded: bool = False
    ) -> Iterator[hub.TaskArtifactUpdateEvent]:
        """The next chunk of a message.

        message: its name in the framework. place: what speaks; messages of several places may come at once.
        guarded: see rule 2; a chunk that is not guarded tells those before it, too.
        """
        one = self._open.get(place)
        if one is None:
            one = self._open[place] = self._free.pop(0) if self._free else _Text()
        if one.message != message:
            one.message, one.heard, one.told = message, [], 0
        one.heard.append(text)
        if not self._holds(guarded):
            self._risky |= guarded
            yield self._tell(one)

    def heard(self, place: str) -> str:
        """The text so far of the newest message of a place."""
        one = self._open.get(place)
        return "" if one is None else "".join(one.heard)

    def keep(self, place: str, *texts: str, guarded: bool = False) -> Iterator[hub.TaskArtifactUpdateEvent]:
        """The end of a message. texts: the messages that the place has given at last; none if its message is
        no part of the answer.
        """
        one = self._open.pop(place, None)
        if not texts and one is not None:
            self._free.append(one)
        for text in texts:
            if one is None:
                one = self._free.pop(0) if self._free else _Text()
            if self._holds(guarded) and not one.told:
                self._waits = True
            else:
                self._risky |= guarded
                yield from self._replace(one, text)
            one = None

    def settle(self, *contents: Any) -> Iterator[hub.TaskArtifactUpdateEvent]:
        """Makes the answer these contents: texts, Parts and JSON values, each an artifact. Nothing for a turn
        whose text was stopped.
        """
        wanted = [one for one in contents if one != ""]
        for place, content in enumerate(wanted):
            one = self._texts[place] if place < len(self._texts) else _Text()
            if isinstance(content, str):
                yield from self._replace(one, content)
            else:
                yield self.part(content, artifact_id=one.artifact_id)
        for one in self._texts[len(wanted) :]:
            # An artifact cannot be taken back, and has at least one part.
            yield from self._replace(one, "")

    def failed(self) -> Iterator[hub.TaskArtifactUpdateEvent]:
        """Takes back the text that a guard may have stopped."""
        return self.settle() if self._risky else iter(())

    def part(self, content: Any, name: str = "", artifact_id: str = "") -> hub.TaskArtifactUpdateEvent:
        """An artifact with a Part, a list of Parts, or a JSON value as data."""
        if isinstance(content, hub.Part):
            name = name or content.filename
        else:
            name = name or "result"
            if not is_parts(content):
                content = jsonable(content)
        return self._run.artifact(content, name=name, artifact_id=artifact_id)

    def _holds(self, guarded: bool) -> bool:
        return guarded or self._waits if self._stream is None else not self._stream

    def _replace(self, one: _Text, text: str) -> Iterator[hub.TaskArtifactUpdateEvent]:
        """Makes a text that of an artifact."""
        before = one.text
        if text == before:
            return
        if not before or not text.startswith(before):
            before, one.told = "", 0
        one.heard = [*one.heard[: one.told], text.removeprefix(before)]
        yield self._tell(one)

    def _tell(self, one: _Text) -> hub.TaskArtifactUpdateEvent:
        """The pieces that callers do not have. The first piece replaces an earlier message."""
        if not one.known:
            one.known = True
            self._texts.append(one)
        text, append = "".join(one.heard[one.told :]), one.told > 0
        one.told = len(one.heard)
        return self._run.artifact(text, artifact_id=one.artifact_id, append=append, last=False)
