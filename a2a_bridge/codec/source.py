"""Collects the lines of generated functions and compiles them. What they say is up to the generators."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines at a current indentation, and the names that they refer to."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = dict(names)
        self._lines: list[str] = []
        self._depth = 0

    def line(self, *lines: str) -> None:
        self._lines += [f"{'    ' * self._depth}{line}" for line in lines]

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def compile(self, title: str) -> dict[str, Any]:
        """Run the lines; returns the names they defined beside those they were given."""
        text = "\n".join(self._lines) + "\n"
        file = f"<a2a_bridge.codec {title}>"
        # So that tracebacks and debuggers show the generated lines.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.names)  # noqa: S102 - our own text, made of descriptors only
        return self.names


def literal(text: str) -> str:
    """Text as it stands inside an f-string between double quotes."""
    escaped = text.encode("unicode_escape").decode("ascii")
    return escaped.replace('"', '\\"').replace("{", "{{").replace("}", "}}")
