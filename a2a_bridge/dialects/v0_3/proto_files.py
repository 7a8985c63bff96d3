"""The content of `file_with_bytes` in a2a.v1: raw bytes or base64 text. Not the rest of a part.

The specification's proto has the type bytes, hence raw content. Widely used implementations put the content's
base64 text (ASCII) there, and fail on anything else. The writer has to know the peer (Files, from its
profile), and the reader has to distinguish the two:

1. Only strict base64 text (standard alphabet, padded, one line, not empty) can be base64.
2. From a peer known to write base64 (Files.BASE64) such text is base64; from a peer known to write raw
   content (Files.RAW) nothing is decoded.
3. For an unknown peer (Files.AUTO) the media type decides. With a binary type, text that can be base64 is
   base64, since no such format has only bytes of that alphabet; a few letters without padding are an
   exception. With a textual type it is base64 if it decodes to readable text: an ordinary word decodes to
   unreadable bytes. Without a type it is base64 if that holds, or if it is padded, or if it is long and mixes
   letters of both cases with other characters.

A wrong guess changes what other versions receive, and never what goes back to a2a.v1: the encoding is
preserved. The preserved encoding is not used for a peer that is known to expect raw content.

A call has rows of the same operation for each encoding, and the known properties of the peer select one:

1. A caller gets the encoding of its profile. A caller without a profile gets the encoding of the first file
   in its own request, and raw content if the request has no file; a caller whose releases differ gets base64
   text then, because the newer one fails on anything else.
2. An agent without a profile gets base64 text, which most implementations expect. Files that came as a2a.v1
   from a caller without a profile keep their encoding: a caller's profile says nothing about the agent.
3. For a response of such an agent the content decides; anything but valid base64 is raw content.
4. Bridges tell each other that they wrote base64 text, because the content alone is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pybase64

from a2a_bridge.codec.values import base64_text
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import CallContext
from a2a_bridge.dialects.dialect import Beside, Row
from a2a_bridge.peers import Files, caller

#: what is known about the files of one message; of a peer whose releases differ it is AUTO
ENCODINGS = (Files.AUTO, Files.RAW, Files.BASE64)

_BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
#: characters that do not occur in readable text
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffe\uffff]")
_TEXTUAL = re.compile(
    r"text/.*|.*[/+](json|xml|yaml|javascript|csv|html|markdown|toml|sql)(;.*)?", re.IGNORECASE
)
_SHORTEST, _LONG = 8, 16
_MIXTURE = (re.compile(rb"[a-z]"), re.compile(rb"[A-Z]"), re.compile(rb"[0-9+/]"))


def decode_content(raw_bytes: bytes, media_type: str, files: Files) -> tuple[bytes, Files]:
    """The content and its encoding: RAW or BASE64. files: the known encoding of the peer."""
    if files is Files.RAW or len(raw_bytes) % 4 or not _BASE64.fullmatch(raw_bytes):
        return raw_bytes, Files.RAW
    try:
        content = pybase64.b64decode(raw_bytes, validate=True)
    except ValueError:
        return raw_bytes, Files.RAW
    # The bits that the padding drops must be zero, otherwise writing it again gives other text.
    if pybase64.b64encode(content) != raw_bytes:
        return raw_bytes, Files.RAW
    if files is Files.BASE64 or _plausible(raw_bytes, content, media_type):
        return content, Files.BASE64
    return raw_bytes, Files.RAW


def encode_content(content: bytes, files: Files) -> bytes:
    """The bytes to write for a content."""
    return base64_text(content).encode("ascii") if files is Files.BASE64 else content


def usual(files: Files) -> Files:
    """The encoding of files for a peer unless the message has another: RAW or BASE64."""
    return Files.BASE64 if files is Files.BASE64 else Files.RAW


def _plausible(raw_bytes: bytes, content: bytes, media_type: str) -> bool:
    media_type = media_type.strip()
    padded = raw_bytes.endswith(b"=")
    if media_type and not _TEXTUAL.fullmatch(media_type):
        return padded or len(raw_bytes) >= _SHORTEST
    if _readable(content):
        return True
    mixed = len(raw_bytes) >= _LONG and all(signs.search(raw_bytes) for signs in _MIXTURE)
    return not media_type and (padded or mixed)


def _readable(content: bytes) -> bool:
    try:
        return _CONTROL.search(content.decode()) is None
    except UnicodeDecodeError:
        return False


AnyRow = TypeVar("AnyRow", bound=Row[Any, Any])

#: a service parameter of a request: the encoding of its files, sent by a bridge that knows it
FILES_PARAMETER = "x-a2a-bridge-files"
_SAID = Files.BASE64.value

_HOLD_FILES = frozenset(
    {
        ops.SEND_MESSAGE,
        ops.SEND_STREAMING_MESSAGE,
        ops.GET_TASK,
        ops.LIST_TASKS,
        ops.CANCEL_TASK,
        ops.SUBSCRIBE_TO_TASK,
    }
)

#: versions and bindings whose callers encode files as a2a.v1 does
_VERSIONS = frozenset({"0.3", "0.2.5"})
_BINDINGS = frozenset({"GRPC", "HTTP+JSON"})

#: a request on the wire -> (content of its first file, media type); None if it has none
FirstFile = Callable[[Any], tuple[bytes, str] | None]


def in_base64(row: AnyRow) -> AnyRow:
    """A row for requests whose files are base64 text: the call says so to the agent's side."""
    beside = row.extras.request
    restore = (lambda wire, _: wire) if beside is None else beside.restore
    return row.with_extras(request=Beside(lambda _: {FILES_PARAMETER: _SAID}, restore))


def choose_row(rows: Mapping[Files, AnyRow], first_file: FirstFile) -> AnyRow:
    """The row of an operation that selects one of `rows` for every call, on both sides."""
    auto, base64 = rows[Files.AUTO], rows[Files.BASE64]
    if auto.operation not in _HOLD_FILES:
        return auto
    sends = auto.operation in ops.SEND
    from_bridge = in_base64(replace(base64, encode_response=auto.encode_response))
    response_rows = {files: replace(auto, encode_response=row.encode_response) for files, row in rows.items()}

    def variant(wire: Any, parameters: Mapping[str, str]) -> Any:
        files = caller(parameters).quirks.file_bytes
        if files in (Files.RAW, Files.BASE64):
            return rows[files]
        without_file = base64 if files is Files.EITHER else auto
        if not sends:
            return without_file
        if parameters.get(FILES_PARAMETER) == _SAID:
            return from_bridge
        found = first_file(wire)
        return without_file if found is None else response_rows[decode_content(*found, Files.AUTO)[1]]

    if not sends:
        return auto.with_extras(variant=variant)
    to_unknown = replace(auto, encode_request=base64.encode_request)
    to_unknown = to_unknown.with_extras(parameters={FILES_PARAMETER: _SAID})

    def for_agent(context: CallContext) -> Any:
        origin, parameters = context.origin, context.parameters
        keeps = (
            origin.version in _VERSIONS
            and origin.binding in _BINDINGS
            and parameters.get(FILES_PARAMETER) != _SAID
            and caller(parameters).quirks.file_bytes is Files.AUTO
        )
        return auto if keeps else to_unknown

    return auto.with_extras(variant=variant, for_agent=for_agent)
