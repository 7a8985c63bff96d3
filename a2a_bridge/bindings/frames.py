"""Frames: the traffic of a client side as it was on the wire, and its text for people."""

from dataclasses import dataclass
from typing import Any

from a2a_bridge.codec import dumps, encoder
from a2a_bridge.core.masking import NONE_KNOWN, Secrets

#: characters of a body that are shown
_LONGEST_SHOWN = 20_000


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of traffic of a client side as it was on the wire, for diagnosis."""

    #: True for a frame to the agent
    sent: bool
    #: request line, status line, gRPC path or gRPC status; empty for a continuation of the previous frame
    head: str = ""
    #: HTTP headers, metadata or trailers
    headers: tuple[tuple[str, str], ...] = ()
    #: the bytes; of a stream, one event or chunk
    body: bytes = b""
    #: the same as a message, where the bytes are not readable
    message: Any = None


def shown_lines(frame: Frame, secrets: Secrets = NONE_KNOWN) -> list[str]:
    """A frame as lines: head, headers, an empty line if both are there, body. secrets: are masked."""
    lines = [secrets.head(frame.head)] if frame.head else []
    lines += [f"{name}: {secrets.header(name, value)}" for name, value in frame.headers]
    body = [secrets.text(line) for line in _shown_body(frame)]
    if body and lines:
        lines.append("")
    return lines + body


def _shown_body(frame: Frame) -> list[str]:
    if frame.message is not None:
        name = frame.message.DESCRIPTOR.name
        text = dumps(encoder(type(frame.message))(frame.message)).decode()
        return [f"[{len(frame.body)} bytes, {name}]", _cut(text)]
    if not frame.body:
        return []
    try:
        text = frame.body.decode()
    except UnicodeDecodeError:
        return [f"[{len(frame.body)} bytes]"]
    lines = _cut(text).splitlines()
    while lines and not lines[-1].strip():  # such as the line after every server-sent event
        lines.pop()
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({len(text)} characters)"
