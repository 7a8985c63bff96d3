"""How many calls one connection to a server takes.

A server says in its SETTINGS how many streams it allows at a time (RFC 9113, 6.5.2). gRPC keeps to it and
does not tell: a further call waits without a sign. So the number is read over a connection of its own, once,
before a client has a second call on a connection. If it cannot be read, the usual limit counts.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from collections.abc import Callable

import grpc

from a2a_bridge.bindings.binding import DialOptions, TlsFiles
from a2a_bridge.bindings.places import Place

log = logging.getLogger("a2a_bridge.grpc")

#: calls of one connection, streams included. Servers and proxies allow 100 by default (RFC 9113, 6.5.2). A
#: server still counts calls that this side has just cancelled, and one place is for `Keepalive`
MOST_CALLS = 50
#: seconds for the SETTINGS of a server, and until a server without an answer is asked again
_PATIENCE, _AGAIN = 5.0, 60.0

_SETTINGS, _MAX_CONCURRENT_STREAMS = 4, 3
#: bytes of the largest frame that a server may send before it knows this side's settings
_LARGEST = 1 << 14
#: the preface of a client, and its SETTINGS, which are empty
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0))


class StreamLimit:
    """The limit of one server. place: where it is; None if it cannot be asked. name: in its certificate. tls:
    makes the SSL context; None for plain text.
    """

    def __init__(self, place: Place | None, name: str, tls: Callable[[], ssl.SSLContext] | None) -> None:
        #: the calls that a connection takes: half of the streams, because others need places, too
        self.calls = MOST_CALLS
        #: whether the server allows a single stream, so that nothing can be asked beside it
        self.single = False
        #: False before the first look
        self.known = place is None
        self._place = place
        self._name = name
        self._tls = tls
        self._asking: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None

    async def learn(self) -> None:
        """Asks the server, unless it is `known`. Callers at the same time wait for one answer."""
        if self.known:
            return
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="read the settings of a server")
        await asyncio.shield(self._asking)

    async def close(self) -> None:
        """Asks no more."""
        if self._again is not None:
            self._again.cancel()
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _ask(self) -> None:
        place = self._place
        if place is None:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                streams = await _read(place, None if self._tls is None else self._tls(), self._name)
        except (OSError, EOFError, ValueError, struct.error) as error:
            log.debug("the number of streams of %s cannot be read: %r", place, error)
            self._again = asyncio.get_running_loop().call_later(_AGAIN, self._forget)
        else:
            self.single = streams is not None and streams <= 1
            self.calls = MOST_CALLS if streams is None else min(MOST_CALLS, max(1, streams // 2))
        self.known = True
        self._asking = None

    def _forget(self) -> None:
        self.known = False


async def _read(place: Place, context: ssl.SSLContext | None, name: str) -> int | None:
    """The streams that a server allows; None for any number. Raises OSError, EOFError, and ValueError or
    struct.error for a server that does not speak HTTP/2.
    """
    reader, writer = await asyncio.open_connection(
        place.host, place.port, ssl=context, server_hostname=name if context is not None else None
    )
    try:
        writer.write(_PREFACE)
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
        if kind != _SETTINGS or flags or length > _LARGEST:
            raise ValueError("its first frame is not its settings")
        settings = dict(struct.iter_unpack(">HI", await reader.readexactly(length)))
    finally:
        writer.close()
    return settings.get(_MAX_CONCURRENT_STREAMS)


def tls_of(options: DialOptions, *, secure: bool) -> Callable[[], ssl.SSLContext] | None:
    """What makes the SSL context for a channel with these options; None for plain text. Raises TypeError for
    credentials that only gRPC can use.
    """
    given = options.tls
    if not secure:
        return None
    if isinstance(given, grpc.ChannelCredentials):
        raise TypeError("only gRPC can use these credentials")

    def made() -> ssl.SSLContext:
        if isinstance(given, TlsFiles):
            context = given.context()
        else:
            context = ssl.create_default_context()
            if isinstance(given, ssl.SSLContext):
                # Not the caller's own: others offer further protocols with it.
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                for authority in given.get_ca_certs(binary_form=True):
                    context.load_verify_locations(cadata=authority)
        context.set_alpn_protocols(["h2"])
        return context

    return made
