"""An origin of agents: what the requests to it have in common. It opens no connection.

aiohttp's connector is asked for a connection with a request. Here one such request, which is never sent,
stands for all requests to an origin; and the part of their heads that is the same for all is made once.
"""

import asyncio
from collections.abc import Mapping
from operator import is_
from typing import Any

import aiohttp
from yarl import URL

from a2a_bridge.core.call import Joined, entries_of
from a2a_bridge_transports._http.decoding import ACCEPTED

USER_AGENT = "a2a-bridge"
#: forms of heads that are remembered; callers may choose the names in them
_FORMS = 64
#: headers that frame a request; they are made here only
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_NONE: tuple[tuple[str, ...], bytes] = (), b""


class Origin(aiohttp.ClientRequest):
    """Where requests go: scheme, host, port, and credentials that are in the URL. proxy: on the way to it.
    Raises aiohttp.InvalidURL.
    """

    def __init__(self, url: URL, proxy: URL | None, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__("GET", url, loop=loop, proxy=proxy)
        self._key = super().connection_key
        self.is_secure = url.scheme == "https"
        #: a proxy of plain HTTP gets whole URLs (RFC 9112, 3.2.2)
        self._base = str(url.origin()) if proxy is not None and not self.is_secure else ""
        #: the text of heads with room for values, by method and names of headers
        self._forms: dict[tuple[str, ...], str] = {}
        #: the last head of each of them, without its end, and the values in it
        self._last: dict[tuple[str, ...], tuple[tuple[str, ...], bytes]] = {}

    @property
    def connection_key(self) -> Any:
        return self._key

    def head(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """The head of a request. Not before the first connection is there: then aiohttp has added the
        credentials for a proxy. Raises ValueError for a header that would end early, or frame the request.
        """
        names = (method, *headers)
        values = (url.raw_path_qs, *headers.values())
        before, known = self._last.get(names, _NONE)
        # Most calls have the very texts of the call before; those of callers are other objects, and are not
        # compared. A `Joined` equals its text, and has another head.
        if not (len(before) == len(values) and all(map(is_, before, values))):
            known = self._encode(names, values)
            if len(self._last) >= _FORMS:
                self._last.clear()
            self._last[names] = values, known
        if body is not None:
            return b"%bContent-Length: %d\r\n\r\n" % (known, len(body))
        return known + (b"\r\n" if method == "GET" else b"Content-Length: 0\r\n\r\n")

    def _encode(self, names: tuple[str, ...], values: tuple[str, ...]) -> bytes:
        """A head without its length and its end."""
        if Joined in map(type, values):
            given = zip(names, values, strict=True)
            entries = [(name, entry) for name, value in given for entry in entries_of(value)]
            names, values = tuple(name for name, _ in entries), tuple(entry for _, entry in entries)
        form = self._forms.get(names)
        if form is None:
            if len(self._forms) >= _FORMS:
                self._forms.clear()
            form = self._forms[names] = self._form(names[0], names[1:])
        text = form % values
        count = form.count("\n")
        if text.count("\n") != count or text.count("\r") != count or "\0" in text:
            raise ValueError("a header of a request ends early")
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise ValueError("a header of a request is no text") from None

    def _form(self, method: str, names: tuple[str, ...]) -> str:
        """The head of requests with these headers, with room for the path and their values."""
        lowered = {name.lower() for name in names}
        if not lowered.isdisjoint(_FRAMING):
            raise ValueError("a header of a request cannot frame it")
        if any("\r" in name or "\n" in name for name in names):
            raise ValueError("a header of a request ends early")
        common = dict(self.headers) | {"Accept-Encoding": ACCEPTED, "User-Agent": USER_AGENT}
        given = {name: value for name, value in common.items() if name.lower() not in lowered}
        first = f"{method} {self._base}".replace("%", "%%")
        return "".join(
            [
                f"{first}%s HTTP/1.1\r\n",
                *(f"{name}: {value}\r\n".replace("%", "%%") for name, value in given.items()),
                *(f"{name.replace('%', '%%')}: %s\r\n" for name in names),
            ]
        )
