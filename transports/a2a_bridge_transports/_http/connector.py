"""The connections of the client sides, which are kept for the next call. It knows no calls."""

from __future__ import annotations

from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class _Connection(ResponseHandler):
    """A connection that is not used again after a response that nobody asked for: the next call, of another
    caller perhaps, would get it, and each further one that of the call before.
    """

    def is_connected(self) -> bool:
        # Not by `super`: this is asked for each call.
        return not self._buffer and self.transport is not None and not self.transport.is_closing()


class Connector(aiohttp.TCPConnector):
    """Makes such connections. options: of aiohttp.TCPConnector."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        kind: type[ResponseHandler] = _Connection
        self._factory = partial(kind, loop=self._loop)
