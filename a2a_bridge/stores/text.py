"""Converts texts of callers to a form that every database stores: PostgreSQL has no NUL.

Only for texts from callers.
"""

from __future__ import annotations


def storable(text: str) -> str:
    """A text without NUL; different texts stay different."""
    if "\0" not in text and "\x1b" not in text:
        return text
    return text.replace("\x1b", "\x1b1").replace("\0", "\x1b0")


def original(text: str) -> str:
    """The inverse of `storable`."""
    return text.replace("\x1b0", "\0").replace("\x1b1", "\x1b") if "\x1b" in text else text
