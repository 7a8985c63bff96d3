"""Bytes → HTTP/1.1 requests, one at a time, on llhttp, the parser of Node.js. It opens no socket.

Rules:
1. `feed` stops at the end of a message, so that the next one is not read before this one is answered. llhttp
   does not say where that is, so the lengths of chunks are followed here. llhttp has the last word: where it
   sees another end than we do, the message is malformed.
2. llhttp is as strict as it is by default: no flag of leniency is set. It rejects what servers frame in
   different ways: Content-Length beside Transfer-Encoding, line folding, bare LF, odd lengths.
3. Trailers are dropped. They and chunk extensions have no use, and are limited.
4. An Upgrade is ignored, as RFC 9110 section 7.8 permits: the client of the JDK offers h2c with its first
   request, which may have a body.
"""

import re

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser
from multidict import CIMultiDict, istr

from a2a_bridge_transports._http.exchange import CONTENT_LENGTH, TRANSFER_ENCODING

#: header lines in one head
MOST_HEADERS = 256
#: bytes of chunk extensions and trailers in one request; they do not count as body
MOST_EXTENSIONS = 4096
#: bytes that frame one chunk without extensions: its length in hexadecimal and two line ends
_CHUNK_FRAME = 24
#: digits of a Content-Length
_MOST_DIGITS = 20
#: names of headers that are remembered; callers and agents choose them
_REMEMBERED = 256

_END = b"\r\n\r\n"
#: a line with the length of a chunk; llhttp checks the extensions after it
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?\r", re.DOTALL)
#: chunks of up to 15 bytes in a row, which would cost much one by one
_SMALL_CHUNKS = re.compile(
    b"(?:" + b"|".join(b"%x\r\n.{%d}\r\n" % (length, length) for length in range(1, 16)) + b")++", re.DOTALL
)
#: longest such line
_LONGEST_LINE = 20 + MOST_EXTENSIONS
#: values of `_chunk` outside of chunks: in the line with a length, and after the last chunk
_LENGTH, _TRAILERS = 0, -1

#: the names of headers as they were first written, by their bytes
known_names: dict[bytes, str] = {}


class MalformedError(ValueError):
    """These bytes are no HTTP request. The text quotes none of them."""


class HeadTooLargeError(MalformedError):
    """The head of a request is larger than the limit. status: 414 for its target, 431 for its headers."""

    def __init__(self, status: int) -> None:
        super().__init__("the request head is too large")
        self.status = status


class RequestParser:
    """The messages of one connection. max_header: bytes of the target, and of the headers.

    `fed`, `has_head` and `complete` tell how far the present message has come; the members about its head are
    valid with `has_head`. After `complete`, `reset` begins the next one; `feed` may not be called in between.
    """

    __slots__ = (
        "_body",
        "_chunk",
        "_framing",
        "_is_spent",
        "_line",
        "_lines",
        "_max_header",
        "_parser",
        "_tail",
        "_target",
        "complete",
        "fed",
        "has_head",
        "headers",
        "keep_alive",
        "method",
        "missing",
        "size",
        "target",
        "version",
    )

    def __init__(self, max_header: int) -> None:
        self._max_header = max_header
        self._parser: HttpRequestParser | None = None
        #: True if llhttp may reject what follows this message: it has seen other headers than ours
        self._is_spent = False
        self.method = ""
        #: the target in the request line, as sent
        self.target = ""
        #: the version in the request line, such as "1.1"; "0.9" if there is none
        self.version = ""
        #: bytes that are not UTF-8 are surrogates
        self.headers: CIMultiDict[str] = CIMultiDict()
        #: True if the client permits further requests on this connection
        self.keep_alive = False
        self.reset()

    def reset(self) -> None:
        """Begins the next message."""
        if self._is_spent:
            self._parser = None
        self._is_spent = False
        self._target = b""
        self._lines: list[tuple[str, str]] = []
        self._body: bytes | bytearray = b""
        #: the last bytes, in which the end of a block may have begun
        self._tail = b""
        #: bytes of the head so far
        self.fed = 0
        #: bytes of a chunked body that are not content, less those that frame its chunks
        self._framing = 0
        #: bytes of a chunk that are still to come, with the line end after it
        self._chunk = _LENGTH
        #: the line with the length of a chunk, as far as it has come
        self._line = b""
        #: bytes of a body with a Content-Length that are still to come
        self.missing = 0
        #: bytes of the body so far
        self.size = 0
        self.has_head = False
        self.complete = False

    @property
    def has_part(self) -> bool:
        """Whether some of the body waits to be taken."""
        return bool(self._body)

    def take_body(self) -> bytes:
        """The body as far as it has come. It is not kept here."""
        body, self._body = self._body, b""
        return body if type(body) is bytes else bytes(body)

    def release(self) -> None:
        """Frees llhttp, which refers back to this object, until more is fed. For the time after a message."""
        self._parser = None

    def feed(self, data: bytes, at: int = 0) -> int:
        """Reads `data` from a position on, at most to the end of the head or the message; returns the
        position after that. Raises MalformedError; then the parser cannot be used any more.
        """
        if self.missing:
            end = min(len(data), at + self.missing)
            self.missing -= end - at
            self._execute(data[at:end])
            if self.complete == (self.missing > 0):
                self.complete = False
                raise MalformedError("the body has another length than announced")
            return end
        if self.has_head:
            return self._feed_chunks(data, at)
        found = -1 if self._tail else data.find(_END, at)
        end = found + 4 if found >= 0 else self._end_of_block(data, at)
        self.fed += end - at
        if self.fed > 2 * self._max_header:
            self._execute(data[at : at + 2 * self._max_header])  # tells how long the target is
            raise HeadTooLargeError(414 if len(self._target) > self._max_header else 431)
        if not self._execute(data[at:end]):
            return end
        target = len(self.target)
        if target > self._max_header:
            raise HeadTooLargeError(414)
        if self.fed - target > self._max_header:
            raise HeadTooLargeError(431)
        length = None if self.complete else self.headers.get(CONTENT_LENGTH)
        if length is not None:
            if len(length) > _MOST_DIGITS:
                raise MalformedError("the Content-Length is too long")
            self.missing = int(length)
        return end

    def _feed_chunks(self, data: bytes, at: int) -> int:
        """Reads a chunked body; see `feed`."""
        end, is_last = self._end_of_chunks(data, at)
        size = self.size
        self._execute(memoryview(data)[at:end])
        self._framing += end - at - (self.size - size)
        problem = ""
        if self.complete != is_last:
            problem = "the chunks of the body have other lengths than announced"
        elif self._framing > MOST_EXTENSIONS:
            problem = "the extensions of the chunks are too long"
        if problem:
            self.complete = False
            raise MalformedError(problem)
        return end

    def _end_of_chunks(self, data: bytes, at: int) -> tuple[int, bool]:
        """The end of a chunked body in the data, or the end of the data; and whether the body ends there.
        Raises MalformedError.
        """
        left, size = self._chunk, len(data)
        while at < size:
            if left > 0:
                at += left
                left = max(at - size, 0)
                continue
            if left == _TRAILERS:
                break
            small = None if self._line else _SMALL_CHUNKS.match(data, at)
            if small is not None:
                at = small.end()
                continue
            found = data.find(b"\n", at)
            line = self._line + data[at : size if found < 0 else found]
            if len(line) > _LONGEST_LINE:
                raise MalformedError("the extensions of the chunks are too long")
            if found < 0:
                self._line = line
                at = size
                break
            self._line = b""
            at = found + 1
            match = _CHUNK.fullmatch(line)
            if match is None:
                raise MalformedError("a chunk has no valid length")
            left = int(match[1], 16) + 2
            if left == 2:  # the last chunk has no content
                left = _TRAILERS
                self._tail = b"\r\n"
        self._chunk = left
        if left != _TRAILERS or at >= size:
            return min(at, size), False
        end = self._end_of_block(data, at)
        return end, not self._tail

    def _end_of_block(self, data: bytes, at: int) -> int:
        """The position after the next empty line, with which heads and chunked bodies end, or the end of the
        data.
        """
        tail = self._tail
        if tail:
            self._tail = b""
            found = (tail + data[at : at + 3]).find(_END)
            if found >= 0:
                return at + found + len(_END) - len(tail)
        found = data.find(_END, at)
        if found >= 0:
            return found + len(_END)
        self._tail = (tail + data[max(at, len(data) - 3) :])[-3:]
        return len(data)

    def _execute(self, data: bytes | memoryview) -> bool:
        """Passes data to llhttp. Returns True if the head is complete."""
        parser = self._parser
        if parser is None:
            parser = self._parser = HttpRequestParser(self)
        try:
            parser.feed_data(data)
        except HttpParserUpgrade:
            self._ignore_upgrade()
        except HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, MalformedError) else error from None
        except HttpParserError as error:
            raise MalformedError(type(error).__name__) from None
        return self.has_head

    def _ignore_upgrade(self) -> None:
        """Reads the body of a request with an Upgrade header. To httptools such a message ends with its head;
        so the body goes to a new parser, which gets a head without that header.
        """
        framing = [
            f"{name}: {value}\r\n".encode("utf-8", "surrogateescape")
            for name in (CONTENT_LENGTH, TRANSFER_ENCODING)
            for value in self.headers.getall(name, ())
        ]
        self._is_spent = True
        if self.method == "CONNECT":  # what follows is no HTTP
            self.keep_alive = False
        elif framing:
            head = self.target, self.headers, self.keep_alive
            self._target = b""
            self.has_head = self.complete = False
            line = f"{self.method} / HTTP/{self.version}\r\n".encode()
            self._parser = None
            self._execute(b"".join((line, *framing, b"\r\n")))
            self.target, self.headers, self.keep_alive = head

    # ------------------------------------------------------------------ called by httptools

    def on_url(self, url: bytes) -> None:
        if self.has_head:
            raise MalformedError("a message ends too early")
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_head:
            self._is_spent = True  # a trailer; if it is `Connection: close`, llhttp reads nothing further
            return
        if len(self._lines) >= MOST_HEADERS:
            raise HeadTooLargeError(431)
        known = known_names.get(name) or remember_name(name)
        self._lines.append((known, value.rstrip(b" \t").decode("utf-8", "surrogateescape")))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser is None:
            return
        self.method = parser.get_method().decode()
        self.target = self._target.decode("utf-8", "surrogateescape")
        self.version = parser.get_http_version()
        self.headers = CIMultiDict(self._lines)
        self._lines = []
        self.keep_alive = parser.should_keep_alive() and not (
            self.version == "1.0" and names_close(self.headers)
        )
        self.has_head = True

    def on_chunk_header(self) -> None:
        self._framing -= _CHUNK_FRAME

    def on_body(self, data: bytes) -> None:
        self.size += len(data)
        # One buffer: objects for the pieces of a body in tiny chunks would be many times as large as it.
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytes):
            self._body = bytearray(self._body) + data
        else:
            self._body += data

    def on_message_complete(self) -> None:
        self.complete = True


def remember_name(name: bytes) -> str:
    """The name of a header as text, one object for the first names that were seen."""
    text = istr(name.decode())
    if len(known_names) < _REMEMBERED:
        known_names[name] = text
    return text


def names_close(headers: CIMultiDict[str]) -> bool:
    """True if a Connection header says "close". It outweighs "keep-alive" (RFC 9112, 9.3), but not in
    llhttp's reading of HTTP/1.0.
    """
    options = ",".join(headers.getall("Connection", ())).lower().split(",")
    return any(option.strip() == "close" for option in options)
