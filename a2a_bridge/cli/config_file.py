"""Configuration files in TOML: reading, and the lines of keys for error messages: tomllib tells no lines.
A key inside an inline table has the line of that table.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

#: the variable with the descriptor of `hand_on`
_ACCEPTED = "_A2A_BRIDGE_CONFIG"

Place = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?")
_ASSIGNED = re.compile(r"""\s*((?:[A-Za-z0-9_.\s-]|"[^"]*"|'[^']*')+?)\s*=""")
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")
_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a file. line: 0 if it is not known."""

    line: int
    text: str


class ConfigError(Exception):
    """A configuration file that cannot be used. The text has one line per problem: file, line, reason."""

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        self.problems = sorted(problems, key=lambda one: one.line)
        super().__init__(
            "\n".join(
                f"{path}:{one.line}: {one.text}" if one.line else f"{path}: {one.text}"
                for one in self.problems
            )
        )


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that has been read. tree: its tables as tomllib gives them."""

    path: Path
    text: str
    tree: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> ConfigFile:
        """The file at a path; in a worker, the content that the supervisor accepted. Raises ConfigError
        for a file that cannot be read, or is not TOML.
        """
        try:
            content = _accepted()
            text = (path.read_bytes() if content is None else content).decode("utf-8-sig")
            return cls(path, text, tomllib.loads(text))
        except OSError as error:
            raise ConfigError(path, [Problem(0, f"cannot be read: {error.strerror}")]) from None
        except UnicodeDecodeError as error:
            raise ConfigError(path, [Problem(0, f"is not UTF-8 (byte {error.start})")]) from None
        except tomllib.TOMLDecodeError as error:
            position = _POSITION.search(str(error))
            line = int(position[1]) if position and position[1] else text.count("\n") + 1
            raise ConfigError(
                path, [Problem(line, f"is not TOML: {_POSITION.sub('', str(error))}")]
            ) from None
        except RecursionError:
            raise ConfigError(path, [Problem(0, "has too many brackets inside of each other")]) from None
        except ValueError:  # for a number or a date that Python cannot represent
            raise ConfigError(path, [Problem(0, "has a number or a date that is out of range")]) from None

    def line_of(self, place: Sequence[str | int]) -> int:
        """The line of a key, or of the nearest table around it; 0 if there is none. place: the keys and
        indices that lead to the key, with `_` or `-` in keys.
        """
        wanted = tuple(_encoded(part) for part in place)
        best, length = 0, 0
        for number, found in _keys(self.text):
            common = 0
            for one, other in zip(found, wanted, strict=False):
                if one != other:
                    break
                common += 1
            # A table that is longer than the place, such as [agents.a] for ("agents",), counts, too.
            if common > length:
                best, length = number, common
        return best


def hand_on(text: str) -> tuple[int, dict[str, str]]:
    """A file descriptor with the content of a file, for a process that is started, and the variable that
    names the descriptor. The file itself may be half written when that process reads it. Raises OSError.
    """
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        descriptor = os.dup(file.fileno())
    return descriptor, {_ACCEPTED: str(descriptor)}


def _accepted() -> bytes | None:
    """The content that this process was given; None if it was given none."""
    descriptor = os.environ.pop(_ACCEPTED, "")
    if not descriptor:
        return None
    with os.fdopen(int(descriptor), "rb", buffering=0) as file:
        # At a position of its own: the processes share the position of the descriptor.
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def suggestion(name: str, known: Iterable[str]) -> str:
    """` (did you mean …?)` for a name that is not one of `known`; empty if none is similar."""
    close = get_close_matches(name, [*known], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _keys(text: str) -> Iterable[tuple[int, Place]]:
    """The line and the place of each header and assignment."""
    table: Place = ()
    counts: dict[Place, int] = {}
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:  # inside of a text of several lines
            quotes = "" if quotes in line else quotes
            continue
        for one in ('"""', "'''"):
            if line.count(one) % 2:
                quotes = one
        if (header := _HEADER.fullmatch(line)) is not None:
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
            table = _index(table, counts)
            yield number, table
        elif (assigned := _ASSIGNED.match(line)) is not None:
            yield number, table + _parts(assigned[1])


def _index(table: Place, counts: dict[Place, int]) -> Place:
    """A place with the indices of the lists of tables in it."""
    found: Place = ()
    for length in range(1, len(table) + 1):
        found += (table[length - 1],)
        if table[:length] in counts:
            found += (counts[table[:length]],)
    return found


def _parts(dotted: str) -> Place:
    return tuple(_encoded(next(filter(None, part), "")) for part in _PART.findall(dotted))


def _encoded(part: str | int) -> str | int:
    return part.replace("-", "_") if isinstance(part, str) else part
