"""New ids in the form of UUID version 7: they begin with the time. They are not registered anywhere.

Rules:
1. Consecutive ids are adjacent in every index, so that the rows of one commit are on few pages. With ids of
   version 4 a durable task cost almost three times as much.
2. 74 bits of each id are random, fetched for many at once: a call for each was a tenth of a direct reply.
"""

import os
import time

_BATCH = 256
#: makes of each byte a byte that begins with 10, the bits that mark the variant of these ids
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))

#: the end of an id, with a separator; each # is a random digit
_ENDING = b"-7###-####-############ "
_COLUMNS = [column for column, sign in enumerate(_ENDING) if sign == ord("#")]

_ready: list[str] = []
#: the last millisecond in which an id was made, and the prefix of its ids
_lately: list[tuple[int, str]] = [(0, "")]


def new_id() -> str:
    """A new unique id, such as `0197a1c2-9f31-7d21-883f-0016d3cca427`. Safe to call from any thread."""
    now = time.time_ns() // 1_000_000
    moment, beginning = _lately[0]
    if moment != now:
        digits = f"{now:012x}"
        beginning = f"{digits[:8]}-{digits[8:]}"
        _lately[0] = now, beginning
    while True:
        try:
            return beginning + _ready.pop()
        except IndexError:
            _ready.extend(_endings())


def two_ids() -> tuple[str, str]:
    """Two new ids, at the cost of little more than one."""
    first = new_id()
    try:
        return first, _lately[0][1] + _ready.pop()
    except IndexError:
        return first, new_id()


def _endings() -> list[str]:
    raw_bytes = bytearray(os.urandom(10 * _BATCH))
    raw_bytes[2::10] = raw_bytes[2::10].translate(_VARIANT)
    digits = raw_bytes.hex().encode()
    # All ids at once, one column of digits after the other: a loop over the ids takes four times as long.
    endings = bytearray(_ENDING * _BATCH)
    for digit, column in enumerate(_COLUMNS, 1):  # digit 0 is where the version is
        endings[column :: len(_ENDING)] = digits[digit::20]
    return endings.decode().split()


if hasattr(os, "register_at_fork"):
    # A forked process must not use the ids that its parent has prepared.
    os.register_at_fork(after_in_child=_ready.clear)
