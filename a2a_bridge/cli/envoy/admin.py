"""Envoy's administration over its Unix socket, from the event loop."""

from __future__ import annotations

import asyncio
import json

from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.cli.envoy.bootstrap import CONNECTIONS, LISTENER, STREAMS

#: seconds between two requests for a state
_LOOK = 0.01


class Admin:
    """The administration of the Envoy that this process is."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    async def wait_listening(self) -> ListenAddress:
        """Waits until Envoy serves; returns the address of the listener, with its real port."""
        while True:
            try:
                if (await self._ask("GET", "/ready")).strip() == "LIVE":
                    break
            except OSError:  # the socket is not there yet
                pass
            await asyncio.sleep(_LOOK)
        states = json.loads(await self._ask("GET", "/listeners?format=json"))["listener_statuses"]
        address = next(one for one in states if one["name"] == LISTENER)["local_address"]["socket_address"]
        return ListenAddress(address["address"], address["port_value"])

    async def close_connections(self) -> None:
        """From now on each response closes its connection (HTTP/2: GOAWAY)."""
        await self._ask("POST", "/healthcheck/fail")

    async def close_listeners(self) -> None:
        """New connections are refused; open ones stay."""
        await self._ask("POST", "/drain_listeners")

    async def connections(self) -> int:
        """The open connections of callers."""
        return await self._number(CONNECTIONS)

    async def wait_finished(self, limit: float, farewell: float) -> None:
        """Waits until no request is open, for at most `limit` seconds, then until no connection is open, for
        at most `farewell` seconds: callers that keep idle connections open do not delay the end.
        """
        for name, seconds in ((STREAMS, limit), (CONNECTIONS, farewell)):
            try:
                async with asyncio.timeout(seconds):
                    while await self._number(name):  # noqa: ASYNC110  Envoy tells nothing by itself
                        await asyncio.sleep(_LOOK)
            except TimeoutError:
                pass

    async def _number(self, name: str) -> int:
        wanted = f"http.{LISTENER}.{name}"
        for line in (await self._ask("GET", f"/stats?filter={name}")).splitlines():
            key, _, value = line.partition(": ")
            if key == wanted:
                return int(value)
        return 0  # Envoy creates a counter when it first counts

    async def _ask(self, method: str, path: str) -> str:
        """The body of a response. Raises OSError."""
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n".encode())
            _, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return _join(body)


def _join(body: bytes) -> str:
    """The content of a chunked body; Envoy's administration sends no other."""
    content = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        content += rest[:length]
        body = rest[length + 2 :] if length else b""
    return content.decode()
