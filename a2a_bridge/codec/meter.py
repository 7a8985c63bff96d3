"""Tells that a message is too large to be written in one go, while it is being written. It writes nothing
itself.

Nobody knows how much a message holds before walking through it. So encoders note how many values they have
come past, and within `briefly` they give up beyond an allowance: the caller then has the message written
where that may take time, such as in a thread. Outside of `briefly`, and so in every other thread, there is no
limit.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

ALLOWANCE = 4000
"""Values that are written in one go. They take some milliseconds."""
LONG = 32
"""Items of a list of messages from which on they are counted; shorter ones are not worth asking for."""
_EACH = 8
"""Values that a message in such a list counts as, besides the free content in it."""


class LengthyError(Exception):
    """A message holds more than may be written in one go."""


class _Meter(threading.local):
    left: float = math.inf


METER = _Meter()


def briefly(write: Callable[..., T], *arguments: Any) -> T:
    """What `write` makes of its arguments. Raises LengthyError if it comes past more than ALLOWANCE
    values.
    """
    METER.left = ALLOWANCE
    try:
        return write(*arguments)
    finally:
        METER.left = math.inf


def spend(values: int) -> None:
    """Notes that so many values are being written. Raises LengthyError."""
    left = METER.left - values
    METER.left = left
    if left < 0:
        raise LengthyError


def spend_on(items: Any) -> Any:
    """The items of a long list of messages, noted as values. Raises LengthyError."""
    if len(items) > LONG:
        spend(_EACH * len(items))
    return items
