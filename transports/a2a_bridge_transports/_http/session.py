"""The client half of HTTP: requests with limits, and their responses. It knows no binding.

Rules:
1. No redirects, no cookies, no limit on connections (the number of callers bounds them), proxies from
   the environment.
2. Responses are bounded, after decompression.
3. All requests of this project go this way, those for cards, keys, tokens and webhooks too: one client has
   one set of limits. aiohttp makes and keeps the connections (`connector.py`), the exchange on one is our own
   (`agent_connection.py`): `aiohttp.ClientSession` takes three times as long for it.
4. A request goes out once. Only if the peer closed its connection before it took a byte is it sent once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from typing import Any, NoReturn
from urllib.parse import urlencode

from aiohttp.abc import AbstractResolver
from yarl import URL

from a2a_bridge.bindings.binding import DialOptions, Exchange, Fetch, Fetched, Post, Resolve, TlsFiles
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.bindings.memory import Arriving
from a2a_bridge.bindings.places import read_place
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.masking import without_query_values
from a2a_bridge_transports._http import sse
from a2a_bridge_transports._http.agent_connection import Exchange as AgentExchange
from a2a_bridge_transports._http.agent_connection import UntouchedError
from a2a_bridge_transports._http.connector import Checked, Connector, build_resolver, unavailable
from a2a_bridge_transports._http.exchange import CONTENT_ENCODING, CONTENT_LENGTH
from a2a_bridge_transports._http.failures import FAILURES, raise_failure
from a2a_bridge_transports._http.origin import Origin
from a2a_bridge_transports._http.proxy import proxy_of

#: seconds an idle connection is kept for the next call. Less than the 5 s of uvicorn and Node.js: a call that
#: meets the close of the server fails, and cannot be repeated if the server may have read it
KEEP_CONNECTION = 4.0
_NO_TARGET = re.compile("[\x00-\x20\x7f-\x9f]")

#: seconds for a document, such as a card
DOCUMENT_TIME = 30.0
#: size of an unneeded answer up to which reading it is cheaper than a new connection
SMALL_ANSWER = 4096
#: origins that are remembered; receivers of webhooks may be many
_ORIGINS = 256

#: bytes of a stream that are read before other work has its turn
_TURN = 64 * 1024


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
    """An exchanger with connections of its own, not connected yet. resolver: for each connection, in place of
    the system's resolver.
    """
    connector = Connector(
        options.connect_timeout,
        patience=options.connect_patience,
        limit=0,
        kept=KEEP_CONNECTION,
        resolver=resolver,
        use_dns_cache=resolver is None,
        ssl=_context(options.tls),
    )
    async with connector:
        # A proxy would resolve and connect unchecked.
        yield Exchanger(connector, options, direct=resolver is not None)


def _context(tls: Any) -> ssl.SSLContext | bool:
    """DialOptions.tls in the form of aiohttp. Raises ValueError for unusable files."""
    if isinstance(tls, TlsFiles):
        try:
            return tls.context()
        except OSError as error:
            raise ValueError(f"the files for TLS cannot be used: {error}") from None
    return tls if isinstance(tls, ssl.SSLContext) else True


class Exchanger:
    """Requests over the connections of one connector, with the bridge's deadlines and errors. direct: never
    over a proxy.
    """

    def __init__(self, connector: Connector, options: DialOptions, *, direct: bool = False) -> None:
        self._connector = connector
        self._options = options
        self._direct = direct
        self._loop = asyncio.get_running_loop()
        self._origins: dict[tuple[str, str], Origin] = {}

    async def call(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None, limit: float | None
    ) -> Fetched:
        """The whole response to a request. Raises UNAVAILABLE, DEADLINE_EXCEEDED, INVALID_AGENT_RESPONSE."""
        response = await self._send(method, url, headers, body, limit, None)
        try:
            data = response.whole(self._options.max_message)
            if data is None:
                data = await self._read(response)
            if self._options.frame_observer is not None and data:
                self._options.frame_observer(Frame(False, body=data))
            return Fetched(response.parser.status, response.parser.headers, data)
        except FAILURES as error:
            self._fail(error, "call", url)
        finally:
            response.close()

    async def post_unread(
        self, url: URL, headers: Mapping[str, str], body: bytes, limit: float | None, resolver: Checked
    ) -> Fetched:
        """A POST to an untrusted receiver: its address is checked, no proxy is used, the body of the response
        is not read. Raises the errors of `call` and of `resolver`.
        """
        await resolver.check_literal(url)
        response = await self._send("POST", url, headers, body, limit, None)
        try:
            length = response.headers.get(CONTENT_LENGTH)
            if (
                length is not None
                and int(length) <= SMALL_ANSWER
                and CONTENT_ENCODING not in response.headers
            ):
                # Only so that the connection can be reused. The response counts, even if this fails.
                with contextlib.suppress(*FAILURES):
                    while await response.read():
                        pass
            return Fetched(response.status, response.headers, b"")
        finally:
            response.close()

    @asynccontextmanager
    async def stream(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None, limit: float | None
    ) -> AsyncIterator[AgentExchange]:
        """A request whose response is read as it arrives. Leaving closes a connection with unread data."""
        response = await self._send(method, url, headers, body, limit, self._options.idle_timeout)
        try:
            yield response
        finally:
            response.close()

    async def _send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        limit: float | None,
        silence: float | None,
    ) -> AgentExchange:
        """Sends a request and waits for the head of its response."""
        connector = self._connector
        if connector.closed:
            text, metadata = "this client is closed", {"phase": "connect"}
            raise A2AError(Reason.UNAVAILABLE, text, metadata=metadata, blame=Blame.SELF)
        deadline = inf if limit is None else self._loop.time() + limit
        is_repeated = False
        while True:
            exchange: AgentExchange | None = None
            try:
                origin = self._origins.get((url.scheme, url.authority)) or self._origin(url)
                if origin.auth is not None:
                    check_user(url, headers)
                connection = connector.take(origin)
                if connection is None:
                    connection = await connector.lend(origin, limit)
                if not connection.is_quiet():
                    connection.is_clean = False
                    connector.give_back(connection)
                    continue
                try:
                    head = origin.head(method, url, headers, body)
                    exchange = AgentExchange(connection, head, body, deadline, silence)
                    while not exchange.parser.has_head:
                        await exchange.more()
                except BaseException:
                    if exchange is None:
                        connector.give_back(connection)
                    else:
                        exchange.close()
                    raise
            except UntouchedError as error:
                if is_repeated or connector.closed:
                    self._fail(error, "call", url)
                is_repeated = True
                limit = None if limit is None else max(deadline - self._loop.time(), 0.001)
                continue
            except FAILURES as error:
                self._fail(error, "call", url)
            if self._options.frame_observer is not None:
                self._show_heads(head, body, exchange)
            return exchange

    async def whole(self, response: AgentExchange) -> bytes:
        """The body of a response that is no stream."""
        try:
            data = await self._read(response)
        except FAILURES as error:
            self._fail(error, "call")
        if self._options.frame_observer is not None and data:
            self._options.frame_observer(Frame(False, body=data))
        return data

    async def events(self, response: AgentExchange) -> AsyncGenerator[list[sse.Event], None]:
        """The events of a response, in groups as they arrive. Raises UNAVAILABLE (phase=stream) for silence
        or an incomplete end, and DEADLINE_EXCEEDED.
        """
        decoder = sse.Decoder(self._options.max_message)
        arriving = Arriving(self._options.memory, response.end)
        held = 0
        try:
            while chunk := await response.read():
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
        except FAILURES as error:
            self._fail(error, "stream")
        finally:
            arriving.release()
        if ended := decoder.end():
            yield ended
        elif decoder.pending:
            raise unavailable("the agent's stream ended in the middle of an event", "stream")

    def _fail(self, error: Exception, phase: str, url: URL | None = None) -> NoReturn:
        """Raises the A2AError for a failure of an exchange; see `raise_failure`. Runs inside `except`. url:
        of the request, if its connection may have failed.
        """
        if self._connector.closed:
            raise A2AError(Reason.UNAVAILABLE, "the client was closed", blame=Blame.SELF) from None
        if url is None:
            raise_failure(error, phase)
        raise_failure(error, phase, self._proxy(url), secure=url.scheme == "https")

    def _origin(self, url: URL) -> Origin:
        """The origin of a URL, made for the first request. Raises UNAVAILABLE for an unusable proxy,
        aiohttp.InvalidURL.
        """
        if len(self._origins) >= _ORIGINS:
            self._origins.clear()
        origin = Origin(url, self._proxy(url), self._loop)
        self._origins[url.scheme, url.authority] = origin
        return origin

    def _proxy(self, url: URL) -> URL | None:
        """The proxy for a URL. Raises UNAVAILABLE for an unusable one."""
        if self._direct:
            return None
        known = self._origins.get((url.scheme, url.authority))
        if known is not None:
            return known.proxy
        try:
            return proxy_of(url)
        except ValueError as error:
            raise unavailable(str(error), "connect") from None

    async def _read(self, response: AgentExchange) -> bytes:
        """The body. Raises INVALID_AGENT_RESPONSE for one that is too large."""
        limit = self._options.max_message
        # An array from the second chunk on: small chunks as objects would take many times their length.
        data: bytes | bytearray = await response.read()
        arriving: Arriving | None = None
        try:
            while chunk := await response.read() if len(data) <= limit else b"":
                if arriving is None:
                    arriving = Arriving(self._options.memory, response.end)
                    data = bytearray(data)
                data += chunk
                arriving.resize(len(data))
        finally:
            if arriving is not None:
                arriving.release()
        if len(data) > limit:
            text = f"the agent's answer is larger than {limit} bytes"
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        return bytes(data)

    def _show_heads(self, head: bytes, body: bytes | None, response: AgentExchange) -> None:
        """Reports the request as sent, which is certain only now, and the head of the response."""
        observe = self._options.frame_observer
        if observe is None:
            return
        first, *lines = head.decode().split("\r\n")
        sent = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines if line))
        observe(Frame(True, first, sent, body or b""))
        received = tuple(
            (name, value.encode("utf-8", "surrogateescape").decode("latin-1"))
            for name, value in response.headers.items()
        )
        observe(Frame(False, response.head_line, received))


def check_user(url: URL, headers: Mapping[str, str]) -> None:
    """Raises UNAVAILABLE (phase=connect) for credentials in a URL beside those of a header."""
    if (url.user is not None or url.password is not None) and "authorization" in map(str.lower, headers):
        text = f"the URL of {url.host} has a user, and the call a header Authorization: only one can be sent"
        raise unavailable(text, "connect")


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
