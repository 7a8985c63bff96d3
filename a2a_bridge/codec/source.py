"""Collects the lines of generated functions and compiles them. The generators decide their content."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any


class Source:
    """Lines at a current indentation. They can use `names`, and their definitions are added there.

    Generators keep one dict of names permanently, so that a message type that is part of several is compiled
    once.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._lines: list[str] = []
        self._depth = 0

    def line(self, *lines: str) -> None:
        self._lines += [f"{'    ' * self._depth}{line}" for line in lines]

    def keep(self, what: str, value: Any) -> str:
        """Makes a value available to the lines; returns its name there."""
        name = f"_{what}_{len(self.names)}"
        self.names[name] = value
        return name

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def compile(self, title: str) -> None:
        """Executes the lines; `title` replaces the file name in tracebacks."""
        text = "\n".join(self._lines) + "\n"
        file = f"<a2a_bridge.codec {title}>"
        # Tracebacks and debuggers then show the generated lines.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.names)  # noqa: S102 - our own text, made of descriptors only


def attribute(name: str) -> str:
    """The field of this name of the object called `message`. Some protobuf fields are Python
    keywords: `from`.
    """
    return f'getattr(message, "{name}")' if iskeyword(name) else f"message.{name}"


def literal(text: str) -> str:
    """Text, escaped for an f-string between double quotes."""
    escaped = text.encode("unicode_escape").decode("ascii")
    return escaped.replace('"', '\\"').replace("{", "{{").replace("}", "}}")
