"""Protobuf wire format written as text: one character U+0000 to U+00FF per byte. It reads no descriptors.

Reason for text: most content of a message is ASCII strings, which are their own UTF-8. Python concatenates
strings (f-strings) about twice as fast as bytes objects, and nothing has to be encoded piece by piece: the
finished text is converted to bytes once, by the Latin-1 codec, which copies.
"""

from __future__ import annotations

VARINT_WIRE, LENGTH_WIRE = 0, 2

_KEPT = 1 << 14


class _Varints(dict[int, str]):
    """Varints by number, made on demand; those of one or two bytes are cached. Negative ones take
    ten bytes.
    """

    def __missing__(self, number: int) -> str:
        rest = number & 0xFFFF_FFFF_FFFF_FFFF
        text = ""
        while rest > 0x7F:
            text += chr(rest & 0x7F | 0x80)
            rest >>= 7
        text += chr(rest)
        if 0 <= number < _KEPT:
            self[number] = text
        return text


VARINT = _Varints()
for _number in range(256):
    VARINT[_number]  # the lookup caches it


def tag(number: int, wire_type: int) -> str:
    """The tag before a field's value."""
    return VARINT[number << 3 | wire_type]


def read_varint(wire: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at a position, and the position after it. Lenient: a truncated varint is accepted
    as a number.
    """
    number = shift = 0
    while at < end and shift < 64:
        byte = wire[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return number, at
