"""Exit codes, and values of flags that need more than a type: addresses, headers, keys, versions, secrets.
`--version` loads this module, so it imports little.
"""

from __future__ import annotations

import math
import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import typer

from a2a_bridge.core.masking import CREDENTIAL, HEADER_NAME, HIDDEN, without_query_values
from a2a_bridge.core.options import PREFIX, Option

if TYPE_CHECKING:
    from a2a_bridge.dialects import Dialect

#: prefix of variables that hold a header to send
HEADER = PREFIX + "HEADER_"

EXIT_CODES = "Exit codes: 0 done, 1 failure, 2 usage, 3 unreachable, 4 authentication, 5 timeout."


class Exit(IntEnum):
    """Exit codes; part of the interface. What becomes of a task is one only with `send --check`."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    UNREACHABLE = 3
    AUTH = 4
    TIMEOUT = 5
    TASK_FAILED = 10
    TASK_REJECTED = 11
    TASK_CANCELED = 12
    TASK_ASKS = 13


def usage_error(flag: str, text: object) -> typer.BadParameter:
    """The error of a flag, a variable or a key of a file whose value cannot be used."""
    return typer.BadParameter(str(text), param_hint=flag)


@contextmanager
def as_usage_error(flag: str, *errors: type[Exception]) -> Iterator[None]:
    """Turns errors of these classes into a usage error about a flag."""
    try:
        yield
    except errors as error:
        raise usage_error(flag, error) from None


def parse_dialect(text: str, flag: str) -> Dialect:
    """The dialect of a version. Raises typer.BadParameter."""
    from a2a_bridge.dialects import KNOWN, by_version  # loads protobuf, which --version does not need

    dialect = by_version(text)
    if dialect is None:
        known = ", ".join(one.version for one in KNOWN)
        raise usage_error(flag, f"{text!r} is not one of {known}")
    return dialect


#: what people call the bindings, in small letters without punctuation
_BINDINGS = {"http": "HTTP+JSON", "rest": "HTTP+JSON", "httpjson": "HTTP+JSON", "json": "JSONRPC"}


def parse_binding(text: str, flag: str = "--binding") -> str:
    """The installed binding that a user means: `HTTP+JSON` for `rest`; empty for an empty text. Raises
    typer.BadParameter.
    """
    if not text:
        return ""
    from a2a_bridge.bindings.binding import (
        names,  # loads protobuf, which --version and supervisors do not need
    )

    known = names()
    wanted = re.sub(r"[^a-z0-9]", "", text.lower())
    wanted = _BINDINGS.get(wanted, text).lower().replace("-", "")
    found = next((name for name in known if name.lower() == wanted), "")
    if not found:
        raise usage_error(flag, f"{text!r} is not one of {', '.join(known)}")
    return found


def parse_peer(name: str, flag: str = "--peer") -> str:
    """The name of an existing peer profile, or "". Raises typer.BadParameter."""
    from a2a_bridge.peers import find_profile

    with as_usage_error(flag, LookupError):
        find_profile(name)
    return name


def use_bridge_key(text: str) -> None:
    """Sets the key of `--bridge-key`, if given. Raises typer.BadParameter."""
    from a2a_bridge.dialects.signed_extras import use_key

    try:
        # A key in a file may be any bytes. The mark of a byte order is no part of it, as in other files.
        in_file = text.startswith("@")
        secret = Path(text[1:]).read_bytes().removeprefix(BOM_UTF8).strip() if in_file else text.encode()
        if text:
            use_key(secret)
    except OSError as error:
        raise usage_error("--bridge-key", f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise usage_error("--bridge-key", error) from None


#: seconds by unit
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: seconds of a thousand years. Dates have four digits for the year
_LONGEST = 1000 * 365 * 86400


def parse_time(text: str, flag: str) -> int:
    """The seconds of a time such as `12h` or `90d`, more than none. Raises typer.BadParameter."""
    found = re.fullmatch(r"([0-9]{1,11})([smhdw])", text)
    value = int(found[1]) * int(_UNITS[found[2]]) if found else 0
    if not 0 < value <= _LONGEST:
        raise usage_error(flag, f"{text!r} is no time such as 12h or 90d, of at most 1000 years")
    return value


_SECONDS = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(ms|s|m|h)?")


def seconds(text: str | float, *, least: float | None = None, most: float | None = None) -> float:
    """The seconds of `2`, `0.5`, `500ms`, `5s`, `2m` or `1h`. Raises typer.BadParameter."""
    found = _SECONDS.fullmatch(str(text).strip().lower())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time such as 5s, 500ms or 2m")
    value = float(found[1]) * _UNITS[found[2] or "s"]
    if not (least or 0) <= value <= (most or math.inf):
        raise typer.BadParameter(f"{text} is not in the range {least or 0:g} to {most or math.inf:g} seconds")
    return value


def listen_address(text: str, flag: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[v6]:PORT`, `:PORT` or `PORT` (loopback). Raises typer.BadParameter."""
    host, colon, port = (":" + text if text.isdigit() else text).rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not (port.isascii() and port.isdigit()):
        raise usage_error(flag, f"{text!r} is not HOST:PORT, such as 127.0.0.1:8080")
    if int(port) > 65535:
        raise usage_error(flag, f"the port in {text!r} is above 65535")
    return host or "127.0.0.1", int(port)


def parameters(headers: list[str] | None) -> dict[str, str]:
    """Service parameters from `-H` flags, joined by name, which override A2A_BRIDGE_HEADER_* variables.
    `@FILE` stands for the content of a file. Raises typer.BadParameter.
    """
    found: dict[str, str] = {}
    for header in headers or ():
        name, colon, value = header.partition(":")
        name = name.strip().lower()
        if not colon or not is_header_name(name):
            # Without the value, which may be a secret.
            raise usage_error("--header", "a header is 'NAME: VALUE' or 'NAME: @FILE'")
        value = _header_value(value.strip(), f"--header {name}")
        found[name] = f"{found[name]}, {value}" if name in found else value
    for variable, value in os.environ.items():
        if variable.startswith(HEADER) and not variable.endswith("_FILE"):
            name = variable.removeprefix(HEADER).lower().replace("_", "-")
            if not is_header_name(name):
                raise usage_error(variable, "its name is not that of a header")
            if name not in found:
                found[name] = _header_value(value, variable)
    return found


def is_header_name(name: str) -> bool:
    """Whether a text can be the name of a header."""
    return bool(HEADER_NAME.fullmatch(name))


def _header_value(value: str, source: str) -> str:
    value = text_or_file(value, source)
    if any(character in value for character in "\r\n\0"):
        raise usage_error(source, "a header has one line")
    return value


def text_or_file(text: str, source: str) -> str:
    """A text, or for `@FILE` the content of that file. Raises typer.BadParameter."""
    return file_text(text[1:], source) if text.startswith("@") else text


def file_text(path: str | Path, source: str) -> str:
    """The content of a file with a secret, without white space around it. Raises typer.BadParameter, also for
    a file without content: an empty secret would count as none.
    """
    if not str(path).strip():
        raise usage_error(source, "is empty: it names a file")
    try:
        return secret_in(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise usage_error(source, f"{path} cannot be read: {reason}") from None
    except ValueError as error:
        raise usage_error(source, error) from None


def secret_in(path: str | Path) -> str:
    """The secret in a file, which a server may read again. Raises OSError, and ValueError without content."""
    text = Path(path).read_text("utf-8-sig").strip()
    if not text:
        raise ValueError(f"{path} has no content")
    return text


def plain_secret(one: Option, value: Any) -> bool:
    """True if a value of an option is a secret as it is, and not the name of a file."""
    if isinstance(value, list):
        return one.described.secret and any(isinstance(text, str) and _is_credential(text) for text in value)
    return one.described.secret and show_value(one, value) != value


def show_value(one: Option, value: Any) -> Any:
    """A value as it can be printed: secrets are `***`, names of files with secrets stay."""
    if isinstance(value, list):
        hide = _header if one.described.secret else _url
        return [hide(text) if isinstance(text, str) else text for text in value]
    if not isinstance(value, str) or value.startswith("@") or not value:
        return value
    return _url(value) if one.described.metavar == "URL" or not one.described.secret else HIDDEN


def _is_credential(header: str) -> bool:
    """Whether the name of a header says that its value is a secret. Without a name it may be one."""
    name, colon, value = header.partition(":")
    return not colon or (not value.strip().startswith("@") and CREDENTIAL.search(name) is not None)


def _header(text: str) -> str:
    """A header as it can be printed: a harmless one stays, because a printed configuration can be used."""
    if not _is_credential(text):
        return text
    name, colon, _ = text.partition(":")
    return f"{name}: {HIDDEN}" if colon else HIDDEN


def _url(text: str) -> str:
    """A URL without its password and the values of its query; other text is unchanged."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
        user, password = parts.username, parts.password
    except ValueError:
        return HIDDEN
    host = parts.netloc.rpartition("@")[2]
    if password:
        text = parts._replace(netloc=f"{user}:{HIDDEN}@{host}").geturl()
    elif user and parts.scheme in ("http", "https"):  # a token in place of a user
        text = parts._replace(netloc=f"{HIDDEN}@{host}").geturl()
    return without_query_values(text)
