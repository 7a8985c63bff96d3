"""Errors of conversions between JSON and messages. Callers choose the protocol error codes."""

from __future__ import annotations

from collections.abc import Sequence

Violation = tuple[str, str]
"""A JSON field path such as `message.parts[0].text` ("" is the document itself), and the problem there."""


class DecodeError(ValueError):
    """The JSON is well formed but is not a message of the requested type.

    `violations` holds all findings, in document order and bounded; `path` and `problem` are the first.
    Problems are plain English: they may be shown to the caller.
    """

    def __init__(self, path: str, problem: str, *more: Violation) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem
        self.violations: tuple[Violation, ...] = ((path, problem), *more)

    @classmethod
    def of(cls, violations: Sequence[Violation]) -> DecodeError:
        """From one or more violations."""
        (path, problem), *more = violations
        return cls(path, problem, *more)


class EncodeError(ValueError):
    """The message holds content that JSON cannot express: NaN, infinity, a date outside the years
    1 to 9999.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class JsonSyntaxError(ValueError):
    """The text is not JSON as RFC 8259 defines it."""


class Irregular(ValueError):  # noqa: N818 - control flow inside the codec, never seen outside
    """The compiled fast path met input that it does not handle; the path-aware pass finds the reason."""
