"""One line of the log, at `info`, for each request that is refused before it becomes a call."""

from __future__ import annotations

import logging

from a2a_bridge.core.errors import A2AError

_log = logging.getLogger("a2a_bridge.refused")

#: longest text of a caller in the log, in characters
_LONGEST = 100


def log_refused(request: str, peer: str, version: str, error: A2AError) -> None:
    """Logs a refused request.

    request: its HTTP method and path, or the path of its gRPC method; without the query, which may contain
    credentials. peer: address. version: as the caller declared it; empty if it did not.
    """
    if not _log.isEnabledFor(logging.INFO):
        return
    declared = f", version {printable(version)}" if version else ""
    reason = ascii(error.message[: 2 * _LONGEST])[1:-1]
    _log.info(
        "%s from %s%s: %s: %s", printable(request), peer or "an unknown peer", declared, error.name, reason
    )


def printable(text: str) -> str:
    """A text of a caller for a line of the log: it cannot forge a line, or another part of its own."""
    short = text[:_LONGEST]
    return short if short.isascii() and short.isprintable() else ascii(short)
