"""Texts that callers choose, in a form that every database keeps: PostgreSQL has no NUL.

Not for texts it is not asked for.
"""

from __future__ import annotations


def storable(text: str) -> str:
    """A text without NUL, another one for each text."""
    if "\0" not in text and "\x1b" not in text:
        return text
    return text.replace("\x1b", "\x1b1").replace("\0", "\x1b0")


def original(text: str) -> str:
    """What `storable` was given."""
    return text.replace("\x1b0", "\0").replace("\x1b1", "\x1b") if "\x1b" in text else text
