"""Fresh ids in the form of UUID version 4. Not a registry: nothing remembers them.

The random bytes are fetched for many ids at once, because one system call per id was a tenth of a direct reply.
"""

from __future__ import annotations

import os

_BATCH = 256
_VARIANT = "89ab" * 4

_ready: list[str] = []


def new_id() -> str:
    """An id nobody has seen, such as `1b4e28ba-2fa1-41d2-883f-0016d3cca427`. Safe to call from any thread."""
    while True:
        try:
            return _ready.pop()
        except IndexError:
            _ready.extend(_fresh())


def _fresh() -> list[str]:
    digits = os.urandom(16 * _BATCH).hex()
    return [
        f"{digits[i : i + 8]}-{digits[i + 8 : i + 12]}-4{digits[i + 13 : i + 16]}-"
        f"{_VARIANT[int(digits[i + 16], 16)]}{digits[i + 17 : i + 20]}-{digits[i + 20 : i + 32]}"
        for i in range(0, len(digits), 32)
    ]


if hasattr(os, "register_at_fork"):
    # A forked process must not hand out the ids that its parent is about to hand out.
    os.register_at_fork(after_in_child=_ready.clear)
