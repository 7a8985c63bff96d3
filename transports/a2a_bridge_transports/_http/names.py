"""Names of headers that are looked up in every request: `istr` keeps the form that a lookup compares."""

from __future__ import annotations

from multidict import istr

from a2a_bridge.core import call

CONTENT_ENCODING = istr("Content-Encoding")
CONTENT_LENGTH = istr("Content-Length")
CONTENT_TYPE = istr("Content-Type")
#: the deadline of the caller, in seconds from now
DEADLINE = istr("Request-Timeout")
HOST = istr("Host")
SIDE_CHANNEL = istr(call.SIDE_CHANNEL)
TRANSFER_ENCODING = istr("Transfer-Encoding")
VERSION = istr("A2A-Version")
