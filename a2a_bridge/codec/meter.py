"""Detects, while a message is being encoded, that it is too large to be encoded without a pause.

The size of a message is unknown before it has been walked. So encoders count the values that they encode, and
in a call of `within_budget` they stop beyond an allowance: the caller then encodes the message where that may
take time, such as in a thread. Outside of `within_budget`, and so in every other thread, there is no limit.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

ALLOWANCE = 4000
"""Maximum number of values encoded without a pause. They take some milliseconds."""
LONG = 32
"""Minimum length of a list of messages that is counted; shorter lists are not worth the check."""
_EACH = 8
"""The number of values that a message in such a list counts as, besides its free content."""


class LengthyError(Exception):
    """A message holds more values than may be encoded without a pause."""


class _Meter(threading.local):
    left: float = math.inf


METER = _Meter()


def within_budget(write: Callable[..., T], *arguments: Any) -> T:
    """The result of `write` for the arguments. Raises LengthyError if it encodes more than
    ALLOWANCE values.
    """
    METER.left = ALLOWANCE
    try:
        return write(*arguments)
    finally:
        METER.left = math.inf


def spend(values: int) -> None:
    """Counts values that are about to be encoded. Raises LengthyError."""
    left = METER.left - values
    METER.left = left
    if left < 0:
        raise LengthyError


def spend_on(items: Any) -> Any:
    """The items of a long list of messages, after counting them. Raises LengthyError."""
    if len(items) > LONG:
        spend(_EACH * len(items))
    return items
