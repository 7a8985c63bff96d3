"""The messages of calls between replicas: a header, and a part of a document. A document is the context of a
call as JSON, and bytes of a row of 1.0.

Rules:
1. A document larger than the bus allows travels in parts.
2. A replica that gets a frame of an unknown format answers that it knows nothing of it.
"""

from __future__ import annotations

import json
import struct
from asyncio import get_running_loop
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from a2a_bridge.core.call import CallContext, Origin, Principal
from a2a_bridge.core.errors import A2AError, Blame
from a2a_bridge.dialects import GRPC, by_version
from a2a_bridge.dialects.dialect import ErrorReply, Form

_HEADER = struct.Struct("!BB16sIII")
#: of the format
_RELEASE = 1


class FrameKind(IntEnum):
    """The kind of a frame."""

    # requests
    CALL = 1
    WAIT = 2
    PASSED = 3
    LEAVE = 4
    READS = 5
    # responses
    MORE = 16
    WORKING = 17
    DONE = 18
    UNKNOWN = 19


class Frame(NamedTuple):
    """One message. number: an event number, for PASSED."""

    kind: FrameKind
    call: bytes
    part: int = 0
    parts: int = 1
    number: int = 0
    body: bytes = b""

    def encode(self) -> bytes:
        """The bytes of the message."""
        head = _HEADER.pack(_RELEASE, self.kind, self.call, self.part, self.parts, self.number)
        return head + self.body


#: bytes of a frame without its body
OVERHEAD = _HEADER.size
UNKNOWN = Frame(FrameKind.UNKNOWN, bytes(16))


def decode(data: bytes) -> Frame:
    """The frame of a message; UNKNOWN for another format."""
    if len(data) < OVERHEAD or data[0] != _RELEASE:
        return UNKNOWN
    _, kind, call, part, parts, number = _HEADER.unpack_from(data)
    try:
        return Frame(FrameKind(kind), call, part, parts, number, data[OVERHEAD:])
    except ValueError:
        return UNKNOWN


def form() -> Form[str, bytes]:
    """The rows that encode calls between replicas."""
    newest = by_version("1.0")
    if newest is None:
        raise RuntimeError("version 1.0 is missing")
    found: Form[str, bytes] = newest.forms[GRPC]
    return found


def document(head: Mapping[str, Any], body: bytes) -> bytes:
    """A header and a body."""
    # Claims may have any type; types unknown to JSON are sent as text.
    text = json.dumps(head, default=str, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "big") + text + body


def undocument(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the body of a document."""
    end = 4 + int.from_bytes(data[:4], "big")
    head: dict[str, Any] = json.loads(data[4:end])
    return head, data[end:]


def encode_context(context: CallContext, left: float | None) -> dict[str, Any]:
    """A context without its deadline. left: seconds until that."""
    principal, origin = context.principal, context.origin
    return {
        "tenant": context.tenant,
        "parameters": {name.lower(): value for name, value in context.parameters.items()},
        "principal": None if principal is None else [principal.name, dict(principal.claims)],
        "origin": [origin.binding, origin.version, origin.peer, origin.base_url],
        "aside": context.side_channel,
        "seconds": left,
    }


def decode_context(tree: Mapping[str, Any]) -> CallContext:
    """The context of a call of another replica. Its deadline is on the clock of this one."""
    principal, seconds = tree["principal"], tree["seconds"]
    return CallContext(
        tenant=tree["tenant"],
        parameters=tree["parameters"],
        principal=None if principal is None else Principal(principal[0], principal[1]),
        deadline=None if seconds is None else get_running_loop().time() + seconds,
        origin=Origin(*tree["origin"]),
        side_channel=tree["aside"],
    )


def encode_error(encoding: Form[str, bytes], error: A2AError) -> tuple[dict[str, Any], bytes]:
    """An error as a header and a google.rpc.Status."""
    reply = encoding.encode_error(error)
    return {
        "error": [reply.status, reply.text, error.message, error.code, error.blame.value]
    }, reply.body or b""


def decode_error(encoding: Form[str, bytes], head: Mapping[str, Any], body: bytes) -> A2AError:
    """The error unchanged. The Status has no place for its number and for who is to blame."""
    status, text, message, code, blame = head["error"]
    error = encoding.decode_error(ErrorReply(status, body, text))
    error.message, error.code, error.blame = message, code, Blame(blame)
    return error
