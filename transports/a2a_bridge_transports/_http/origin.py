"""An origin of agents: what the requests to it have in common. It opens no connection.

aiohttp's connector is asked for a connection with a request. Here one such request, which is never sent,
stands for all requests to an origin; and the part of their heads that is the same for all is made once.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from a2a_bridge.core.call import Joined, entries_of
from a2a_bridge_transports._http.decoding import ACCEPTED

USER_AGENT = "a2a-bridge"
#: headers that frame a request; they are made here only
_FRAMING = frozenset({"content-length", "transfer-encoding"})


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
        self._names = frozenset[str]()
        #: the lines that every request has, by the names that the request brings itself
        self._lines: dict[frozenset[str], str] = {}

    @property
    def connection_key(self) -> Any:
        return self._key

    def head(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """The head of a request; not before the first connection is there, because then aiohttp has added the
        credentials for a proxy. Raises ValueError for a header that would end early, or frame the request.
        """
        names = {name.lower() for name in headers}
        if not names.isdisjoint(_FRAMING):
            raise ValueError("a header of a request cannot frame it")
        own = self._names & names
        common = self._lines.get(own)
        if common is None:
            common = self._common(names)
            own = self._names & names
            self._lines[own] = common
        lines = [f"{name}: {value}\r\n" for name, value in headers.items() if type(value) is not Joined]
        if len(lines) < len(headers):
            lines += [
                f"{name}: {entry}\r\n"
                for name, value in headers.items()
                if type(value) is Joined
                for entry in entries_of(value)
            ]
        own_lines, count = "".join(lines), len(lines)
        if own_lines.count("\r") != count or own_lines.count("\n") != count or "\0" in own_lines:
            raise ValueError("a header of a request ends early")
        length = ""
        if body is not None:
            length = f"Content-Length: {len(body)}\r\n"
        elif method != "GET":
            length = "Content-Length: 0\r\n"
        text = f"{method} {self._base}{url.raw_path_qs} HTTP/1.1\r\n{common}{own_lines}{length}\r\n"
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise ValueError("a header of a request is no text") from None

    def _common(self, names: set[str]) -> str:
        lines = dict(self.headers)
        lines |= {"Accept-Encoding": ACCEPTED, "User-Agent": USER_AGENT}
        self._names = frozenset(name.lower() for name in lines)
        return "".join(f"{name}: {value}\r\n" for name, value in lines.items() if name.lower() not in names)
