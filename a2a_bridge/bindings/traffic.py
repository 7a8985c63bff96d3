"""Counts that no middleware sees, for the whole process: the bytes of requests and responses of each binding,
and the requests that are rejected before they become calls, with one line of the log (at `info`) for each.

Rules:
1. The counted bytes are the body of a request or a response, or one event or message, as it is on the wire
   before compression: without headers and framing.
2. Only the event loop counts.
"""

import logging
from collections import Counter

from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import by_version

#: bytes of requests by binding
received_bytes: Counter[str] = Counter()
#: bytes of responses and events by binding
sent_bytes: Counter[str] = Counter()


_log = logging.getLogger("a2a_bridge.rejected")

#: longest text of a caller in the log, in characters
_LONGEST = 100

#: rejected requests of this process by binding, version and the name of the reason. binding: empty for a
#: request that reached none. version: empty if none was declared, "other" for one that is not known here
rejected_requests: Counter[tuple[str, str, str]] = Counter()
#: connections of this process beyond the limit of a listener, by its family
rejected_connections: Counter[str] = Counter()


def log_rejected(request: str, peer: str, version: str, error: A2AError, binding: str = "") -> None:
    """Counts and logs a rejected request.

    request: its HTTP method and path, or the path of its gRPC method; without the query, which may contain
    credentials. peer: address. version: as the caller declared it; empty if it did not. binding: its name;
    empty for a request that reached none.
    """
    known = by_version(version) if version else None
    counted = known.version if known is not None else "other" if version else ""
    rejected_requests[binding, counted, error.reason.name] += 1
    if not _log.isEnabledFor(logging.INFO):
        return
    declared = f", version {printable(version)}" if version else ""
    reason = ascii(error.message[: 2 * _LONGEST])[1:-1]
    _log.info(
        "%s from %s%s: %s: %s",
        printable(request),
        peer or "an unknown peer",
        declared,
        error.name,
        reason,
        extra={"binding": binding, "version": counted, "code": error.reason.name, "peer": peer},
    )


def printable(text: str) -> str:
    """A text of a caller for a line of the log: it cannot forge a line, or another part of its own."""
    short = text[:_LONGEST]
    return short if short.isascii() and short.isprintable() else ascii(short)
