"""Bytes → HTTP/1.1 responses, one at a time, on llhttp, the parser of Node.js. It opens no socket.

Rules:
1. One response for one request. After its end nothing more is read: the next bytes, if any, are a response
   that nobody asked for, and `surplus` says so. Interim responses (1xx) before it are skipped, a few of them.
2. llhttp is as strict as it is by default, but for control characters and folded lines in the values of
   headers, which some agents send. What is ambiguous beyond that is malformed: NUL, a blank before a colon, a
   transfer coding other than "chunked", another protocol (101), a version other than 1.0 or 1.1.
3. A head has a limit in bytes and lines. Trailers are dropped; they and chunk extensions have a limit.
4. The body is what the peer sent, still compressed; its owner takes it as it comes, and bounds it.
"""

from __future__ import annotations

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict

from a2a_bridge_transports._http.exchange import CONTENT_LENGTH, TRANSFER_ENCODING
from a2a_bridge_transports._http.parser import MOST_EXTENSIONS, known_names, names_close, remember_name

#: bytes of one head, and header lines in it
MOST_HEAD, MOST_LINES = 128 * 1024, 128
#: interim responses before one response
MOST_INTERIM = 16
#: bytes beside its content that one chunk may have: its length, two line ends and a short extension
_CHUNK_FRAME = 280


_BLANK = 0x20
#: status codes of final responses that have no body, whatever their head says
_WITHOUT_BODY = frozenset({204, 304})


class MalformedResponseError(ValueError):
    """These bytes are no HTTP response to a request. The text quotes none of them."""


class ResponseParser:
    """The responses on one connection. `begin` begins the next one; `feed` gets bytes until `complete`.

    The members about the head are valid with `has_head`. After an error the parser is not used any more.
    """

    __slots__ = (
        "_body",
        "_framing",
        "_head",
        "_interim",
        "_is_spent",
        "_lines",
        "_parser",
        "_status",
        "complete",
        "has_begun",
        "has_head",
        "headers",
        "keep_alive",
        "reason",
        "status",
        "surplus",
        "until_close",
        "version",
    )

    def __init__(self) -> None:
        self._parser: HttpResponseParser | None = None
        #: True if llhttp may reject the next response: it has seen other headers than ours
        self._is_spent = False
        self.begin()

    def begin(self) -> None:
        """Begins the next response."""
        if self._is_spent:
            self._parser = None
        self._is_spent = False
        self._lines: list[tuple[str, str]] = []
        self._status = b""
        #: bytes of the headers so far
        self._head = 0
        self._interim = 0
        #: bytes that are neither headers nor content, less those that each chunk may have
        self._framing = 0
        self._body: bytes | bytearray = b""
        self.status = 0
        #: the text of the status line
        self.reason = ""
        #: the version in the status line, such as "1.1"
        self.version = ""
        #: bytes that are not UTF-8 are surrogates
        self.headers: CIMultiDict[str] = CIMultiDict()
        #: True if the peer permits further requests on this connection
        self.keep_alive = False
        #: True if the end of the connection is the end of the body
        self.until_close = False
        #: True if a byte of it has come
        self.has_begun = False
        self.has_head = False
        self.complete = False
        #: True if more has come than the response
        self.surplus = False

    @property
    def held(self) -> int:
        """Bytes of the body that wait to be taken."""
        return len(self._body)

    def take(self) -> bytes:
        """The body as far as it has come. It is not kept here."""
        body, self._body = self._body, b""
        return body if type(body) is bytes else bytes(body)

    def feed(self, data: bytes) -> None:
        """Reads bytes. Raises MalformedResponseError."""
        if self.complete:
            self.surplus = True
            return
        parser = self._parser
        if parser is None:
            parser = self._parser = HttpResponseParser(self)
            parser.set_dangerous_leniencies(lenient_headers=True)
        self.has_begun = True
        self._framing += len(data)
        try:
            parser.feed_data(data)
        except HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, MalformedResponseError) else error from None
        except HttpParserUpgrade:
            raise MalformedResponseError("it changes to another protocol") from None
        except HttpParserError as error:
            self._failed(error)
        if not self.has_head:
            if self._framing > 2 * MOST_HEAD:  # a line that does not end
                raise MalformedResponseError("its head is too large")
        elif self._framing > MOST_EXTENSIONS and not self.complete:
            raise MalformedResponseError("its chunk extensions or trailers are too long")
        elif self._framing < 0:
            self._framing = 0

    def _failed(self, error: HttpParserError) -> None:
        if not self.complete:
            raise MalformedResponseError(str(error)) from None
        self.surplus = True

    def end(self) -> bool:
        """The connection has ended. Returns True if the response is complete."""
        if self.has_head and self.until_close:
            self.complete = True
        return self.complete

    def release(self) -> None:
        """Frees llhttp, which refers back to this object, until more is fed."""
        self._parser = None

    # ------------------------------------------------------------------ called by httptools

    def on_message_begin(self) -> None:
        if self.complete:
            self.surplus = True

    def on_status(self, status: bytes) -> None:
        if not self.complete:
            self._status += status

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_head:  # a trailer; `Connection: close` in it has llhttp read nothing further
            self._is_spent = True
            return
        self._head += len(name) + len(value) + 4
        if self._head > MOST_HEAD or len(self._lines) >= MOST_LINES:
            raise MalformedResponseError("its head is too large")
        if name[-1] == _BLANK or 0 in value:
            raise MalformedResponseError("its head has an invalid header")
        known = known_names.get(name) or remember_name(name)
        self._lines.append((known, value.rstrip(b" \t").decode("utf-8", "surrogateescape")))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if self.complete or parser is None:
            return
        status = parser.get_status_code()
        self._framing -= self._head + len(self._status)
        if status < 200:
            self._interim += 1
            if status == 101:
                raise MalformedResponseError("it changes to another protocol")
            if self._interim > MOST_INTERIM:
                raise MalformedResponseError("it has too many interim responses")
            self._lines.clear()
            self._status = b""
            return
        self.status = status
        self.reason = self._status.decode("latin-1")
        self.version = parser.get_http_version()
        headers = self.headers = CIMultiDict(self._lines)
        self._lines = []
        old = self.version == "1.0"
        if not old and self.version != "1.1":
            raise MalformedResponseError("its version is neither HTTP/1.0 nor HTTP/1.1")
        coding = headers.getall(TRANSFER_ENCODING, None)
        if coding is not None and (len(coding) > 1 or coding[0].lower() != "chunked"):
            raise MalformedResponseError("its transfer coding was not asked for")
        self.until_close = coding is None and CONTENT_LENGTH not in headers and status not in _WITHOUT_BODY
        # The framing of a chunked response of HTTP/1.0 may be that of another hop (RFC 9112, 6.1).
        self.keep_alive = parser.should_keep_alive() and not (old and (coding or names_close(headers)))
        self.has_head = True

    def on_chunk_header(self) -> None:
        self._framing -= _CHUNK_FRAME

    def on_body(self, data: bytes) -> None:
        if self.complete:
            return
        self._framing -= len(data)
        # One buffer: objects for the pieces of a body in tiny chunks would be many times as large as it.
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytes):
            self._body = bytearray(self._body) + data
        else:
            self._body += data

    def on_message_complete(self) -> None:
        self.complete = self.has_head  # an interim response has no head here
