"""The targets of commands: addresses, card files and agents in Python code.

No connection is made here. The forms:

    https://agent.example            an agent by its base URL or card URL (a query is kept)
    :8080, :8080/agents/a            the same on this machine, over http
    localhost:50051                  host:port is gRPC, as are grpc:// and grpcs://
    card.json                        a card in a file
    weather.py, weather.py:agent     an agent in a file; without a name, the only one there
    ., folder                        the file agent.py, app.py or main.py of a folder, or its only one
    package.module:agent             an agent in a module
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):\d{1,5}")
_LOCAL = re.compile(r":\d{1,5}(?:[/?].*)?")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?")
_OBJECT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class TargetKind(Enum):
    """The kinds of targets."""

    URL = "an agent's URL"
    GRPC = "a gRPC address"
    CARD = "a card file"
    FILE = "a Python file"
    MODULE = "a Python module"


class BadTargetError(ValueError):
    """An invalid target. The text names the valid forms."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target.

    place: URL, gRPC address, path or module. name: the object in it, dotted; empty for "the only one".
    """

    sort: TargetKind
    place: str
    name: str = ""

    @property
    def is_code(self) -> bool:
        """Whether it is an agent in Python code, and not a remote one."""
        return self.sort in (TargetKind.FILE, TargetKind.MODULE)


def parse(text: str) -> Target:
    """Reads a target. Raises BadTargetError."""
    text = text.strip()
    if "://" in text:
        return _with_scheme(text.partition("://")[0].lower(), text)
    if _LOCAL.fullmatch(text):
        _check_port(text[1:])
        return Target(TargetKind.URL, f"http://127.0.0.1{text}")
    head, colon, tail = text.rpartition(":")
    place, name = (head, tail) if colon and _OBJECT.fullmatch(tail) else (text, "")
    if place.endswith(".py") or (text and not name and is_folder(text)):
        return Target(TargetKind.FILE, place, name)
    if text.endswith(".json") or is_file(text):
        return Target(TargetKind.CARD, text)
    if _HOST_PORT.fullmatch(text):
        _check_port(text.rpartition(":")[2])
        return Target(TargetKind.GRPC, text)
    if ":" in text and _MODULE.fullmatch(text):
        return Target(TargetKind.MODULE, place, name)
    raise BadTargetError(_advice(text))


def is_file(text: str) -> bool:
    """Whether there is a file of this path. A text that is too long for a path is none."""
    try:
        return Path(text).is_file()
    except OSError:
        return False


def is_folder(text: str) -> bool:
    """Whether there is a folder of this path."""
    try:
        return Path(text).is_dir()
    except OSError:
        return False


def _with_scheme(scheme: str, text: str) -> Target:
    if scheme not in ("http", "https", "grpc", "grpcs"):
        raise BadTargetError(f"{scheme}:// is not spoken here; use http, https, grpc or grpcs")
    try:
        parts = urlsplit(text)
        has_host, port = bool(parts.hostname), parts.port
    except ValueError as error:
        raise BadTargetError(f"{text} is not a URL: {error}") from None
    if not has_host:
        raise BadTargetError(f"{text} names no host")
    if scheme in ("http", "https"):
        return Target(TargetKind.URL, text)
    if port is None:
        raise BadTargetError(f"{text} names no port; gRPC has no usual one")
    return Target(TargetKind.GRPC, text)


def _check_port(text: str) -> None:
    digits = re.match(r"\d+", text)
    if digits is not None and int(digits[0]) > 65535:
        raise BadTargetError(f"{digits[0]} is not a port")


def _advice(text: str) -> str:
    if not text:
        return "an empty target"
    host = re.fullmatch(r"[A-Za-z0-9_.-]+(/\S*)?", text)
    if host and ("." in text or text.startswith("localhost")):
        return (
            f"{text!r} is ambiguous: write https://{text} for a URL, {text.partition('/')[0]}:PORT for gRPC"
        )
    return (
        f"{text!r} is no target: give a URL, :PORT, host:port (gRPC), a card file, file.py, file.py:object "
        "or module:object"
    )
