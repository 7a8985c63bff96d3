"""When a connection is read: not while its owner wants nothing, and not after its share of a turn of the
event loop. It reads nothing itself.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING

#: bytes that are read or sent of one connection before others have their turn
SHARE = 64 * 1024


class ReadInTurns:
    """Part of a protocol of either side. Its `__init__` sets the members: it reads, and waits for no turn."""

    if not TYPE_CHECKING:  # its subclasses have the slots, beside those of other bases
        __slots__ = ()

    _loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport | None
    #: whether its owner wants more
    _is_reading: bool
    #: True until the next turn of the loop, after its share of this one
    _waits_for_turn: bool

    def stop_reading(self) -> None:
        """Reads nothing, so that the peer has to wait."""
        if self._is_reading and self.transport is not None:
            self._is_reading = False
            self.transport.pause_reading()

    def read_on(self) -> None:
        """Reads again, in the next turn of the loop at the latest."""
        if not self._is_reading and self.transport is not None:
            self._is_reading = True
            if not self._waits_for_turn and not self.transport.is_closing():
                self.transport.resume_reading()

    def wait_for_turn(self, context: Context | None = None) -> None:
        """Reads nothing for the rest of this turn of the loop. context: to read in, later."""
        if not self._waits_for_turn and self._is_reading and self.transport is not None:
            self._waits_for_turn = True
            self.transport.pause_reading()
            self._loop.call_soon(self._on_turn, context=context)

    def _on_turn(self) -> None:
        self._waits_for_turn = False
        transport = self.transport
        if self._is_reading and transport is not None and not transport.is_closing():
            transport.resume_reading()
