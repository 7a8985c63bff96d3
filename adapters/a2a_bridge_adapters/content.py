"""Parts of messages for frameworks, and values of frameworks as parts of messages."""

from __future__ import annotations

import mimetypes
from typing import Any
from urllib.parse import urlsplit

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


def media_type_of(part: hub.Part) -> str:
    """The media type of a part with bytes or a URL: as given, or else that of files with such a name."""
    if part.media_type:
        return part.media_type
    name = part.filename or urlsplit(part.url).path
    return mimetypes.guess_type(name)[0] or UNKNOWN


def file_part(raw: bytes, media_type: str = "", filename: str = "") -> hub.Part:
    """A file of an agent as a part."""
    return hub.Part(raw=raw, media_type=media_type, filename=filename)


def url_part(url: str, media_type: str = "", filename: str = "") -> hub.Part:
    """A file of an agent elsewhere as a part."""
    return hub.Part(url=url, media_type=media_type, filename=filename)


def jsonable(value: Any) -> Any:
    """A value of a framework as JSON: models, dataclasses, dates and enums too.

    Raises pydantic_core.PydanticSerializationError for anything else.
    """
    return to_jsonable_python(value)


class Answer:
    """The output of one run: texts as chunks of artifacts, files and data as artifacts of their own.

    Each message of a model is an artifact, because an agent that calls tools says several.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._artifacts: dict[str, str] = {}
        #: True once there is any output
        self.begun = False

    def text(self, message: str, text: str) -> hub.TaskArtifactUpdateEvent:
        """The next chunk of a message. message: its name in the framework."""
        self.begun = True
        known = message in self._artifacts
        artifact_id = self._artifacts.setdefault(message, new_id())
        return self._run.artifact(text, artifact_id=artifact_id, append=known, last=False)

    def part(self, content: Any, name: str = "") -> hub.TaskArtifactUpdateEvent:
        """An artifact with a Part, or with a JSON value as data."""
        self.begun = True
        if not isinstance(content, hub.Part):
            name, content = name or "result", jsonable(content)
        return self._run.artifact(content, name=name or content.filename)
