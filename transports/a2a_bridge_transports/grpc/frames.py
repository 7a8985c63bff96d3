"""gRPC in HTTP: frames, timeouts, metadata and status in headers and trailers. It has no I/O and no grpcio.

Rules (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md and doc/PROTOCOL-WEB.md):
1. A body is a sequence of messages, each after a prefix: one byte of flags and the length in four bytes. Flag
   1 means compressed; flag 128, in gRPC-Web only, means trailers.
2. Binary metadata (names that end in `-bin`) is base64, with or without padding; other values are ASCII.
3. `grpc-message` is percent-encoded UTF-8.
"""

import binascii
import re
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from a2a_bridge.core.errors import A2AError, Reason

COMPRESSED, TRAILERS = 0x01, 0x80

prefix = struct.Struct(">BI")
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

#: headers of the HTTP request that are not metadata of the call
_NO_METADATA = frozenset(
    {
        b"te",
        b"content-type",
        b"content-length",
        b"transfer-encoding",
        b"connection",
        b"host",
        b"grpc-timeout",
        b"grpc-encoding",
        b"grpc-accept-encoding",
        b"x-grpc-web",
    }
)

#: compressions of messages, by their name in `grpc-encoding` → zlib's number for the format
_WINDOWS: dict[bytes | None, int] = {b"gzip": 31, b"deflate": 15}
CODINGS = frozenset({b"identity", *_WINDOWS})

Headers = list[tuple[bytes, bytes]]


class FrameError(ValueError):
    """Bytes that are not gRPC frames."""


class OversizeError(FrameError):
    """A message that is larger than the limit."""


class Unframer:
    """Takes messages out of a body that arrives in pieces. limit: bytes of one message, before and
    after decompression. coding: of compressed messages, one of CODINGS; with None or `identity`, no message
    may be compressed.
    """

    def __init__(self, limit: int, coding: bytes | None) -> None:
        self._limit = limit
        self._window = _WINDOWS.get(coding)
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that `data` completes. Raises FrameError."""
        self._held += data
        while len(self._held) >= prefix.size:
            flags, size = prefix.unpack_from(self._held)
            if size > self._limit:
                raise OversizeError(f"a message of {size} bytes")
            if flags & ~COMPRESSED:
                raise FrameError(f"unknown flags {flags:#04x}")
            end = prefix.size + size
            if len(self._held) < end:
                return
            message = bytes(self._held[prefix.size : end])
            del self._held[:end]
            yield self._inflate(message) if flags else message

    @property
    def holds_more(self) -> bool:
        """Whether bytes wait behind the last message."""
        return bool(self._held)

    def end(self) -> None:
        """Raises FrameError if a message is incomplete."""
        if self._held:
            raise FrameError("the body ends within a message")

    def _inflate(self, data: bytes) -> bytes:
        if self._window is None:
            raise FrameError("a compressed message without grpc-encoding")
        inflater = zlib.decompressobj(wbits=self._window)
        try:
            message = inflater.decompress(data, self._limit + 1)
        except zlib.error:
            raise FrameError("a compressed message is not what grpc-encoding says") from None
        if len(message) > self._limit:
            raise OversizeError("a message that is too large after decompression")
        if not inflater.eof or inflater.unused_data:
            raise FrameError("a compressed message is not one whole stream")
        return message


def timeout_of(text: bytes) -> float:
    """The seconds in a value of `grpc-timeout`. Raises INVALID_REQUEST."""
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise A2AError(Reason.INVALID_REQUEST, "grpc-timeout is at most 8 digits and one of H, M, S, m, u, n")
    return int(found[1]) * _UNITS[found[2]]


def metadata_of_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The metadata of a call without its binary entries, which no binding reads. Values that are not ASCII
    are left out, as other implementations do.
    """
    return tuple(
        [
            (name.decode("latin-1"), value.decode("ascii"))
            for name, value in headers
            if name not in _NO_METADATA and name[-4:] != b"-bin" and value.isascii()
        ]
    )


def headers_of_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> Headers:
    """Metadata as headers or trailers."""
    return [
        (
            name.encode("ascii"),
            b64encode(value).rstrip(b"=") if isinstance(value, bytes) else value.encode("ascii"),
        )
        for name, value in metadata
    ]


def status_headers(status: int, text: str) -> Headers:
    """The status of a call as trailers."""
    made = [(b"grpc-status", b"%d" % status)]
    if text:
        made.append((b"grpc-message", quote(text, safe=_PLAIN).encode("ascii")))
    return made


def web_trailers(headers: Headers) -> bytes:
    """Trailers as the last frame of a gRPC-Web body."""
    block = b"".join([name + b": " + value + b"\r\n" for name, value in headers])
    return prefix.pack(TRAILERS, len(block)) + block


def from_web_text(data: bytes) -> bytes:
    """The body of a `grpc-web-text` request: base64 of the whole, or of parts with their own padding. Raises
    FrameError.
    """
    parts = re.findall(rb"[^=]+=*", b"".join(data.split()))
    try:
        return b"".join([b64decode(part, validate=True) for part in parts])
    except binascii.Error:
        raise FrameError("the body is not base64") from None
