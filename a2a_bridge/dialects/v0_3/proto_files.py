"""What stands in `file_with_bytes` of a2a.v1: the content, or its base64 text. Not the rest of a part.

The specification's proto says bytes, hence the content. Widely used implementations put the ASCII of the content's
base64 text there, and fail on anything else. So who writes has to know the peer (Files), and who reads has to tell
the two apart:

1. Only text that is base64 to the letter (standard alphabet, padded, one line, not empty) can be base64.
2. A peer known to write base64 (Files.BASE64) means base64 with it.
3. Otherwise the media type decides. A type with a signature (PNG, PDF, …) is base64 when the signature appears after
   decoding. A textual type, or none, is base64 when decoding gives readable text: an ordinary word decodes to bytes
   that are none. Of any other type all content is taken to be base64, because a binary format whose every byte is of
   the base64 alphabet is next to impossible; text of fewer than 8 characters stays what it is.

A wrong guess changes what other versions see, and never what goes back to a2a.v1: how it was written is carried.
"""

from __future__ import annotations

import re
from enum import Enum

import pybase64

from a2a_bridge.codec.values import base64_text

_BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
#: characters that no readable text has
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffe\uffff]")
_TEXTUAL = re.compile(
    r"text/.*|.*[/+](json|xml|yaml|javascript|csv|html|markdown|toml|sql)(;.*)?", re.IGNORECASE
)
_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
    "image/bmp": (b"BM",),
    "image/tiff": (b"II*\0", b"MM\0*"),
    "audio/wav": (b"RIFF",),
    "audio/x-wav": (b"RIFF",),
    "audio/ogg": (b"OggS",),
    "audio/flac": (b"fLaC",),
    "application/pdf": (b"%PDF-",),
    "application/zip": (b"PK\x03\x04", b"PK\x05\x06"),
    "application/gzip": (b"\x1f\x8b",),
}
_SHORTEST = 8


class Files(Enum):
    """What a peer puts into the bytes of a file."""

    RAW = "raw"
    BASE64 = "base64"


def decode_octets(octets: bytes, media_type: str, files: Files) -> tuple[bytes, Files]:
    """The content, and how it was written."""
    if len(octets) % 4 or not _BASE64.fullmatch(octets):
        return octets, Files.RAW
    try:
        content = pybase64.b64decode(octets, validate=True)
    except ValueError:
        return octets, Files.RAW
    # Bits that the padding drops have to be zero, or else writing it again gives other text.
    if pybase64.b64encode(content) != octets:
        return octets, Files.RAW
    if files is Files.BASE64 or _plausible(octets, content, media_type):
        return content, Files.BASE64
    return octets, Files.RAW


def encode_octets(content: bytes, files: Files) -> bytes:
    """The bytes to write for a content."""
    return content if files is Files.RAW else base64_text(content).encode("ascii")


def _plausible(octets: bytes, content: bytes, media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    signatures = _SIGNATURES.get(kind)
    if signatures is not None:
        return content.startswith(signatures)
    if kind and not _TEXTUAL.fullmatch(media_type.strip()):
        return len(octets) >= _SHORTEST
    return _readable(content)


def _readable(content: bytes) -> bool:
    try:
        return _CONTROL.search(content.decode()) is None
    except UnicodeDecodeError:
        return False
