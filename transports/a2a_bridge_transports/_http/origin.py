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
#: forms of heads that are remembered; callers may choose the names in them
_FORMS = 64
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
        #: the text of heads with room for values, by method and names of headers
        self._forms: dict[tuple[str, ...], str] = {}

    @property
    def connection_key(self) -> Any:
        return self._key

    def head(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """The head of a request. Not before the first connection is there: then aiohttp has added the
        credentials for a proxy. Raises ValueError for a header that would end early, or frame the request.
        """
        values: list[str] = [url.raw_path_qs]
        names = [method]
        for name, value in headers.items():
            if type(value) is Joined:
                for entry in entries_of(value):
                    names.append(name)
                    values.append(entry)
            else:
                names.append(name)
                values.append(value)
        key = tuple(names)
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) >= _FORMS:
                self._forms.clear()
            form = self._forms[key] = self._form(method, names[1:])
        if body is not None:
            values.append(f"Content-Length: {len(body)}\r\n")
        else:
            values.append("" if method == "GET" else "Content-Length: 0\r\n")
        text = form % tuple(values)
        count = form.count("\n") + (values[-1] != "")
        if text.count("\n") != count or text.count("\r") != count or "\0" in text:
            raise ValueError("a header of a request ends early")
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise ValueError("a header of a request is no text") from None

    def _form(self, method: str, names: list[str]) -> str:
        """The head of requests with these headers, with room for the path, their values and the length."""
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
                "%s\r\n",
            ]
        )
