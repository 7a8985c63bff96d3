"""The wire text of protobuf, and the rules for single values in both directions: integers, enums, base64,
timestamps. Not containers.

Wire text is the wire format of protobuf with one character U+0000 to U+00FF per byte, because most content of
a message is ASCII strings, which are their own UTF-8. Python concatenates strings (f-strings) about twice as
fast as bytes objects, and nothing has to be encoded piece by piece: the finished text is converted to bytes
once, by the Latin-1 codec, which copies.

Decoders take any JSON value and raise ValueError with the expected value in plain English. Decoders with a
name `…_wire` return wire text.
"""

import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

import pybase64

from a2a_bridge.codec.plan import EnumPlan
from a2a_bridge.codec.text import Json
from a2a_bridge.pb.google_protobuf import Timestamp

VARINT_WIRE, LENGTH_WIRE = 0, 2

_CACHED = 1 << 14


class _Varints(dict[int, str]):
    """Varints by number; those of one or two bytes are cached. Negative numbers take ten bytes."""

    def __missing__(self, number: int) -> str:
        rest = number & 0xFFFF_FFFF_FFFF_FFFF
        text = ""
        while rest > 0x7F:
            text += chr(rest & 0x7F | 0x80)
            rest >>= 7
        text += chr(rest)
        if 0 <= number < _CACHED:
            self[number] = text
        return text


VARINT = _Varints()
for _number in range(256):
    VARINT[_number]  # the lookup caches it


def tag(number: int, wire_type: int) -> str:
    """The tag before a field's value."""
    return VARINT[number << 3 | wire_type]


def read_varint(wire: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at a position, and the position after it. A truncated varint counts as a number."""
    number = shift = 0
    while at < end and shift < 64:
        byte = wire[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return number, at


# ProtoJSON accepts integers as numbers or strings, also with an exponent or a fraction of zero.
_INTEGER_TEXT = re.compile(r"-?[0-9]{1,40}")
_NUMBER_TEXT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")

_BASE64_BLANKS = b" \t\r\n"
_BASE64_STANDARD = bytes.maketrans(b"-_", b"+/")

_USUAL_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?Z"
)
_ANY_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?\s*([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?",
    re.ASCII,
)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC by definition; an aware one only costs time
FIRST_SECOND = -62135596800
LAST_SECOND = 253402300799


def describe(value: Json) -> str:
    """The kind of a JSON value, for error texts."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
    return "an object"


def integer(value: Json, low: int, high: int) -> int:
    """An integer within inclusive bounds, from a number or from text, such as a query parameter."""
    number: int
    if type(value) is int:
        number = value
    elif isinstance(value, float):
        if not value.is_integer():
            raise ValueError("expected an integer, got a fraction")
        number = int(value)
    elif type(value) is str and _INTEGER_TEXT.fullmatch(value):
        number = int(value)
    elif type(value) is str and _NUMBER_TEXT.fullmatch(value) and float(value).is_integer():
        number = int(float(value))
    else:
        raise ValueError(f"expected an integer, got {describe(value)}")
    if not low <= number <= high:
        raise ValueError(f"expected an integer from {low} to {high}")
    return number


def enum_number(value: Json, plan: EnumPlan) -> int:
    """The number of an enum value given by name or by number; numbers that the enum does not have are kept. A
    name may be in lower case, with hyphens, and with either variant of "canceled".
    """
    if type(value) is str:
        name = value.upper().replace("-", "_")
        for variant in (value, name, name.replace("CANCELLED", "CANCELED")):
            if variant in plan.numbers:
                return plan.numbers[variant]
    try:
        return integer(value, -(2**31), 2**31 - 1)
    except ValueError:
        pass
    if type(value) is str:
        raise ValueError(f"is none of {', '.join(plan.numbers)}")
    raise ValueError(f"expected one of {', '.join(plan.numbers)}, got {describe(value)}")


def string_wire(value: Json) -> str:
    """A string as UTF-8."""
    if type(value) is not str:
        raise ValueError(f"expected a string, got {describe(value)}")
    if value.isascii():
        return value
    try:
        return value.encode().decode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("is not valid Unicode: it contains half of a surrogate pair") from None


def base64_wire(value: Json) -> str:
    """The wire text of `base64_bytes`."""
    return base64_bytes(value).decode("latin-1")


def base64_bytes(value: Json) -> bytes:
    """Bytes from base64, standard or URL-safe, padded or not, in one or in several lines."""
    if type(value) is not str:
        raise ValueError(f"expected a base64 string, got {describe(value)}")
    try:
        return pybase64.b64decode(value, validate=True)
    except ValueError:  # not in standard form
        pass
    try:
        plain = value.encode("ascii").translate(_BASE64_STANDARD, _BASE64_BLANKS).rstrip(b"=")
        return pybase64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except ValueError:
        raise ValueError("is not base64") from None


def base64_text(raw_bytes: bytes) -> str:
    """Standard base64 with padding, in one line."""
    return pybase64.b64encode(raw_bytes).decode("ascii")


def timestamp_wire(value: Json) -> str:
    """A Timestamp message from RFC 3339, or from any other format that `lenient_timestamp` accepts."""
    if type(value) is not str:
        raise ValueError(f"expected a date and time, got {describe(value)}")
    usual = _USUAL_TIMESTAMP.fullmatch(value)
    if usual is None:
        return _unusual_timestamp(value)
    year, month, day, hour, minute, second, fraction = usual.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        raise ValueError("is not a date of the calendar") from None
    seconds = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
    raw_bytes = f"\x08{VARINT[seconds]}" if seconds else ""
    if fraction:
        nanos = int(fraction.ljust(9, "0"))
        if nanos:
            raw_bytes += f"\x10{VARINT[nanos]}"
    return raw_bytes


def _unusual_timestamp(value: str) -> str:
    stamp = lenient_timestamp(value)
    if stamp is None:
        raise ValueError("expected a date and time such as 2025-01-31T12:00:00Z")
    raw_bytes: bytes = stamp.SerializeToString()
    return raw_bytes.decode("latin-1")


def lenient_timestamp(text: str) -> Any:
    """The Timestamp of a text in the formats that software in the field writes; None if it is not a time.

    Accepted are offsets, none at all (which means UTC), a blank or lower case for T and Z, a comma before
    the fraction, dates without a time, times without seconds, leap seconds, 24:00, and any number of
    decimals, of which nine are used.
    """
    match = _ANY_TIMESTAMP.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    whole, leap = int(second or 0), False
    if whole == 60:
        whole, leap = 59, True
    late = hour == "24"
    if late and (int(minute or 0) or whole):
        return None
    try:
        at = datetime(  # noqa: DTZ001 - as _EPOCH
            int(year), int(month), int(day), 0 if late else int(hour or 0), int(minute or 0), whole
        )
        at += timedelta(days=late) - _offset(offset)
    except (ValueError, OverflowError):
        return None
    nanos = 999_999_999 if leap else int((fraction or "0")[:9].ljust(9, "0"))
    return Timestamp(seconds=(at - _EPOCH) // timedelta(seconds=1), nanos=nanos)


def _offset(text: str | None) -> timedelta:
    if text is None or text in "Zz":
        return timedelta()
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if text[0] == "-" else offset


def timestamp_text(stamp: Any) -> str:
    """RFC 3339 in UTC with 0, 3, 6 or 9 digits of a second."""
    seconds, nanos = stamp.seconds, stamp.nanos
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise ValueError("is a date outside the years 1 to 9999")
    if not 0 <= nanos < 1_000_000_000:
        raise ValueError("is a date whose nanoseconds are not within one second")
    text = _second_text(seconds)
    if not nanos:
        return f"{text}Z"
    # The zeros at the front come with a digit before them: a format with a width takes twice as long.
    if nanos % 1000:
        digits = str(1_000_000_000 + nanos)
    elif nanos % 1_000_000:
        digits = str(1_000_000 + nanos // 1000)
    else:
        digits = str(1000 + nanos // 1_000_000)
    return f"{text}.{digits[1:]}Z"


@lru_cache(maxsize=512)
def _second_text(seconds: int) -> str:
    # Cached because the timestamps of a stream of events fall within few seconds.
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()
