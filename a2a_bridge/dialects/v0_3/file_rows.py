"""The encoding of file contents in one call of a2a.v1: rows of the same operation, selected by the known
properties of the peer. The encodings themselves are in proto_files.

Rules:
1. A caller gets the encoding of its profile. A caller without a profile gets the encoding of the first file
   in its own request, and raw content if the request has no file; one whose releases differ gets base64 text
   then, because the newer one fails on anything else.
2. An agent without a profile gets base64 text, which most implementations expect. Files that came as a2a.v1
   from a caller without a profile keep their encoding: a caller's profile says nothing about the agent.
3. For a response of such an agent the content decides; anything but valid base64 is raw content.
4. Bridges tell each other that they wrote base64 text, because the content alone is ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import CallContext
from a2a_bridge.dialects.dialect import Beside, Row
from a2a_bridge.dialects.v0_3.proto_files import decode_content
from a2a_bridge.peers import Files, caller

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
_SEND = frozenset({ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE})

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
    sends = auto.operation in _SEND
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
