"""Counts the lines of the product's code that the current thread runs: work, and not time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_ROOT = Path(__file__).parents[1]
_OURS = tuple(f"{_ROOT / folder}/" for folder in ("a2a_bridge", "transports", "adapters", "tools"))


class Lines:
    """The lines that were run."""

    count = 0

    def _enter(self, frame: FrameType, _what: str, _value: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(_OURS) else None

    def _line(self, _frame: FrameType, what: str, _value: Any) -> Any:
        self.count += what == "line"
        return self._line


@contextmanager
def counted_lines() -> Iterator[Lines]:
    """Counts while the context is open."""
    lines = Lines()
    sys.settrace(lines._enter)
    try:
        yield lines
    finally:
        sys.settrace(None)
