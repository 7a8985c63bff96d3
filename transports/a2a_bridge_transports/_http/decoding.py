"""Bodies that are compressed, in steps of a bounded size. It reads no network and knows no limit of a body.

A few bytes may stand for gigabytes. So what has come is expanded only as far as its reader asks for more.
"""

import zlib
from typing import Any

#: what requests offer
ACCEPTED = "gzip, deflate"
#: bytes of one step
STEP = 64 * 1024
#: members of one body: each of them costs, however small it is
MOST_MEMBERS = 1000

_RAW, _ZLIB, _GZIP = -zlib.MAX_WBITS, zlib.MAX_WBITS, zlib.MAX_WBITS + 16


class UndecodableError(ValueError):
    """A body is not compressed as its head says, or in a way that was not offered."""


class Decoder:
    """One body, compressed with gzip or deflate."""

    __slots__ = ("_has_more", "_inflate", "_input", "_is_gzip", "_members")

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        #: None before the first byte, and after a member of gzip
        self._inflate: Any = None
        self._members = 0
        self._input = b""
        #: True if the last step was a full one, after which more content may follow without more input
        self._has_more = False

    def feed(self, data: bytes) -> None:
        """Takes more of the body."""
        self._input += data

    def step(self) -> bytes:
        """The next bytes of the content; empty if more of the body is needed. Raises UndecodableError."""
        while self._input or self._has_more:
            inflate = self._inflate or self._begin()
            try:
                found: bytes = inflate.decompress(self._input, STEP)
            except zlib.error:
                raise UndecodableError from None
            self._has_more = len(found) == STEP and not inflate.eof
            self._input = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if inflate.eof:
                self._inflate = None
            if found:
                return found
        return b""

    def _begin(self) -> Any:
        self._members += 1
        # Further members are valid in gzip only (RFC 1952, 2.2).
        if self._members > (MOST_MEMBERS if self._is_gzip else 1):
            raise UndecodableError
        # "deflate" is zlib's format (RFC 9110, 8.4.1.2), but some servers leave its frame out.
        bits = _GZIP if self._is_gzip else _ZLIB if self._input[0] & 15 == 8 else _RAW
        self._inflate = zlib.decompressobj(bits)
        return self._inflate

    def end(self) -> None:
        """The body has ended. Raises UndecodableError if its content has not."""
        if self._inflate is not None:
            raise UndecodableError


def decoder_of(codings: list[str]) -> Decoder | None:
    """The decoder for the values of Content-Encoding headers; None for a body as it is. Raises
    UndecodableError for what was not offered.
    """
    coding = ",".join(codings).strip().lower()
    if coding in ("", "identity"):
        return None
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise UndecodableError
    return Decoder(is_gzip=coding != "deflate")
