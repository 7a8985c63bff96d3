"""What can go wrong between JSON and messages. It knows no protocol error codes: callers choose those."""

from __future__ import annotations

from collections.abc import Sequence

Violation = tuple[str, str]
"""A JSON field path such as `message.parts[0].text` ("" is the document itself), and what is wrong there."""


class DecodeError(ValueError):
    """The JSON is well formed but is not the message that was asked for.

    `violations` holds everything found, in document order and bounded; `path` and `problem` are the first.
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
    """The message holds something that JSON cannot say: NaN, infinity, a date outside the years 1 to 9999."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class JsonSyntaxError(ValueError):
    """The text is not JSON as RFC 8259 defines it."""


class Irregular(ValueError):  # noqa: N818 - control flow inside the codec, never seen outside
    """The compiled fast path met something it does not handle; the path-aware pass finds out what."""
