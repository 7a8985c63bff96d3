"""How much of what was written a peer's system has taken. It opens no socket."""

import asyncio
import socket
import sys
from contextlib import suppress

#: the place of tcpi_bytes_acked in struct tcp_info of Linux; empty in systems before 4.1
_BYTES_ACKED = slice(120, 128)


def acknowledged(transport: asyncio.BaseTransport) -> int:
    """Bytes that the peer's system has acknowledged since the connection was made, and one for its making. 0
    where the system does not tell, as outside of Linux.
    """
    opened = transport.get_extra_info("socket")
    if sys.platform == "linux" and opened is not None:
        with suppress(OSError):
            info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED.stop)
            return int.from_bytes(info[_BYTES_ACKED], sys.byteorder)
    return 0
