"""The client half of HTTP: a session with limits, and the meaning of its failures. It knows no binding.

Rules:
1. No redirects, no cookies, no limit on connections (the number of callers bounds them), proxies from
   the environment.
2. A failure before the request was sent is UNAVAILABLE with metadata phase=connect: the agent has not seen
   the call. A later one is phase=call, and phase=stream after the first events.
3. Responses are bounded, after decompression.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NoReturn
from urllib.parse import urlencode

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from a2a_bridge.bindings.binding import (
    DialOptions,
    Exchange,
    Fetch,
    Fetched,
    Post,
    Resolve,
    TlsFiles,
    is_unconnected,
    unconnected_error,
)
from a2a_bridge.bindings.bounded import Sending
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.bindings.memory import Arriving
from a2a_bridge.bindings.places import read_place
from a2a_bridge.core.call import Joined, entries_of
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.masking import without_query_values
from a2a_bridge_transports._http import sse
from a2a_bridge_transports._http.certificates import alert_problem, certificate_problem
from a2a_bridge_transports._http.connector import HTTP_2_ONLY, Checked, Connector, build_resolver, unavailable
from a2a_bridge_transports._http.proxy import proxy_of, redact_url

#: seconds an idle connection is kept for the next call. Less than the 5 s of uvicorn and Node.js: a call that
#: meets the close of the server fails, and cannot be repeated because the server may have read it
KEEP_CONNECTION = 4.0
_NO_TARGET = re.compile("[\x00-\x20\x7f-\x9f]")
#: why a peer breaks a TLS connection off without a word, at the first use
_WANTED = "it wants a client certificate (--cert)"

#: seconds for a document, such as a card
DOCUMENT_TIME = 30.0
#: bytes above which a body is passed as a file (aiohttp warns of larger ones in one piece)
LARGE_BODY = 512 * 1024
#: size of an unneeded answer up to which reading it is cheaper than a new connection
SMALL_ANSWER = 4096

#: the first frame of an HTTP/2 server, SETTINGS, as aiohttp quotes an invalid status line
_HTTP_2 = re.compile(r"\\x00\\x00.{1,4}\\x04\\x00\\x00\\x00\\x00\\x00")

#: aiohttp's text for a body that is not compressed as its head says, or in a way that was not offered
_UNDECODED = "decode content-encoding"
_UNREAD = (aiohttp.ClientResponseError, aiohttp.ClientPayloadError)

#: bytes of a stream that are read before other work has its turn
_TURN = 64 * 1024
#: the system's resolver raises UnicodeError for a host that is no name, aiohttp raises RuntimeError for
#: the use of a session or connection that this side has closed
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError, UnicodeError, RuntimeError)
_NOT_CONNECTED = (aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL)


def url_of(address: str, tls: Any) -> str:
    """An interface's URL with the scheme that `tls` forces; `host:port` gets one. No slash is added."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "http", address
    if tls is True or isinstance(tls, ssl.SSLContext):
        scheme = "https"
    elif tls is False:
        scheme = "http"
    return f"{scheme.lower()}://{rest}"


def call_url(address: str, options: DialOptions) -> str:
    """The URL of the calls of an interface, with the members of the query that the options add."""
    url = url_of(address, options.tls)
    if not options.query:
        return url
    url = url.partition("#")[0]
    return f"{url}{'&' if '?' in url else '?'}{urlencode(options.query)}"


@asynccontextmanager
async def open_exchanger(
    options: DialOptions, resolver: AbstractResolver | None = None
) -> AsyncIterator[Exchanger]:
    """An exchanger over a session of its own, not connected yet. resolver: for each connection, in place of
    the system's resolver.
    """
    connector = Connector(
        options.connect_timeout,
        patience=options.connect_patience,
        limit=0,
        keepalive_timeout=KEEP_CONNECTION,
        resolver=resolver,
        use_dns_cache=resolver is None,
        ssl=_context(options.tls),
    )
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "a2a-bridge"},
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=256 * 1024,
        max_line_size=64 * 1024,
        max_field_size=64 * 1024,
    )
    exchanger = Exchanger(session, options)
    try:
        async with session:
            yield exchanger
    finally:
        exchanger.end_reads()


def _context(tls: Any) -> ssl.SSLContext | bool:
    """DialOptions.tls in the form of aiohttp. Raises ValueError for unusable files."""
    if isinstance(tls, TlsFiles):
        try:
            return tls.context()
        except OSError as error:
            raise ValueError(f"the files for TLS cannot be used: {error}") from None
    return tls if isinstance(tls, ssl.SSLContext) else True


class Exchanger:
    """Requests over one session, with the bridge's deadlines and errors."""

    def __init__(self, session: aiohttp.ClientSession, options: DialOptions) -> None:
        self._session = session
        self._options = options
        self._proxies: dict[tuple[str, str], URL | None] = {}
        #: the responses that are being read
        self._reading: set[aiohttp.ClientResponse] = set()

    def end_reads(self) -> None:
        """Ends the reads that wait. aiohttp lets the readers of a closed session wait for ever."""
        for response in self._reading:
            response.content.set_exception(aiohttp.ClientConnectionError("the session is closed"))

    async def call(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None, limit: float | None
    ) -> Fetched:
        """The whole response to a request. Raises UNAVAILABLE, DEADLINE_EXCEEDED, INVALID_AGENT_RESPONSE."""
        limits = aiohttp.ClientTimeout(total=limit)
        answered = False
        try:
            async with self._session.request(
                method,
                url,
                headers=_lines(url, headers),
                data=_payload(body),
                allow_redirects=False,
                timeout=limits,
                proxy=self._proxy(url),
            ) as response:
                answered = True
                self._show_heads(response, body)
                data = await self._read(response)
                return Fetched(response.status, response.headers, data)
        except _FAILURES as error:
            self._fail(error, "call", url, answered=answered)

    async def post_unread(
        self, url: URL, headers: Mapping[str, str], body: bytes, limit: float | None, resolver: Checked
    ) -> Fetched:
        """A POST to an untrusted receiver: its address is checked, no proxy is used, the body of the response
        is not read. Raises the errors of `call` and of `resolver`.
        """
        limits = aiohttp.ClientTimeout(total=limit)
        try:
            await resolver.check_literal(url)
            async with self._session.post(
                url, headers=headers, data=_payload(body), allow_redirects=False, timeout=limits
            ) as response:
                self._show_heads(response, body)
                length = response.content_length
                if (
                    length is not None
                    and length <= SMALL_ANSWER
                    and "Content-Encoding" not in response.headers
                ):
                    # Only so that the connection can be reused. The response counts, even if this fails.
                    with contextlib.suppress(*_FAILURES):
                        await response.read()
                else:
                    response.close()  # the body is not needed
                return Fetched(response.status, response.headers, b"")
        except _FAILURES as error:
            self._fail(error, "call", answered=False)

    @asynccontextmanager
    async def stream(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None, limit: float | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A request whose response is read as it arrives. Leaving closes a connection with unread data."""
        limits = aiohttp.ClientTimeout(
            total=limit,
            sock_read=self._options.idle_timeout,
        )
        try:
            response = await self._session.request(
                method,
                url,
                headers=_lines(url, headers),
                data=_payload(body),
                allow_redirects=False,
                timeout=limits,
                proxy=self._proxy(url),
            )
        except _FAILURES as error:
            self._fail(error, "call", url, answered=False)
        self._show_heads(response, body)
        try:
            yield response
        finally:
            response.close()

    async def whole(self, response: aiohttp.ClientResponse) -> bytes:
        """The body of a response that is no stream."""
        try:
            return await self._read(response)
        except _FAILURES as error:
            self._fail(error, "call")

    async def events(self, response: aiohttp.ClientResponse) -> AsyncGenerator[list[sse.Event], None]:
        """The events of a response, in groups as they arrive. Raises UNAVAILABLE (phase=stream) for silence
        or an incomplete end, and DEADLINE_EXCEEDED.
        """
        decoder = sse.Decoder(self._options.max_message)
        content = response.content
        arriving = Arriving(self._options.memory, content.set_exception)
        held = 0
        self._reading.add(response)
        try:
            while chunk := await content.readany():
                if self._options.frame_observer is not None:
                    self._options.frame_observer(Frame(False, body=chunk))
                for piece in _pieces(chunk) if len(chunk) > _TURN else (chunk,):
                    found = decoder.feed(piece)
                    if decoder.held != held:
                        held = decoder.held
                        arriving.resize(held)
                    if found:
                        yield found
                    if len(chunk) > _TURN:
                        await asyncio.sleep(0)
        except sse.EventTooLargeError as error:
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, str(error), blame=Blame.PEER) from None
        except _FAILURES as error:
            self._fail(error, "stream")
        finally:
            self._reading.discard(response)
            arriving.release()
        if ended := decoder.end():
            yield ended
        elif decoder.pending:
            raise unavailable("the agent's stream ended in the middle of an event", "stream")

    def _fail(
        self, error: Exception, phase: str, url: URL | None = None, *, answered: bool = True
    ) -> NoReturn:
        """Raises the A2AError for a failure of the session; see `_raise`. Runs inside `except`. url: of the
        request, if its connection may have failed. answered: a response has begun.
        """
        if self._session.closed:
            if answered or not isinstance(error, RuntimeError):
                raise A2AError(Reason.UNAVAILABLE, "the client was closed", blame=Blame.SELF) from None
            text, metadata = "this client is closed", {"phase": "connect"}
            raise A2AError(Reason.UNAVAILABLE, text, metadata=metadata, blame=Blame.SELF) from None
        if isinstance(error, RuntimeError) or (answered and isinstance(error, UnicodeError)):
            raise error  # a defect
        if url is None:
            _raise(error, phase)
        _raise(error, phase, self._proxy(url), secure=url.scheme == "https")

    def _proxy(self, url: URL) -> URL | None:
        """The proxy for a URL, determined once per origin. Raises UNAVAILABLE for an unusable one."""
        if self._options.resolve is not None:
            return None  # a proxy would resolve and connect unchecked
        origin = (url.scheme, url.authority)
        if origin not in self._proxies:
            try:
                self._proxies[origin] = proxy_of(url)
            except ValueError as error:
                raise unavailable(str(error), "connect") from None
        return self._proxies[origin]

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._options.max_message
        content = response.content
        arriving = Arriving(self._options.memory, content.set_exception)
        # An array from the second chunk on: small chunks as objects would take many times their length.
        data: bytes | bytearray = b""
        self._reading.add(response)
        try:
            while chunk := await content.readany():
                if len(data) + len(chunk) > limit:
                    response.close()
                    text = f"the agent's answer is larger than {limit} bytes"
                    raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
                if not data:
                    data = chunk
                    continue
                if type(data) is bytes:
                    data = bytearray(data)
                data += chunk
                arriving.resize(len(data))
        finally:
            self._reading.discard(response)
            arriving.release()
        data = bytes(data)
        if self._options.frame_observer is not None and data:
            self._options.frame_observer(Frame(False, body=data))
        return data

    def _show_heads(self, response: aiohttp.ClientResponse, body: bytes | None) -> None:
        """Reports the request as sent, which is certain only now, and the head of the response."""
        observe = self._options.frame_observer
        if observe is None:
            return
        sent, version = response.request_info, response.version
        observe(
            Frame(
                True,
                f"{sent.method} {sent.url.raw_path_qs} HTTP/1.1",
                tuple(sent.headers.items()),
                body or b"",
            )
        )
        protocol = "HTTP" if version is None else f"HTTP/{version.major}.{version.minor}"
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers
        )
        observe(Frame(False, f"{protocol} {response.status} {response.reason or ''}".rstrip(), headers))


def _payload(body: bytes | None) -> bytes | Sending | None:
    """A body in the form of aiohttp: a large one as a file, which it sends in pieces."""
    return Sending(body) if body is not None and len(body) >= LARGE_BODY else body


def _lines(url: URL, headers: Mapping[str, str]) -> Mapping[str, str] | list[tuple[str, str]]:
    """Headers with one line per entry, for a parameter that came in several lines. Raises UNAVAILABLE
    (phase=connect) for credentials in the URL beside those of a header.
    """
    if (url.user is not None or url.password is not None) and "authorization" in map(str.lower, headers):
        text = f"the URL of {url.host} has a user, and the call a header Authorization: only one can be sent"
        raise unavailable(text, "connect")
    if not any(type(value) is Joined for value in headers.values()):
        return headers
    return [(name, entry) for name, value in headers.items() for entry in entries_of(value)]


def redirect_error(status: int, headers: Mapping[str, str], url: URL) -> A2AError | None:
    """The error for a redirect: redirects are not followed, so the interface's URL is wrong."""
    if not 300 <= status < 400:
        return None
    error = unavailable("the agent answered with a redirect, which is not followed", "call")
    # The address may be inside the agent's network: it goes to the operator's log, not to callers.
    location = without_query_values(headers.get("Location", ""))[:200]
    error.add_note(f"HTTP {status} from {_place(url)}, the URL in the card, leads to {location!r}")
    return error


def with_origin(error: A2AError, status: int, url: URL) -> A2AError:
    """The error for a response that is none of an agent, with a note for operators: HTTP status and URL."""
    place = f"{_place(url)}, the URL in the card" if status in (404, 405, 410) else _place(url)
    error.add_note(f"HTTP {status} from {place}")
    return error


def _place(url: URL) -> str:
    """A URL for a message: any value of its query may be a credential."""
    return without_query_values(str(url))


def with_patience(error: A2AError, headers: Mapping[str, str]) -> A2AError:
    """The error, with the seconds of a Retry-After header if its body has none. A date in that header is
    ignored, because it refers to another clock.
    """
    retry_after = headers.get("Retry-After", "").strip()
    if (
        error.retry_after is None
        and retry_after.isascii()
        and retry_after.isdigit()
        and len(retry_after) < 10
    ):
        error.retry_after = float(retry_after)
    return error


def text_of(data: bytes) -> str:
    """The beginning of an error body that is not JSON, for messages."""
    return " ".join(data[:200].decode(errors="replace").split())


@asynccontextmanager
async def fetcher(options: DialOptions) -> AsyncIterator[Fetch]:
    """A Fetch (GET) with its own session. A document that has not arrived after DOCUMENT_TIME raises
    DEADLINE_EXCEEDED, also where calls have no time limit.
    """
    limit = DOCUMENT_TIME if options.timeout is None else min(options.timeout, DOCUMENT_TIME)
    async with open_exchange(replace(options, timeout=limit)) as exchange:

        async def fetch(url: str, headers: Mapping[str, str]) -> Fetched:
            try:
                return await exchange("GET", url_of(url, None), {**options.parameters, **headers}, None)
            except A2AError as error:
                if error.reason is not Reason.DEADLINE_EXCEEDED:
                    raise
                text = f"{url} has not arrived whole within {limit:g} s"
                raise A2AError(Reason.DEADLINE_EXCEEDED, text, blame=Blame.PEER) from error

        yield fetch


@asynccontextmanager
async def open_exchange(options: DialOptions) -> AsyncIterator[Exchange]:
    """An Exchange with a session of its own."""
    resolver = build_resolver(options.resolve)
    async with open_exchanger(options, resolver) as exchanger:

        async def exchange(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Fetched:
            target = parse_url(url)
            if resolver is not None:
                await resolver.check_literal(target)
            fetched = await exchanger.call(method, target, headers, body, options.timeout)
            names = {name.lower(): value for name, value in fetched.headers.items()}
            return Fetched(fetched.status, names, fetched.body)

        yield exchange


@asynccontextmanager
async def poster(options: DialOptions, resolve: Resolve | None = None) -> AsyncIterator[Post]:
    """A Post with a session of its own. resolve: see bindings.http_post."""
    receiver = build_resolver(resolve)
    resolver = receiver or build_resolver(options.resolve)
    async with open_exchanger(options, resolver) as exchanger:

        async def post(url: str, headers: Mapping[str, str], body: bytes) -> Fetched:
            target = parse_url(url)
            if receiver is not None:
                return await exchanger.post_unread(target, headers, body, options.timeout, receiver)
            if resolver is not None:
                await resolver.check_literal(target)
            return await exchanger.call("POST", target, headers, body, options.timeout)

        yield post


def parse_url(url: str) -> URL:
    """A URL as written, without any re-encoding. Raises UNAVAILABLE (phase=connect) for an invalid one."""
    with contextlib.suppress(ValueError):
        read_place(url)
        return request_url(url)
    raise unavailable(f"{url[:200]!r} is not an HTTP URL", "connect")


def request_url(url: str) -> URL:
    """The same for a URL whose host and port are those of a URL that was read."""
    with contextlib.suppress(ValueError):
        found = URL(url, encoded=True)
        # A blank or a control character would end the target of the request.
        if not _NO_TARGET.search(url) and found.scheme in ("http", "https"):
            return found
    raise unavailable(f"{url[:200]!r} is not an HTTP URL", "connect")


def _pieces(chunk: bytes) -> Iterator[bytes]:
    return (chunk[at : at + _TURN] for at in range(0, len(chunk), _TURN))


def _raise(error: BaseException, phase: str, proxy: URL | None = None, *, secure: bool = False) -> NoReturn:
    """Raises the A2AError for a failure of the session. Runs inside `except`, and hides the library's
    exception. proxy: the proxy of the request. secure: whether the request was sent over TLS.
    """
    through = (
        f" (through the proxy {redact_url(proxy)}, which the environment names)" if proxy is not None else ""
    )
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        problem = certificate_problem(_reason(error.certificate_error))
        text = f"the certificate of {error.host}:{error.port} {problem}"
        raise unavailable(text, "connect") from error
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        description = str(error)
        text = alert_problem(description) or (
            f"{error.host}:{error.port} does not speak TLS; its URL may begin with http://"
            if "WRONG_VERSION_NUMBER" in description or "UNEXPECTED_EOF" in description
            else f"no TLS connection to {error.host}:{error.port}: {_reason(error.os_error)}"
        )
        raise unavailable(text, "connect") from error
    if isinstance(error, aiohttp.ClientConnectorError) and error.ssl and _is_reset(error.os_error):
        text = f"{error.host}:{error.port} ended the TLS handshake, as it does where {_WANTED}"
        raise unavailable(text, "connect") from error
    if isinstance(error, aiohttp.ClientConnectorError):
        text = f"no connection to the agent{through}: {_unconnected(error)}"
        raise unavailable(text, "connect") from error
    if isinstance(error, UnicodeError):
        text = f"no connection to the agent{through}: its host is not a valid name"
        raise unavailable(text, "connect") from error
    if isinstance(error, _NOT_CONNECTED):
        raise unavailable(f"no connection to the agent{through}: {error}", "connect") from error
    if isinstance(error, aiohttp.SocketTimeoutError):
        raise unavailable("the agent has been silent for too long", phase) from error
    if isinstance(error, TimeoutError) and is_unconnected(error.__cause__):
        raise unconnected_error(reason=Reason.DEADLINE_EXCEEDED) from error
    if isinstance(error, TimeoutError):
        raise A2AError(Reason.DEADLINE_EXCEEDED) from error
    if isinstance(error, aiohttp.ClientResponseError) and _HTTP_2.search(error.message):
        raise unavailable(HTTP_2_ONLY, phase) from error
    if isinstance(error, _UNREAD) and _UNDECODED in str(error):
        text = "the agent's answer cannot be decompressed: it is not what its Content-Encoding says"
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER) from error
    text = f"the connection to the agent{through} broke"
    if phase == "call" and secure and (problem := alert_problem(str(error))):
        text += f": {problem}"
    elif phase == "call" and (
        isinstance(error, aiohttp.ServerDisconnectedError) or (secure and _is_reset(error.__cause__))
    ):
        text += (
            f" before an answer came, as it does where {_WANTED if secure else 'TLS is wanted (https://)'}"
        )
    broken = unavailable(text, phase)
    if isinstance(error, aiohttp.ClientResponseError):
        broken.add_note(f"its answer is no HTTP: {' '.join(error.message.split())[:200]}")
    raise broken from error


def _unconnected(error: aiohttp.ClientConnectorError) -> str:
    """The address and the system's reason, for messages. aiohttp names its settings of TLS even without TLS,
    and asyncio only says that a call failed.
    """
    host = f"[{error.host}]" if ":" in error.host else error.host
    number = error.os_error.errno
    # Numbers of the resolver are negative; its text is the reason.
    reason = os.strerror(number) if number is not None and number > 0 else error.strerror
    return f"{host}:{error.port}: {reason or error.os_error}"


def _is_reset(error: BaseException | None) -> bool:
    return isinstance(error, ConnectionResetError)


def _reason(error: BaseException) -> str:
    """OpenSSL's reason, without the place in its source."""
    text = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
    return str(text)
