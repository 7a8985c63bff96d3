"""Prints frames on stderr (`--debug`): the real bytes, with masked credentials."""

from __future__ import annotations

from collections.abc import Iterable

from a2a_bridge.bindings.binding import Frame
from a2a_bridge.cli.output import print_message
from a2a_bridge.codec import dumps, encoder
from a2a_bridge.core.masking import NONE_KNOWN, Secrets

LONGEST = 20_000


def show(frame: Frame, secrets: Secrets = NONE_KNOWN) -> None:
    """Prints a frame: `>` for a sent one, `<` for a received one. secrets: are masked."""
    mark, style = (">", "cyan") if frame.sent else ("<", "green")
    for line in lines_of(frame, secrets):
        print_message(f"{mark} {line}".rstrip(), style)


def lines_of(frame: Frame, secrets: Secrets = NONE_KNOWN) -> list[str]:
    """A frame as lines: head, headers, an empty line if both are there, body. secrets: are masked."""
    lines = [secrets.head(frame.head)] if frame.head else []
    lines += [f"{name}: {secrets.header(name, value)}" for name, value in frame.headers]
    body = [secrets.text(line) for line in _body(frame)]
    if body and lines:
        lines.append("")
    return lines + body


def _body(frame: Frame) -> list[str]:
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
    return list(_strip(_cut(text).splitlines()))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def _strip(lines: Iterable[str]) -> list[str]:
    """Without the empty lines at the end, such as the one after every server-sent event."""
    trimmed = list(lines)
    while trimmed and not trimmed[-1].strip():
        trimmed.pop()
    return trimmed
